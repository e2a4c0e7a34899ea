"""A cloud that gives notice: who leaves when, who waits for the room, and what is told of it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cloudsim.cloud.cloud import AFTER_EVERYTHING, Cloud
from cloudsim.cloud.spec import CloudSpec
from cloudsim.history.event_log import START_ON_DEMAND, STOP
from cloudsim.model.changes import (
    Booked,
    Change,
    Cordoned,
    End,
    Ended,
    Noticed,
    Started,
    TurnedAway,
    Withdrawn,
)
from cloudsim.model.instances import Instance, Quote
from cloudsim.model.refusals import Refusal, RefusalReason
from cloudsim.model.requests import Kind, Request
from cloudsim.traces.trace import Trace

GRACE_S = 30.0


def cloud_of(*node_cores: int, grace_s: float = GRACE_S) -> Cloud:
    return Cloud(CloudSpec("a", node_cores, grace_s=grace_s))


def spot(cloud: Cloud, name: str, cores: int, start_s: float, end_s: float, sla: float | None = None) -> None:
    """A running spot instance, whatever the cloud would say. With a promise it has a risk of .02."""
    cloud.advance(start_s)
    node = next(n for n, free in enumerate(cloud.inventory.free.tolist()) if free >= cores)
    risk = 0.02 if sla is not None and sla < 1 else None
    number = cloud.history.instances
    cloud.apply(Started(Instance(name, Kind.SPOT, cores, node, start_s, end_s, number, sla=sla, risk=risk)))


def start(cloud: Cloud, name: str, cores: int, at_s: float, lifetime_s: float | None = None) -> list[Change]:
    cloud.advance(at_s)
    return cloud.start_on_demand(Request(name, Kind.ON_DEMAND, cores, lifetime_s), at_s)


def told(changes: Iterable[Change]) -> list[tuple[object, ...]]:
    """Changes in short: what, whom, when, and how or until when."""
    lines: list[tuple[object, ...]] = []
    for change in changes:
        match change:
            case Started(one):
                lines.append(("started", one.id, one.start_s))
            case Ended(one, at_s, how, cause):
                lines.append((how.value, one.id, at_s, cause))
            case Noticed(one, _, cause):
                lines.append(("noticed", one.id, one.evict_at_s, cause))
            case Booked(one, at_s):
                lines.append(("booked", one.id, at_s))
            case Withdrawn(one, at_s):
                lines.append(("withdrawn", one.id, at_s))
            case Cordoned(nodes, closed, _):
                lines.append(("closed" if closed else "opened", nodes))
            case TurnedAway(request, _, refusal):
                lines.append(("turned away", request.id, refusal.reason.value))
            case _:
                raise AssertionError(change)
    return lines


@pytest.fixture
def noticed() -> Cloud:
    """A node of 4 cores with "s", which was told at 10 to leave until 40 for "d", which needs all of it."""
    cloud = cloud_of(4)
    spot(cloud, "s", 3, 0, 100, sla=0.05)
    changes = start(cloud, "d", 4, 10, lifetime_s=50)
    assert told(changes) == [("noticed", "s", 40, "d"), ("booked", "d", 10)]
    return cloud


def test_it_leaves_at_the_end_of_its_grace_and_the_next_one_starts(noticed: Cloud) -> None:
    assert told(noticed.advance(40, 0)) == []
    assert noticed.inventory.get("d") is None
    assert noticed.inventory.waiting("d") is not None
    assert told(noticed.advance(50)) == [("evicted", "s", 40, "d"), ("started", "d", 40)]
    assert told(noticed.advance(*AFTER_EVERYTHING)) == [("completed", "d", 90, None)], "it lives its 50 s"


def test_who_acknowledges_leaves_at_once(noticed: Cloud) -> None:
    noticed.advance(15)
    assert told(noticed.acknowledge("s", 15)) == [("evicted", "s", 15, "d"), ("started", "d", 15)]
    assert noticed.acknowledge("s", 16) == []
    assert told(noticed.advance(*AFTER_EVERYTHING)) == [("completed", "d", 65, None)]


def test_nobody_acknowledges_what_was_not_told() -> None:
    cloud = cloud_of(4)
    spot(cloud, "s", 3, 0, 100)
    assert cloud.acknowledge("s", 1) == []
    assert cloud.acknowledge("nobody", 1) == []
    assert "s" in cloud.inventory


def test_who_completes_within_its_grace_was_not_evicted() -> None:
    cloud = cloud_of(4)
    spot(cloud, "s", 3, 0, 25, sla=0.05)
    start(cloud, "d", 4, 10)
    assert told(cloud.advance(60)) == [("completed", "s", 25, None), ("started", "d", 25)]
    account = cloud.ledger.account(0.05)
    assert (account.running, account.completed, account.evicted) == (0, 1, 0)


def test_who_completes_when_its_grace_ends_was_not_evicted() -> None:
    cloud = cloud_of(4)
    spot(cloud, "s", 3, 0, 40)
    start(cloud, "d", 4, 10)
    assert told(cloud.advance(60)) == [("completed", "s", 40, None), ("started", "d", 40)]


@pytest.mark.parametrize("how", [End.CANCELLED, End.FAILED, End.EVICTED])
def test_who_ends_early_because_it_was_told_to_counts_as_evicted(noticed: Cloud, how: End) -> None:
    changes = noticed.end("s", 20, how, "its holder")
    assert told(changes) == [("evicted", "s", 20, "d"), ("started", "d", 20)]
    account = noticed.ledger.account(0.05)
    assert (account.running, account.completed, account.evicted) == (0, 0, 1)
    assert account.pending == 0


def test_the_promise_is_open_until_it_leaves(noticed: Cloud) -> None:
    account = noticed.ledger.account(0.05)
    assert (account.running, account.evicted, account.pending) == (1, 0, 0.02)
    noticed.advance(41)
    assert (account.running, account.evicted, account.pending) == (0, 1, 0)


def test_a_second_one_waits_for_room_that_is_being_left_and_evicts_nobody() -> None:
    cloud = cloud_of(4, 4)
    spot(cloud, "leaving", 4, 0, 100)
    spot(cloud, "staying", 4, 1, 100)
    first = start(cloud, "d1", 1, 10)
    assert told(first) == [("noticed", "staying", 40, "d1"), ("booked", "d1", 10)], "the youngest leaves"
    assert told(start(cloud, "d2", 3, 20)) == [("booked", "d2", 20)]
    assert told(start(cloud, "d3", 1, 25))[0] == ("noticed", "leaving", 55, "d3"), "no room is left"
    changes = cloud.advance(45)
    assert told(changes) == [("evicted", "staying", 40, "d1"), ("started", "d1", 40), ("started", "d2", 40)]
    cloud.inventory.validate()


def test_room_that_is_booked_is_for_nobody_else(noticed: Cloud) -> None:
    answer = noticed.quote(Request("r", Kind.SPOT, 1, 5.0))
    assert isinstance(answer, Refusal)
    assert answer.reason is RefusalReason.NO_CAPACITY
    assert told(start(noticed, "d2", 1, 20)) == [("turned away", "d2", "no_capacity")]


def test_those_who_wait_start_in_the_order_of_their_booking() -> None:
    cloud = cloud_of(6)
    spot(cloud, "s1", 3, 0, 100)
    spot(cloud, "s2", 3, 1, 100)
    start(cloud, "large", 4, 10)
    assert told(start(cloud, "small", 1, 12)) == [("booked", "small", 12)]
    assert told(cloud.acknowledge("s2", 15)) == [("evicted", "s2", 15, "large")], (
        "small could start, but waits"
    )
    assert told(cloud.advance(60)) == [
        ("evicted", "s1", 40, "large"), ("started", "large", 40), ("started", "small", 40),
    ]  # fmt: skip


def test_room_that_is_left_later_does_not_stand_in_for_what_somebody_waits_for() -> None:
    cloud = cloud_of(6)
    spot(cloud, "late", 3, 0, 200)
    spot(cloud, "one", 1, 1, 20)
    spot(cloud, "two", 2, 2, 200)
    assert told(start(cloud, "d1", 3, 10))[-1] == ("booked", "d1", 10)
    assert told(start(cloud, "d2", 2, 15))[0] == ("noticed", "late", 45, "d2")
    # The core of "one" is free at 20, and "late" leaves one more than d2 needs, but after d1 is to start.
    assert told(start(cloud, "d3", 1, 25)) == [("booked", "d3", 25)]
    answer = cloud.quote(Request("r", Kind.SPOT, 1, 5.0))
    assert isinstance(answer, Refusal)
    assert told(cloud.advance(42)) == [("evicted", "two", 40, "d1"), ("started", "d1", 40)]
    assert told(cloud.advance(50)) == [
        ("evicted", "late", 45, "d2"),
        ("started", "d2", 45),
        ("started", "d3", 45),
    ]


def test_any_end_on_the_node_lets_them_start() -> None:
    cloud = cloud_of(4)
    start(cloud, "old", 2, 0)
    spot(cloud, "s", 2, 1, 100)
    start(cloud, "d", 2, 10)
    changes = cloud.end("old", 20, End.CANCELLED)
    assert told(changes) == [("cancelled", "old", 20, None), ("started", "d", 20)]
    assert told(cloud.advance(50)) == [("evicted", "s", 40, "d")], "the notice stands"


def test_a_booked_one_is_withdrawn_and_leaves_its_room_to_the_next() -> None:
    cloud = cloud_of(4)
    spot(cloud, "s", 2, 0, 100)
    start(cloud, "d1", 4, 10)
    assert told(cloud.end("d1", 15, End.CANCELLED)) == [("withdrawn", "d1", 15)]
    assert told(start(cloud, "d2", 2, 16)) == [("started", "d2", 16)]
    assert told(cloud.advance(50)) == [("evicted", "s", 40, "d1")], "the notice stands"
    cloud.inventory.validate()


def test_a_withdrawal_lets_those_behind_start() -> None:
    cloud = cloud_of(6)
    spot(cloud, "s1", 3, 0, 100)
    spot(cloud, "s2", 3, 1, 100)
    start(cloud, "large", 4, 10)
    start(cloud, "small", 1, 11)
    cloud.acknowledge("s2", 12)
    assert told(cloud.end("large", 13, End.CANCELLED)) == [
        ("withdrawn", "large", 13),
        ("started", "small", 13),
    ]


def test_history_knows_an_on_demand_instance_from_its_booking_to_its_true_end(noticed: Cloud) -> None:
    noticed.advance(*AFTER_EVERYTHING)
    log = noticed.history.cut(math.inf)
    # The evicted one keeps the end that was asked for; a lifetime of 50 s counts from the true start at 40.
    assert list(zip(log.time_s.tolist(), log.instance.tolist(), strict=True)) == [
        (0, 0), (10, 1), (90, 1), (100, 0),
    ]  # fmt: skip
    assert log.kind.tolist()[1:3] == [START_ON_DEMAND, STOP]


def test_history_ends_a_withdrawn_one_where_it_was_withdrawn(noticed: Cloud) -> None:
    noticed.end("d", 20, End.CANCELLED)
    log = noticed.history.cut(50)
    assert list(zip(log.time_s.tolist(), log.instance.tolist(), strict=True)) == [(0, 0), (10, 1), (20, 1)]


def test_a_cut_between_booking_and_start_loses_nothing(noticed: Cloud) -> None:
    assert noticed.history.cut(20).instance.tolist() == [0, 1]
    noticed.advance(*AFTER_EVERYTHING)
    assert noticed.history.cut(math.inf).time_s.tolist() == [90, 100]


def test_history_has_no_stop_of_one_that_waits_longer_than_it_will_run() -> None:
    cloud = cloud_of(4)
    spot(cloud, "s", 3, 0, 100)
    start(cloud, "d", 4, 10, lifetime_s=5)
    assert cloud.history.cut(30).time_s.tolist() == [10], "and no-guarantee instances leave no trace"
    cloud.advance(*AFTER_EVERYTHING)
    assert cloud.history.cut(math.inf).time_s.tolist() == [45]


def test_what_was_told_to_leave_is_not_extended(noticed: Cloud) -> None:
    answer = noticed.extend("s", 200, 15)
    assert isinstance(answer, Refusal)
    assert answer.reason is RefusalReason.NOTICED


def test_no_guarantee_gives_way_to_a_promise_without_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    cloud = cloud_of(4)
    spot(cloud, "weak", 4, 0, 100)
    # What a table would say is not the matter here, but who leaves.
    monkeypatch.setattr(cloud, "quote", lambda _request: Quote("a", 2, 1, 0.01, None, None, None))
    changes = cloud.admit(Request("strong", Kind.SPOT, 2, 50.0, sla=0.05), 10)
    assert not isinstance(changes, Refusal)
    assert told(changes) == [("evicted", "weak", 10, "strong"), ("started", "strong", 10)]


# -- drain ---------------------------------------------------------------------------------------------------


def test_a_drained_node_empties_youngest_first_and_takes_nobody() -> None:
    cloud = cloud_of(4, 4)
    start(cloud, "d", 1, 0)
    spot(cloud, "s1", 1, 1, 100)
    spot(cloud, "s2", 2, 2, 100)
    spot(cloud, "elsewhere", 2, 3, 100)
    before = list(cloud.inventory)
    plan = cloud.drain((0,), 10, "operator", dry_run=True)
    assert told(plan) == [
        ("closed", (0,)), ("noticed", "s2", 40, "operator"), ("noticed", "s1", 40, "operator"),
    ]  # fmt: skip
    assert list(cloud.inventory) == before
    assert not cloud.inventory.any_closed
    assert cloud.drain((0,), 10, "operator") == plan
    assert told(start(cloud, "new", 3, 11)) == [("noticed", "elsewhere", 41, "new"), ("booked", "new", 11)]
    assert told(cloud.drain((0,), 12, "again")) == [("closed", (0,))], "nobody is told twice"
    assert told(cloud.advance(50)) == [
        ("evicted", "s1", 40, "operator"), ("evicted", "s2", 40, "operator"),
        ("evicted", "elsewhere", 41, "new"), ("started", "new", 41),
    ]  # fmt: skip
    assert [one.id for one in cloud.inventory if one.node == 0] == ["d"], "on-demand instances stay"


def test_a_reopened_node_takes_instances_again_but_notices_stand() -> None:
    cloud = cloud_of(2)
    spot(cloud, "s", 1, 0, 100)
    cloud.drain(None, 10, "operator")
    refused = cloud.quote(Request("r", Kind.SPOT, 1, 5.0))
    assert isinstance(refused, Refusal)
    assert refused.reason is RefusalReason.NO_SUCH_NODE
    assert told(cloud.reopen(None, 20)) == [("opened", None)]
    assert isinstance(cloud.quote(Request("r", Kind.SPOT, 1, 5.0)), Quote)
    assert told(cloud.advance(50)) == [("evicted", "s", 40, "operator")]


def test_without_grace_a_drain_evicts_at_once() -> None:
    cloud = cloud_of(4, 4, grace_s=0)
    spot(cloud, "s1", 4, 0, 100)
    spot(cloud, "s2", 4, 1, 100)
    assert told(cloud.drain((1,), 10, "operator")) == [("closed", (1,)), ("evicted", "s2", 10, "operator")]
    assert told(start(cloud, "d", 2, 11)) == [("evicted", "s1", 11, "d"), ("started", "d", 11)]


# -- grace and no grace --------------------------------------------------------------------------------------


def random_load(generator: np.random.Generator, count: int) -> Trace:
    starts = np.sort(generator.integers(0, 200, count)).astype(float)
    stops = starts + generator.integers(0, 60, count)
    cores = generator.integers(1, 6, count)
    return Trace.checked(
        "t", [f"vm{n}" for n in range(count)], starts.tolist(), stops.tolist(), cores.tolist()
    )


def ask_spot(cloud: Cloud, generator: np.random.Generator) -> list[Change]:
    changes: list[Change] = []
    for number, at_s in enumerate(sorted(generator.integers(0, 200, 20).tolist())):
        changes += cloud.advance(at_s)
        cores, lifetime_s = int(generator.integers(1, 5)), float(generator.integers(1, 80))
        answer = cloud.admit(Request(f"s{number}", Kind.SPOT, cores, lifetime_s), at_s)
        changes += [] if isinstance(answer, Refusal) else answer
        cloud.inventory.validate()
    changes += cloud.advance(*AFTER_EVERYTHING)
    cloud.inventory.validate()
    return changes


@given(st.integers(0, 2**32 - 1))
def test_without_grace_victims_leave_when_they_are_needed_and_nobody_waits(seed: int) -> None:
    generator = np.random.default_rng(seed)
    cloud = Cloud(CloudSpec("a", (5, 6)), random_load(generator, 25))
    changes = ask_spot(cloud, generator)
    assert {type(change) for change in changes} <= {Started, Ended, TurnedAway}
    starts = {
        change.instance.id: change.instance.start_s for change in changes if isinstance(change, Started)
    }
    for change in changes:
        if isinstance(change, Ended) and change.how is End.EVICTED:
            assert change.cause is not None
            assert change.at_s == starts[change.cause]


@given(st.integers(0, 2**32 - 1))
@example(8067)  # room left later stood in for room that was waited for
def test_with_grace_everybody_who_is_booked_starts_in_time_and_recovery_gives_the_same_cloud(
    seed: int,
) -> None:
    generator = np.random.default_rng(seed)
    spec = CloudSpec("a", (5, 6), grace_s=7.0)
    load = random_load(generator, 25)
    cloud = Cloud(spec, load)
    changes = ask_spot(cloud, generator)
    booked = {change.instance.id: change for change in changes if isinstance(change, Booked)}
    noticed = {change.instance.id: change for change in changes if isinstance(change, Noticed)}
    started = {change.instance.id: change.instance for change in changes if isinstance(change, Started)}
    for name, booking in booked.items():
        at_s, instance = booking.at_s, booking.instance
        assert at_s <= started[name].start_s <= booking.starts_by_s <= at_s + 7.0
        assert replace(started[name], start_s=at_s, end_s=instance.end_s) == instance
    for change in changes:
        if isinstance(change, Ended):
            name = change.instance.id
            assert (change.how is End.EVICTED) <= (name in noticed)
            if name in noticed:
                assert change.at_s <= noticed[name].at_s + 7.0
                assert noticed[name].cause in booked
    assert not list(cloud.inventory), "everybody ended"
    copy = Cloud(spec, load)
    for change in changes:
        copy.apply(change)
    ours, theirs = (one.history.cut(math.inf) for one in (cloud, copy))
    assert (ours.time_s == theirs.time_s).all()
    assert (ours.instance == theirs.instance).all()
    assert list(copy.ledger) == list(cloud.ledger)
