"""Shows a job to people who know nothing of how jobs are planned."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from broker.jobs.events import JobCancelled, JobEntry, JobFailed, JobFinished, Unit
from broker.jobs.models import Attempt, JobView
from broker.jobs.record import HOUR_S, AttemptRecord, JobRecord, fold_entries

#: Smaller costs are not distinguished.
_SMALLEST_COST = 0.0001


def make_job_view(entries: Sequence[JobEntry], now: float | None = None) -> JobView:
    """Return the job that journal entries make, as people see it.

    Parameters
    ----------
    entries
        Journal of the job.
    now
        Time for its cost and progress, in seconds since 1970; by default the time of the last entry.

    Raises
    ------
    BrokenJournalError
        When the entries contradict each other.
    ValueError
        When there are none.
    """
    job = fold_entries(entries)
    at = job.at if now is None or job.end is not None else max(now, job.at)
    ran = [attempt for attempt in job.attempts if attempt.started_at is not None]
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
        started_at=min(
            (attempt.started_at for attempt in ran if attempt.started_at is not None), default=None
        ),
        ended_at=job.at if job.end is not None else None,
        exit_code=exit_code,
        deadline_at=job.deadline_at,
        next_at=job.wait.until if job.wait is not None and not job.live else None,
        evictions=job.evictions,
        retries_left=max(job.wish.retries - job.failures, 0),
        profile=job.profile,
        cost=job.cost(at),
        on_demand_cost=_estimate_on_demand_cost(job),
        unit=job.unit,
        attempts=tuple(_make_attempt_view(attempt, at) for attempt in job.attempts),
        policy=job.wish.policy,
    )


def _estimate_on_demand_cost(job: JobRecord) -> float | None:
    """Return the planned cost on-demand or, if nothing was known then, that of the measured time."""
    home = next((attempt.plan for attempt in job.attempts if not attempt.plan.spot), None)
    if job.on_demand_cost is not None or job.profile is None or home is None:
        return job.on_demand_cost
    return job.profile.work_s / HOUR_S * job.wish.cores * job.wish.instances * home.price


def _make_attempt_view(attempt: AttemptRecord, at: float) -> Attempt:
    plan, ended = attempt.plan, attempt.ended
    return Attempt(
        number=attempt.number,
        role=plan.role,
        mechanism=plan.mechanism,
        storage=plan.storage,
        cloud=plan.cloud,
        spot=plan.spot,
        cores=plan.cores,
        instances=plan.instances,
        lease=attempt.leases[0] if attempt.leases else None,
        asked_at=attempt.asked_at,
        started_at=attempt.started_at,
        ended_at=None if ended is None else ended.at,
        outcome=None if ended is None else ended.outcome,
        exit_code=None if ended is None else ended.exit_code,
        price_usd_per_core_hour=plan.price_usd_per_core_hour,
        table_version=plan.table_version,
        risk=plan.risk,
        expected_s=plan.expected_s,
        expected_cost=plan.expected_cost,
        cost=attempt.cost(at),
        checkpoints=attempt.checkpoint,
        restored_from=plan.restored_from,
        lost_s=None if ended is None else ended.lost_s,
        began=plan.why,
        ended=None if ended is None else ended.why,
    )


# -- in words ------------------------------------------------------------------------------------------------


def describe_job(job: JobRecord, at: float) -> str:
    """Describe the state of a job and its next step, in a sentence or two."""
    if job.end is not None:
        return f"{_describe_end(job, job.end, at)}{_describe_moves(job)}"
    if job.cancel is not None:
        return f"Is being cancelled, as {job.cancel.by} asked."
    return f"{_describe_progress(job, at)}.{_describe_moves(job)}"


def _describe_end(job: JobRecord, end: JobFinished | JobFailed | JobCancelled, at: float) -> str:
    cost = format_cost(job.cost(at), job.unit)
    match end:
        case JobFinished(attempt=number):
            took, where = format_duration(job.at - job.submitted.at), job.get_attempt(number).plan.cloud
            compared = ""
            if job.on_demand_cost is not None:
                compared = f" (on-demand from the start: {format_cost(job.on_demand_cost, job.unit)})"
            return f"Finished on {where}, {took} after it was submitted, for {cost}{compared}."
        case JobFailed(why=why):
            return f"Failed: {why}. It had cost {cost}."
        case JobCancelled(by=by):
            return f"Cancelled by {by}. It had cost {cost}."


def _describe_progress(job: JobRecord, at: float) -> str:
    running = [attempt for attempt in job.live if attempt.started_at is not None]
    if running:
        return _describe_running(job, running, at)
    if job.live:
        return _describe_start(job)
    if job.wait is not None:
        return f"Waits until {format_time(job.wait.until)}: {job.wait.why}"
    return "Is about to be planned"


def _describe_running(job: JobRecord, running: Sequence[AttemptRecord], at: float) -> str:
    main = next((attempt for attempt in running if attempt.plan.role != "backup"), running[0])
    plan = main.plan
    assert main.started_at is not None
    since = f"since {format_time(main.started_at)}"
    replicas = [attempt for attempt in running if attempt.plan.role == "replica"]
    if plan.role == "profile":
        how = (
            f"Running for the first time, {describe_terms(main, job.unit)}, {since}, to measure what it needs"
        )
        return f"{how}; jobs of its name are planned by that from then on"
    if len(replicas) > 1:
        places = " and ".join(describe_terms(attempt, job.unit) for attempt in replicas)
        how = f"Running side by side {places} {since}; the first to finish wins"
    else:
        how = f"Running {describe_terms(main, job.unit)} {since}"
    if plan.checkpoint_s is not None:
        how += f", its state kept every {format_duration(plan.checkpoint_s)}"
    elif plan.saves_on_notice:
        how += ", its state kept when the cloud wants the instance back"
    for attempt in running:
        if attempt.plan.role == "backup":
            slower = round(1 / attempt.plan.share)
            server = f"a shared on-demand server of {attempt.plan.cloud}"
            how += f", with a replica on {server} at 1/{slower} of its pace"
        elif attempt is not main and attempt.plan.role != "replica":
            how += f", and {describe_terms(attempt, job.unit)}"
    noticed = next((attempt for attempt in running if attempt.noticed_at is not None), None)
    if noticed is not None and noticed.plan.saves_on_notice:
        how += f"; {noticed.plan.cloud} wants its instance back, so its state is being kept"
    elif noticed is not None:
        how += f"; {noticed.plan.cloud} wants its instance back soon"
    saving = next((attempt for attempt in running if attempt.save_reason is not None), None)
    if saving is not None:
        how += f"; its state is being kept to go on elsewhere: {saving.save_reason}"
    return f"{how}{_describe_remaining(job, running, at)}"


def _describe_remaining(job: JobRecord, running: Sequence[AttemptRecord], at: float) -> str:
    if job.profile is None:
        return ""
    most = max(running, key=lambda attempt: attempt.work_done_s(at))
    share = most.work_done_s(at) / job.profile.work_s
    if share >= 1:
        return "; it has run for longer than it was expected to"
    left_s = (job.profile.work_s - most.work_done_s(at)) / most.plan.pace
    return f"; {share:.0%} done, about {format_duration(left_s)} left"


def _describe_start(job: JobRecord) -> str:
    asked = [attempt for attempt in job.live if attempt.began_at is None]
    places = " and ".join(describe_terms(attempt, job.unit) for attempt in (asked or job.live))
    if asked:
        return f"Asks for room {places}"
    return f"Has its room and is being started {places}"


def _describe_moves(job: JobRecord) -> str:
    if job.moves <= 0:
        return ""
    times = "once" if job.moves == 1 else f"{job.moves} times"
    return f" It has moved {times}."


def describe_terms(attempt: AttemptRecord, unit: Unit) -> str:
    """Describe where an attempt runs and its price, as in ``on forge (spot, 0.02 $/core-hour)``."""
    plan = attempt.plan
    kind = "spot" if plan.spot else "on-demand"
    price = "" if unit == "core-hours" else f", {_format_number(plan.price)} $/core-hour"
    return f"on {plan.cloud} ({kind}{price})"


def format_cost(cost: float, unit: Unit) -> str:
    """Format a cost for people."""
    return f"{_format_number(cost)} $" if unit == "usd" else f"{_format_number(cost)} core-hours"


def format_duration(seconds: float) -> str:
    """Format a duration for people: ``35 s``, ``5 min``, ``1 h 20 min``, ``2 d 3 h``."""
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
    """Format a moment for people, in UTC."""
    return f"{datetime.fromtimestamp(at, UTC):%H:%M:%S} UTC"


def _format_number(number: float) -> str:
    if 0 < number < _SMALLEST_COST:
        return f"under {_SMALLEST_COST}"
    return f"{number:.2g}" if 0 < abs(number) < 0.1 else f"{number:.2f}"
