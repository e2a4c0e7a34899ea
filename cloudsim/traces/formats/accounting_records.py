"""Traces from records of accounting, which have starts and ends on a wall clock.

Sites have these at hand: exports of schedulers and clouds. All formats of that kind share what is done here:
times count from the first start, an end that is not known is censored at the last time of the file, and what
never started is left out and counted.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from itertools import pairwise
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from cloudsim.model.errors import SpecError, TraceError
from cloudsim.traces.formats.columns import read_columns
from cloudsim.traces.formats.parse_result import (
    BadValueError,
    NeverRanError,
    Parsed,
    parse_cores,
    parse_parts,
)
from cloudsim.traces.formats.source import Source
from cloudsim.traces.report import QuarantinedLine
from cloudsim.traces.trace import Trace

Raw = TypeVar("Raw")

#: Words for a time that is not known, in lower case.
_NO_TIME = ("", "unknown", "none", "null", "n/a", "-")


@dataclass(frozen=True)
class AccountingRecord:
    """An instance as its site accounted for it.

    Attributes
    ----------
    started_at, ended_at
        Seconds since 1970, or since the beginning of the log; None for an end that is not known.
    cores
        Cores, or parts of them, which the trace rounds up.
    left_truncated
        True if it started before the log began.
    cut
        True if it was lost sight of at ``ended_at``, and may have run on.
    parallel
        True if its cores may be on several nodes.
    """

    id: str
    started_at: float
    ended_at: float | None
    cores: float
    left_truncated: bool = False
    cut: bool = False
    parallel: bool = False


class WallClock:
    """Reads times as accounting exports write them: ISO 8601, or numbers of seconds.

    A time that names no zone is of the clock's own zone. Where daylight saving time repeats an hour, the
    earlier reading is taken, unless an end would then precede its start.
    """

    def __init__(self, zone: tzinfo | None):
        self._zone = zone or UTC
        self._is_told = zone is not None
        #: Times that named no zone though nobody told it, and those in an hour that is repeated or left out.
        self.without_zone = self.in_changed_hours = 0

    def read_time(self, value: Any, what: str, not_before: float = -math.inf) -> float | None:
        """Return a time in seconds, None if it is not known.

        Parameters
        ----------
        what
            Name of the time in the error.
        not_before
            Earliest time that it can be, to tell repeated hours apart.

        Raises
        ------
        BadValueError
            When it is no time.
        """
        if value is None or (isinstance(value, str) and value.strip().lower() in _NO_TIME):
            return None
        try:
            seconds = float(value)
        except (TypeError, ValueError):
            return self._read_text(str(value).strip(), what, not_before)
        if not math.isfinite(seconds):
            raise BadValueError(f"{what} {value!r} is not finite")
        return seconds

    def _read_text(self, text: str, what: str, not_before: float) -> float:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            raise BadValueError(f"{what} {text[:40]!r} is no time") from None
        if moment.tzinfo is not None:
            return moment.timestamp()
        self.without_zone += not self._is_told
        first, second = (moment.replace(tzinfo=self._zone, fold=fold) for fold in (0, 1))
        is_changed = first.utcoffset() != second.utcoffset()
        self.in_changed_hours += is_changed
        earlier, later = sorted((first.timestamp(), second.timestamp()))
        return later if is_changed and earlier < not_before else earlier

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences on the times that could not be read for certain."""
        sentences = []
        if self.without_zone:
            sentences.append(
                f"{self.without_zone} times name no zone and were read as UTC; name the zone of the site's "
                "clock (--time-zone), or daylight saving time shifts them by an hour."
            )
        if self.in_changed_hours:
            sentences.append(
                f"{self.in_changed_hours} times are in an hour that daylight saving time repeats or skips."
            )
        return tuple(sentences)


def find_zone(name: str) -> ZoneInfo:
    """Return the time zone of that name, such as Europe/Berlin.

    Raises
    ------
    SpecError
        When there is none.
    """
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise SpecError(
            f"{name!r} is no time zone of this machine, such as Europe/Berlin", field="time_zone"
        ) from None


def load_json(source: Source) -> Any:
    """Return the JSON document of a file.

    Raises
    ------
    TraceError
        When it is none.
    """
    try:
        return json.loads("\n".join(source.lines))
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", None)
        raise TraceError(f"is damaged JSON ({error})", file=source.file, line=line) from None


def build_trace(
    source: Source,
    raw: Iterable[tuple[int, Raw]],
    read: Callable[[Raw, WallClock], AccountingRecord],
    *,
    zone: tzinfo | None = None,
    observed_at: float | None = None,
) -> Parsed:
    """Build a trace from raw records, each with its line, or its place in the document.

    Parameters
    ----------
    read
        Reads a raw record. Raises BadValueError for one to quarantine, NeverRanError for one to count.
    zone
        Zone of times that name none; by default the one that the caller of the reader named.
    observed_at
        Time until which instances without an end ran; by default the last time of the file.
    """
    clock = WallClock(zone or source.time_zone)
    records: list[AccountingRecord] = []
    quarantined: list[QuarantinedLine] = []
    skipped: Counter[str] = Counter()
    lines = 0
    for line, entry in raw:
        lines += 1
        try:
            record = read(entry, clock)
            _check(record)
            records.append(record)
        except NeverRanError as reason:
            skipped[str(reason)] += 1
        except BadValueError as reason:
            text = entry if isinstance(entry, str) else json.dumps(entry, default=str)
            quarantined.append(QuarantinedLine.of(line, text, str(reason)))
    times = [time for record in records for time in (record.started_at, record.ended_at) if time is not None]
    ends_at = max([*times, observed_at or -math.inf], default=0.0)
    trace = Trace.checked(
        source.name,
        [record.id for record in records],
        [record.started_at for record in records],
        [ends_at if record.ended_at is None else record.ended_at for record in records],
        [math.ceil(record.cores) for record in records],
        left_truncated=[record.left_truncated for record in records],
        right_censored=[record.cut or record.ended_at is None for record in records],
        parallel=[record.parallel for record in records],
    )
    named = zone or source.time_zone
    return Parsed(
        trace,
        lines=lines,
        records=lines,
        lost=len(quarantined),
        quarantined=tuple(quarantined),
        skipped=tuple(sorted(skipped.items())),
        warnings=(*clock.warnings, *_warn_of_parts(records, trace)),
        out_of_order=sum(later.started_at < earlier.started_at for earlier, later in pairwise(records)),
        time_zone="" if named is None else str(named),
    )


def _warn_of_parts(records: Sequence[AccountingRecord], trace: Trace) -> tuple[str, ...]:
    """Return a sentence on the instances that hold parts of cores, if there are any."""
    parts = sum(record.cores != math.ceil(record.cores) for record in records)
    asked, rounded = sum(record.cores for record in records), int(trace.cores.sum())
    return (
        (f"{parts} instances hold parts of cores, rounded up: {asked:.1f} cores became {rounded}.",)
        if parts
        else ()
    )


def _check(record: AccountingRecord) -> None:
    if record.cores <= 0:
        raise NeverRanError("it asks for no cores")
    if record.ended_at is not None and record.ended_at < record.started_at:
        raise BadValueError("the end precedes the start")
    if record.started_at < 0:
        raise BadValueError("it starts before the log's clock does")


def build_columns(
    source: Source,
    required: Sequence[str],
    read: Callable[[dict[str, str], WallClock], AccountingRecord],
    *,
    zone: tzinfo | None = None,
) -> Parsed:
    """Build a trace from a CSV file with a header, as ``build_trace`` does; ``read`` gets the required cells.

    Raises
    ------
    TraceError
        When the header lacks a required column, or names one twice.
    """
    columns = read_columns(source, required)
    cells = [columns.cells[name] for name in required]
    rows = (dict(zip(required, row, strict=True)) for row in zip(*cells, strict=True))
    parsed = build_trace(source, zip(columns.line, rows, strict=True), read, zone=zone)
    bad = tuple(
        QuarantinedLine.of(line.line, source.lines[line.line - 1], line.reason) for line in parsed.quarantined
    )
    malformed = columns.malformed
    return replace(
        parsed,
        lines=parsed.lines + len(malformed),
        records=parsed.records + len(malformed),
        lost=parsed.lost + len(malformed),
        quarantined=tuple(sorted((*bad, *malformed), key=lambda line: line.line)),
        repaired=columns.repaired,
    )


def build_rows(
    source: Source,
    names: Mapping[int, Sequence[str]],
    read: Callable[[dict[str, str], WallClock], AccountingRecord],
    *,
    observed_at: float | None = None,
) -> Parsed:
    """Build a trace from CSV without a header, whose times count from the beginning of the log.

    Parameters
    ----------
    names
        Names of the cells by their number in a row.
    """
    rows = ((line, text) for line, text in enumerate(source.lines, start=1) if text.strip())

    def split(text: str, clock: WallClock) -> AccountingRecord:
        cells = [cell.strip() for cell in text.split(",")]
        if len(cells) not in names:
            raise BadValueError(f"not {' or '.join(map(str, names))} comma-separated cells")
        return read(dict(zip(names[len(cells)], cells, strict=True)), clock)

    return replace(build_trace(source, rows, split, observed_at=observed_at), has_origin=True)


def read_run(
    entry: Mapping[str, Any],
    clock: WallClock,
    *,
    id: str,  # noqa: A002
    start: str,
    end: str,
    cores: str,
    per_core: float | None = None,
) -> AccountingRecord:
    """Read an instance from a record whose fields have these names.

    Parameters
    ----------
    per_core
        Number in ``cores`` that makes one core; None if it holds whole cores.

    Raises
    ------
    BadValueError
        When a field cannot be read.
    NeverRanError
        When it has no start.
    """
    name = str(entry.get(id) or "")
    if not name or not name.isprintable():
        raise BadValueError(f"{id} is empty or not printable")
    started_at = clock.read_time(entry.get(start), start)
    if started_at is None:
        raise NeverRanError("it has no start: it never ran")
    ended_at = clock.read_time(entry.get(end), end, started_at)
    text = str(entry.get(cores))
    count = parse_cores(text) if per_core is None else parse_parts(text, cores, per_core)
    return AccountingRecord(name, started_at, ended_at, count)
