"""Leases whose instances are not there any more: their cloud took them back, or could not run them."""

from __future__ import annotations

from typing import Literal

import pytest
from rich.text import Text

from broker.cli.events import event_line
from broker.contract import EventKind, LeaseState
from tests.unit.workers.owners import (
    Live,
    cancel,
    confirm,
    gone,
    harmless_table,
    lease_state,
    not_found,
    reserve,
    spec,
    start,
)

HOW: dict[Literal["evicted", "failed"], tuple[LeaseState, str]] = {
    "evicted": (LeaseState.EVICTED, "taken back: terminated"),
    "failed": (LeaseState.FAILED, "terminated"),
}


@pytest.fixture
def live() -> Live:
    made = Live(spec())
    made.tell(reserve("r.1", 2))
    return made


@pytest.mark.parametrize("how", list(HOW))
def test_it_ends_once_with_the_words_of_the_cloud(live: Live, how: Literal["evicted", "failed"]) -> None:
    live.tell(confirm("r.1"))
    answer = live.tell(gone("r.1", how), 5.0)
    assert (lease_state(answer), answer.lease.cause, answer.lease.ended_at_s) == (*HOW[how], 5.0)
    assert [event.sequence for event in live.events] == [None, 1, 2]
    assert live.tell(gone("r.1", how), 6.0) == answer
    assert live.tell(cancel("r.1"), 7.0) == answer
    assert len(live.events) == 3
    live.crash()
    assert live.tell(gone("r.1", "evicted"), 8.0) == answer


def test_the_words_of_the_cloud_are_shown_as_they_are(live: Live) -> None:
    live.tell(confirm("r.1"))
    live.tell(gone("r.1", why="it said [/etc/x] [red]no"), 5.0)
    told = Text.from_markup(event_line(live.events[-1])).plain
    assert told.endswith("r.1 (2 cores, from B) after 5 s, because of taken back: it said [/etc/x] [red]no")


def test_what_ended_before_stays_as_it_ended(live: Live) -> None:
    live.tell(confirm("r.1"))
    ended = live.tell(cancel("r.1"), 1.0)
    assert live.tell(gone("r.1"), 2.0) == ended


def test_nobody_knows_it_or_it_is_an_own_user_s(live: Live) -> None:
    assert not_found(live.tell(gone("nobody.1")))
    live.tell(start("own", 1))
    assert not_found(live.tell(gone("own")))
    assert live.owner.cloud.inventory.get("own") is not None


@pytest.mark.parametrize("how", list(HOW))
def test_a_reservation_lapses_and_is_told_of_when_it_is_confirmed(
    live: Live, how: Literal["evicted", "failed"]
) -> None:
    live.tell(gone("r.1", how), 1.0)
    assert live.kinds()[-1] is EventKind.RELEASED
    assert lease_state(live.tell(confirm("r.1"), 2.0)) is HOW[how][0]
    assert live.kinds()[-2:] == [EventKind.ADMITTED, EventKind[how.upper()]]
    live.crash()


@pytest.mark.parametrize("how", list(HOW))
def test_who_was_told_to_leave_was_evicted_for_that(how: Literal["evicted", "failed"]) -> None:
    live = Live(spec((4,), grace_s=60.0))
    live.tell(reserve("r.1", 4))
    live.tell(confirm("r.1"))
    live.tell(start("own", 2), 10.0)
    answer = live.tell(gone("r.1", how), 20.0)
    assert (lease_state(answer), answer.lease.cause) == (LeaseState.EVICTED, "own")
    assert live.owner.cloud.inventory.get("own") is not None, "who waited for the room has it"
    live.crash()


def test_a_broken_promise_counts_and_a_failure_does_not() -> None:
    live = Live(spec(), harmless_table((4, 4)))
    for name in ("a.1", "b.1"):
        live.tell(reserve(name, 1, sla=0.5))
        live.tell(confirm(name))
    live.tell(gone("a.1", "evicted"), 1.0)
    live.tell(gone("b.1", "failed"), 1.0)
    account = live.owner.cloud.ledger.account(0.5)
    assert (account.running, account.evicted, account.admitted) == (0, 1, 1)
    assert live.owner.state.evicted == 1


def test_in_the_history_its_room_is_free_from_then_on() -> None:
    live = Live(spec((4,)), harmless_table((4,)))
    live.tell(reserve("a.1", 4, sla=0.5))
    live.tell(confirm("a.1"))
    live.tell(gone("a.1"), 10.0)
    live.tell(reserve("b.1", 4, sla=0.5), 20.0)
    live.tell(confirm("b.1"), 20.0)
    cut = live.owner.cloud.history.cut(30.0)
    assert list(zip(cut.time_s.tolist(), cut.instance.tolist(), strict=True)) == [
        (0.0, 0), (10.0, 0), (20.0, 1),
    ]  # fmt: skip
