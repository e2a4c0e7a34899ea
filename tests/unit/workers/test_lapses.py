"""Reservations that end before the broker's word about them has come."""

from __future__ import annotations

from typing import Any

import pytest

from broker.contract import Event, EventKind, LeaseState
from broker.ledger.ledger import CloudLedger
from tests.unit.workers.owners import (
    NOW,
    Live,
    acknowledge,
    cancel,
    check_journal,
    confirm,
    drain,
    extend,
    harmless_table,
    lease_state,
    not_found,
    release,
    reserve,
    spec,
    start,
)
from workers.owner import snapshots
from workers.owner.owner import Owner


@pytest.fixture
def live() -> Live:
    return Live(spec((4,)), harmless_table((4,)))


def public(live: Live) -> list[tuple[EventKind, str]]:
    """What a subscriber hears: kind of the event and state of the lease in it."""
    return [
        (event.kind, str(event.lease.state))
        for event in live.events
        if event.sequence is not None and event.lease is not None
    ]


def restart(live: Live) -> None:
    """The next owner begins with a snapshot."""
    packed = snapshots.pack(snapshots.take(live.owner.state, "1-1", "0" * 64))
    state = snapshots.restored(live.spec, snapshots.unpack(packed))
    live.owner = Owner.recover(live.spec, live.owner.epoch + 1, [], state)
    live.owner.cloud.table = live.table
    live.owner.validate()


ADMITTED = (EventKind.ADMITTED, "running")
#: How a reservation of four cores until 100 s may end, and what the end is called.
ENDS: dict[str, tuple[Any, LeaseState, str | None]] = {
    "evicted": (lambda live: live.tell(start("od", cores=4), 5.0), LeaseState.EVICTED, "od"),
    "drained": (lambda live: live.tell(drain(), 5.0), LeaseState.EVICTED, "drain by admin"),
    "completed": (lambda live: live.advance(200.0), LeaseState.COMPLETED, None),
    "cancelled": (lambda live: live.tell(cancel("r.1"), 5.0), LeaseState.CANCELLED, "holder"),
    "expired": (
        lambda live: [live.take(live.owner.expire(5.0, NOW, at_s)) for at_s in (0.0, 31.0)],
        LeaseState.CANCELLED,
        "expired",
    ),
}
every_end = pytest.mark.parametrize("end", sorted(ENDS))


@every_end
def test_nobody_hears_of_it_before_the_broker_has_decided(live: Live, end: str) -> None:
    """For all that is known here, the request may have gone to another cloud."""
    live.tell(reserve("r.1", 4, sla=0.5))
    act, state, cause = ENDS[end]
    act(live)
    lapsed = next(event for event in live.events if event.kind is EventKind.RELEASED)
    assert lapsed.lease is not None
    assert (lapsed.sequence, lapsed.attempt) == (None, None)
    assert (lapsed.lease.state, lapsed.lease.cause, lapsed.cause) == (state, cause, cause)
    assert public(live) == []
    assert "r.1" not in live.owner.cloud.inventory
    live.crash()
    assert lease_state(live.tell(reserve("r.1", 4, sla=0.5), 300.0)) is state
    assert lease_state(live.tell(release("r.1"), 300.0)) is state
    assert lease_state(live.tell(cancel("r.1"), 300.0)) is state
    assert not_found(live.tell(extend("r.1", 900.0), 300.0))
    assert public(live) == []
    assert (live.owner.state.admitted, live.owner.state.evicted) == (0, 0)
    live.crash()


@every_end
def test_who_was_promised_it_hears_of_its_beginning_and_its_end(live: Live, end: str) -> None:
    """The broker had decided for it, and its word was on its way."""
    held = live.tell(reserve("r.1", 4, sla=0.5)).lease
    act, state, cause = ENDS[end]
    act(live)
    live.crash()
    answer = live.tell(confirm("r.1"), 300.0)
    assert (lease_state(answer), answer.lease.cause) == (state, cause)
    assert public(live) == [ADMITTED, (EventKind(state.value), state.value)]
    admitted, ended = live.events[-2:]
    assert (admitted.at_s, ended.at_s, ended.cause) == (300.0, 300.0, cause)
    assert admitted.lease == held.model_copy(update={"state": LeaseState.RUNNING})
    assert ended.lease == answer.lease
    assert answer.lease.ended_at_s == (100.0 if state is LeaseState.COMPLETED else 5.0)
    assert live.owner.state.admitted == 1
    assert live.owner.state.evicted == (state is LeaseState.EVICTED)
    live.crash()
    for again in (confirm("r.1"), cancel("r.1"), release("r.1"), reserve("r.1", 4, sla=0.5)):
        assert live.tell(again, 400.0).lease == answer.lease
    assert len(public(live)) == 2
    check_journal(live.events)
    live.crash()


@every_end
def test_a_snapshot_between_loses_nothing(live: Live, end: str) -> None:
    live.tell(reserve("r.1", 4, sla=0.5))
    act, state, _ = ENDS[end]
    act(live)
    restart(live)
    assert lease_state(live.tell(confirm("r.1"), 300.0)) is state
    restart(live)
    assert lease_state(live.tell(confirm("r.1"), 300.0)) is state
    assert public(live) == [ADMITTED, (EventKind(state.value), state.value)]


def test_the_ledger_counts_what_was_promised_and_nothing_else(live: Live) -> None:
    for name in ("kept", "broken", "withdrawn"):
        live.tell(reserve(f"{name}.1", 1, lifetime_s=50.0 if name == "kept" else 1000.0, sla=0.5))
    live.advance(60.0)
    live.tell(start("od", cores=4), 70.0)
    live.tell(release("withdrawn.1"), 80.0)
    for name in ("kept", "broken"):
        live.tell(confirm(f"{name}.1"), 80.0)
    ledger = CloudLedger("A")
    for event in live.events:
        ledger.note(event)
    (account,) = ledger.accounts.values()
    assert (account.admitted, account.completed, account.evicted, account.running) == (2, 1, 1, 0)
    assert live.owner.state.evicted == 1


def test_a_notice_before_the_confirmation_is_heard_after_it() -> None:
    live = Live(spec((4,), grace_s=60.0), harmless_table((4,)))
    live.tell(reserve("r.1", 4, lifetime_s=1000.0, sla=0.5))
    live.tell(reserve("s.1", 4, lifetime_s=1000.0, sla=0.5))
    live.tell(start("od", cores=4), 5.0)
    noticed = live.events[-2]
    assert (noticed.kind, noticed.sequence) == (EventKind.NOTICED, None)
    live.crash()
    confirmed = live.tell(confirm("r.1"), 10.0)
    assert (lease_state(confirmed), confirmed.lease.evict_at_s) == (LeaseState.RUNNING, 65.0)
    assert public(live) == [ADMITTED, (EventKind.NOTICED, "running")]
    assert live.events[-1].cause == "od"
    live.crash()
    live.advance(70.0)
    assert public(live)[2:] == [(EventKind.EVICTED, "evicted")]
    ended = next(event for event in live.events if event.kind is EventKind.EVICTED)
    assert (ended.at_s, ended.cause) == (65.0, "od")
    check_journal(live.events)
    live.owner.validate()
    live.crash()


def test_what_is_acknowledged_before_its_confirmation_is_told_when_that_comes() -> None:
    live = Live(spec((4,), grace_s=60.0))
    live.tell(reserve("r.1", 4, lifetime_s=1000.0))
    live.tell(start("od", cores=4), 5.0)
    assert lease_state(live.tell(acknowledge("r.1"), 10.0)) is LeaseState.EVICTED
    assert public(live) == []
    assert lease_state(live.tell(confirm("r.1"), 20.0)) is LeaseState.EVICTED
    assert public(live) == [ADMITTED, (EventKind.EVICTED, "evicted")]
    live.crash()


def test_what_the_broker_gave_up_is_not_confirmed_any_more(live: Live) -> None:
    live.tell(reserve("r.1"))
    live.tell(release("r.1"), 1.0)
    assert not_found(live.tell(confirm("r.1"), 2.0))
    assert (live.events[-1].kind, live.events[-1].attempt) == (EventKind.RELEASED, "r.1")


def test_a_lease_without_a_lifetime_that_ends_unconfirmed_is_not_renewed() -> None:
    live = Live(spec((4,), renewal_s=100.0), harmless_table((4,)))
    live.tell(reserve("r.1", sla=0.5).model_copy(update={"lifetime_s": None}))
    live.advance(150.0)
    assert lease_state(live.tell(confirm("r.1"), 150.0)) is LeaseState.COMPLETED
    live.advance(1000.0)
    assert public(live) == [ADMITTED, (EventKind.COMPLETED, "completed")]
    live.crash()


def test_a_journal_that_says_evicted_without_admitted_is_still_read(live: Live) -> None:
    """So it was written before version 3."""
    live.tell(reserve("r.1", 4))
    live.tell(start("od", cores=4), 5.0)
    reserved, lapsed, admitted = live.events
    assert lapsed.lease is not None
    old = lapsed.model_copy(update={"kind": EventKind.EVICTED, "sequence": 1})
    owner = Owner.recover(
        live.spec, 2, [reserved, Event.model_validate_json(old.model_dump_json()), admitted]
    )
    owner.validate()
    assert owner.state.evicted == 1
    (reply,) = owner.handle(confirm("r.1"), 9.0, NOW).replies
    assert lease_state(reply[1].answer) is LeaseState.EVICTED
