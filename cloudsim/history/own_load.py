"""The own load of a cloud: the arrivals of its own users, as a simulated cloud plays them."""

from __future__ import annotations

from dataclasses import dataclass

from cloudsim.traces.trace import Trace


@dataclass(frozen=True, slots=True)
class Arrival:
    """One arrival of the own load. row: its row in the trace. Times are seconds of the cloud's time."""

    row: int
    start_s: float
    stop_s: float
    cores: int


def arrivals_of(load: Trace, until_s: float) -> list[Arrival]:
    """Return the arrivals up to ``until_s``, in order."""
    rows = slice(0, int(load.start_s.searchsorted(until_s, side="right")))
    columns = (load.start_s[rows].tolist(), load.stop_s[rows].tolist(), load.cores[rows].tolist())
    return [Arrival(row, *values) for row, values in enumerate(zip(*columns, strict=True))]
