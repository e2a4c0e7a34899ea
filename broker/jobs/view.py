"""The fold of a job's journal, and how a job is shown to somebody who knows nothing of how it is planned."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from broker.jobs.events import JobCancelled, JobEntry, JobFailed, JobFinished, Unit
from broker.jobs.models import Attempt, JobView
from broker.jobs.record import HOUR_S, AttemptRecord, JobRecord, fold_entries

_STORED = {"checkpoint", "migrate"}
#: Of costs less is not told apart.
_LEAST = 0.0001


def make_job_view(entries: Sequence[JobEntry], now: float | None = None) -> JobView:
    """The job as it is shown. now: seconds since 1970, for what it has cost and done by now; None: as it was
    at the last entry. Raises what ``fold`` raises."""
    job = fold_entries(entries)
    at = job.at if now is None or job.end is not None else max(now, job.at)
    ran = [one for one in job.places if one.started_at is not None]
    finished = job.end if isinstance(job.end, JobFinished) else None
    exit_code = None
    if finished is not None:
        exit_code = 0
    elif isinstance(job.end, JobFailed):
        exit_code = job.end.exit_code
    return JobView(
        id=job.id,
        name=job.wish.name,
        holder=job.submitted.holder,
        origin=job.submitted.origin,
        home=job.submitted.home,
        state=job.state,
        said=describe_job(job, at),
        command=job.wish.command,
        cores=job.wish.cores,
        instances=job.wish.instances,
        submitted_at=job.submitted.at,
        started_at=min((one.started_at for one in ran if one.started_at is not None), default=None),
        ended_at=job.at if job.end is not None else None,
        exit_code=exit_code,
        deadline_at=job.deadline_at,
        next_at=job.waits.until if job.waits is not None and not job.live else None,
        evictions=job.evictions,
        retries_left=max(job.wish.retries - job.failures, 0),
        profile=job.profile,
        cost=job.cost(at),
        on_demand_cost=_estimate_on_demand_cost(job),
        unit=job.unit,
        attempts=tuple(_make_attempt_view(one, at) for one in job.places),
    )


def _estimate_on_demand_cost(job: JobRecord) -> float | None:
    """As it was planned by, or, where nothing was known then, by what was measured."""
    home = next((one.plan for one in job.places if not one.plan.spot), None)
    if job.on_demand_cost is not None or job.profile is None or home is None:
        return job.on_demand_cost
    return job.profile.work_s / HOUR_S * job.wish.cores * job.wish.instances * home.price


def _make_attempt_view(place: AttemptRecord, at: float) -> Attempt:
    plan, ended = place.plan, place.ended
    return Attempt(
        number=place.number,
        role=plan.role,
        mechanism=plan.mechanism,
        storage=plan.storage,
        cloud=plan.cloud,
        spot=plan.spot,
        cores=plan.cores,
        instances=plan.instances,
        lease=place.leases[0] if place.leases else None,
        asked_at=place.asked_at,
        started_at=place.started_at,
        ended_at=None if ended is None else ended.at,
        outcome=None if ended is None else ended.outcome,
        exit_code=None if ended is None else ended.exit_code,
        price_usd_per_core_hour=plan.price_usd_per_core_hour,
        table_version=plan.table_version,
        risk=plan.risk,
        expected_s=plan.expected_s,
        expected_cost=plan.expected_cost,
        cost=place.cost(at),
        checkpoints=place.checkpoint,
        restored_from=plan.restored_from,
        lost_s=None if ended is None else ended.lost_s,
        began=plan.why,
        ended=None if ended is None else ended.why,
    )


# -- in words ------------------------------------------------------------------------------------------------


def describe_job(job: JobRecord, at: float) -> str:
    """How a job stands then and what happens next, in a sentence or two."""
    if job.end is not None:
        return f"{_describe_end(job, job.end, at)}{_describe_moves(job)}"
    if job.cancel is not None:
        return f"Is being cancelled, as {job.cancel.by} asked."
    return f"{_describe_progress(job, at)}.{_describe_moves(job)}"


def _describe_end(job: JobRecord, end: JobFinished | JobFailed | JobCancelled, at: float) -> str:
    cost = format_cost(job.cost(at), job.unit)
    match end:
        case JobFinished(attempt=number):
            took, where = format_duration(job.at - job.submitted.at), job.place(number).plan.cloud
            compared = ""
            if job.on_demand_cost is not None:
                compared = f" (on-demand from the start: {format_cost(job.on_demand_cost, job.unit)})"
            return f"Finished on {where}, {took} after it was submitted, for {cost}{compared}."
        case JobFailed(why=why):
            return f"Failed: {why}. It had cost {cost}."
        case JobCancelled(by=by):
            return f"Cancelled by {by}. It had cost {cost}."


def _describe_progress(job: JobRecord, at: float) -> str:
    running = [one for one in job.live if one.started_at is not None]
    if running:
        return _describe_running(job, running, at)
    if job.live:
        return _describe_start(job)
    if job.waits is not None:
        return f"Waits until {format_time(job.waits.until)}: {job.waits.why}"
    return "Is about to be planned"


def _describe_running(job: JobRecord, running: Sequence[AttemptRecord], at: float) -> str:
    main = next((one for one in running if one.plan.role != "backup"), running[0])
    plan = main.plan
    assert main.started_at is not None
    since = f"since {format_time(main.started_at)}"
    replicas = [one for one in running if one.plan.role == "replica"]
    if plan.role == "profile":
        how = (
            f"Running for the first time, {describe_terms(main, job.unit)}, {since}, to measure what it needs"
        )
        return f"{how}; jobs of its name are planned by that from then on"
    if len(replicas) > 1:
        places = " and ".join(describe_terms(one, job.unit) for one in replicas)
        how = f"Running side by side {places} {since}; the first to finish wins"
    else:
        how = f"Running {describe_terms(main, job.unit)} {since}"
    if plan.checkpoint_s is not None and plan.mechanism in _STORED:
        how += f", its state kept every {format_duration(plan.checkpoint_s)}"
    elif plan.saves_on_notice:
        how += ", its state kept when the cloud wants the instance back"
    for one in running:
        if one.plan.role == "backup":
            slower = round(1 / one.plan.share)
            how += (
                f", with a replica on a shared on-demand server of {one.plan.cloud} at 1/{slower} of its pace"
            )
        elif one is not main and one.plan.role != "replica":
            how += f", and {describe_terms(one, job.unit)}"
    noticed = next((one for one in running if one.noticed_at is not None), None)
    if noticed is not None and noticed.plan.saves_on_notice:
        how += f"; {noticed.plan.cloud} wants its instance back, so its state is being kept"
    elif noticed is not None:
        how += f"; {noticed.plan.cloud} wants its instance back soon"
    told = next((one for one in running if one.told is not None), None)
    if told is not None:
        how += f"; its state is being kept to go on elsewhere: {told.told}"
    return f"{how}{_describe_remaining(job, running, at)}"


def _describe_remaining(job: JobRecord, running: Sequence[AttemptRecord], at: float) -> str:
    if job.profile is None:
        return ""
    most = max(running, key=lambda one: one.work_done_s(at))
    share = most.work_done_s(at) / job.profile.work_s
    if share >= 1:
        return "; it has run for longer than it was expected to"
    left_s = (job.profile.work_s - most.work_done_s(at)) / most.plan.pace
    return f"; {share:.0%} done, about {format_duration(left_s)} left"


def _describe_start(job: JobRecord) -> str:
    asked = [one for one in job.live if one.began_at is None]
    places = " and ".join(describe_terms(one, job.unit) for one in (asked or job.live))
    if asked:
        return f"Asks for room {places}"
    return f"Has its room and is being started {places}"


def _describe_moves(job: JobRecord) -> str:
    if job.moves <= 0:
        return ""
    times = "once" if job.moves == 1 else f"{job.moves} times"
    return f" It has moved {times}."


def describe_terms(place: AttemptRecord, unit: Unit) -> str:
    """Where an attempt runs and what that costs: ``on forge (spot, 0.02 $/core-hour)``."""
    plan = place.plan
    kind = "spot" if plan.spot else "on-demand"
    price = "" if unit == "core-hours" else f", {_format_number(plan.price)} $/core-hour"
    return f"on {plan.cloud} ({kind}{price})"


def format_cost(cost: float, unit: Unit) -> str:
    """A cost for people."""
    return f"{_format_number(cost)} $" if unit == "usd" else f"{_format_number(cost)} core-hours"


def format_duration(seconds: float) -> str:
    """A time for people: ``35 s``, ``5 min``, ``1 h 20 min``, ``2 d 3 h``."""
    if seconds < 10:
        return f"{max(seconds, 0.0):.1g} s"
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 100:
        return f"{minutes} min"
    hours, rest = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {rest} min" if rest else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


def format_time(at: float) -> str:
    """A moment for people, in UTC."""
    return f"{datetime.fromtimestamp(at, UTC):%H:%M:%S} UTC"


def _format_number(number: float) -> str:
    if 0 < number < _LEAST:
        return f"under {_LEAST}"
    return f"{number:.2g}" if 0 < abs(number) < 0.1 else f"{number:.2f}"
