"""Check how good a recorded trace is: one line for each known kind of fault, whether it was found or not.

Nothing here changes a trace: replay takes it as written. Faults that a reader finds itself are in its report;
faults that only the whole trace shows (repeated rows, an id that runs twice at once, silence) are counted
here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cloudsim.model.arrays import BoolArray, FloatArray
from cloudsim.traces import statistics
from cloudsim.traces.report import ImportReport
from cloudsim.traces.trace import Trace

#: Number of quarantined lines that are quoted.
QUOTED_LINES = 5
_CROWD = 2


@dataclass(frozen=True)
class QualityCheck:
    """One kind of fault of data: how often it was found, where, and what it means."""

    name: str
    #: How often it was found; None if that cannot be known, for the reason in ``says``.
    found: int | None
    says: str
    #: The rule by which it is found, where that is a choice.
    rule: str = ""


def check_trace(trace: Trace, report: ImportReport) -> tuple[QualityCheck, ...]:
    """Run all checks of a trace and of the file it came from, in a fixed order."""
    return (
        *check_file(report.ends_open, report.repaired),
        _quarantined(report),
        QualityCheck(
            "skipped",
            sum(count for _, count in report.skipped),
            "; ".join(f"{count}: {reason}" for reason, count in report.skipped),
        ),
        QualityCheck(
            "out of order", report.out_of_order, _unless(report.out_of_order, "sorted when it was read")
        ),
        _repeated(trace),
        _twice_at_once(trace),
        _began_before(trace),
        _cut_at_the_end(trace),
        _no_length(trace),
        QualityCheck(
            "off the grid",
            report.off_grid,
            f"times lie on a grid of {report.grid_s:g} s" if report.grid_s else "times lie on no grid",
        ),
        _drop_outs(trace, report),
        _silences(trace, report),
        _overcommit(trace, report),
        _other(report),
    )


def check_file(ends_open: bool, repaired: tuple[str, ...]) -> tuple[QualityCheck, ...]:
    """Check a file as text."""
    return (
        QualityCheck("mended", len(repaired), " ".join(repaired)),
        QualityCheck(
            "cut off",
            int(ends_open),
            "the last line has no end: whoever wrote it may have been stopped" if ends_open else "",
            "a text file ends with the end of a line",
        ),
    )


def count_repeated_rows(trace: Trace) -> int:
    """Count rows that repeat the id, start, stop and cores of an earlier row."""
    order = np.lexsort((trace.cores, trace.stop_s, trace.start_s))
    same = np.ones(max(len(trace) - 1, 0), dtype=np.bool_)
    for column in (trace.start_s, trace.stop_s, trace.cores):
        ordered = column[order]
        same &= ordered[1:] == ordered[:-1]
    group = np.concatenate([[0], np.cumsum(~same)])
    several = np.append(same, False) | np.append(False, same) if len(same) else np.zeros(len(trace), bool)
    ids = zip(group[several].tolist(), trace.instance[order[several]].tolist(), strict=True)
    return int(several.sum()) - len(set(ids))


def count_overlapping_ids(trace: Trace) -> int:
    """Count instances that start while another one of the same id runs; repeated rows do not count."""
    codes = _id_codes(trace.instance)
    again = np.bincount(codes, minlength=1)[codes] > 1
    if not again.any():
        return 0
    code, start, stop, cores = (c[again] for c in (codes, trace.start_s, trace.stop_s, trace.cores))
    order = np.lexsort((cores, stop, start, code))
    code, start, stop, cores = code[order], start[order], stop[order], cores[order]
    follows = code[1:] == code[:-1]
    equal = follows & (start[1:] == start[:-1]) & (stop[1:] == stop[:-1]) & (cores[1:] == cores[:-1])
    # The latest stop of an id so far, in one pass over all: ranks of times, each id above the one before.
    times = np.unique(np.concatenate([start, stop]))
    base = code * len(times)
    latest = np.maximum.accumulate(np.searchsorted(times, stop) + base) - base
    return int(np.count_nonzero(follows & ~equal & (np.searchsorted(times, start)[1:] < latest[:-1])))


def find_longest_silence(trace: Trace) -> tuple[float, float] | None:
    """Return the longest time in which no instance started or stopped, as two times in seconds.

    None if there are fewer than two times. Censored stops and starts before the trace are no events.
    """
    times = np.sort(
        np.concatenate([trace.start_s[~trace.left_truncated], trace.stop_s[~trace.right_censored]])
    )
    if len(times) < 2:
        return None
    at = int(np.argmax(np.diff(times)))
    return float(times[at]), float(times[at + 1])


def _id_codes(instance: NDArray[np.object_]) -> NDArray[np.int64]:
    """Return a number for each id, equal for equal ids, int64[instances]."""
    numbers: dict[str, int] = {}
    codes = (numbers.setdefault(name, len(numbers)) for name in instance.tolist())
    return np.fromiter(codes, np.int64, len(instance))


def _crowd(times: FloatArray, edge_s: float) -> int:
    """Count the ``times`` at ``edge_s`` if that is more than twice as many as usual; else return 0."""
    at_edge = int(np.count_nonzero(times == edge_s))
    usual = float(np.median(np.unique(times, return_counts=True)[1]))
    return at_edge if at_edge > _CROWD * usual else 0


def _unless(count: int, text: str) -> str:
    return text if count else ""


def _quarantined(report: ImportReport) -> QualityCheck:
    lines = report.quarantined
    named = [f"line {bad.line}: {bad.reason}" for bad in lines[:QUOTED_LINES]]
    if len(lines) > QUOTED_LINES:
        named.append(f"and {len(lines) - QUOTED_LINES} more")
    return QualityCheck("quarantined", len(lines), "; ".join(named))


def _repeated(trace: Trace) -> QualityCheck:
    count = count_repeated_rows(trace)
    return QualityCheck(
        "repeated rows",
        count,
        _unless(count, "kept as written: each is replayed as an instance of its own"),
        "the same id, start, stop and cores",
    )


def _twice_at_once(trace: Trace) -> QualityCheck:
    count = count_overlapping_ids(trace)
    return QualityCheck(
        "an id twice at once", count, _unless(count, "they start while another one of the same id runs")
    )


def _began_before(trace: Trace) -> QualityCheck:
    count = int(trace.left_truncated.sum())
    says = "counted from the begin on, their age is unknown" if count else ""
    if not count and (crowd := _crowd(trace.start_s, float(trace.start_s[0]))):
        says = f"but {crowd} start at the very first time: they probably ran before"
    elif not count:
        says = "none that ran before is there: use grows from nothing"
    return QualityCheck("cut at the begin", count, says)


def _cut_at_the_end(trace: Trace) -> QualityCheck:
    count = int(trace.right_censored.sum())
    says = "they would have lived on: their lifetimes are lower bounds" if count else ""
    if not count and (crowd := _crowd(trace.stop_s, trace.last_stop_s)):
        says = f"but {crowd} stop at the very last time: they were probably closed by the end of the log"
    return QualityCheck("cut at the end", count, says)


def _no_length(trace: Trace) -> QualityCheck:
    count = int(np.count_nonzero(trace.lifetime_s == 0))
    return QualityCheck("no length", count, _unless(count, "they stop when they start and use nothing"))


def _drop_outs(trace: Trace, report: ImportReport) -> QualityCheck:
    if not report.continuous:
        return QualityCheck(
            "drop-outs", None, "instances were observed in campaigns: silence between them says nothing"
        )
    drop_outs = report.drop_outs
    says = "; ".join(
        f"{_days(gap.end_s - gap.start_s)} from day {gap.start_s / 86400:.1f} "
        f"({gap.closed} closed before, {gap.reopened} opened after)"
        for gap in drop_outs
    )
    if drop_outs:
        cut: BoolArray = statistics.cut_by(trace, drop_outs)
        says += f"; {int(cut.sum())} lifetimes that they cut are left out of the statistics"
    return QualityCheck("drop-outs", len(drop_outs), says, statistics.DROP_OUT_RULE if drop_outs else "")


def _silences(trace: Trace, report: ImportReport) -> QualityCheck:
    """List improbable silences that are no drop-outs, longest first; the longest silence in any case."""
    known = {gap.start_s for gap in report.drop_outs}
    silences = [
        gap for gap in statistics.find_silences(trace) if report.continuous and gap.start_s not in known
    ]
    silences.sort(key=lambda gap: gap.start_s - gap.end_s)
    says = "; ".join(
        f"{_days(gap.end_s - gap.start_s)} from day {gap.start_s / 86400:.1f}"
        for gap in silences[:QUOTED_LINES]
    )
    if silences:
        says += ": holidays, or a logger that was off"
    elif (longest := find_longest_silence(trace)) is not None:
        says = f"the longest lasts {_days(longest[1] - longest[0])}, from day {longest[0] / 86400:.1f}"
    return QualityCheck("silences", len(silences), says, statistics.SILENCE_RULE)


def _overcommit(trace: Trace, report: ImportReport) -> QualityCheck:
    if report.capacity_cores is None:
        return QualityCheck(
            "overcommit", None, "the file does not say how many cores there were; --nodes does"
        )
    over = statistics.overcommit(trace, report.capacity_cores)
    says = f"{over.peak_cores} cores at the peak on {over.capacity_cores}"
    if over.seconds > 0:
        says += f"; above for {_days(over.seconds)}, {over.share:.2%} of the time"
    return QualityCheck(
        "overcommit", int(over.peak_cores > over.capacity_cores), says, "more cores in use than there are"
    )


def _other(report: ImportReport) -> QualityCheck:
    unused = [warning for warning in report.warnings if warning.startswith("column ")]
    waits = [warning for warning in report.warnings if "no known wait" in warning]
    return QualityCheck("not used", len(unused) + len(waits), " ".join([*unused, *waits]))


def _days(seconds: float) -> str:
    return f"{seconds / 86400:.1f} days" if seconds >= 86400 else f"{seconds / 3600:.1f} hours"
