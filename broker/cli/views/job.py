"""A batch job in words, for who knows nothing of how it is planned: how it stands, what it costs, where it
ran and why it moved, and what to do next. Pure: views in, lines of text out."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.jobs.models import Attempt, JobView

#: Lines longer than this are hard to read, however wide the terminal.
MOST_COLUMNS = 110
_INDENT = "  "
#: Of jobs that cost less the time to start one is most of it.
_LEAST_COMPARED = 0.001

#: How an attempt ended, in the table. Kept equal to ``broker.jobs.models.Outcome`` by a test.
OUTCOMES = {
    "won": "finished",
    "evicted": "evicted",
    "saved": "moved on",
    "failed": "failed",
    "stopped": "stopped",
    "refused": "no room",
}
#: What an attempt is to its job. Kept equal to the roles of ``broker.jobs.models.Attempt`` by a test.
ROLES = {
    "profile": "first run",
    "main": "the job",
    "replica": "replica",
    "backup": "backup",
    "on-demand": "the job",
}
_WAYS = {
    "checkpoint": "its state is kept again and again",
    "migrate": "its state is kept when the cloud wants the instance back",
    "replicate": "it runs in several places at once",
    "backup": "a slow copy of it runs on an instance that nobody takes back",
    "begin again": "after an eviction it begins anew",
    "on-demand": "nobody takes the instance back",
}
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
    """All of ``spotfed job status``. ``now``: seconds since 1970."""
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
    if job.deadline_at is not None:
        facts.append(("deadline", _deadline(job, job.deadline_at, now)))
    if job.evictions:
        facts.append(("evictions", f"{job.evictions}"))
    if job.ended_at is None and any(one.outcome == "failed" for one in job.attempts):
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
    """A row for each attempt, with the reasons under it."""
    head = ("", "where", "as", "from (UTC)", "ran", "then", "cost")
    last = ("", "together", "", "", "", "", _money(job.cost, job))
    rows = [_row(one, job, now) for one in job.attempts]
    widths = [max(len(row[column]) for row in (head, *rows, last)) for column in range(len(head))]
    lines = [_line(head, widths)]
    for one, row in zip(job.attempts, rows, strict=True):
        lines += [_line(row, widths)]
        for name, text in _reasons(one, job):
            lines += _wrapped(name, text, width, indent=widths[0] + 2)
        lines.append("")
    return [*lines, _line(last, widths)]


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Numbers to the right, text to the left."""
    right = {0, 4, 6}
    parts = [
        cell.rjust(width) if column in right else cell.ljust(width)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return "  ".join(parts).rstrip()


def _row(one: Attempt, job: JobView, now: float) -> tuple[str, ...]:
    began = one.asked_at if one.started_at is None else one.started_at
    until = now if one.ended_at is None else one.ended_at
    return (
        str(one.number),
        f"{one.cloud}, {'spot' if one.spot else 'on-demand'}",
        ROLES[one.role],
        _clock(began, job.submitted_at),
        "–" if one.started_at is None else _span(until - one.started_at),
        _then(one),
        _money(one.cost, job),
    )


def _then(one: Attempt) -> str:
    if one.outcome is None:
        return "runs" if one.started_at is not None else "asked for" if one.lease is None else "starts"
    told = OUTCOMES[one.outcome]
    return f"{told}, exit code {one.exit_code}" if one.outcome == "failed" and one.exit_code else told


def _reasons(one: Attempt, job: JobView) -> Iterable[tuple[str, str]]:
    yield "why there", one.began
    yield "terms", _terms(one, job)
    if one.restored_from is not None:
        yield "began with", f"the state that attempt {one.restored_from} had kept"
    if one.checkpoints:
        yield "kept", f"its state {_times(one.checkpoints)}"
    if one.ended is not None:
        yield "why it ended", one.ended
    if one.lost_s is not None and one.lost_s >= 1:
        yield "lost", f"{_span(one.lost_s)} of work, to be done again"


def _terms(one: Attempt, job: JobView) -> str:
    """On which terms it was planned."""
    told = []
    if one.price_usd_per_core_hour is not None:
        told.append(f"{one.price_usd_per_core_hour:.3g} $ a core-hour")
    size = _count(one.cores, "core") + (f" on each of {one.instances} instances" if one.instances > 1 else "")
    told.append(size)
    if one.expected_s is not None:
        cost = "" if one.expected_cost is None else f" and {_money(one.expected_cost, job)}"
        told.append(f"expected to take {_span(one.expected_s)}{cost}")
    if one.risk is not None and one.spot:
        table = "" if one.table_version is None else f" (by table {one.table_version})"
        told.append(f"risk of eviction before that {one.risk:.0%}{table}")
    if one.mechanism in _WAYS:
        kept = ", on storage that all clouds reach" if one.storage == "remote" else ""
        told.append(_WAYS[one.mechanism] + kept)
    return "; ".join(told)


# -- what helps ----------------------------------------------------------------------------------------------


def _glossary(job: JobView, width: int) -> list[str]:
    """What the words mean that the history uses."""
    used = {"spot" if one.spot else "on-demand" for one in job.attempts}
    used |= {ROLES[one.role] for one in job.attempts}
    used |= {OUTCOMES[one.outcome] for one in job.attempts if one.outcome is not None}
    lines = []
    for word, meaning in _WORDS.items():
        if word in used:
            lines += _wrapped(word, meaning, width)
    return lines


def _next(job: JobView) -> list[str]:
    look, logs, stop = (f"spotfed job {verb} {job.id}" for verb in ("status", "logs", "cancel"))
    match job.state.value:
        case "queued":
            told = [
                (stop, "end it"),
                (look, "look again"),
                ("spotfed clouds", "who runs commands, and has room?"),
            ]
        case "running":
            told = [(f"{logs} --follow", "what it writes"), (stop, "end it"), (look, "look again")]
        case "finished":
            told = [(logs, "what it wrote")]
        case _:
            told = [(logs, "what it wrote")] if any(one.started_at for one in job.attempts) else []
            told.append(("spotfed job submit … -- COMMAND", "have it run again, under a new id"))
    most = max(len(command) for command, _ in told)
    return [f"{command.ljust(most)}  {purpose}" for command, purpose in told]


def list_rows(jobs: Sequence[JobView], now: float) -> list[tuple[str, ...]]:
    """For ``spotfed job list``: id, name, state, since when, where, cost, on-demand cost, command."""
    rows: list[tuple[str, ...]] = []
    for job in jobs:
        live = [one for one in job.attempts if one.ended_at is None]
        where = ", ".join(dict.fromkeys(one.cloud for one in live or job.attempts[-1:])) or "–"
        od = "–" if job.on_demand_cost is None else _money(job.on_demand_cost, job)
        command = _command(job, 40)
        age = f"{_span(now - job.submitted_at)} ago"
        rows.append(
            (job.id, job.name or "–", job.state.value, age, where, _money(job.cost, job), od, command)
        )
    return rows


# -- how -----------------------------------------------------------------------------------------------------


def _wrapped(name: str, text: str, width: int, indent: int = len(_INDENT)) -> list[str]:
    first = f"{' ' * indent}{name + ':':<14}"
    room = max(width, len(first) + 20)
    return textwrap.wrap(
        text, room, initial_indent=first, subsequent_indent=" " * len(first), break_on_hyphens=False
    ) or [first.rstrip()]


def _command(job: JobView, most: int) -> str:
    """On one line, as a shell takes it but for ends of lines."""
    return textwrap.shorten(shlex.join(job.command).replace("\n", "\\n"), most, placeholder=" …")


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _times(number: int) -> str:
    return {0: "no time", 1: "once", 2: "twice"}.get(number, f"{number} times")


def _span(seconds: float) -> str:
    from broker.jobs.view import format_duration

    return format_duration(max(seconds, 0.0))


def _money(cost: float, job: JobView) -> str:
    from broker.jobs.view import format_cost

    return format_cost(cost, job.unit)


def _moment(at: float, now: float | None) -> str:
    said = f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"
    if now is None:
        return said
    return f"{said}, {_span(now - at)} ago" if at <= now else f"{said}, in {_span(at - now)}"


def _clock(at: float, since: float) -> str:
    """With the day where that is another one than ``since``'s."""
    moment, first = (datetime.fromtimestamp(one, UTC) for one in (at, since))
    return f"{moment:%H:%M:%S}" if moment.date() == first.date() else f"{moment:%d %b %H:%M}"
