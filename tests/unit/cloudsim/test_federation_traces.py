"""Public clouds in a federation file: prices and preemptions as the own load."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cloudsim.federation.file import load_federation
from cloudsim.federation.replay import replay
from cloudsim.model.errors import InputError

CLOUD = '[[cloud]]\nid = "P"\nnodes = "2x4"\ntrace = { %s }\n'
PUBLIC = Path("deploy/federations/public.toml")

LIST = """file,instance_type,availability_zone,ondemand_usd_per_hour
one.csv,c3.xlarge,z1,0.21
two.csv,r3.large,z2,
"""
ONE = """timestamp,price_usd_per_hour
2015-03-11T00:00:00Z,0.03
2015-03-11T06:00:00Z,0.5
2015-03-11T08:00:00Z,0.03
"""
TWO = """timestamp,price_usd_per_hour
2015-03-11T00:00:00Z,0.01
2015-03-11T09:00:00Z,0.02
"""
VMS = """vm,zone,machine_type,start_time,outcome,time_in_sec
a,z1,n1-standard-2,2019-02-18T09:00:00+00:00,preempted,7200
b,z1,n1-standard-2,2019-02-18T09:00:00+00:00,preempted,3600
c,z2,n1-highcpu-16,2019-02-18T09:00:00+00:00,stopped,60
"""


def write(directory: Path, trace: str) -> Path:
    prices = directory / "prices"
    prices.mkdir(exist_ok=True)
    for name, text in (("markets.csv", LIST), ("one.csv", ONE), ("two.csv", TWO)):
        (prices / name).write_text(text)
    (directory / "z1_c3.xlarge.csv").write_text(ONE)
    (directory / "vms.csv").write_text(VMS)
    path = directory / "federation.toml"
    path.write_text(CLOUD % trace)
    return path


@pytest.mark.parametrize(
    "trace",
    [
        'prices = "prices", market = "c3.xlarge/z1"',  # at the on-demand price of the list
        'prices = "prices", market = "c3.xlarge/z1", bid_usd_per_hour = 0.1',
        'prices = "prices/one.csv"',
        'prices = "prices/one.csv", market = "c3.xlarge/z1"',
        'prices = "z1_c3.xlarge.csv", bid_usd_per_hour = 0.1',
    ],
)
def test_a_cloud_plays_a_price_history(tmp_path: Path, trace: str) -> None:
    (cloud,) = load_federation(write(tmp_path, trace), None).clouds
    own = cloud.own_load
    taken = list(zip(own.start_s / 3600, own.stop_s / 3600, own.cores.tolist(), strict=True))
    assert taken[:2] == [(6, 8, 4), (6, 8, 4)]
    assert taken[2][2] == 1
    alone = "z1_" in trace  # nobody else says that somebody listened for an hour more
    assert own.last_stop_s == (8 if alone else 9) * 3600
    assert cloud.spec.admission.peaks == 1, "its next rise is like none before"


def test_a_bid_below_every_price_leaves_nothing(tmp_path: Path) -> None:
    (cloud,) = load_federation(
        write(tmp_path, 'prices = "prices/two.csv", bid_usd_per_hour = 0.005'), None
    ).clouds
    assert [cloud.own_load.start_s[0], cloud.own_load.stop_s[0]] == [0, 9 * 3600]


def test_a_cloud_plays_preemptions(tmp_path: Path) -> None:
    text = 'preemptions = "vms.csv", market = "n1-standard-2/z1", days = 4, taken = "30m", seed = 3'
    (cloud,) = load_federation(write(tmp_path, text), None).clouds
    start_s, stop_s = cloud.own_load.start_s[:-1:2], cloud.own_load.stop_s[:-1:2]
    assert set(np.diff(start_s)) == {3600 + 1800, 7200 + 1800}
    assert set(stop_s - start_s) == {1800}
    assert cloud.own_load.last_stop_s == 4 * 86_400
    (other,) = load_federation(write(tmp_path, text.replace("seed = 3", "seed = 4")), None).clouds
    assert not cloud.own_load.equals(other.own_load)


@pytest.mark.parametrize(
    ("trace", "field", "message"),
    [
        ('prices = "prices"', "market", "name one of: c3.xlarge/z1, r3.large/z2"),
        ('prices = "prices", market = "c3.xlarge"', "market", "'c3.xlarge' is none of: c3"),
        ('prices = "prices", market = ["c3.xlarge/z1"]', "market", "should be a valid string"),
        ('prices = "prices/one.csv", market = "r3.large/z2"', "market", "the file holds c3.xlarge/z1"),
        ('prices = "prices", market = "r3.large/z2"', "bid_usd_per_hour", "no list names an on-demand price"),
        ('prices = "prices/one.csv", bid_usd_per_hour = 0', "bid_usd_per_hour", "should be greater than 0"),
        ('prices = "prices/three.csv"', "prices", "no such trace"),
        ("prices = 3", "prices", "should be a valid string, not 3"),
        ('prices = "prices", bid = 0.1', "bid", "unknown field"),
        (
            'preemptions = "vms.csv", market = "n1-standard-2/z9"',
            "market",
            "is none of: n1-highcpu-16/z2, n1",
        ),
        ('preemptions = "vms.csv", taken = "0s"', "taken", "should be greater than 0, not '0s'"),
        ('preemptions = "vms.csv", days = -1', "days", "should be greater than 0"),
        ('preemptions = "vms.csv", seed = -1', "seed", "should be greater than or equal to 0, not -1"),
        ('preemptions = "prices"', "preemptions", "no such trace"),
    ],
)
def test_a_mistake_names_its_field(tmp_path: Path, trace: str, field: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        load_federation(write(tmp_path, trace), None)
    assert caught.value.field == f"cloud[0].trace.{field}"
    assert message in str(caught.value)


def test_a_workload_is_no_price_history(tmp_path: Path) -> None:
    path = write(tmp_path, 'prices = "prices/one.csv"')
    path.write_text(path.read_text() + '[[workload]]\norigin = "A"\ntrace = { prices = "prices/one.csv" }\n')
    with pytest.raises(InputError) as caught:
        load_federation(path, None)
    assert caught.value.field == "workload[0].trace.prices"


def test_two_private_clouds_and_a_public_one(data_dir: Path) -> None:
    told: list[str] = []
    federation = load_federation(
        PUBLIC, data_dir, until_s=3 * 86_400.0, on_warning=lambda _, warning: told.append(warning)
    )
    public = federation.clouds[-1]
    assert public.spec.id == "public"
    assert told == ["2 gaps in 1 markets, the longest 56.4 h: prices are unknown in them."]
    report = replay(federation, seed=1, births=500)
    spot = report["clouds"]["public"]["spot"]
    assert spot["admitted"] > 3
    assert all(row["evicted_low"] <= row["sla"] for row in report["total"]["by_sla"])
