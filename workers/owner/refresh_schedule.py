"""When an owner's tables are made, and for which sizes. Pure.

In trace time a request asks for the table of its refresh boundary (``Owner.table_due``) and the sizes are
known beforehand. In wall time tables are made every ``refresh_s`` of the cloud's time, and sooner when
somebody asks for a size that is missing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from broker.contract import Ask, Command, Reserve
from cloudsim.cloud_spec import CloudSpec
from cloudsim.prediction.samples import Flavour

#: Up to so many cores a node, tables are made for every size.
_ALL_SIZES_UP_TO = 8
#: Every size costs a replay: no more of them, whatever is asked.
MOST_SIZES = 48
#: Seconds of wall time between two refreshes that were brought forward.
BROUGHT_FORWARD_S = 5.0


def wall_time_sizes(node_cores: Iterable[int], own_sizes: Iterable[int]) -> frozenset[int]:
    """Sizes to begin with: all on small nodes, else powers of two and those of the cloud's own load."""
    largest = max(node_cores)
    if largest <= _ALL_SIZES_UP_TO:
        return frozenset(range(1, largest + 1))
    powers = [2**power for power in range(int(math.log2(largest)) + 1)]
    own = sorted(size for size in set(own_sizes) if size <= largest)
    return frozenset([*powers, *own][:MOST_SIZES])


class RefreshSchedule:
    """The wall-time plan of one owner."""

    def __init__(self, cloud: CloudSpec, sizes: Iterable[int | Flavour]):
        self._cloud = cloud
        self._largest = max(cloud.node_cores)
        self.sizes = frozenset(sizes)
        self._made_for: frozenset[int | Flavour] = frozenset()
        self._next_s = cloud.first_table_s
        self._forward_s = -math.inf  # monotonic

    def told(self, command: Command) -> None:
        """Notes the size, or the flavour, that a request asks for."""
        if self._cloud.products.pools:
            return  # their tables do for all sizes
        if isinstance(command, Ask | Reserve) and command.cores <= self._largest:
            amounts = tuple(sorted(command.resources.items()))
            size: int | Flavour = (command.cores, amounts) if amounts else command.cores
            known = {name for name, _ in amounts} <= set(self._cloud.details.resources)
            self.sizes |= {size} if known and len(self.sizes) < MOST_SIZES else frozenset()

    def due(self, now_s: float, monotonic_s: float) -> bool:
        """Whether a refresh is to begin now."""
        if now_s < self._cloud.first_table_s:
            return False
        missing = not self.sizes <= self._made_for
        return now_s >= self._next_s or (missing and monotonic_s >= self._forward_s)

    def begun(self, now_s: float, monotonic_s: float) -> None:
        """A refresh has begun, for all ``sizes``."""
        self._made_for = self.sizes
        self._next_s = now_s + self._cloud.refresh_s
        self._forward_s = monotonic_s + BROUGHT_FORWARD_S
