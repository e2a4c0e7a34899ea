"""Calls through Libcloud: certificates are verified, and a call has an end."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.certificates import Authority
from tests.unit.workers.cloud_agent.faults import Broken, served
from tests.unit.workers.cloud_agent.nova_server import IMAGE, PROJECT, SECRET, USER, NovaServer
from workers.cloud_agent.drivers import make_driver, read_options
from workers.cloud_agent.drivers.base import InstanceDriver, InstanceError
from workers.cloud_agent.http_calls import HttpCalls


def driver_at(url: str, ca_file: Path | None) -> InstanceDriver:
    table: dict[str, object] = {
        "driver": "openstack", "endpoint": f"{url}/identity", "region": "here", "interface": "internal",
        "project": PROJECT, "image": IMAGE, "sizes": {"1": "m1.small"},
    }  # fmt: skip
    if ca_file is not None:
        table["ca_file"] = str(ca_file)
    return make_driver(read_options(table, "cloud[0].instances"), "A", USER, SECRET)


def test_certificates_are_verified(tmp_path: Path) -> None:
    mine, others = Authority(tmp_path, "mine"), Authority(tmp_path, "others")
    pair = mine.pair("localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert, pair.key)
    nova = NovaServer()
    with served(Broken(nova), context) as (url, _):
        assert driver_at(url, mine.file).list_instances() == []
        for ca_file in (others.file, None):
            with pytest.raises(InstanceError, match="certificate verify failed"):
                driver_at(url, ca_file).list_instances()
    assert len(nova.tokens) == 1


def test_a_call_has_an_end_and_its_connection_serves_no_other_one() -> None:
    over = threading.Event()
    made: list[int] = []

    def make() -> int:
        made.append(len(made))
        return made[-1]

    calls: HttpCalls[int] = HttpCalls(make, lambda error: InstanceError(str(error)), 0.05)

    def hang(connection: int) -> None:
        over.wait()

    def fail(connection: int) -> None:
        raise ValueError("no such thing")

    with pytest.raises(InstanceError, match=r"no answer within 0\.05 s"):
        calls.call(hang)
    identity: Callable[[int], int] = lambda connection: connection  # noqa: E731
    assert [calls.call(identity), calls.call(identity)] == [1, 1]
    with pytest.raises(InstanceError, match="none of this API: no such thing"):
        calls.call(fail)
    assert calls.call(identity) == 2
    over.set()
