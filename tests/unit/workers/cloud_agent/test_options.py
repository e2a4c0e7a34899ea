"""What `[cloud.instances]` may say, and what its errors say."""

from __future__ import annotations

import builtins
import sys
from pathlib import Path
from typing import Any

import pytest

from broker.contract.launch import LaunchRules
from cloudsim.model.errors import InputError
from workers.cloud_agent.drivers import make_driver, read_options
from workers.cloud_agent.drivers.ec2 import Ec2Options
from workers.cloud_agent.drivers.openstack import OpenStackOptions

WHERE = "cloud[0].instances"
EC2: dict[str, object] = {
    "driver": "ec2", "endpoint": "https://cloud.example.org:8773/services/compute", "image": "emi-1",
    "sizes": {"1": "m1.small", "4": "m1.xlarge"},
}  # fmt: skip
OPENSTACK: dict[str, object] = {
    "driver": "openstack", "endpoint": "https://cloud.example.org:5000/v3", "image": "70a599e0",
    "sizes": {"1": "m1.small"}, "project": "leases",
}  # fmt: skip


def test_a_small_table_of_each_driver() -> None:
    ec2 = read_options(EC2, WHERE)
    assert isinstance(ec2, Ec2Options)
    assert (ec2.prefix, ec2.poll_s, ec2.timeout_s, ec2.user_data) == ("spotfed", 5.0, 20.0, None)
    assert (ec2.sizes, ec2.cores("m1.small"), ec2.cores("c1.medium")) == (
        {1: "m1.small", 4: "m1.xlarge"},
        1,
        None,
    )
    assert ec2.rules == LaunchRules(most_networks=1)
    openstack = read_options(OPENSTACK, WHERE)
    assert isinstance(openstack, OpenStackOptions)
    assert (openstack.region, openstack.interface, openstack.all_users) == ("RegionOne", "public", False)


def test_files_are_those_beside_the_federation_file(tmp_path: Path) -> None:
    (tmp_path / "start.sh").write_text("#!/bin/sh\n")
    (tmp_path / "ca.pem").touch()
    told = {
        **EC2,
        "user_data": "start.sh",
        "ca_file": "ca.pem",
        "poll": "1m",
        "foreign_sizes": {"c1.medium": 2},
    }
    options = read_options(told, WHERE, tmp_path)
    assert isinstance(options, Ec2Options)
    assert (options.user_data, options.ca_file) == ("#!/bin/sh\n", (tmp_path / "ca.pem").resolve())
    assert (options.poll_s, options.cores("c1.medium")) == (60.0, 2)


@pytest.mark.parametrize(
    ("table", "changes", "message"),
    [
        (EC2, {"driver": "gce"}, ".driver: name a driver"),
        (EC2, {"driver": None}, ".driver: name a driver"),
        (EC2, {"image": None}, ".image: is missing"),
        (EC2, {"image": 3}, ".image: Input should be a valid string"),
        (EC2, {"flavour": "x"}, ".flavour: unknown field"),
        (EC2, {"secret": "x"}, ".secret: unknown field"),
        (EC2, {"sizes": {}}, ".sizes: "),
        (EC2, {"sizes": {"many": "m1.small"}}, ".sizes.many: Input should be a valid integer"),
        (EC2, {"sizes": {"0": "m1.small"}}, ".sizes.0: Input should be greater than or equal to 1"),
        (EC2, {"sizes": {"1": "m1.small", "2": "m1.small"}}, ".sizes: two sizes have the same word"),
        (EC2, {"foreign_sizes": {"m1.small": 1.5}}, ".foreign_sizes.m1.small: "),
        (EC2, {"endpoint": "cloud.example.org"}, ".endpoint: write an address such as https://"),
        (EC2, {"endpoint": "https://[::1]:8773/"}, ".endpoint: write an address such as https://"),
        (
            EC2,
            {"endpoint": "http://cloud.example.org"},
            ".endpoint: credentials would cross the network in clear",
        ),
        (EC2, {"endpoint": "https://me:word@cloud.example.org"}, ".endpoint: credentials do not belong here"),
        (EC2, {"prefix": "Two Words"}, ".prefix: "),
        (EC2, {"poll": "often"}, ".poll: 'often' is not a duration"),
        (EC2, {"timeout": 0}, ".timeout: Input should be greater than or equal to 0.1"),
        (EC2, {"user_data": "none.sh"}, ".user_data: cannot be read"),
        (EC2, {"user_data": "big.sh"}, ".user_data: clouds take at most 16384 bytes"),
        (EC2, {"allow": {"prefix": "big.sh"}}, ".allow.prefix: clouds take at most 3072 bytes"),
        (EC2, {"allow": {"flavours": []}}, ".allow.flavours: unknown field"),
        (EC2, {"ca_file": "none.pem"}, ".ca_file: there is no file"),
        (EC2, {"dialect": "openstack"}, ".dialect: Input should be 'aws' or 'eucalyptus'"),
        (EC2, {"spot": "yes"}, ".spot: Input should be a valid boolean"),
        (OPENSTACK, {"project": None}, ".application_credential: name a project"),
        (OPENSTACK, {"application_credential": True}, ".application_credential: name a project"),
        (
            OPENSTACK,
            {"interface": "back door"},
            ".interface: Input should be 'public', 'internal' or 'admin'",
        ),
    ],
)
def test_errors_name_the_field(
    tmp_path: Path, table: dict[str, object], changes: dict[str, object], message: str
) -> None:
    (tmp_path / "big.sh").write_text("#" * 16_385)
    told = {name: value for name, value in {**table, **changes}.items() if value is not None}
    with pytest.raises(InputError) as error:
        read_options(told, WHERE, tmp_path)
    assert str(error.value).startswith(WHERE + message)


def test_missing_credentials_are_asked_for() -> None:
    for user, secret in ((None, "s"), ("u", None), ("", "s")):
        with pytest.raises(InputError, match="set SPOTFED_CLOUD_USER and SPOTFED_CLOUD_SECRET"):
            make_driver(read_options(EC2, WHERE), "A", user, secret)


@pytest.mark.parametrize("table", [EC2, OPENSTACK])
def test_a_missing_package_is_asked_for(table: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    options = read_options(table, WHERE)
    really = builtins.__import__

    def without(name: str, *args: Any, **more: Any) -> Any:
        if name.partition(".")[0] == "libcloud":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return really(name, *args, **more)

    for name in ("http_calls", "drivers.ec2", "drivers.openstack"):
        monkeypatch.delitem(sys.modules, f"workers.cloud_agent.{name}", raising=False)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(InputError, match=r"pip install 'spotfed\[clouds\]'"):
        make_driver(options, "A", "u", "s")


def test_overflow_is_openstacks_and_an_administrators() -> None:
    table = {"images": {"debian": "debian-12"}}
    options = read_options({**OPENSTACK, "all_users": True, "overflow": table}, WHERE)
    assert isinstance(options, OpenStackOptions)
    assert options.overflow is not None
    assert options.images == ("70a599e0", "debian")
    for told, field in (
        ({**OPENSTACK, "overflow": table}, "overflow"),
        ({**EC2, "overflow": table}, "overflow"),
        ({**OPENSTACK, "all_users": True, "overflow": {"images": {}}}, "overflow.images"),
        ({**OPENSTACK, "all_users": True, "overflow": {**table, "lifetime": 0}}, "overflow.lifetime"),
    ):
        with pytest.raises(InputError) as raised:
            read_options(told, WHERE)
        assert raised.value.field == f"{WHERE}.{field}"
