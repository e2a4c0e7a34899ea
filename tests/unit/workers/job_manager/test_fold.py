"""The journal of a job: total, strict about its order, and shown in words."""

import pytest

from broker.jobs.events import (
    AttemptBegan,
    AttemptCheckpointed,
    AttemptEnded,
    AttemptFreed,
    AttemptStarted,
    CancelRequested,
    JobCancelled,
    JobEntry,
    JobFailed,
    JobFinished,
    JobPlanned,
    JobWaits,
    PlannedAttempt,
    UnreadableEntryError,
    make_work_id,
    parse_entry,
    parse_job_id,
)
from broker.jobs.models import JobState, Outcome
from broker.jobs.record import BrokenJournalError, fold_entries
from broker.jobs.view import make_job_view
from tests.unit.workers.job_manager.scenes import submitted, wish

NOON = 43_200.0


def planned(number: int = 1, **told: object) -> JobPlanned:
    fields = {
        "number": number, "role": "main", "mechanism": "checkpoint", "cloud": "forge", "spot": True,
        "cores": 2,
        "price_usd_per_core_hour": 0.02,
        "checkpoint_s": 300.0, "why": "cheapest",
    }  # fmt: skip
    return JobPlanned(at=NOON, attempts=(PlannedAttempt.model_validate(fields | told),), on_demand_cost=0.6)


BEGAN = AttemptBegan(at=NOON + 10, attempt=1, leases=("job.1.0.1",), nodes=(0,))
STARTED = AttemptStarted(at=NOON + 12, attempt=1, started_at=NOON + 11)
WON = AttemptEnded(at=NOON + 100, attempt=1, outcome=Outcome.WON, exit_code=0, cost=0.1, why="status 0")


def test_what_a_newer_version_wrote_is_refused() -> None:
    with pytest.raises(UnreadableEntryError, match="newer version"):
        parse_entry(b'{"kind": "teleported", "at": 1.0}')
    with pytest.raises(UnreadableEntryError):
        parse_entry(b"no entry")
    assert parse_entry(b'{"kind": "cancel", "at": 1.0, "by": "ann", "mood": "new"}') == CancelRequested(
        at=1.0, by="ann"
    )


@pytest.mark.parametrize(
    "entries",
    [
        [planned()],
        [submitted(), submitted()],
        [submitted(), BEGAN],
        [submitted(), planned(2)],
        [submitted(), planned(), planned(1)],
        [submitted(), planned(restored_from=7)],
        [submitted(), planned(), BEGAN, BEGAN],
        [submitted(), planned(), BEGAN, WON, STARTED],
        [submitted(), planned(), BEGAN, AttemptFreed(at=1.0, attempts=(1,))],
        [submitted(), planned(), BEGAN, JobFinished(at=1.0, attempt=1)],
        [submitted(), JobCancelled(at=1.0, by="ann"), JobWaits(at=2.0, until=3.0, why="?")],
        [submitted(), planned(), BEGAN, WON, JobFinished(at=1.0, attempt=1), JobFinished(at=1.0, attempt=1)],
    ],
)
def test_entries_that_contradict_each_other(entries: list[JobEntry]) -> None:
    with pytest.raises(BrokenJournalError):
        fold_entries(entries)


def test_time_never_goes_back() -> None:
    job = fold_entries([submitted(), planned(), CancelRequested(at=5.0, by="ann")])
    assert job.at == NOON


def test_the_state_with_the_most_work_is_where_it_goes_on() -> None:
    kept = AttemptCheckpointed(at=NOON + 60, attempt=1, checkpoint=2, checkpoint_at=NOON + 51)
    job = fold_entries([submitted(), planned(pace=0.5), BEGAN, STARTED, kept])
    assert (job.safe_s, job.get_attempt(1).work_done_s(NOON + 111)) == (20.0, 50.0)
    assert job.cost(NOON + 3610) == pytest.approx(0.02 * 2)


def test_ids_follow_from_the_job() -> None:
    assert make_work_id("job-a", 3, 1) == "job-a.3.1"
    assert [parse_job_id(name) for name in ("job-a.3.1", "job-a.3.1.2", "request.b", "plain")] == [
        "job-a", "job-a", None, None,
    ]  # fmt: skip


def test_a_job_explains_itself() -> None:
    entries: list[JobEntry] = [submitted(wish())]
    assert make_job_view(entries).said == "Is about to be planned."
    entries.append(planned())
    assert make_job_view(entries).said == "Asks for room on forge (spot, 0.02 $/core-hour)."
    entries += [BEGAN, STARTED]
    shown = make_job_view(entries, NOON + 731)
    assert shown.said == (
        "Running on forge (spot, 0.02 $/core-hour) since 12:00:11 UTC, its state kept every 5 min; 40% done, "
        "about 18 min left."
    )
    assert shown.state is JobState.RUNNING
    assert shown.cost == pytest.approx(721 / 3600 * 0.04)
    entries += [WON, JobFinished(at=NOON + 100, attempt=1)]
    done = make_job_view(entries, NOON + 9999)
    assert "for 0.10 $ (on-demand from the start: 0.60 $)" in done.said
    assert (done.state, done.exit_code, done.ended_at) == (JobState.FINISHED, 0, NOON + 100)
    waits = make_job_view([submitted(), JobWaits(at=1.0, until=NOON, why="nobody has room for it now")])
    assert waits.said == "Waits until 12:00:00 UTC: nobody has room for it now."
    assert make_job_view([submitted(), JobFailed(at=1.0, why="its command ended with status 3")]).said == (
        "Failed: its command ended with status 3. It had cost 0.00 $."
    )
