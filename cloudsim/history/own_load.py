"""The own load of a cloud: the arrivals of its own users, as a simulated cloud plays them."""

from __future__ import annotations

from dataclasses import dataclass

from cloudsim.traces.trace import Trace


@dataclass(frozen=True, slots=True)
class Arrival:
    """One arrival of the own load. row: its row in the trace. Times are seconds of the cloud's time.

    parallel: its cores may be on several nodes.
    """

    row: int
    start_s: float
    stop_s: float
    cores: int
    parallel: bool


def arrivals_of(load: Trace, until_s: float) -> list[Arrival]:
    """Return the arrivals up to ``until_s``, in order."""
    rows = slice(0, int(load.start_s.searchsorted(until_s, side="right")))
    columns = (load.start_s, load.stop_s, load.cores, load.parallel)
    values = zip(*(column[rows].tolist() for column in columns), strict=True)
    return [Arrival(row, *value) for row, value in enumerate(values)]
