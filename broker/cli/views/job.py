"""A batch job in words: its state, what it costs, where it ran and why it moved, and what to do next.

Pure: views of jobs become lines of text, for readers who know nothing of how a job is planned.
"""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from broker.jobs.models import Attempt, JobState, JobView, Outcome
from broker.jobs.view import format_cost, format_duration
from cloudsim.jobs.mechanism_names import MechanismName
from cloudsim.jobs.policy_names import PolicyName

#: Lines longer than this are hard to read, however wide the terminal.
MOST_COLUMNS = 110
_INDENT = "  "
#: Costs below this are not compared: most of them is the time to start the job.
_LEAST_COMPARED = 0.001

#: Words for the end of an attempt.
OUTCOMES = {
    Outcome.WON: "finished",
    Outcome.EVICTED: "evicted",
    Outcome.SAVED: "moved on",
    Outcome.FAILED: "failed",
    Outcome.STOPPED: "stopped",
    Outcome.REFUSED: "no room",
}
#: Words for the role of an attempt in its job.
ROLES = {
    "profile": "first run",
    "main": "the job",
    "replica": "replica",
    "backup": "backup",
    "on-demand": "the job",
}
_MEANINGS = {name.value: name.meaning for name in MechanismName}
_WORDS = {
    "spot": "idle cores of a cloud, cheap, and taken back when the cloud's own users need them",
    "on-demand": "an instance on the job's home, at its full price, which nobody takes back",
    "first run": "on-demand, to measure what jobs of this name need",
    "replica": "the same job in another place; the first to finish wins, the others are stopped",
    "backup": "a slow copy on a shared on-demand server, with which the job goes on after an eviction",
    "evicted": "the cloud took the instance back",
    "moved on": "its state was kept, and the job goes on elsewhere from there",
    "no room": "the cloud did not let it begin",
}


def status_lines(job: JobView, columns: int, now: float) -> list[str]:
    """Return the lines of ``spotfed job status``. ``now``: seconds since 1970."""
    width = min(columns, MOST_COLUMNS)
    lines = [f"job {job.id}: {job.state}", "", *textwrap.wrap(job.said, width), "", *_facts(job, width, now)]
    if job.attempts:
        lines += ["", "Where did it run, why did it move, what did it cost?", "", *_history(job, width, now)]
        lines += ["", "In these words", *_glossary(job, width)]
    return [*lines, "", "What next?", *(f"{_INDENT}{line}" for line in _next(job))]


def _facts(job: JobView, width: int, now: float) -> list[str]:
    size = f"{_count(job.cores, 'core')}" + (
        f" on each of {job.instances} instances" if job.instances > 1 else ""
    )
    needs = [size]
    if job.profile is not None:
        needs.append(f"{_span(job.profile.work_s)} of work")
        if job.profile.memory_gb + job.profile.disk_gb >= 0.01:
            needs.append(f"{job.profile.memory_gb + job.profile.disk_gb:.2g} GB to save")
    else:
        needs.append("how long it takes is not known yet")
    facts = [
        ("command", _command(job, 4 * width)),
        ("needs", ", ".join(needs)),
        ("submitted", f"{_moment(job.submitted_at, now)} by {job.holder}" + _for_origin(job)),
        ("cost", _cost(job)),
    ]
    if job.name is not None:
        facts.insert(0, ("name", job.name))
    if job.policy is not PolicyName.COST_AWARE:
        facts.append(("policy", f"{job.policy}: {job.policy.meaning}"))
    if job.deadline_at is not None:
        facts.append(("deadline", _deadline(job, job.deadline_at, now)))
    if job.evictions:
        facts.append(("evictions", f"{job.evictions}"))
    if job.ended_at is None and any(attempt.outcome is Outcome.FAILED for attempt in job.attempts):
        facts.append(("failures", f"it is run again at most {_times(job.retries_left)} more"))
    if job.exit_code is not None:
        facts.append(("exit code", f"{job.exit_code}"))
    return [line for name, text in facts for line in _wrapped(name, text, width)]


def _for_origin(job: JobView) -> str:
    return "" if job.origin == job.holder else f", for {job.origin}"


def _deadline(job: JobView, at: float, now: float) -> str:
    if job.state != "finished":
        return _moment(at, now)
    assert job.ended_at is not None
    return f"{_moment(at, None)}, {'kept' if job.ended_at <= at else 'missed'}"


def _cost(job: JobView) -> str:
    text = _money(job.cost, job)
    if job.ended_at is None:
        text += " so far"
    if job.on_demand_cost is None:
        when = "is known once its running time is" if job.ended_at is None else "is not known"
        return f"{text}; what it would cost on-demand {when}"
    text += f"; on-demand from the start: {_money(job.on_demand_cost, job)}"
    if job.state == "finished" and job.on_demand_cost >= _LEAST_COMPARED:
        saved = 1 - job.cost / job.on_demand_cost
        text += f", so {saved:.0%} was saved" if saved >= 0.005 else f", so it cost {-saved:.0%} more"
    return text


# -- the history ---------------------------------------------------------------------------------------------


def _history(job: JobView, width: int, now: float) -> list[str]:
    """Return a table with a row for each attempt, and the reasons under it."""
    head = ("", "where", "as", "from (UTC)", "ran", "then", "cost")
    last = ("", "together", "", "", "", "", _money(job.cost, job))
    rows = [_row(attempt, job, now) for attempt in job.attempts]
    widths = [max(len(row[column]) for row in (head, *rows, last)) for column in range(len(head))]
    lines = [_line(head, widths)]
    for attempt, row in zip(job.attempts, rows, strict=True):
        lines += [_line(row, widths)]
        for name, text in _reasons(attempt, job):
            lines += _wrapped(name, text, width, indent=widths[0] + 2)
        lines.append("")
    return [*lines, _line(last, widths)]


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Return a row of the table: numbers stand on the right, text on the left."""
    right = {0, 4, 6}
    parts = [
        cell.rjust(width) if column in right else cell.ljust(width)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return "  ".join(parts).rstrip()


def _row(attempt: Attempt, job: JobView, now: float) -> tuple[str, ...]:
    began = attempt.asked_at if attempt.started_at is None else attempt.started_at
    until = now if attempt.ended_at is None else attempt.ended_at
    return (
        str(attempt.number),
        f"{attempt.cloud}, {'spot' if attempt.spot else 'on-demand'}",
        ROLES[attempt.role],
        _clock(began, job.submitted_at),
        "–" if attempt.started_at is None else _span(until - attempt.started_at),
        _then(attempt),
        _money(attempt.cost, job),
    )


def _then(attempt: Attempt) -> str:
    if attempt.outcome is None:
        return (
            "runs" if attempt.started_at is not None else "asked for" if attempt.lease is None else "starts"
        )
    text = OUTCOMES[attempt.outcome]
    return (
        f"{text}, exit code {attempt.exit_code}"
        if attempt.outcome is Outcome.FAILED and attempt.exit_code
        else text
    )


def _reasons(attempt: Attempt, job: JobView) -> Iterable[tuple[str, str]]:
    yield "why there", attempt.began
    yield "terms", _terms(attempt, job)
    if attempt.restored_from is not None:
        yield "began with", f"the state that attempt {attempt.restored_from} had kept"
    if attempt.checkpoints:
        yield "kept", f"its state {_times(attempt.checkpoints)}"
    if attempt.ended is not None:
        yield "why it ended", attempt.ended
    if attempt.lost_s is not None and attempt.lost_s >= 1:
        yield "lost", f"{_span(attempt.lost_s)} of work, to be done again"


def _terms(attempt: Attempt, job: JobView) -> str:
    """Return the terms on which an attempt was planned."""
    terms = []
    if attempt.price_usd_per_core_hour is not None:
        terms.append(f"{attempt.price_usd_per_core_hour:.3g} $ a core-hour")
    size = _count(attempt.cores, "core") + (
        f" on each of {attempt.instances} instances" if attempt.instances > 1 else ""
    )
    terms.append(size)
    if attempt.expected_s is not None:
        cost = "" if attempt.expected_cost is None else f" and {_money(attempt.expected_cost, job)}"
        terms.append(f"expected to take {_span(attempt.expected_s)}{cost}")
    if attempt.risk is not None and attempt.spot:
        table = "" if attempt.table_version is None else f" (by table {attempt.table_version})"
        terms.append(f"risk of eviction before that {attempt.risk:.0%}{table}")
    if attempt.mechanism in _MEANINGS:
        kept = ", on storage that all clouds reach" if attempt.storage == "remote" else ""
        terms.append(_MEANINGS[attempt.mechanism] + kept)
    return "; ".join(terms)


# -- what helps ----------------------------------------------------------------------------------------------


def _glossary(job: JobView, width: int) -> list[str]:
    """Return what the words mean that the history uses."""
    used = {"spot" if attempt.spot else "on-demand" for attempt in job.attempts}
    used |= {ROLES[attempt.role] for attempt in job.attempts}
    used |= {OUTCOMES[attempt.outcome] for attempt in job.attempts if attempt.outcome is not None}
    lines = []
    for word, meaning in _WORDS.items():
        if word in used:
            lines += _wrapped(word, meaning, width)
    return lines


def _next(job: JobView) -> list[str]:
    look, logs, stop = (f"spotfed job {verb} {job.id}" for verb in ("status", "logs", "cancel"))
    match job.state:
        case JobState.QUEUED:
            hints = [
                (stop, "end it"),
                (look, "look again"),
                ("spotfed clouds", "which clouds run commands, and have room?"),
            ]
        case JobState.RUNNING:
            hints = [(f"{logs} --follow", "what it writes"), (stop, "end it"), (look, "look again")]
        case JobState.FINISHED:
            hints = [(logs, "what it wrote")]
        case _:
            hints = [(logs, "what it wrote")] if any(attempt.started_at for attempt in job.attempts) else []
            hints.append(("spotfed job submit … -- COMMAND", "have it run again, under a new id"))
    most = max(len(command) for command, _ in hints)
    return [f"{command.ljust(most)}  {purpose}" for command, purpose in hints]


def list_rows(jobs: Sequence[JobView], now: float) -> list[tuple[str, ...]]:
    """Return rows of ``spotfed job list``: id, name, state, age, where, cost, on-demand cost, command."""
    rows: list[tuple[str, ...]] = []
    for job in jobs:
        live = [attempt for attempt in job.attempts if attempt.ended_at is None]
        where = ", ".join(dict.fromkeys(attempt.cloud for attempt in live or job.attempts[-1:])) or "–"
        od = "–" if job.on_demand_cost is None else _money(job.on_demand_cost, job)
        command = _command(job, 40)
        age = f"{_span(now - job.submitted_at)} ago"
        rows.append(
            (job.id, job.name or "–", job.state.value, age, where, _money(job.cost, job), od, command)
        )
    return rows


# -- words and numbers ---------------------------------------------------------------------------------------


def _wrapped(name: str, text: str, width: int, indent: int = len(_INDENT)) -> list[str]:
    first = f"{' ' * indent}{name + ':':<14}"
    room = max(width, len(first) + 20)
    return textwrap.wrap(
        text, room, initial_indent=first, subsequent_indent=" " * len(first), break_on_hyphens=False
    ) or [first.rstrip()]


def _command(job: JobView, most: int) -> str:
    """Return the command of a job on one line, as a shell takes it except for line breaks."""
    return textwrap.shorten(shlex.join(job.command).replace("\n", "\\n"), most, placeholder=" …")


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _times(number: int) -> str:
    return {0: "no time", 1: "once", 2: "twice"}.get(number, f"{number} times")


def _span(seconds: float) -> str:
    return format_duration(max(seconds, 0.0))


def _money(cost: float, job: JobView) -> str:
    return format_cost(cost, job.unit)


def _moment(at: float, now: float | None) -> str:
    moment = f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"
    if now is None:
        return moment
    return f"{moment}, {_span(now - at)} ago" if at <= now else f"{moment}, in {_span(at - now)}"


def _clock(at: float, since: float) -> str:
    """Return a time of day, with the day where it differs from the day of ``since``."""
    moment, first = (datetime.fromtimestamp(time_s, UTC) for time_s in (at, since))
    return f"{moment:%H:%M:%S}" if moment.date() == first.date() else f"{moment:%d %b %H:%M}"
