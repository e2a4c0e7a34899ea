"""Notice before an eviction, as the owner sees it: told, acknowledged, booked, begun."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from broker.contract import Done, Event, EventKind, LeaseGranted, LeaseState, RefusalView
from cloudsim.model.refusals import RefusalReason
from tests.unit.workers.owners import (
    Live,
    acknowledge,
    cancel,
    check_journal,
    confirm,
    extend,
    harmless_table,
    lease_state,
    load,
    not_found,
    release,
    reserve,
    show,
    spec,
    start,
    stop,
)

GRACE_S = 30.0
PUBLIC = (EventKind.ADMITTED, EventKind.NOTICED, EventKind.EVICTED, EventKind.COMPLETED, EventKind.CANCELLED)


def told(live: Live) -> list[tuple[str, str, float]]:
    """What the journal says of leases since they run: kind, lease and time."""
    kinds = (*PUBLIC, EventKind.BOOKED, EventKind.WITHDRAWN)
    return [(e.kind.value, e.lease.id, e.at_s) for e in live.events if e.lease and e.kind in kinds]


def last(live: Live, kind: EventKind) -> Event:
    return [event for event in live.events if event.kind is kind][-1]


@pytest.fixture
def live() -> Live:
    """A node of 4 cores with a lease of 3 of them until 100 s, which at 10 s is told to leave until 40 s for
    an on-demand instance that wants the whole node for 50 s."""
    live = Live(spec((4,), GRACE_S), harmless_table((4,)))
    live.tell(reserve("r.1", cores=3, lifetime_s=100.0, sla=0.5))
    live.tell(confirm("r.1"))
    live.tell(start("vm", cores=4, lifetime_s=50.0), 10.0)
    return live


def test_the_holder_hears_of_it_and_the_user_when_it_starts(live: Live) -> None:
    notice = last(live, EventKind.NOTICED)
    assert notice.lease is not None
    assert (notice.sequence, notice.at_s, notice.cause) == (2, 10.0, "vm")
    assert (notice.lease.id, notice.lease.state, notice.lease.evict_at_s) == ("r.1", LeaseState.RUNNING, 40.0)
    booked = live.tell(show("vm"), 11.0).lease
    assert (booked.state, booked.starts_by_s) == (LeaseState.BOOKED, 40.0)
    assert live.tell(start("vm", cores=4, lifetime_s=50.0), 12.0).lease == booked, "asked again"
    assert last(live, EventKind.BOOKED).sequence is None
    check_journal(live.events)


def test_time_passes_it_is_evicted_and_the_next_one_starts(live: Live) -> None:
    live.crash()
    live.advance(39.0)
    assert last(live, EventKind.BOOKED) == live.events[-1], "nothing happens before"
    live.crash()
    live.advance(41.0)
    assert told(live)[-2:] == [("evicted", "r.1", 40.0), ("admitted", "vm", 40.0)]
    assert last(live, EventKind.EVICTED).cause == "vm"
    running = live.tell(show("vm"), 42.0).lease
    assert (running.state, running.starts_at_s, running.ends_at_s) == (LeaseState.RUNNING, 40.0, 90.0)
    live.crash()
    live.advance(95.0)
    assert told(live)[-1] == ("completed", "vm", 90.0)
    live.crash()
    check_journal(live.events)


def test_an_early_acknowledgement_starts_it_early(live: Live) -> None:
    live.crash()
    ended = live.tell(acknowledge("r.1"), 15.0).lease
    assert (ended.state, ended.ended_at_s, ended.cause) == (LeaseState.EVICTED, 15.0, "vm")
    assert told(live)[-2:] == [("evicted", "r.1", 15.0), ("admitted", "vm", 15.0)]
    live.crash()
    assert live.tell(acknowledge("r.1"), 16.0).lease == ended, "once is enough"
    live.advance(70.0)
    assert told(live)[-1] == ("completed", "vm", 65.0)
    check_journal(live.events)


def test_only_who_was_told_can_acknowledge() -> None:
    live = Live(spec((4,), GRACE_S))
    live.tell(reserve("r.1"))
    live.tell(confirm("r.1"))
    answer = live.tell(acknowledge("r.1"), 1.0).lease
    assert (answer.state, answer.evict_at_s) == (LeaseState.RUNNING, None)
    assert not_found(live.tell(acknowledge("nobody"), 1.0))
    live.tell(start("vm"), 1.0)
    assert not_found(live.tell(acknowledge("vm"), 2.0)), "an own user's instance is no lease"
    assert EventKind.EVICTED not in live.kinds()


@pytest.mark.parametrize("end", [cancel, release])
def test_who_ends_a_noticed_lease_was_evicted(live: Live, end: Callable[[str], Any]) -> None:
    assert lease_state(live.tell(end("r.1"), 20.0)) is LeaseState.EVICTED
    assert told(live)[-2:] == [("evicted", "r.1", 20.0), ("admitted", "vm", 20.0)]
    assert live.owner.state.evicted == 1
    live.crash()


def test_what_completes_in_its_grace_is_completed() -> None:
    live = Live(spec((4,), GRACE_S), harmless_table((4,)))
    live.tell(reserve("r.1", cores=3, lifetime_s=20.0, sla=0.5))
    live.tell(confirm("r.1"))
    live.tell(start("vm", cores=4, lifetime_s=50.0), 10.0)
    live.crash()
    live.advance(100.0)
    assert told(live)[-3:] == [
        ("completed", "r.1", 20.0),
        ("admitted", "vm", 20.0),
        ("completed", "vm", 70.0),
    ]
    (account,) = [account for _, account in live.owner.cloud.ledger]
    assert (account.completed, account.evicted) == (1, 0), "the promise was kept"
    live.crash()
    check_journal(live.events)


def test_what_is_told_to_leave_is_not_extended() -> None:
    live = Live(spec((3,), GRACE_S), harmless_table((3,)))
    live.tell(reserve("r.1", lifetime_s=20.0, sla=0.4))
    live.tell(confirm("r.1"))
    assert lease_state(live.tell(extend("r.1", 30.0, "before"), 1.0)) is LeaseState.RUNNING
    live.tell(start("vm", cores=3), 2.0)
    refusal = live.tell(extend("r.1", 40.0, "after"), 3.0)
    assert isinstance(refusal, RefusalView)
    assert refusal.reason is RefusalReason.NOTICED
    live.crash()
    assert live.tell(extend("r.1", 40.0, "after"), 4.0) == refusal
    assert live.owner.state.answer_log.get("r.1") == last(live, EventKind.NOTICED).lease


def test_what_is_told_to_leave_is_not_renewed() -> None:
    live = Live(spec((4,), GRACE_S, renewal_s=20.0), harmless_table((4,)))
    live.tell(reserve("r.1", cores=3, sla=0.5).model_copy(update={"lifetime_s": None}))
    live.tell(confirm("r.1"))
    live.tell(start("vm", cores=4), 10.0)
    live.crash()
    live.advance(100.0)
    assert told(live)[-2:] == [("completed", "r.1", 20.0), ("admitted", "vm", 20.0)]
    assert not {EventKind.EXTENDED, EventKind.WARNED} & set(live.kinds())


def test_a_booked_instance_can_be_given_up(live: Live) -> None:
    live.crash()
    given_up = live.tell(stop("vm"), 20.0).lease
    assert (given_up.state, given_up.ended_at_s) == (LeaseState.CANCELLED, 20.0)
    assert last(live, EventKind.WITHDRAWN).lease == given_up
    live.crash()
    assert live.tell(stop("vm"), 21.0).lease == given_up
    live.advance(100.0)
    assert told(live)[-1] == ("evicted", "r.1", 40.0), "a notice that was given stands"
    live.crash()
    check_journal(live.events)


def test_those_who_wait_start_in_the_order_of_their_booking() -> None:
    live = Live(spec((4,), GRACE_S), harmless_table((4,)))
    for name in ("a.1", "b.1"):
        live.tell(reserve(name, cores=2, sla=0.5))
        live.tell(confirm(name))
    live.tell(start("first", cores=2), 10.0)  # the youngest has to leave: b
    live.tell(start("second", cores=1), 15.0)  # and a
    live.tell(start("third", cores=1), 16.0)  # there is room for it once a has left
    expected = {"first": 40.0, "second": 45.0, "third": 45.0}
    for name, starts_by_s in expected.items():
        assert live.tell(show(name), 17.0).lease.starts_by_s == starts_by_s
    live.crash()
    live.tell(acknowledge("a.1"), 20.0)
    assert [name for kind, name, _ in told(live) if kind == "admitted"][2:] == ["first"]
    live.advance(50.0)
    starts = [(name, at_s) for kind, name, at_s in told(live) if kind == "admitted"][2:]
    assert starts == [("first", 20.0), ("second", 40.0), ("third", 40.0)]
    live.crash()


def test_a_reservation_is_told_too_and_still_confirmed() -> None:
    live = Live(spec((4,), GRACE_S), harmless_table((4,)))
    live.tell(reserve("r.1", cores=4, sla=0.5))
    live.tell(start("vm", cores=4), 1.0)
    live.crash()
    lease = live.tell(confirm("r.1"), 2.0).lease
    assert (lease.state, lease.evict_at_s) == (LeaseState.RUNNING, 31.0)
    live.advance(40.0)
    kinds = [(kind, at_s) for kind, name, at_s in told(live) if name == "r.1"]
    assert kinds == [("noticed", 1.0), ("admitted", 2.0), ("noticed", 2.0), ("evicted", 31.0)]
    check_journal(live.events)


def test_releasing_a_reservation_that_was_told_makes_room_at_once() -> None:
    live = Live(spec((4,), GRACE_S), harmless_table((4,)))
    live.tell(reserve("r.1", cores=4, sla=0.5))
    live.tell(start("vm", cores=4), 1.0)
    assert live.tell(release("r.1"), 2.0) == Done()
    assert told(live)[-1] == ("admitted", "vm", 2.0)
    live.crash()


def test_a_user_who_stops_in_the_instant_of_the_start_stops_after_it(live: Live) -> None:
    live.tell(acknowledge("r.1"), 15.0)
    stopped = live.tell(stop("vm"), 15.0).lease
    assert stopped.ended_at_s == math.nextafter(15.0, math.inf)
    live.crash()


def test_the_own_load_waits_as_well_and_comes_once() -> None:
    own = load((10.0, 60.0, 4), (12.0, 13.0, 4))
    live = Live(spec((4,), GRACE_S, own_load=own, trace_time=True), harmless_table((4,)))
    live.tell(reserve("r.1", cores=1, sla=0.5).model_copy(update={"at_s": 0.0}))
    live.advance(12.0)
    live.crash()
    live.advance(39.0)
    live.crash()
    live.advance(1000.0)
    assert live.kinds().count(EventKind.TURNED_AWAY) == 1, "the second finds it all booked, once"
    of_own = [line for line in told(live) if line[1] == "A/own-0"]
    assert of_own == [
        ("booked", "A/own-0", 10.0),
        ("admitted", "A/own-0", 40.0),
        ("completed", "A/own-0", 90.0),
    ]
    live.crash()
    assert not_found(live.tell(show("A/own-0"), 1001.0)), "own users may not ask by these ids"


def test_what_is_shown_of_own_requests(live: Live) -> None:
    assert not_found(live.tell(show("nobody"), 11.0))
    refusal = live.tell(start("more"), 11.0)
    assert isinstance(live.tell(show("more"), 12.0), RefusalView) is isinstance(refusal, RefusalView)
    assert isinstance(live.tell(show("vm"), 12.0), LeaseGranted)
    assert not_found(live.tell(show("r.1"), 12.0)), "a spot lease is none"
