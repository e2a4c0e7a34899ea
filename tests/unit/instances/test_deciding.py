"""What follows for one instance, case by case."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.answers import ENDS, Lease, LeaseState
from cloudsim.requests import Kind
from workers.instances.deciding import (
    AGAIN_S,
    ALL_MISSING_S,
    END_AGAIN_S,
    MISSING_S,
    NO_ROOM_S,
    START_LIMIT_S,
    UNKNOWN_S,
    UNLISTED_S,
    Foreign,
    Kept,
    Missing,
    Step,
    decide,
    decide_foreign,
)
from workers.instances.driver import Instance, State

NOW_S = 10_000.0
RUNS = Instance("i-1", "r.1", State.RUNNING, "m1.small", 1)
STARTS = replace(RUNS, state=State.STARTING)
ENDING = replace(RUNS, state=State.ENDING)
ENDED = replace(RUNS, state=State.ENDED, why="terminated")
ASKED = Kept(asked_s=NOW_S - 100, tried_s=NOW_S - 100)
LISTED = replace(ASKED, listed=True)
RAN = replace(LISTED, ran=True)


def lease(state: LeaseState = LeaseState.RUNNING, evict_at_s: float | None = None) -> Lease:
    return Lease(
        id="r.1", request="r", cloud="A", origin="B", kind=Kind.SPOT, cores=1, node=0, starts_at_s=0.0,
        ends_at_s=60.0, promised_sla=None, eviction_probability=None, table_version=None, fence=1, number=1,
        state=state, evict_at_s=evict_at_s,
    )  # fmt: skip


def step(
    found: Lease | None, instance: Instance | None, kept: Kept, limit_s: float = MISSING_S
) -> tuple[Step, str]:
    decision = decide(found, instance, kept, NOW_S, limit_s)
    return decision.step, decision.why


@pytest.mark.parametrize("instance", [None, STARTS, RUNS, ENDING, ENDED])
@pytest.mark.parametrize("state", [LeaseState.RESERVED, LeaseState.BOOKED])
def test_nothing_before_the_lease_runs(state: LeaseState, instance: Instance | None) -> None:
    assert step(lease(state), instance, Kept()) == (Step.WAIT, "")


@pytest.mark.parametrize("state", sorted(ENDS))
def test_a_lease_that_has_ended(state: LeaseState) -> None:
    over = lease(state)
    assert step(over, None, Kept())[0] is Step.FORGET, "nothing was ever asked for"
    assert step(over, ENDED, Kept())[0] is Step.FORGET, "some clouds list them for an hour"
    assert step(over, None, ASKED)[0] is Step.END, "it may not be listed yet"
    for instance in (STARTS, RUNS, ENDING, ENDED):
        assert step(over, instance, RAN)[0] is Step.END
    failed = replace(RAN, end_retry_s=NOW_S + END_AGAIN_S)
    assert step(over, RUNS, failed)[0] is Step.WAIT
    lately = replace(RAN, ended_s=NOW_S - AGAIN_S / 2)
    assert step(over, RUNS, lately)[0] is Step.WAIT, "the listing may be older than the end"
    before = replace(RAN, ended_s=NOW_S - AGAIN_S)
    assert step(over, RUNS, before)[0] is Step.END
    for gone in (None, ENDING, ENDED):
        assert step(over, gone, before)[0] is Step.FORGET


def test_a_lease_that_is_not_shown_is_looked_for() -> None:
    for since_s, expected in ((None, Step.WAIT), (1.0, Step.WAIT), (UNKNOWN_S, Step.END)):
        kept = replace(RAN, unknown_s=None if since_s is None else NOW_S - since_s)
        assert step(None, RUNS, kept)[0] is expected


@pytest.mark.parametrize(
    ("kept", "expected"),
    [
        (Kept(), Step.START),
        (replace(ASKED, tried_s=NOW_S - 1), Step.WAIT),
        (replace(ASKED, tried_s=NOW_S - UNLISTED_S), Step.START),
        (replace(ASKED, tried_s=None), Step.START),
        (replace(ASKED, asked_s=NOW_S - START_LIMIT_S - 1), Step.FAILED),
        (replace(ASKED, retry_s=NOW_S + 1), Step.WAIT),
        (replace(ASKED, retry_s=NOW_S), Step.START),
        (replace(ASKED, retry_s=NOW_S, no_room_s=NOW_S - 1), Step.START),
        (replace(ASKED, retry_s=NOW_S, no_room_s=NOW_S - NO_ROOM_S, why="full"), Step.FAILED),
        (RAN, Step.WAIT),
        (replace(RAN, missing=Missing(NOW_S - 3600, NOW_S - 3600)), Step.WAIT),
        (replace(RAN, missing=Missing(NOW_S - MISSING_S, NOW_S)), Step.EVICTED),
        (replace(LISTED, missing=Missing(NOW_S - MISSING_S, NOW_S)), Step.EVICTED),
    ],
)
def test_what_is_not_listed(kept: Kept, expected: Step) -> None:
    assert step(lease(), None, kept)[0] is expected


def test_a_listing_that_lacks_all_is_believed_later() -> None:
    kept = replace(RAN, missing=Missing(NOW_S - MISSING_S, NOW_S))
    assert step(lease(), None, kept, ALL_MISSING_S)[0] is Step.WAIT
    kept = replace(RAN, missing=Missing(NOW_S - ALL_MISSING_S, NOW_S))
    assert step(lease(), None, kept, ALL_MISSING_S)[0] is Step.EVICTED


@pytest.mark.parametrize(
    ("kept", "expected"),
    [
        (RAN, (Step.EVICTED, "terminated")),
        (LISTED, (Step.START, "")),
        (replace(LISTED, again=True, tried_s=NOW_S - 1), (Step.WAIT, "")),
        (replace(LISTED, again=True), (Step.FAILED, "terminated")),
        (replace(LISTED, again=True, retry_s=NOW_S), (Step.START, "")),
        (replace(LISTED, again=True, retry_s=NOW_S + 1), (Step.WAIT, "")),
        (
            replace(LISTED, again=True, retry_s=NOW_S, no_room_s=NOW_S - NO_ROOM_S, why="full"),
            (Step.FAILED, "no room for it: full"),
        ),
    ],
)
def test_what_is_listed_as_ended(kept: Kept, expected: tuple[Step, str]) -> None:
    assert step(lease(), ENDED, kept) == expected


def test_what_is_there() -> None:
    for instance in (STARTS, RUNS, ENDING):
        assert step(lease(), instance, LISTED) == (Step.WAIT, "")
    slow = replace(LISTED, asked_s=NOW_S - START_LIMIT_S - 1)
    assert step(lease(), STARTS, slow)[0] is Step.FAILED
    assert step(lease(), RUNS, slow)[0] is Step.WAIT
    noticed = lease(evict_at_s=60.0)
    assert step(noticed, RUNS, RAN)[0] is Step.NOTICE
    assert step(noticed, RUNS, replace(RAN, noticed=True))[0] is Step.WAIT


FOREIGN = replace(RUNS, lease=None)


@pytest.mark.parametrize(
    ("instance", "foreign", "expected"),
    [
        (FOREIGN, None, Step.ARRIVE),
        (replace(FOREIGN, state=State.STARTING), None, Step.ARRIVE),
        (replace(FOREIGN, state=State.ENDING), None, Step.ARRIVE),
        (replace(FOREIGN, state=State.ENDED), None, Step.WAIT),
        (FOREIGN, Foreign(counted=True), Step.WAIT),
        (FOREIGN, Foreign(), Step.ARRIVE),
        (FOREIGN, Foreign(retry_s=NOW_S + 1), Step.WAIT),
        (FOREIGN, Foreign(retry_s=NOW_S), Step.ARRIVE),
        (replace(FOREIGN, state=State.ENDING), Foreign(counted=True), Step.WAIT),
        (replace(FOREIGN, state=State.ENDED), Foreign(counted=True), Step.DEPART),
        (replace(FOREIGN, state=State.ENDED), Foreign(), Step.DEPART),
        (None, Foreign(counted=True), Step.WAIT),
        (None, Foreign(counted=True, missing=Missing(NOW_S - 3600, NOW_S - 3600)), Step.WAIT),
        (None, Foreign(counted=True, missing=Missing(NOW_S - MISSING_S, NOW_S)), Step.DEPART),
    ],
)
def test_foreign_instances(instance: Instance | None, foreign: Foreign | None, expected: Step) -> None:
    assert decide_foreign(instance, foreign, NOW_S, MISSING_S).step is expected
