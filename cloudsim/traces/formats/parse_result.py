"""Result of every reader, and the numbers that they all read."""

from __future__ import annotations

import math
from dataclasses import dataclass

from cloudsim.traces.report import QuarantinedLine
from cloudsim.traces.trace import MAX_CORES, Trace


@dataclass(frozen=True)
class Parsed:
    """A file after its reader, before it is judged: records = rows + ``lost`` + all ``skipped``."""

    trace: Trace
    #: Lines that should hold a record: the denominator of the error rate.
    lines: int
    #: Instances in the file.
    records: int
    #: Instances that were quarantined.
    lost: int
    quarantined: tuple[QuarantinedLine, ...]
    skipped: tuple[tuple[str, int], ...] = ()
    warnings: tuple[str, ...] = ()
    #: Repairs that were needed to read the records, a sentence each.
    repaired: tuple[str, ...] = ()
    #: Records whose time is before that of the record above them.
    out_of_order: int = 0
    #: The last line has no end.
    ends_open: bool = False
    #: Unix time at which the times of the trace begin to count, where the file says so.
    begins_at_s: float | None = None
    #: The times count from the beginning of the log, by the format or by the file's own header: a log without
    #: instances at its beginning was idle then.
    has_origin: bool = False
    #: The log was meant to see every instance: a long silence in it is a drop-out.
    continuous: bool = True
    #: The zone of the machine's clock, as the file names it.
    time_zone: str = ""
    #: Cores of the machine, where the file says so.
    capacity_cores: int | None = None


class NeverRanError(Exception):
    """A record that is well formed and of no instance; the text is the reason under which it is counted."""


class BadValueError(ValueError):
    """A cell that cannot be read; its text is the reason for which the line is quarantined."""


def parse_number(text: str, what: str) -> float:
    """Parse a finite decimal number.

    Parameters
    ----------
    what
        Name of the number in the error.

    Raises
    ------
    BadValueError
        When it is none.
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    # Python's float reads 1_000; no trace format does.
    if not math.isfinite(value) or "_" in text:
        raise BadValueError(f"{what} {text[:40]!r} is not a finite number")
    return value


def parse_cores(text: str) -> int:
    """Parse a whole number of cores, 1 to ``MAX_CORES``.

    Raises
    ------
    BadValueError
        When it is none.
    """
    value = parse_number(text, "cores")
    if value != int(value) or not 1 <= value <= MAX_CORES:
        raise BadValueError(f"cores {text[:40]!r} is not a whole number from 1 to {MAX_CORES}")
    return int(value)


def parse_parts(text: str, what: str, per_core: float) -> float:
    """Parse an amount of processors that is counted in parts of a core, as cores.

    Parameters
    ----------
    what
        Name of the amount in the error.
    per_core
        Parts that make one core: 1000 of thousandths.

    Raises
    ------
    BadValueError
        When it is no number, negative, or more than any machine has.
    """
    cores = parse_number(text, what) / per_core
    if not 0 <= cores <= MAX_CORES:
        raise BadValueError(f"{what} {text[:40]!r} is not from 0 to {MAX_CORES} cores")
    return cores
