"""Case 4: the same loss is reported twice, in whatever order, and for leases nobody knows: one end."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.contract import Done, EventKind, LeaseGranted, LeaseState
from tests.unit.workers.owners import (
    Live,
    acknowledge,
    cancel,
    check_journal,
    confirm,
    drain,
    release,
    reserve,
    spec,
    start,
)

ENDS = (EventKind.EVICTED, EventKind.COMPLETED, EventKind.CANCELLED, EventKind.FAILED)

#: What ends the lease r.1: evicted by policy, its node lost, and its holder's own ways.
LOSSES: dict[str, Any] = {
    "evicted for an own user": lambda: start("own", cores=4),
    "its node is drained": lambda: drain(0),
    "cancelled": lambda: cancel("r.1"),
    "released": lambda: release("r.1"),
    "told to leave and gone": lambda: acknowledge("r.1"),
}


def running(grace_s: float = 0.0) -> Live:
    live = Live(spec((4,), grace_s=grace_s))
    live.tell(reserve("r.1", cores=2, lifetime_s=1000.0))
    live.tell(confirm("r.1"))
    return live


def ends(live: Live) -> list[Any]:
    return [event for event in live.events if event.kind in ENDS and event.lease and event.lease.id == "r.1"]


def report(live: Live, losses: Sequence[str], at_s: float, *, crashes: bool = False) -> list[Any]:
    answers = []
    for place, loss in enumerate(losses):
        answers.append(live.tell(LOSSES[loss](), at_s + place))
        if crashes:
            live.crash()
    return answers


@pytest.mark.parametrize("crashes", [False, True])
@pytest.mark.parametrize("losses", list(itertools.permutations(list(LOSSES)[:4], 2)))
def test_one_end_at_the_first_time_whichever_report_comes_first(
    losses: tuple[str, str], crashes: bool
) -> None:
    live = running()
    report(live, losses, 10.0, crashes=crashes)
    (end,) = ends(live)
    assert end.lease.ended_at_s == pytest.approx(10.0, abs=1e-6), "the first terminal time"
    report(live, losses * 2, 20.0, crashes=crashes)  # a repeat of each
    assert ends(live) == [end]
    told = live.tell(cancel("r.1"), 30.0)
    assert isinstance(told, LeaseGranted)
    assert told.lease == end.lease, "whoever comes later gets the stored end"
    assert (live.owner.state.evicted, live.owner.state.admitted) == (
        int(end.kind is EventKind.EVICTED),
        1,
    )
    check_journal(live.events)
    live.owner.validate()


@pytest.mark.parametrize(
    "losses", [("evicted for an own user", "cancelled"), ("cancelled", "its node is drained")]
)
def test_its_own_end_that_passed_before_any_report_stands(losses: tuple[str, str]) -> None:
    live = running()
    report(live, losses, 2000.0)
    (end,) = ends(live)
    assert (end.kind, end.lease.ended_at_s) == (EventKind.COMPLETED, 1000.0)


def test_the_same_cause_in_both_orders_of_policy_and_lost_node() -> None:
    """An eviction that was announced is one cause, however the instance leaves after it: told and gone, its
    node drained, its time over."""
    causes = set()
    for losses in itertools.permutations(["its node is drained", "told to leave and gone"]):
        live = running(grace_s=60.0)
        live.tell(start("own", cores=4), 5.0)
        report(live, losses, 10.0)
        live.advance(500.0)
        (end,) = ends(live)
        causes.add((end.kind, end.cause))
        assert end.lease.state is LeaseState.EVICTED
    assert len(causes) == 1


@pytest.mark.parametrize("loss", ["cancelled", "released", "told to leave and gone"])
def test_an_end_of_a_lease_nobody_knows_is_set_aside_once(loss: str) -> None:
    live = Live(spec((4,)))
    for _ in range(3):
        answer = live.tell(LOSSES[loss](), 1.0)
        assert answer == Done(found=False)
    # A release leaves a tombstone, one; the others leave nothing.
    assert live.kinds() == ([EventKind.RELEASED] if loss == "released" else [])
    assert live.owner.state.sequence == 0
    live.crash()
    if loss == "released":
        assert live.tell(reserve("r.1"), 2.0) == Done(found=False), "its reservation came too late"


@given(st.lists(st.sampled_from(list(LOSSES)), min_size=1, max_size=8), st.booleans())
def test_whatever_is_reported_a_lease_ends_once(losses: list[str], crashes: bool) -> None:
    live = running()
    report(live, losses, 10.0, crashes=crashes)
    live.advance(5000.0)
    assert len(ends(live)) == 1
    check_journal(live.events)
    live.owner.validate()
