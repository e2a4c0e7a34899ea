"""Assign the cores of a cloud's nodes to instances, and map them to the cores of this machine.

The cores of a cloud, node after node, are mapped to those of this machine in turn, starting again with the
first when the cloud has more. A backup replica has no cores of its own: it is pinned to those of the server
that it shares, where the kernel divides the time among all of them.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Sequence

from broker.jobs.models import Work


class CoreAllocator:
    """Assigns the cores of one cloud."""

    def __init__(self, node_cores: Sequence[int], cpus: Sequence[int] | None = None):
        """Take the cores of each node, and the CPUs to use: by default those that this process may use."""
        self._node_cores = tuple(node_cores)
        self._cpus = tuple(sorted(os.sched_getaffinity(0)) if cpus is None else cpus)
        self._assigned: dict[str, tuple[str, int, tuple[int, ...]]] = {}  # by work: instance, node, cores
        self._lock = threading.Lock()

    def take(self, work: Work) -> tuple[int, ...]:
        """Assign cores of the work's node: those of its instance, which may run other work, or free ones."""
        instance = work.server or work.instance
        with self._lock:
            if work.id in self._assigned:
                return self._assigned[work.id][2]
            node = work.node if work.node < len(self._node_cores) else 0
            taken = Counter[int]()
            shared: set[int] = set()
            for other, other_node, cores in self._assigned.values():
                if other == instance and other_node == node:
                    shared.update(cores)
                elif other_node == node:
                    taken.update(cores)
            cores_of_node = range(self._node_cores[node])
            order = sorted(cores_of_node, key=lambda core: (core not in shared, taken[core], core))
            chosen = tuple(sorted(order[: work.cores]))
            self._assigned[work.id] = (instance, node, chosen)
            return chosen

    def occupy(self, work: Work, cores: tuple[int, ...]) -> None:
        """Note the cores of work that runs already."""
        with self._lock:
            self._assigned[work.id] = (work.server or work.instance, work.node, cores)

    def free(self, work: str) -> None:
        """Free the cores of work that has ended."""
        with self._lock:
            self._assigned.pop(work, None)

    def cpus(self, node: int, cores: Sequence[int]) -> tuple[int, ...]:
        """Return the CPUs of this machine to which the cores of a node are mapped."""
        before = sum(self._node_cores[:node])
        return tuple(sorted({self._cpus[(before + core) % len(self._cpus)] for core in cores}))
