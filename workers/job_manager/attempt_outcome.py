"""Turn what was observed of an attempt into entries for the job's journal (pure)."""

from __future__ import annotations

from collections.abc import Sequence

from broker.contract import Lease, LeaseState
from broker.jobs.events import (
    AttemptBegan,
    AttemptCheckpointed,
    AttemptEnded,
    AttemptNoticed,
    AttemptStarted,
    JobEntry,
)
from broker.jobs.models import AGENT_ENDED, WORK_ENDED, Outcome, WorkReport, WorkState
from broker.jobs.record import AttemptRecord, JobRecord, apply_entry
from broker.jobs.view import format_duration
from workers.job_manager.observation import Denial, Grant, Observation

#: Seconds that the node agent may take after the end of a lease to report how the work ended.
AGENT_WORD_S = 10.0
#: Seconds after which an instance of a real cloud that has reported nothing is given up.
BOOT_LIMIT_S = 900.0
#: The shortest time in seconds between two checkpoints in the journal.
KEPT_EVERY_S = 10.0

_LEFT = {
    LeaseState.EVICTED: "took its instance back",
    LeaseState.COMPLETED: "ended its lease, whose time was over",
    LeaseState.CANCELLED: "ended its lease, which somebody else cancelled",
    LeaseState.FAILED: "lost its instance",
}


def list_news(job: JobRecord, number: int, observation: Observation) -> list[JobEntry]:
    """Return the entries about all that is new of a live attempt, in order."""
    attempt = job.get_attempt(number)
    if attempt.began_at is None:
        return _grant_entries(job, attempt, observation)
    entries: list[JobEntry] = []
    reports = [observation.reports.get(work) for work in attempt.list_work_ids(job.id)]
    for entry in _progress_entries(attempt, reports, observation):
        entries.append(entry)
        job = apply_entry(job, entry)
    attempt = job.get_attempt(number)
    end = _end_entry(job, attempt, reports, observation)
    return entries if end is None else [*entries, end]


def _grant_entries(job: JobRecord, attempt: AttemptRecord, observation: Observation) -> list[JobEntry]:
    answers = [observation.grants.get(work) for work in attempt.list_work_ids(job.id)]
    denied = next((grant for grant in answers if isinstance(grant, Denial)), None)
    if denied is not None:
        why = f"{attempt.plan.cloud} did not take it: {denied.why}"
        return [AttemptEnded(at=observation.now, attempt=attempt.number, outcome=Outcome.REFUSED, why=why)]
    granted = [grant for grant in answers if isinstance(grant, Grant) and grant.ready]
    if len(granted) < len(answers):
        return []
    return [
        AttemptBegan(
            at=observation.now,
            attempt=attempt.number,
            leases=tuple(grant.lease for grant in granted),
            nodes=tuple(grant.node for grant in granted),
        )
    ]


def _progress_entries(
    attempt: AttemptRecord, reports: Sequence[WorkReport | None], observation: Observation
) -> list[JobEntry]:
    entries: list[JobEntry] = []
    known = [report for report in reports if report is not None]
    started = [report.started_at for report in known if report.started_at is not None]
    if attempt.started_at is None and len(started) == len(reports):
        entries.append(AttemptStarted(at=observation.now, attempt=attempt.number, started_at=max(started)))
    first = reports[0]
    if first is not None and first.checkpoint > attempt.checkpoint and first.checkpoint_at is not None:
        since = attempt.checkpoint_at
        if since is None or first.checkpoint_at - since >= KEPT_EVERY_S or first.state in WORK_ENDED:
            entries.append(
                AttemptCheckpointed(
                    at=observation.now,
                    attempt=attempt.number,
                    checkpoint=first.checkpoint,
                    checkpoint_at=first.checkpoint_at,
                    checkpoint_gb=first.checkpoint_gb,
                    usage=first.usage,
                )
            )
    leases = [observation.leases[lease] for lease in attempt.leases if lease in observation.leases]
    noticed = any(report.noticed_at is not None for report in known) or any(
        lease.evict_at_s is not None for lease in leases
    )
    if noticed and attempt.noticed_at is None:
        entries.append(AttemptNoticed(at=observation.now, attempt=attempt.number))
    return entries


def _end_entry(
    job: JobRecord, attempt: AttemptRecord, reports: Sequence[WorkReport | None], observation: Observation
) -> AttemptEnded | None:
    known = [report for report in reports if report is not None]
    broken = next(
        (report for report in known if report.state is WorkState.EXITED and report.exit_code != 0), None
    )
    if broken is not None:
        why = f"its command ended with status {broken.exit_code}{_reason_suffix(broken)}"
        return end_attempt(attempt, Outcome.FAILED, why, _end_at(known, observation), broken.exit_code)
    unusable = next((report for report in known if report.state is WorkState.UNUSABLE), None)
    if unusable is not None:
        why = f"it could not be run{_reason_suffix(unusable)}"
        return end_attempt(attempt, Outcome.FAILED, why, _end_at(known, observation))
    if len(known) == len(reports) and all(report.state is WorkState.EXITED for report in known):
        return end_attempt(
            attempt, Outcome.WON, "its command ended with status 0", _end_at(known, observation), 0
        )
    entry = _departure_entry(job, attempt, known, observation)
    waited_s = 0.0 if attempt.began_at is None else observation.now - attempt.began_at
    if entry is None and attempt.plan.boots_agents and not known and waited_s > BOOT_LIMIT_S:
        why = f"no node agent of its instance has reported within {format_duration(BOOT_LIMIT_S)}"
        return end_attempt(attempt, Outcome.FAILED, why, observation.now)
    return entry


def _departure_entry(
    job: JobRecord, attempt: AttemptRecord, known: Sequence[WorkReport], observation: Observation
) -> AttemptEnded | None:
    """Return the end of an attempt that is gone from its instances without an end of its own."""
    cloud = attempt.plan.cloud
    leases = [observation.leases[lease] for lease in attempt.leases if lease in observation.leases]
    gone = next((lease for lease in leases if lease.state in _LEFT), None)
    saved = any(report.state is WorkState.SAVED for report in known)
    if saved and (attempt.save_reason is not None or not attempt.plan.spot):
        why = f"its state was kept to go on elsewhere: {attempt.save_reason or 'as it was told'}"
        return end_attempt(attempt, Outcome.SAVED, why, _end_at(known, observation), lost_s=0.0)
    if saved:
        why = f"{cloud} {_describe_departure(gone)}; its state was kept in time, and nothing is lost"
        return end_attempt(attempt, Outcome.EVICTED, why, _end_at(known, observation), lost_s=0.0)
    evicted = any(report.state in (WorkState.EVICTED, WorkState.STOPPED) for report in known)
    if not evicted and gone is not None:
        since = observation.gone.get(gone.id, observation.now)
        has_waited = observation.now - since >= AGENT_WORD_S
        # Without its agent's report it may still run; a job that must not run twice waits for that report.
        evicted = has_waited and (job.wish.idempotent or attempt.started_at is None)
    if not evicted:
        return None
    with_agent = any(report.why == AGENT_ENDED for report in known)
    what = (
        f"all work of {cloud} was ended with its node agent"
        if with_agent
        else f"{cloud} {_describe_departure(gone)}"
    )
    lost_s = _lost_s(job, attempt, _end_at(known, observation))
    return end_attempt(
        attempt,
        Outcome.EVICTED,
        f"{what}; {_describe_continuation(job, attempt, lost_s)}",
        _end_at(known, observation),
        lost_s=lost_s,
    )


def end_attempt(
    attempt: AttemptRecord,
    outcome: Outcome,
    why: str,
    at: float,
    exit_code: int | None = None,
    *,
    lost_s: float | None = None,
) -> AttemptEnded:
    """Return the end of an attempt, with what it has cost until then."""
    return AttemptEnded(
        at=at,
        attempt=attempt.number,
        outcome=outcome,
        exit_code=exit_code,
        cost=attempt.cost(at),
        lost_s=lost_s,
        why=why,
    )


def _lost_s(job: JobRecord, attempt: AttemptRecord, at: float) -> float:
    others = [other.work_done_s(at) for other in job.live if other.number != attempt.number]
    if attempt.started_at is None:
        return 0.0
    return max(attempt.work_done_s(at) - max([job.safe_s, *others]), 0.0)


def _describe_continuation(job: JobRecord, attempt: AttemptRecord, lost_s: float) -> str:
    others = [other for other in job.live if other.number != attempt.number]
    lost = f", {format_duration(lost_s)} of work lost" if lost_s > 0 else ""
    if others:
        what = "backup" if others[0].plan.role == "backup" else "replica"
        return f"its {what} on {others[0].plan.cloud} goes on{lost}"
    safe = job.safe
    if safe is not None:
        return f"it goes on elsewhere from checkpoint {safe.checkpoint}{lost}"
    return f"it begins again elsewhere{lost}"


def _describe_departure(gone: Lease | None) -> str:
    return _LEFT[LeaseState.EVICTED if gone is None else gone.state]


def _end_at(known: Sequence[WorkReport], observation: Observation) -> float:
    ends = [report.ended_at for report in known if report.ended_at is not None]
    return min(max(ends), observation.now) if ends else observation.now


def _reason_suffix(report: WorkReport) -> str:
    return f": {report.why}" if report.why else ""
