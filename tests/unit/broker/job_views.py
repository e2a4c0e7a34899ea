"""Jobs as they are shown, one for each way in which they end or wait, made by the fold of their journals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from broker.jobs.events import (
    AttemptBegan,
    AttemptCheckpointed,
    AttemptEnded,
    AttemptStarted,
    CancelRequested,
    JobCancelled,
    JobEntry,
    JobFailed,
    JobFinished,
    JobPlanned,
    JobSubmitted,
    JobWaits,
    PlannedAttempt,
    ProfileLearnt,
)
from broker.jobs.models import JobView, JobWish, Outcome, Profile
from broker.jobs.view import make_job_view
from cloudsim.jobs.job import StorageKind

#: 12:00 on 28 November 2026, in UTC.
NOON = 1_795_867_200.0
MINUTE, HOUR = 60.0, 3600.0

_SUBMITTED = JobSubmitted(
    at=NOON,
    job="nightly-3f2a9c81de",
    wish=JobWish(
        id="nightly-3f2a9c81de",
        name="nightly",
        command=("python3", "count.py", "--steps", "100 000"),
        cores=2,
        deadline_s=8 * HOUR,
    ),
    holder="acme",
    origin="north",
    home="north",
)


def _planned(number: int, minutes: float, **more: object) -> JobPlanned:
    told = {
        "number": number,
        "role": "main",
        "mechanism": "checkpoint",
        "storage": StorageKind.REMOTE,
        "cloud": "meadow",
        "spot": True,
        "cores": 2,
        "price_usd_per_core_hour": 0.02,
        "table_version": "7.3",
        "risk": 0.18,
        "expected_s": 2 * HOUR,
        "expected_cost": 0.09,
        "why": "cheapest of 3 clouds: expected 0.09 $ with checkpoints against 0.40 $ on-demand",
    } | more
    return JobPlanned(
        at=NOON + minutes * MINUTE,
        attempts=(PlannedAttempt.model_validate(told),),
        on_demand_cost=None if told["role"] == "profile" else 0.4,
    )


def _runs(number: int, minutes: float) -> list[JobEntry]:
    at = NOON + minutes * MINUTE
    name = f"nightly-3f2a9c81de.{number}.0"
    return [
        AttemptBegan(at=at, attempt=number, leases=(name,), nodes=(0,)),
        AttemptStarted(at=at + 2, attempt=number, started_at=at + 1),
    ]


_MEASURED = ProfileLearnt(
    at=NOON + 12 * MINUTE,
    profile=Profile(work_s=2 * HOUR, memory_gb=1.2, disk_gb=0.3, io_share=0.05),
    why="measured by attempt 1",
)
_FIRST: list[JobEntry] = [
    _SUBMITTED,
    _planned(
        1, 0, role="profile", mechanism="on-demand", storage=StorageKind.LOCAL, cloud="north", spot=False,
        price_usd_per_core_hour=0.1, table_version=None, risk=0.0, expected_s=None, expected_cost=None,
        why="what it needs is not known: it runs on-demand first and is measured",
    ),
]  # fmt: skip
_EVICTED: list[JobEntry] = [
    _SUBMITTED,
    ProfileLearnt(at=NOON, profile=_MEASURED.profile, why="from an earlier job of this name"),
    _planned(1, 0),
    *_runs(1, 1),
    AttemptCheckpointed(
        at=NOON + 40 * MINUTE, attempt=1, checkpoint=4, checkpoint_at=NOON + 40 * MINUTE, checkpoint_gb=1.5
    ),
    AttemptEnded(
        at=NOON + 47 * MINUTE, attempt=1, outcome=Outcome.EVICTED, cost=0.031, lost_s=7 * MINUTE,
        why="meadow took its instance back for its own users",
    ),
    _planned(
        2, 48, cloud="forge", table_version="4.1", restored_from=1, restored_checkpoint=4, done_s=39 * MINUTE,
        risk=0.04, expected_s=1.4 * HOUR, expected_cost=0.07, price_usd_per_core_hour=0.024,
        why="cheapest of 2 clouds (meadow has just evicted it): expected 0.07 $ with checkpoints",
    ),
    *_runs(2, 49),
]  # fmt: skip

JOURNALS: Mapping[str, Sequence[JobEntry]] = {
    "submitted": [_SUBMITTED],
    "measured": [*_FIRST, *_runs(1, 1)],
    "waiting": [
        *_EVICTED,
        AttemptEnded(
            at=NOON + 60 * MINUTE, attempt=2, outcome=Outcome.EVICTED, cost=0.009, lost_s=0.0,
            why="forge took its instance back",
        ),
        JobWaits(at=NOON + 60 * MINUTE, until=NOON + 75 * MINUTE, why="no cloud has room for 2 cores"),
    ],
    "evicted": _EVICTED,
    "finished": [
        *_EVICTED,
        AttemptEnded(
            at=NOON + 131 * MINUTE, attempt=2, outcome=Outcome.WON, exit_code=0, cost=0.0656,
            why="its command ended",
        ),
        JobFinished(at=NOON + 131 * MINUTE, attempt=2),
    ],
    "failed": [
        *_FIRST,
        *_runs(1, 1),
        AttemptEnded(
            at=NOON + 3 * MINUTE, attempt=1, outcome=Outcome.FAILED, exit_code=3, cost=0.0067,
            why="its command ended with exit code 3",
        ),
        JobFailed(
            at=NOON + 3 * MINUTE,
            why="its command ended with exit code 3, and it was not to be retried",
            exit_code=3,
        ),
    ],
    "cancelled": [
        *_FIRST,
        CancelRequested(at=NOON + MINUTE, by="acme/ci"),
        AttemptEnded(at=NOON + MINUTE, attempt=1, outcome=Outcome.STOPPED, why="the job was cancelled"),
        JobCancelled(at=NOON + MINUTE, by="acme/ci"),
    ],
}  # fmt: skip


def shown(which: str, now: float) -> JobView:
    """The job of that journal, as it stands at ``now``."""
    return make_job_view(JOURNALS[which], now)
