"""What has become of an attempt, by what was seen of it: entries for the job's journal. Pure."""

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
from broker.jobs.record import AttemptRecord, JobRecord, step
from broker.jobs.view import span
from workers.job_manager.observation import Denial, Grant, Observation

#: How long after the end of a lease the node agent may take to say how the work ended.
AGENT_WORD_S = 10.0
#: How often at most a checkpoint is written into the journal.
KEPT_EVERY_S = 10.0

_LEFT = {
    LeaseState.EVICTED: "took its instance back",
    LeaseState.COMPLETED: "ended its lease, whose time was over",
    LeaseState.CANCELLED: "ended its lease, which somebody else cancelled",
    LeaseState.FAILED: "lost its instance",
}


def news(job: JobRecord, number: int, seen: Observation) -> list[JobEntry]:
    """What is new of a live attempt, in order."""
    place = job.place(number)
    if place.began_at is None:
        return _asked(job, place, seen)
    found: list[JobEntry] = []
    reports = [seen.reports.get(work) for work in place.works(job.id)]
    for entry in _progress(place, reports, seen):
        found.append(entry)
        job = step(job, entry)
    place = job.place(number)
    over = _over(job, place, reports, seen)
    return found if over is None else [*found, over]


def _asked(job: JobRecord, place: AttemptRecord, seen: Observation) -> list[JobEntry]:
    answers = [seen.grants.get(work) for work in place.works(job.id)]
    denied = next((one for one in answers if isinstance(one, Denial)), None)
    if denied is not None:
        why = f"{place.plan.cloud} did not take it: {denied.why}"
        return [AttemptEnded(at=seen.now, attempt=place.number, outcome=Outcome.REFUSED, why=why)]
    granted = [one for one in answers if isinstance(one, Grant) and one.ready]
    if len(granted) < len(answers):
        return []
    return [
        AttemptBegan(
            at=seen.now,
            attempt=place.number,
            leases=tuple(one.lease for one in granted),
            nodes=tuple(one.node for one in granted),
        )
    ]


def _progress(
    place: AttemptRecord, reports: Sequence[WorkReport | None], seen: Observation
) -> list[JobEntry]:
    found: list[JobEntry] = []
    told = [one for one in reports if one is not None]
    started = [one.started_at for one in told if one.started_at is not None]
    if place.started_at is None and len(started) == len(reports):
        found.append(AttemptStarted(at=seen.now, attempt=place.number, started_at=max(started)))
    first = reports[0]
    if first is not None and first.checkpoint > place.checkpoint and first.checkpoint_at is not None:
        since = place.checkpoint_at
        if since is None or first.checkpoint_at - since >= KEPT_EVERY_S or first.state in WORK_ENDED:
            found.append(
                AttemptCheckpointed(
                    at=seen.now,
                    attempt=place.number,
                    checkpoint=first.checkpoint,
                    checkpoint_at=first.checkpoint_at,
                    checkpoint_gb=first.checkpoint_gb,
                    usage=first.usage,
                )
            )
    leases = [seen.leases[one] for one in place.leases if one in seen.leases]
    noticed = any(one.noticed_at is not None for one in told) or any(
        one.evict_at_s is not None for one in leases
    )
    if noticed and place.noticed_at is None:
        found.append(AttemptNoticed(at=seen.now, attempt=place.number))
    return found


def _over(
    job: JobRecord, place: AttemptRecord, reports: Sequence[WorkReport | None], seen: Observation
) -> AttemptEnded | None:
    told = [one for one in reports if one is not None]
    broken = next((one for one in told if one.state is WorkState.EXITED and one.exit_code != 0), None)
    if broken is not None:
        why = f"its command ended with status {broken.exit_code}{_added(broken)}"
        return end_attempt(job, place, Outcome.FAILED, why, _end_at(told, seen), broken.exit_code)
    unusable = next((one for one in told if one.state is WorkState.UNUSABLE), None)
    if unusable is not None:
        why = f"it could not be run{_added(unusable)}"
        return end_attempt(job, place, Outcome.FAILED, why, _end_at(told, seen))
    if len(told) == len(reports) and all(one.state is WorkState.EXITED for one in told):
        return end_attempt(job, place, Outcome.WON, "its command ended with status 0", _end_at(told, seen), 0)
    return _left(job, place, told, seen)


def _left(
    job: JobRecord, place: AttemptRecord, told: Sequence[WorkReport], seen: Observation
) -> AttemptEnded | None:
    """It is gone from its instances without an end of its own."""
    cloud = place.plan.cloud
    leases = [seen.leases[one] for one in place.leases if one in seen.leases]
    gone = next((one for one in leases if one.state in _LEFT), None)
    saved = any(one.state is WorkState.SAVED for one in told)
    if saved and (place.told is not None or not place.plan.spot):
        why = f"its state was kept to go on elsewhere: {place.told or 'as it was told'}"
        return end_attempt(job, place, Outcome.SAVED, why, _end_at(told, seen), lost_s=0.0)
    if saved:
        why = f"{cloud} {_verb(gone)}; its state was kept in time, and nothing is lost"
        return end_attempt(job, place, Outcome.EVICTED, why, _end_at(told, seen), lost_s=0.0)
    evicted = any(one.state in (WorkState.EVICTED, WorkState.STOPPED) for one in told)
    if not evicted and gone is not None:
        since = seen.gone.get(gone.id, seen.now)
        heard = seen.now - since >= AGENT_WORD_S
        # Without its agent's word it may be running still; one that must not run twice waits for that word.
        evicted = heard and (job.wish.idempotent or place.started_at is None)
    if not evicted:
        return None
    with_agent = any(one.why == AGENT_ENDED for one in told)
    what = f"all work of {cloud} was ended with its node agent" if with_agent else f"{cloud} {_verb(gone)}"
    lost_s = _lost_s(job, place, _end_at(told, seen))
    return end_attempt(
        job,
        place,
        Outcome.EVICTED,
        f"{what}; {_next(job, place, lost_s)}",
        _end_at(told, seen),
        lost_s=lost_s,
    )


def end_attempt(
    job: JobRecord,
    place: AttemptRecord,
    outcome: Outcome,
    why: str,
    at: float,
    exit_code: int | None = None,
    *,
    lost_s: float | None = None,
) -> AttemptEnded:
    """The end of an attempt, with what it has cost until then."""
    del job
    return AttemptEnded(
        at=at,
        attempt=place.number,
        outcome=outcome,
        exit_code=exit_code,
        cost=place.cost(at),
        lost_s=lost_s,
        why=why,
    )


def _lost_s(job: JobRecord, place: AttemptRecord, at: float) -> float:
    others = [one.work_done_s(at) for one in job.live if one.number != place.number]
    if place.started_at is None:
        return 0.0
    return max(place.work_done_s(at) - max([job.safe_s, *others]), 0.0)


def _next(job: JobRecord, place: AttemptRecord, lost_s: float) -> str:
    others = [one for one in job.live if one.number != place.number]
    lost = f", {span(lost_s)} of work lost" if lost_s > 0 else ""
    if others:
        what = "backup" if others[0].plan.role == "backup" else "replica"
        return f"its {what} on {others[0].plan.cloud} goes on{lost}"
    safe = job.safe
    if safe is not None:
        return f"it goes on elsewhere from checkpoint {safe.checkpoint}{lost}"
    return f"it begins again elsewhere{lost}"


def _verb(gone: Lease | None) -> str:
    return _LEFT[LeaseState.EVICTED if gone is None else gone.state]


def _end_at(told: Sequence[WorkReport], seen: Observation) -> float:
    ends = [one.ended_at for one in told if one.ended_at is not None]
    return min(max(ends), seen.now) if ends else seen.now


def _added(report: WorkReport) -> str:
    return f": {report.why}" if report.why else ""
