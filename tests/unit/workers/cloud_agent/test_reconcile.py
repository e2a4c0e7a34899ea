"""What follows for one instance, case by case."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.contract import Lease, LeaseState
from cloudsim.model.requests import Kind
from workers.cloud_agent.drivers.base import CloudInstance, InstanceState
from workers.cloud_agent.reconcile import (
    AGAIN_S,
    ALL_MISSING_S,
    END_AGAIN_S,
    MISSING_S,
    NO_ROOM_S,
    START_LIMIT_S,
    UNKNOWN_S,
    UNLISTED_S,
    Absence,
    ForeignHistory,
    InstanceHistory,
    InstanceStep,
    decide_foreign,
    decide_lease,
)

NOW_S = 10_000.0
RUNS = CloudInstance("i-1", "r.1", InstanceState.RUNNING, "m1.small", 1)
STARTS = replace(RUNS, state=InstanceState.STARTING)
ENDING = replace(RUNS, state=InstanceState.ENDING)
ENDED = replace(RUNS, state=InstanceState.ENDED, why="terminated")
ASKED = InstanceHistory(asked_s=NOW_S - 100, tried_s=NOW_S - 100)
LISTED = replace(ASKED, listed=True)
RAN = replace(LISTED, ran=True)


def lease(state: LeaseState = LeaseState.RUNNING, evict_at_s: float | None = None) -> Lease:
    return Lease(
        id="r.1", request="r", cloud="A", origin="B", kind=Kind.SPOT, cores=1, node=0, starts_at_s=0.0,
        ends_at_s=60.0, promised_sla=None, eviction_probability=None, table_version=None, fence=1, number=1,
        state=state, evict_at_s=evict_at_s,
    )  # fmt: skip


def step(
    found: Lease | None, instance: CloudInstance | None, kept: InstanceHistory, limit_s: float = MISSING_S
) -> tuple[InstanceStep, str]:
    decision = decide_lease(found, instance, kept, NOW_S, limit_s)
    return decision.step, decision.why


@pytest.mark.parametrize("instance", [None, STARTS, RUNS, ENDING, ENDED])
@pytest.mark.parametrize("state", [LeaseState.RESERVED, LeaseState.BOOKED])
def test_nothing_before_the_lease_runs(state: LeaseState, instance: CloudInstance | None) -> None:
    assert step(lease(state), instance, InstanceHistory()) == (InstanceStep.WAIT, "")


@pytest.mark.parametrize("state", [state for state in LeaseState if not state.is_open])
def test_a_lease_that_has_ended(state: LeaseState) -> None:
    over = lease(state)
    assert step(over, None, InstanceHistory())[0] is InstanceStep.FORGET, "nothing was ever asked for"
    assert step(over, ENDED, InstanceHistory())[0] is InstanceStep.FORGET, "some clouds list them for an hour"
    assert step(over, None, ASKED)[0] is InstanceStep.END, "it may not be listed yet"
    for instance in (STARTS, RUNS, ENDING, ENDED):
        assert step(over, instance, RAN)[0] is InstanceStep.END
    failed = replace(RAN, end_retry_s=NOW_S + END_AGAIN_S)
    assert step(over, RUNS, failed)[0] is InstanceStep.WAIT
    lately = replace(RAN, ended_s=NOW_S - AGAIN_S / 2)
    assert step(over, RUNS, lately)[0] is InstanceStep.WAIT, "the listing may be older than the end"
    before = replace(RAN, ended_s=NOW_S - AGAIN_S)
    assert step(over, RUNS, before)[0] is InstanceStep.END
    for gone in (None, ENDING, ENDED):
        assert step(over, gone, before)[0] is InstanceStep.FORGET


def test_a_lease_that_is_not_shown_is_looked_for() -> None:
    for since_s, expected in (
        (None, InstanceStep.WAIT),
        (1.0, InstanceStep.WAIT),
        (UNKNOWN_S, InstanceStep.END),
    ):
        kept = replace(RAN, unknown_s=None if since_s is None else NOW_S - since_s)
        assert step(None, RUNS, kept)[0] is expected


@pytest.mark.parametrize(
    ("kept", "expected"),
    [
        (InstanceHistory(), InstanceStep.START),
        (replace(ASKED, tried_s=NOW_S - 1), InstanceStep.WAIT),
        (replace(ASKED, tried_s=NOW_S - UNLISTED_S), InstanceStep.START),
        (replace(ASKED, tried_s=None), InstanceStep.START),
        (replace(ASKED, asked_s=NOW_S - START_LIMIT_S - 1), InstanceStep.FAILED),
        (replace(ASKED, retry_s=NOW_S + 1), InstanceStep.WAIT),
        (replace(ASKED, retry_s=NOW_S), InstanceStep.START),
        (replace(ASKED, retry_s=NOW_S, no_room_s=NOW_S - 1), InstanceStep.START),
        (replace(ASKED, retry_s=NOW_S, no_room_s=NOW_S - NO_ROOM_S, why="full"), InstanceStep.FAILED),
        (RAN, InstanceStep.WAIT),
        (replace(RAN, missing=Absence(NOW_S - 3600, NOW_S - 3600)), InstanceStep.WAIT),
        (replace(RAN, missing=Absence(NOW_S - MISSING_S, NOW_S)), InstanceStep.EVICTED),
        (replace(LISTED, missing=Absence(NOW_S - MISSING_S, NOW_S)), InstanceStep.EVICTED),
    ],
)
def test_what_is_not_listed(kept: InstanceHistory, expected: InstanceStep) -> None:
    assert step(lease(), None, kept)[0] is expected


def test_a_listing_that_lacks_all_is_believed_later() -> None:
    kept = replace(RAN, missing=Absence(NOW_S - MISSING_S, NOW_S))
    assert step(lease(), None, kept, ALL_MISSING_S)[0] is InstanceStep.WAIT
    kept = replace(RAN, missing=Absence(NOW_S - ALL_MISSING_S, NOW_S))
    assert step(lease(), None, kept, ALL_MISSING_S)[0] is InstanceStep.EVICTED


@pytest.mark.parametrize(
    ("kept", "expected"),
    [
        (RAN, (InstanceStep.EVICTED, "terminated")),
        (LISTED, (InstanceStep.START, "")),
        (replace(LISTED, again=True, tried_s=NOW_S - 1), (InstanceStep.WAIT, "")),
        (replace(LISTED, again=True), (InstanceStep.FAILED, "terminated")),
        (replace(LISTED, again=True, retry_s=NOW_S), (InstanceStep.START, "")),
        (replace(LISTED, again=True, retry_s=NOW_S + 1), (InstanceStep.WAIT, "")),
        (
            replace(LISTED, again=True, retry_s=NOW_S, no_room_s=NOW_S - NO_ROOM_S, why="full"),
            (InstanceStep.FAILED, "no room for it: full"),
        ),
    ],
)
def test_what_is_listed_as_ended(kept: InstanceHistory, expected: tuple[InstanceStep, str]) -> None:
    assert step(lease(), ENDED, kept) == expected


def test_what_found_no_room_is_tried_again_for_two_minutes() -> None:
    full, kept = replace(ENDED, no_room_at=1.0), replace(LISTED, again=True, why="full")
    assert step(lease(), full, kept) == (InstanceStep.START, "")
    kept = replace(kept, no_room_s=NOW_S - NO_ROOM_S)
    assert step(lease(), full, kept) == (InstanceStep.FAILED, "no room for it: full")
    assert step(lease(), None, replace(kept, listed=False, tried_s=NOW_S))[0] is InstanceStep.WAIT, (
        "one is being started"
    )


def test_what_is_there() -> None:
    for instance in (STARTS, RUNS, ENDING):
        assert step(lease(), instance, LISTED) == (InstanceStep.WAIT, "")
    slow = replace(LISTED, asked_s=NOW_S - START_LIMIT_S - 1)
    assert step(lease(), STARTS, slow)[0] is InstanceStep.FAILED
    assert step(lease(), RUNS, slow)[0] is InstanceStep.WAIT
    noticed = lease(evict_at_s=60.0)
    assert step(noticed, RUNS, RAN)[0] is InstanceStep.NOTICE
    assert step(noticed, RUNS, replace(RAN, noticed=True))[0] is InstanceStep.WAIT


FOREIGN = replace(RUNS, lease=None)


@pytest.mark.parametrize(
    ("instance", "foreign", "expected"),
    [
        (FOREIGN, None, InstanceStep.ARRIVE),
        (replace(FOREIGN, state=InstanceState.STARTING), None, InstanceStep.ARRIVE),
        (replace(FOREIGN, state=InstanceState.ENDING), None, InstanceStep.ARRIVE),
        (replace(FOREIGN, state=InstanceState.ENDED), None, InstanceStep.WAIT),
        (FOREIGN, ForeignHistory(counted=True), InstanceStep.WAIT),
        (FOREIGN, ForeignHistory(), InstanceStep.ARRIVE),
        (FOREIGN, ForeignHistory(retry_s=NOW_S + 1), InstanceStep.WAIT),
        (FOREIGN, ForeignHistory(retry_s=NOW_S), InstanceStep.ARRIVE),
        (replace(FOREIGN, state=InstanceState.ENDING), ForeignHistory(counted=True), InstanceStep.WAIT),
        (replace(FOREIGN, state=InstanceState.ENDED), ForeignHistory(counted=True), InstanceStep.DEPART),
        (replace(FOREIGN, state=InstanceState.ENDED), ForeignHistory(), InstanceStep.DEPART),
        (None, ForeignHistory(counted=True), InstanceStep.WAIT),
        (None, ForeignHistory(counted=True, missing=Absence(NOW_S - 3600, NOW_S - 3600)), InstanceStep.WAIT),
        (None, ForeignHistory(counted=True, missing=Absence(NOW_S - MISSING_S, NOW_S)), InstanceStep.DEPART),
    ],
)
def test_foreign_instances(
    instance: CloudInstance | None, foreign: ForeignHistory | None, expected: InstanceStep
) -> None:
    assert decide_foreign(instance, foreign, NOW_S, MISSING_S).step is expected
