from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloudsim.cloud.cloud import AFTER_EVERYTHING, Cloud
from cloudsim.cloud.spec import CloudSpec
from cloudsim.model.changes import Change, End, Ended, Started, TurnedAway
from cloudsim.model.instances import Instance, Quote
from cloudsim.model.refusals import Refusal, RefusalReason
from cloudsim.model.requests import Kind, Request
from cloudsim.traces.trace import Trace


def trace(*rows: tuple[float, float, int]) -> Trace:
    """A trace of (start_s, stop_s, cores) rows."""
    ids = [f"vm-{row}" for row in range(len(rows))]
    return Trace.checked("t", ids, [r[0] for r in rows], [r[1] for r in rows], [r[2] for r in rows])


def spot(request_id: str, cores: int, lifetime_s: float, sla: float | None = None) -> Request:
    return Request(request_id, Kind.SPOT, cores, lifetime_s, sla, "elsewhere")


def ends(changes: list[Change]) -> list[tuple[str, str, float]]:
    return [(c.instance.id, c.how.value, c.at_s) for c in changes if isinstance(c, Ended)]


def test_own_load_evicts_the_youngest_spot_instance() -> None:
    cloud = Cloud(CloudSpec("a", (4,)), trace((10, 50, 2)))
    cloud.admit(spot("old", 2, 100), 1)
    cloud.admit(spot("young", 2, 100), 2)
    changes = cloud.advance(20)
    assert ends(changes) == [("young", "evicted", 10)]
    assert [c.cause for c in changes if isinstance(c, Ended)] == ["a/own-0"]
    assert ends(cloud.advance(*AFTER_EVERYTHING)) == [("a/own-0", "completed", 50), ("old", "completed", 101)]
    cloud.inventory.validate()


def test_a_stop_makes_room_for_a_start_of_its_instant() -> None:
    cloud = Cloud(CloudSpec("a", (2,)), trace((0, 10, 2), (10, 20, 2)))
    changes = cloud.advance(10)
    assert [type(c) for c in changes] == [Started, Ended, Started]


def test_on_demand_starts_come_before_spot_of_their_instant() -> None:
    cloud = Cloud(CloudSpec("a", (2,)), trace((10, 20, 2)))
    cloud.advance(10)
    assert isinstance(cloud.admit(spot("late", 1, 5), 10), Refusal)


def test_an_instance_of_no_duration_ends_after_the_starts_of_its_instant() -> None:
    cloud = Cloud(CloudSpec("a", (2,)), trace((10, 10, 2), (10, 30, 1)))
    changes = cloud.advance(10)
    assert [type(c) for c in changes] == [Started, TurnedAway]
    assert ends(cloud.advance(11)) == [("a/own-0", "completed", 10)]


def test_what_is_turned_away_says_why() -> None:
    cloud = Cloud(CloudSpec("a", (2,)), trace((0, 9, 2), (1, 9, 1), (2, 9, 3)))
    away = [c.refusal.reason for c in cloud.advance(5) if isinstance(c, TurnedAway)]
    assert away == [RefusalReason.NO_CAPACITY, RefusalReason.TOO_LARGE]


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (spot("r", 5, 1), RefusalReason.TOO_LARGE),
        (spot("r", 4, 1), RefusalReason.NO_CAPACITY),
        (spot("r", 1, 1, 0.5), RefusalReason.NO_TABLE),
        (spot("r", 1, 1, 0), RefusalReason.NO_TABLE),
    ],
)
def test_refusals_have_a_reason_and_change_nothing(request_: Request, reason: RefusalReason) -> None:
    cloud = Cloud(CloudSpec("a", (4,)))
    cloud.admit(spot("there", 2, 100), 0)
    answer = cloud.admit(request_, 1)
    assert isinstance(answer, Refusal)
    assert answer.reason is reason
    assert len(cloud.inventory) == 1
    assert cloud.history.instances == 1


@pytest.mark.parametrize("sla", [None, 1, 1.0])
def test_no_guarantee_needs_no_table(sla: float | None) -> None:
    cloud = Cloud(CloudSpec("a", (4,)))
    assert isinstance(cloud.quote(spot("r", 1, 1e9, sla)), Quote)
    assert not cloud.needs_table(spot("r", 1, 1e9, sla))


@pytest.mark.parametrize(
    ("now_s", "due_s"),
    [(0, None), (86399, None), (86400, 86400), (90000, 86400), (108000, 108000), (7e5, 691200)],
)
def test_tables_are_due_at_every_six_hours_from_a_day_on(now_s: float, due_s: float | None) -> None:
    assert Cloud(CloudSpec("a", (4,))).table_due_s(now_s) == due_s


def test_a_released_instance_leaves_its_room_and_its_requested_end() -> None:
    cloud = Cloud(CloudSpec("a", (4,)))
    cloud.apply(Started(Instance("r", Kind.SPOT, 4, 0, 0, 100, 0, sla=0.1, risk=0.0)))
    assert ends(cloud.end("r", 30, End.CANCELLED, "its holder")) == [("r", "cancelled", 30)]
    assert cloud.end("r", 31, End.CANCELLED) == []
    assert cloud.history.cut(math.inf).time_s.tolist() == [0, 30]
    assert ends(cloud.advance(*AFTER_EVERYTHING)) == []


@given(st.data())
def test_the_fold_of_the_changes_is_the_cloud(data: st.DataObject) -> None:
    """Recovery: applying the recorded changes to a new cloud gives the same cloud, which then goes on
    alike."""
    rows = sorted(
        data.draw(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 30), st.integers(1, 5)), max_size=25))
    )
    load = trace(*((float(start), float(start + lasts), cores) for start, lasts, cores in rows))
    spec = CloudSpec("a", (3, 4))
    cloud = Cloud(spec, load)
    changes: list[Change] = []
    for number, at in enumerate(sorted(data.draw(st.lists(st.integers(0, 60), max_size=20)))):
        changes += cloud.advance(at)
        match data.draw(st.sampled_from(["admit", "admit", "start", "cancel"])):
            case "admit":
                admitted = cloud.admit(
                    spot(f"s{number}", data.draw(st.integers(1, 4)), data.draw(st.integers(0, 40))), at
                )
                changes += [] if isinstance(admitted, Refusal) else admitted
            case "start":
                lifetime_s = data.draw(st.one_of(st.none(), st.integers(1, 20)))
                request = Request(f"d{number}", Kind.ON_DEMAND, data.draw(st.integers(1, 4)), lifetime_s)
                changes += cloud.start_on_demand(request, at)
            case "cancel":
                running = sorted(instance.id for instance in cloud.inventory)
                if running:
                    changes += cloud.end(data.draw(st.sampled_from(running)), at, End.CANCELLED)
    copy = Cloud(spec, load)
    for change in changes:
        copy.apply(change)
    cloud.inventory.validate()
    copy.inventory.validate()
    assert sorted(i.id for i in copy.inventory) == sorted(i.id for i in cloud.inventory)
    assert copy.inventory.spot() == cloud.inventory.spot()
    assert copy.advance(*AFTER_EVERYTHING) == cloud.advance(*AFTER_EVERYTHING)
    assert copy.history.cut(1000).to_bytes() == cloud.history.cut(1000).to_bytes()
