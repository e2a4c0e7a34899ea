"""Read any CSV with a header by the names of its columns, which the caller gives."""

from __future__ import annotations

from collections.abc import Mapping

from cloudsim.model.errors import SpecError
from cloudsim.traces.formats.accounting_records import AccountingRecord, WallClock, build_columns, read_run
from cloudsim.traces.formats.parse_result import BadValueError, Parsed, parse_number
from cloudsim.traces.formats.source import Source

#: The parts of an instance that a column may hold.
PARTS = ("instance", "start", "end", "duration", "cores")


def check_names(columns: Mapping[str, str]) -> None:
    """Check that columns are named for all that an instance needs.

    Raises
    ------
    SpecError
        When a part is unknown, or one that is needed has no column.
    """
    unknown = ", ".join(part for part in columns if part not in PARTS)
    if unknown:
        raise SpecError(f"{unknown} is not one of {', '.join(PARTS)}", field="columns")
    if not {"start", "cores"} <= set(columns) or ("end" in columns) == ("duration" in columns):
        raise SpecError("name the columns of start, cores, and either end or duration", field="columns")


def parse(source: Source, columns: Mapping[str, str]) -> Parsed:
    """Read one instance a row.

    Times are seconds, or ISO 8601; an empty end is right-censored. Without a column ``instance`` rows are
    numbered from 1.

    Parameters
    ----------
    columns
        Name of the column by part (``PARTS``).

    Raises
    ------
    SpecError
        When a part is unknown or missing.
    TraceError
        When the header lacks a column, or names one twice.
    """
    check_names(columns)
    numbers = iter(range(1, len(source.lines) + 1))

    def read(row: dict[str, str], clock: WallClock) -> AccountingRecord:
        number = next(numbers)
        flat = {part: row[name] for part, name in columns.items()}
        if "instance" not in columns:
            flat["instance"] = str(number)
        if "duration" in columns and flat["duration"].strip():
            start = clock.read_time(flat["start"], "start")
            duration_s = parse_number(flat["duration"], "duration")
            if duration_s < 0:
                raise BadValueError("the duration is negative")
            flat["end"] = "" if start is None else repr(start + duration_s)
        return read_run(flat, clock, id="instance", start="start", end="end", cores="cores")

    return build_columns(source, tuple(columns.values()), read)
