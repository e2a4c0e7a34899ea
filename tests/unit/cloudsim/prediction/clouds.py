"""Random small clouds and their histories, made to be awkward: ties, bursts, no duration, many evictions."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np

from cloudsim.admission.rule import PAPERS_ADMISSION
from cloudsim.cloud.cloud import Cloud
from cloudsim.cloud.spec import CloudSpec
from cloudsim.history.event_log import NO_GROUP, START_ON_DEMAND, START_SPOT, STOP, EventLog, StartDetails
from cloudsim.model.nodes import NodeDetails
from cloudsim.model.requests import Kind, Labels, Request, Spread
from cloudsim.prediction.lifetimes import LifetimeDistribution
from cloudsim.scheduling.lineups import LineUp

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
    some = EventLog(log.time_s[begin:end], log.kind[begin:end], log.instance[begin:end], log.cores[begin:end])
    return some if log.details is None else replace(some, details=log.details.rows(slice(begin, end)))


NORTH, SOUTH = frozenset({("zone", "north")}), frozenset({("zone", "south")})


def random_details(
    generator: np.random.Generator, nodes: int, log: EventLog, *, resources: int, labels: bool, groups: bool
) -> tuple[NodeDetails, EventLog]:
    """Up to two further resources, labels of nodes and starts, groups; SLAs of few different values."""
    names = ("disk_gb", "memory_mb")[:resources]
    amounts = tuple((name, tuple(generator.integers(2, 9, nodes).tolist())) for name in names)
    kinds: tuple[Labels, ...] = (frozenset(), NORTH, SOUTH, NORTH | SOUTH)
    of_nodes = tuple(kinds[one] for one in generator.integers(0, 4, nodes)) if labels else ()
    count, none = len(log), np.zeros(len(log), np.int64)
    details = StartDetails(
        names,
        (frozenset(), NORTH, SOUTH),
        generator.integers(0, 6, (count, resources)),
        generator.choice([0.0, 0.01, 0.05, 0.2], count),
        generator.choice([0, 0, 0, 1, 2], count) if labels else none,
        generator.choice([NO_GROUP, NO_GROUP, 0, 1], count) if groups else none + NO_GROUP,
        generator.integers(0, 3, count).astype(np.int8) if groups else none.astype(np.int8),
    )
    return NodeDetails(amounts, of_nodes), replace(log, details=details)


def generous_table() -> SimpleNamespace:
    """Promises everything to everybody."""
    safe = LifetimeDistribution(np.array([1e9]), np.array([0.0]), 100, 0)
    return SimpleNamespace(
        has=lambda *_: True, release_horizons_s=lambda *_: (), distribution=lambda *_: safe,
        made_at_s=0.0, version="generous",
    )  # fmt: skip


def lived(
    nodes: tuple[int, ...], lineup: LineUp, seed: int, *, grace_s: float = 0.0, gangs: bool = False
) -> Cloud:
    """A cloud with two resources and labels that took what came, for a while. gangs: parallel jobs, too."""
    generator = np.random.default_rng(seed)
    memory_mb = tuple(2 * cores for cores in nodes)
    labels = tuple(frozenset() if number % 3 == 1 else NORTH for number in range(len(nodes)))
    details = NodeDetails((("memory_mb", memory_mb),), labels)
    cloud = Cloud(CloudSpec("A", nodes, details, lineup, grace_s=grace_s, admission=PAPERS_ADMISSION))
    cloud.table = generous_table()  # type: ignore[assignment]
    for number, at_s in enumerate(np.cumsum(generator.exponential(60.0, 250)).tolist()):
        cloud.advance(at_s)
        kind = Kind.SPOT if generator.random() < 0.6 else Kind.ON_DEMAND
        wanted = Request(
            f"r{number}", kind, int(generator.integers(1, 5)), float(generator.exponential(1500.0)),
            sla=float(generator.choice([0.01, 0.05, 0.2])) if kind is Kind.SPOT else None,
            amounts=(("memory_mb", int(generator.integers(1, 7))),),
            labels=NORTH if generator.random() < 0.2 else frozenset(),
            group="g" if generator.random() < 0.3 else None,
            spread=[None, Spread.APART, Spread.TOGETHER][int(generator.integers(0, 3))],
        )  # fmt: skip
        if gangs and kind is Kind.ON_DEMAND and generator.random() < 0.5:
            cores = int(generator.integers(2, max(nodes) + 6))
            wanted = replace(wanted, cores=cores, amounts=(("memory_mb", cores),), spread=None, parallel=True)
        (cloud.admit if kind is Kind.SPOT else cloud.start_on_demand)(wanted, at_s)
    return cloud
