"""What an agent does about a piece of work, from what was asked for and what its lease is."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from broker.contract import Lease, LeaseState
from broker.jobs.models import Work
from cloudsim.model.requests import Kind
from workers.node_agent.policy import UNKNOWN_S, WorkDecision, WorkStep, decide_step


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
        ("run", lease(LeaseState.RUNNING), 0.0, WorkDecision(WorkStep.RUN)),
        ("run", lease(LeaseState.RESERVED), 0.0, WorkDecision(WorkStep.WAIT)),
        ("run", None, 0.0, WorkDecision(WorkStep.WAIT)),
        ("run", None, UNKNOWN_S - 1, WorkDecision(WorkStep.WAIT)),
        ("run", None, UNKNOWN_S, WorkDecision(WorkStep.EVICT, "A shows no lease l.1")),
        (
            "run",
            lease(LeaseState.RUNNING, evict_at_s=50.0),
            0.0,
            WorkDecision(WorkStep.NOTICE, evict_at_s=50.0),
        ),
        ("run", lease(LeaseState.EVICTED), 0.0, WorkDecision(WorkStep.EVICT, "its lease was evicted")),
        (
            "run",
            lease(LeaseState.EVICTED, cause="own load"),
            0.0,
            WorkDecision(WorkStep.EVICT, "its lease was evicted: own load"),
        ),
        ("run", lease(LeaseState.COMPLETED), 0.0, WorkDecision(WorkStep.EVICT, "its lease was completed")),
        ("save", lease(LeaseState.RUNNING), 0.0, WorkDecision(WorkStep.SAVE)),
        ("save", lease(LeaseState.RUNNING, evict_at_s=50.0), 0.0, WorkDecision(WorkStep.SAVE)),
        ("save", lease(LeaseState.CANCELLED), 0.0, WorkDecision(WorkStep.EVICT, "its lease was cancelled")),
        ("stop", None, 0.0, WorkDecision(WorkStep.STOP)),
    ],
)
def test_spot(
    wanted: Literal["run", "save", "stop"], shown: Lease | None, missing_s: float, expected: WorkDecision
) -> None:
    assert decide_step(work(wanted), shown, missing_s) == expected


@pytest.mark.parametrize(
    ("wanted", "expected"), [("run", WorkStep.RUN), ("save", WorkStep.SAVE), ("stop", WorkStep.STOP)]
)
def test_an_on_demand_instance_is_there_until_its_work_is_stopped(
    wanted: Literal["run", "save", "stop"], expected: WorkStep
) -> None:
    assert decide_step(work(wanted, spot=False), None, 1_000_000.0) == WorkDecision(expected)
