"""Room that a cloud keeps free of spot, and users who call their cloud directly."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from cloudsim.cloud.cloud import AFTER_EVERYTHING, Cloud
from cloudsim.cloud.spec import CloudSpec
from cloudsim.federation.direct_cloud import DirectCloud
from cloudsim.federation.file import load_federation
from cloudsim.federation.model import FederatedCloud, Federation, Workload
from cloudsim.federation.replay import replay
from cloudsim.model.changes import Change, Ended, Started, TurnedAway
from cloudsim.model.errors import SpecError
from cloudsim.model.refusals import Refusal
from cloudsim.model.requests import Kind
from cloudsim.model.reserved_ids import is_block
from tests.unit.cloudsim.test_cloud import ends, spot, trace

KEEPS = CloudSpec("a", (4, 4), headroom=(4,))


def starts(changes: list[Change]) -> list[tuple[str, int, float]]:
    return [(c.instance.id, c.instance.node, c.instance.start_s) for c in changes if isinstance(c, Started)]


def test_spot_gets_none_of_the_headroom() -> None:
    cloud = Cloud(KEEPS)
    assert starts(cloud.advance(1)) == [("a/headroom-0", 0, 0.0)]
    assert not isinstance(cloud.admit(spot("s", 4, 100), 1), Refusal)
    assert isinstance(cloud.admit(spot("t", 1, 100), 1), Refusal)


def test_an_own_request_takes_a_block_and_the_block_evicts_the_youngest() -> None:
    cloud = Cloud(KEEPS, trace((10, 50, 4)))
    cloud.advance(1)
    cloud.admit(spot("old", 2, 100), 1)
    cloud.admit(spot("young", 2, 100), 2)
    changes = cloud.advance(20)
    assert [c.instance.id for c in changes if isinstance(c, Ended)] == ["a/headroom-0", "young", "old"]
    assert [c.cause for c in changes if isinstance(c, Ended)] == ["a/own-0", "a/headroom-4", "a/headroom-4"]
    assert starts(changes) == [("a/own-0", 0, 10.0), ("a/headroom-4", 1, 10.0)]
    cloud.inventory.validate()


def test_where_there_is_room_without_them_blocks_stay() -> None:
    cloud = Cloud(KEEPS, trace((10, 50, 4)))
    assert starts(cloud.advance(20)) == [("a/headroom-0", 0, 0.0), ("a/own-0", 1, 10.0)]


def test_a_block_without_room_comes_back_when_an_own_instance_leaves() -> None:
    cloud = Cloud(KEEPS, trace((10, 50, 4), (20, 40, 4)))
    assert [one[0] for one in starts(cloud.advance(39))] == ["a/headroom-0", "a/own-0", "a/own-1"]
    assert starts(cloud.advance(41)) == [("a/headroom-3", 0, 40.0)]


def test_nobody_is_turned_away_for_a_block() -> None:
    with_it = Cloud(KEEPS, trace((10, 50, 4), (10, 50, 4), (10, 50, 1)))
    away = [c.request.id for c in with_it.advance(11) if isinstance(c, TurnedAway)]
    assert away == ["a/own-2"]


def test_those_who_come_in_one_instant_each_take_one() -> None:
    """A stop is later than all starts that were: by the least difference there is."""
    cloud = Cloud(CloudSpec("a", (4, 4), headroom=(2, 2)), trace((10, 50, 2), (10, 50, 2)))
    cloud.advance(1)
    cloud.admit(spot("s", 4, 100), 1)
    changes = cloud.advance(10)
    later_s = math.nextafter(10.0, math.inf)
    assert [one for one in starts(changes) if not is_block(one[0])] == [
        ("a/own-0", 0, 10.0),
        ("a/own-1", 0, later_s),
    ]
    assert ("s", "evicted", later_s) in ends(changes)
    assert cloud.inventory.used_cores(Kind.ON_DEMAND) == 8


def test_a_drain_moves_blocks_to_other_nodes() -> None:
    cloud = Cloud(KEEPS)
    cloud.advance(1)
    cloud.drain((0,), 5.0, "drain by op")
    assert starts(cloud.advance(5)) == [("a/headroom-1", 1, 5.0)]


def test_notice_is_given_for_blocks_too() -> None:
    cloud = Cloud(replace(KEEPS, grace_s=30.0), trace((10, 500, 4)))
    cloud.advance(1)
    cloud.admit(spot("s", 4, 1000), 1)
    assert ("a/own-0", 0, 10.0) in starts(cloud.advance(11))
    changes = cloud.advance(41)
    assert ends(changes) == [("s", "evicted", 40.0)]
    assert starts(changes) == [("a/headroom-3", 1, 40.0)]


# -- users who call the cloud directly -----------------------------------------------------------------------


def direct(spec: CloudSpec, *rows: tuple[float, float, int]) -> DirectCloud:
    return DirectCloud(spec, trace(*rows), math.inf, 60.0)


def test_who_finds_no_room_comes_again_and_it_was_freed() -> None:
    cloud = direct(CloudSpec("a", (4,)), (10, 50, 2))
    cloud.admit(spot("old", 2, 1000), 1)
    cloud.admit(spot("young", 2, 1000), 2)
    assert ends(cloud.advance(20)) == [("young", "evicted", 10)]
    assert "a/freed-0" in cloud.inventory
    assert starts(cloud.advance(80)) == [("a/own-0", 0, 70.0)]
    assert cloud.delays_s == [60.0]
    assert ("a/own-0", "completed", 110) in ends(cloud.advance(*AFTER_EVERYTHING))
    assert not any(is_block(one.id) for one in cloud.inventory)


def test_headroom_spares_the_second_call() -> None:
    cloud = direct(CloudSpec("a", (4,), headroom=(2,)), (10, 50, 2))
    cloud.advance(1)
    cloud.admit(spot("s", 2, 1000), 1)
    assert ("a/own-0", 0, 10.0) in starts(cloud.advance(20))
    assert cloud.delays_s == []


def test_whom_no_eviction_helps_is_turned_away_at_once() -> None:
    cloud = direct(CloudSpec("a", (4,)), (10, 500, 4), (20, 50, 1))
    assert [c.request.id for c in cloud.advance(30) if isinstance(c, TurnedAway)] == ["a/own-1"]


def test_a_report_counts_own_requests_only_and_says_who_came_again() -> None:
    own = trace((100, 5000, 2), (4000, 9000, 2))
    spots = trace((0, 8000, 2), (0, 8000, 2))
    spec = CloudSpec("a", (4,), headroom=(2,))
    member = FederatedCloud(spec, "1x4", own, retry_s=60.0)
    report = replay(Federation((member,), (Workload("w", spots, 0.0, None, ("a",)),)), seed=0, births=10)
    assert report["clouds"]["a"]["on_demand"] == {
        "requests": 2,
        "admitted": 2,
        "delayed": 0,
        "mean_delay_s": None,
    }
    assert report["clouds"]["a"]["spot"]["evicted"] == 1
    assert 0 < report["clouds"]["a"]["utilisation"] < 0.7


# -- the file ------------------------------------------------------------------------------------------------


def written(tmp_path: Path, fields: str) -> Path:
    file = tmp_path / "f.toml"
    file.write_text(f'[[cloud]]\nid = "a"\nnodes = "2x8"\ntrace = {{ synthetic = "table-1" }}\n{fields}\n')
    return file


def test_a_file_names_blocks_and_how_soon_users_come_again(tmp_path: Path) -> None:
    (cloud,) = load_federation(written(tmp_path, 'headroom = "2x4"\ndirect = true'), None).clouds
    assert (cloud.spec.headroom, cloud.retry_s) == ((4, 4), 60.0)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ('headroom = "1x9"', "headroom"),
        ('headroom = "2x8"', "headroom"),
        ("headroom = 4", "headroom"),
        ('headroom = "1x4"\neviction = "lifo-pools"', "headroom"),
        ("direct = 1", "direct"),
        ('retry = "1m"', "retry"),
        ('direct = true\nretry = "0s"', "retry"),
    ],
)
def test_what_makes_no_sense_is_named(tmp_path: Path, fields: str, field: str) -> None:
    with pytest.raises(SpecError) as caught:
        load_federation(written(tmp_path, fields), None)
    assert caught.value.field == f"cloud[0].{field}"
