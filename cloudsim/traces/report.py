"""Reports of what a reader found in a trace file: nothing is lost without being named here."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from cloudsim.model.errors import TraceError
from cloudsim.traces.statistics import DropOut

#: A quarantined line is quoted up to this many characters.
QUOTED_CHARS = 200

_FEW_BAD_LINES = 10  # a rate says nothing about a short file
_LINES_NAMED = 5


@dataclass(frozen=True)
class QuarantinedLine:
    """A line that was set aside: its number (from 1), its text (cut to ``QUOTED_CHARS``), and the reason."""

    line: int
    text: str
    reason: str

    @classmethod
    def of(cls, line: int, text: str, reason: str) -> QuarantinedLine:
        """Make one, cutting the text to its limit."""
        return cls(line, text.strip()[:QUOTED_CHARS], reason)


def refuse_damaged(
    file: str, lines: int, quarantined: tuple[QuarantinedLine, ...], max_error_rate: float
) -> None:
    """Refuse a file that is too damaged to use.

    In a short file up to half of the lines may always be bad, unless the rate is 0.

    Raises
    ------
    TraceError
        When more than ``max_error_rate`` of its lines are bad; names the first of them.
    """
    few = len(quarantined) <= min(_FEW_BAD_LINES, lines / 2) and max_error_rate > 0
    if len(quarantined) > max_error_rate * lines and not few:
        named = "; ".join(f"line {q.line}: {q.reason} ({q.text[:60]!r})" for q in quarantined[:_LINES_NAMED])
        more = f"; and {len(quarantined) - _LINES_NAMED} more" if len(quarantined) > _LINES_NAMED else ""
        raise TraceError(
            f"{len(quarantined)} of {lines} lines are bad (limit {max_error_rate:.2%}): {named}{more}",
            file=file,
            line=quarantined[0].line,
        )


@dataclass(frozen=True)
class ImportReport:
    """Report of how a file became a ``Trace``: records = rows + quarantined_records + all ``skipped``."""

    file: str
    format: str
    #: Instances in the file (START lines, jobs, CSV rows), readable or not.
    records: int
    #: Instances in the trace.
    rows: int
    #: Instances that were set aside; a quarantined STOP of an unknown instance is a line and no record.
    quarantined_records: int
    quarantined: tuple[QuarantinedLine, ...]
    #: (reason, count) of records that never ran, according to the file itself.
    skipped: tuple[tuple[str, int], ...]
    left_truncated: int
    right_censored: int
    #: The raster of the times, seconds, if one is evident, and how many times are off it.
    grid_s: float | None
    off_grid: int
    #: Not searched for where the log was not meant to see every instance.
    drop_outs: tuple[DropOut, ...]
    continuous: bool
    peak_cores: int
    #: Records whose time is before that of the record above them.
    out_of_order: int
    #: Repairs that were needed to read the records, a sentence each.
    repaired: tuple[str, ...]
    #: The last line has no end.
    ends_open: bool
    #: Unix time at which the times of the trace begin to count, and the clock's zone, where the file says so.
    begins_at_s: float | None
    time_zone: str
    #: Cores of the machine, from the caller or the file (SWF: MaxProcs).
    capacity_cores: int | None
    #: Seconds of usage above capacity; 0 if the capacity is not known.
    overcommitted_s: float
    #: One sentence for each kind of finding, with its count.
    warnings: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON types."""
        report = asdict(self)
        report["skipped"] = dict(self.skipped)
        for field in ("quarantined", "drop_outs", "repaired", "warnings"):
            report[field] = list(report[field])
        return report
