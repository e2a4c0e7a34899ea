"""What a real Nova tells of a request that failed, and lets be written on it."""

from __future__ import annotations

import base64
from uuid import uuid4

import pytest
from pydantic import SecretStr

from broker.contract import OverflowTerms
from broker.contract.launch import Launch
from tests.deep.openstack.real_openstack import PASSWORD, SIZES, RealOpenStack
from tests.unit.broker.contract.public_key import PUBLIC_KEY
from workers.cloud_agent.drivers import make_driver, read_options
from workers.cloud_agent.drivers.openstack import OpenStackDriver

pytestmark = [pytest.mark.xdist_group("openstack"), pytest.mark.timeout(1200)]

SCRIPT = "#!/bin/sh\necho hello\n"


@pytest.fixture
def driver(nova: RealOpenStack) -> OpenStackDriver:
    table = {
        "driver": "openstack", "endpoint": nova.keystone, "project": "admin", "image": nova.image,
        "sizes": {str(cores): name for cores, name in SIZES.items()}, "all_users": True,
        "overflow": {"images": {nova.image: "debian-12"}, "lifetime": "6h"},
    }  # fmt: skip
    driver = make_driver(read_options(table, "cloud[0].instances"), "real", "admin", PASSWORD)
    assert isinstance(driver, OpenStackDriver)
    return driver


def test_what_failed_is_read_and_its_user_told(nova: RealOpenStack, driver: OpenStackDriver) -> None:
    """No host holds the flavor, so that it fails on an empty cloud, too."""
    key = f"key-{uuid4().hex[:8]}"
    pair = {"keypair": {"name": key, "public_key": PUBLIC_KEY}}
    nova.call("POST", "/os-keypairs", pair, "demo").raise_for_status()
    user_data = base64.b64encode(SCRIPT.encode()).decode()
    server = nova.create(
        "huge", key_name=key, user_data=user_data, metadata={"spotfed:overflow": "2h"}, name=key
    )
    try:
        assert server["status"] == "ERROR"
        listed = next(one for one in driver.list_instances() if one.id == server["id"])
        assert listed.no_room_at is not None
        terms = driver.read_overflow(server["id"])
        assert isinstance(terms, OverflowTerms)
        assert terms.lifetime_s == 7200.0
        assert terms.resources["memory_mb"] > 8192
        assert terms.launch == Launch(image="debian-12", key=PUBLIC_KEY, user_data=SecretStr(SCRIPT))
        for text in ("offered to other clouds", "runs on meadow as lease L.1"):
            driver.tell_user(server["id"], text)
        shown = nova.call("GET", f"/servers/{server['id']}", user="demo").json()["server"]
        assert shown["description"] == "[spotfed] runs on meadow as lease L.1"
    finally:
        nova.delete(server["id"])
        nova.call("DELETE", f"/os-keypairs/{key}", user="demo")
