"""What an agent does about a piece of work, from what was asked for and what its lease is."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from broker.answers import Lease, LeaseState
from broker.jobs.models import Work
from cloudsim.requests import Kind
from workers.agent.deciding import UNKNOWN_S, Decision, Step, decide


def work(wanted: Literal["run", "save", "stop"] = "run", *, spot: bool = True) -> Work:
    return Work(
        id="j.1.0", job="j", attempt=1, cloud="A", instance="l.1", spot=spot, node=0, command=("true",),
        cores=1, wanted=wanted,
    )  # fmt: skip


def lease(state: LeaseState, **more: Any) -> Lease:
    return Lease(
        id="l.1", request="l", cloud="A", origin="B", kind=Kind.SPOT, cores=1, node=0, starts_at_s=0.0,
        ends_at_s=100.0, promised_sla=0.5, eviction_probability=0.1, table_version="t", fence=1, number=1,
        state=state, **more,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("wanted", "shown", "missing_s", "expected"),
    [
        ("run", lease(LeaseState.RUNNING), 0.0, Decision(Step.RUN)),
        ("run", lease(LeaseState.RESERVED), 0.0, Decision(Step.WAIT)),
        ("run", None, 0.0, Decision(Step.WAIT)),
        ("run", None, UNKNOWN_S - 1, Decision(Step.WAIT)),
        ("run", None, UNKNOWN_S, Decision(Step.EVICT, "A shows no lease l.1")),
        ("run", lease(LeaseState.RUNNING, evict_at_s=50.0), 0.0, Decision(Step.NOTICE, evict_at_s=50.0)),
        ("run", lease(LeaseState.EVICTED), 0.0, Decision(Step.EVICT, "its lease was evicted")),
        (
            "run",
            lease(LeaseState.EVICTED, cause="own load"),
            0.0,
            Decision(Step.EVICT, "its lease was evicted: own load"),
        ),
        ("run", lease(LeaseState.COMPLETED), 0.0, Decision(Step.EVICT, "its lease was completed")),
        ("save", lease(LeaseState.RUNNING), 0.0, Decision(Step.SAVE)),
        ("save", lease(LeaseState.RUNNING, evict_at_s=50.0), 0.0, Decision(Step.SAVE)),
        ("save", lease(LeaseState.CANCELLED), 0.0, Decision(Step.EVICT, "its lease was cancelled")),
        ("stop", None, 0.0, Decision(Step.STOP)),
    ],
)
def test_spot(
    wanted: Literal["run", "save", "stop"], shown: Lease | None, missing_s: float, expected: Decision
) -> None:
    assert decide(work(wanted), shown, missing_s) == expected


@pytest.mark.parametrize(
    ("wanted", "expected"), [("run", Step.RUN), ("save", Step.SAVE), ("stop", Step.STOP)]
)
def test_an_on_demand_instance_is_there_until_its_work_is_stopped(
    wanted: Literal["run", "save", "stop"], expected: Step
) -> None:
    assert decide(work(wanted, spot=False), None, 1_000_000.0) == Decision(expected)
