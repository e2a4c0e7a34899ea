"""Random small clouds and their histories, made to be awkward: ties, bursts, no duration, many evictions."""

from __future__ import annotations

import numpy as np

from cloudsim.eventlog import START_ON_DEMAND, START_SPOT, STOP, EventLog

DAY_S = 86_400.0


def random_nodes(generator: np.random.Generator) -> tuple[int, ...]:
    return tuple(generator.integers(1, 9, generator.integers(1, 6)).tolist())


def random_log(
    generator: np.random.Generator,
    node_cores: tuple[int, ...],
    instances: int,
    until_s: float = DAY_S,
    *,
    mean_s: float = DAY_S / 4,
    stopping: float = 0.95,
) -> EventLog:
    """A history of [0, until_s). Not all of it fits: a replay leaves out what does not."""
    times = generator.uniform(0, until_s, instances)
    if generator.random() < 0.5:  # a coarse clock: many events at one instant
        times = np.floor(times / (mean_s / 12)) * (mean_s / 12)
    times.sort()
    if generator.random() < 0.4:  # a burst
        times[instances // 2 : instances // 2 + instances // 4] = times[instances // 2]
    spot = generator.random(instances) < generator.uniform(0.2, 0.8)
    kinds = np.where(spot, START_SPOT, START_ON_DEMAND)
    order = np.lexsort((kinds, times))
    events: list[tuple[float, int, int, int, int]] = []
    for number, row in enumerate(order.tolist()):
        time, kind = float(times[row]), int(kinds[row])
        cores = int(generator.integers(1, max(node_cores) + 1))
        duration = 0.0 if generator.random() < 0.1 else float(generator.exponential(mean_s))
        if generator.random() < 0.5:
            duration = float(np.floor(duration / (mean_s / 12)) * (mean_s / 12))
        events.append((time, 1 if kind == START_ON_DEMAND else 2, number, kind, cores))
        if generator.random() < stopping:
            events.append((time + duration, 3 if time + duration == time else 0, number, STOP, cores))
    return from_rows([event for event in sorted(events) if event[0] < until_s])


def from_rows(rows: list[tuple[float, int, int, int, int]]) -> EventLog:
    """time, phase, instance, kind, cores."""
    return EventLog(
        np.array([row[0] for row in rows], np.float64),
        np.array([row[3] for row in rows], np.int8),
        np.array([row[2] for row in rows], np.int64),
        np.array([row[4] for row in rows], np.int64),
    )


def part(log: EventLog, from_s: float, until_s: float) -> EventLog:
    """Events in [from_s, until_s)."""
    begin, end = np.searchsorted(log.time_s, [from_s, until_s])
    return EventLog(log.time_s[begin:end], log.kind[begin:end], log.instance[begin:end], log.cores[begin:end])
