"""What a reader found in a trace file: nothing is lost without being named here."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from cloudsim.traces.statistics import DropOut

#: A quarantined line is quoted up to this many characters.
QUOTED_CHARS = 200


@dataclass(frozen=True)
class QuarantinedLine:
    """A line that was set aside: its number (from 1), its text (cut to ``QUOTED_CHARS``), and why."""

    line: int
    text: str
    reason: str

    @classmethod
    def of(cls, line: int, text: str, reason: str) -> QuarantinedLine:
        """Cuts the text to its limit."""
        return cls(line, text.strip()[:QUOTED_CHARS], reason)


@dataclass(frozen=True)
class ImportReport:
    """How a file became a ``Trace``. ``records`` = ``rows`` + ``quarantined_records`` + all ``skipped``."""

    file: str
    format: str
    #: Instances the file speaks of (START lines, jobs, CSV rows), readable or not.
    records: int
    #: Instances in the trace.
    rows: int
    #: Instances that were set aside; a quarantined STOP of an unknown instance is a line and no record.
    quarantined_records: int
    quarantined: tuple[QuarantinedLine, ...]
    #: (reason, count) of records the format itself says never ran.
    skipped: tuple[tuple[str, int], ...]
    left_truncated: int
    right_censored: int
    #: The raster of the times, seconds, if one is evident, and how many times are off it.
    grid_s: float | None
    off_grid: int
    drop_outs: tuple[DropOut, ...]
    peak_cores: int
    #: Given by the caller, or by the file (SWF: MaxProcs).
    capacity_cores: int | None
    #: Seconds of usage above capacity; 0 if the capacity is not known.
    overcommitted_s: float
    #: One sentence for each kind of finding, with its count.
    warnings: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON types."""
        report = asdict(self)
        report["skipped"] = dict(self.skipped)
        for field in ("quarantined", "drop_outs", "warnings"):
            report[field] = list(report[field])
        return report
