"""Replay with a virtual instance in plain Python: what the kernel must equal, and the text to read first.

It is thousands of times slower (docs/design/prediction.md "Fast"), and shares nothing with the kernel but the
event log.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cloudsim.history.event_log import START_ON_DEMAND, STOP, EventLog

VIRTUAL = -1


@dataclass
class _Running:
    node: int
    cores: int
    age: tuple[float, ...] | None  # sorts spot instances, greatest youngest; None for on-demand


@dataclass(frozen=True)
class ReferenceSample:
    """Result of one virtual instance.

    Attributes
    ----------
    free_slots
        Free slots just before the birth.
    duration_s
        Seconds until eviction, or until the boundary if it was not evicted.
    evicted
        True if it was evicted.
    """

    free_slots: int
    duration_s: float
    evicted: bool


class ReferenceCloud:
    """One replay: which instance runs on which node."""

    def __init__(self, node_cores: Sequence[int]):
        self.free = list(node_cores)
        self.running: dict[int, _Running] = {}
        self.evictions = 0

    def free_slots(self, cores: int) -> int:
        """Return how many instances of ``cores`` would find room beside each other."""
        return sum(free // cores for free in self.free)

    def start(self, instance: int, cores: int, age: tuple[float, ...] | None) -> bool:
        """Place the instance first-fit; return False if it is not placed.

        An on-demand instance (``age`` None) may evict.
        """
        node = self._first_fit(cores)
        if node is None and age is None:
            node = self._evict_for(cores)
        if node is None:
            return False
        self.free[node] -= cores
        self.running[instance] = _Running(node, cores, age)
        return True

    def stop(self, instance: int) -> None:
        """End the instance if it runs here."""
        ended = self.running.pop(instance, None)
        if ended is not None:
            self.free[ended.node] += ended.cores

    def _first_fit(self, cores: int) -> int | None:
        return next((node for node, free in enumerate(self.free) if free >= cores), None)

    def _evict_for(self, cores: int) -> int | None:
        spots = [
            (instance.age, number) for number, instance in self.running.items() if instance.age is not None
        ]
        marked: list[list[int]] = [[] for _ in self.free]
        for _, number in sorted(spots, reverse=True):
            node = self.running[number].node
            marked[node].append(number)
            if self.free[node] + sum(self.running[number].cores for number in marked[node]) >= cores:
                self._evict_needed(marked[node], node, cores)
                return node
        return None

    def _evict_needed(self, marked: list[int], node: int, cores: int) -> None:
        victims = list(marked)
        for candidate in marked:
            others = sum(self.running[victim].cores for victim in victims if victim != candidate)
            if self.free[node] + others >= cores:
                victims.remove(candidate)
        for victim in victims:
            self.stop(victim)
            self.evictions += 1


def replay(
    node_cores: Sequence[int],
    events: EventLog,
    until_s: float,
    cores: int,
    birth_s: float,
    *,
    always_youngest: bool = False,
) -> ReferenceSample | None:
    """Replay a virtual spot instance of ``cores`` until its eviction or until ``until_s``.

    None when there is no free slot at its birth.

    Parameters
    ----------
    events
        The whole history from an empty cloud.
    birth_s
        Time of birth in seconds.
    always_youngest
        Evict it first, whatever starts later (P2 §2.4).
    """
    age = (math.inf if always_youngest else birth_s, math.inf)
    cloud = ReferenceCloud(node_cores)
    born: int | None = None
    for time, kind, instance, size in zip(
        events.time_s.tolist(),
        events.kind.tolist(),
        events.instance.tolist(),
        events.cores.tolist(),
        strict=True,
    ):
        if time >= until_s:
            break
        if born is None and time > birth_s:
            born = _give_birth(cloud, cores, age)
            if born == 0:
                return None
        if kind == STOP:
            cloud.stop(instance)
        else:
            cloud.start(instance, size, None if kind == START_ON_DEMAND else (time, instance))
        if born and VIRTUAL not in cloud.running:
            return ReferenceSample(born, time - birth_s, True)
    if born is None:
        born = _give_birth(cloud, cores, age)
    return ReferenceSample(born, until_s - birth_s, False) if born else None


def _give_birth(cloud: ReferenceCloud, cores: int, age: tuple[float, float]) -> int:
    """Place the virtual instance, younger than all that has started; return the free slots before."""
    free_slots = cloud.free_slots(cores)
    if free_slots:
        cloud.start(VIRTUAL, cores, age)
    return free_slots
