"""Which cores of a node are taken by which instance, and which of this machine they are.

The cores of a cloud, node after node, are laid on those of this machine in turn, from the first again where
the cloud has more. A backup replica has no cores of its own: it is pinned to those of the server that it
shares, where the kernel divides the time among all of them.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Sequence

from broker.jobs.models import Work


class CoreAllocator:
    """Of one cloud."""

    def __init__(self, node_cores: Sequence[int], cpus: Sequence[int] | None = None):
        """``cpus``: of this machine; None: those that this process may use."""
        self._node_cores = tuple(node_cores)
        self._cpus = tuple(sorted(os.sched_getaffinity(0)) if cpus is None else cpus)
        self._held: dict[str, tuple[str, int, tuple[int, ...]]] = {}  # by work: instance, node, cores
        self._lock = threading.Lock()

    def take(self, work: Work) -> tuple[int, ...]:
        """Cores of its node: those of its instance, which may have run other work before, or free ones."""
        instance = work.server or work.instance
        with self._lock:
            if work.id in self._held:
                return self._held[work.id][2]
            node = work.node if work.node < len(self._node_cores) else 0
            taken = Counter[int]()
            shared: set[int] = set()
            for other, other_node, cores in self._held.values():
                if other == instance and other_node == node:
                    shared.update(cores)
                elif other_node == node:
                    taken.update(cores)
            there = range(self._node_cores[node])
            order = sorted(there, key=lambda core: (core not in shared, taken[core], core))
            found = tuple(sorted(order[: work.cores]))
            self._held[work.id] = (instance, node, found)
            return found

    def hold(self, work: Work, cores: tuple[int, ...]) -> None:
        """Work that runs already."""
        with self._lock:
            self._held[work.id] = (work.server or work.instance, work.node, cores)

    def free(self, work: str) -> None:
        """It has ended."""
        with self._lock:
            self._held.pop(work, None)

    def cpus(self, node: int, cores: Sequence[int]) -> tuple[int, ...]:
        """Those of this machine that the cores of a node are laid on."""
        before = sum(self._node_cores[:node])
        return tuple(sorted({self._cpus[(before + core) % len(self._cpus)] for core in cores}))
