"""The schedule of an owner's tables: when they are made, and for which sizes. Pure.

In trace time a request asks for the table of its refresh boundary (``Owner.table_due``) and the sizes are
known beforehand. In wall time tables are made every ``refresh_s`` of the cloud's time, and sooner when a
request asks for a size that is missing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from broker.contract import Ask, Command, Reserve
from cloudsim.cloud.spec import CloudSpec
from cloudsim.prediction.samples import Flavour

#: On nodes of up to this number of cores, tables are made for every size.
_ALL_SIZES_UP_TO = 8
#: Largest number of sizes, for each costs a replay.
MOST_SIZES = 48
#: Shortest time between two refreshes that were brought forward, in seconds of the monotonic clock.
BROUGHT_FORWARD_S = 5.0


def wall_time_sizes(node_cores: Iterable[int], own_sizes: Iterable[int]) -> frozenset[int]:
    """Return the sizes to begin with, in cores.

    They are all sizes on small nodes, else powers of two and the sizes of the cloud's own load.
    """
    largest = max(node_cores)
    if largest <= _ALL_SIZES_UP_TO:
        return frozenset(range(1, largest + 1))
    powers = [2**power for power in range(int(math.log2(largest)) + 1)]
    own = sorted(size for size in set(own_sizes) if size <= largest)
    return frozenset([*powers, *own][:MOST_SIZES])


class RefreshSchedule:
    """Plans the tables of one owner in wall time."""

    def __init__(self, cloud: CloudSpec, sizes: Iterable[int | Flavour]):
        self._cloud = cloud
        self._largest = max(cloud.node_cores)
        self.sizes = frozenset(sizes)
        self._made_for: frozenset[int | Flavour] = frozenset()
        self._next_s = cloud.first_table_s
        self._forward_s = -math.inf  # monotonic
        self._asked = 0  # requests since the latest refresh began

    def note_size(self, command: Command) -> None:
        """Note a request, and the size or the flavour that it asks for."""
        self._asked += isinstance(command, Ask | Reserve)
        if self._cloud.products.pools:
            return  # tables of pools serve all sizes
        if isinstance(command, Ask | Reserve) and command.cores <= self._largest:
            amounts = tuple(sorted(command.resources.items()))
            size: int | Flavour = (command.cores, amounts) if amounts else command.cores
            known = {name for name, _ in amounts} <= set(self._cloud.details.resources)
            self.sizes |= {size} if known and len(self.sizes) < MOST_SIZES else frozenset()

    def due(self, now_s: float, monotonic_s: float) -> bool:
        """Return whether a refresh is due now."""
        if now_s < self._cloud.first_table_s:
            return False
        return now_s >= self._next_s or (self._is_incomplete and monotonic_s >= self._forward_s)

    @property
    def _is_incomplete(self) -> bool:
        return not self.sizes <= self._made_for

    def urgency(self, now_s: float) -> float:
        """Return how urgent a table is: its age in refresh periods, for each request since it was begun.

        One request more than came is counted, so that age counts where there is none. The age of a table
        that is not there, or lacks a size, is that of the cloud.
        """
        begun_s = 0.0 if self._is_incomplete else self._next_s - self._cloud.refresh_s
        return (now_s - begun_s) / self._cloud.refresh_s * (1 + self._asked)

    def late_s(self, now_s: float) -> float:
        """Return for how long, in the cloud's time, the next table has been due; 0 for the first one."""
        return max(now_s - self._next_s, 0.0) if self._made_for else 0.0

    def note_begin(self, now_s: float, monotonic_s: float) -> None:
        """Note that a refresh for all ``sizes`` has begun."""
        self._made_for, self._asked = self.sizes, 0
        self._next_s = now_s + self._cloud.refresh_s
        self._forward_s = monotonic_s + BROUGHT_FORWARD_S
