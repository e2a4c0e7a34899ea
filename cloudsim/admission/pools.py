"""Pools: a cloud's stack of cores cut into bands.

They are the LIFO-pools of P3 §3.1 as products; see docs/design/volatile-resources.md.

The cores that its own users leave are a stack, of which they take the top first. Pool 0 is the band on top,
and is evicted first; the last pool is at the bottom. Each is sold by itself, holds no more than its band, and
has tables of its own: within a pool the youngest leaves first, and no pool while one above it can help.

The promise is about an instance's position in the stack and asks nothing of the other instances. Say that the
pools below are full, and its own pool up to the instance itself, to T cores from the bottom: it and those
that leave after it never hold more. An own request of s cores evicts it only when no node has s cores left
beside these, thus when at most T + W(s) cores are not in own use. W(s), the sum over nodes of min(cores, s -
1), is what nodes may have left and each still be too small for it. So an instance lives at least until the
first own request that finds so few: that is what samples tell (``prediction.pool_sampler``). It is exact for
the last one of full pools, where all own requests have one core. The condition is how many cores above T are
not in own use. T is rounded up to one of ``LEVELS`` levels a band, so that tables are few; to the band's top
where the cloud does not disclose everything.

Refused: replaying the other instances too, each in its pool. What that learns hangs on how full the pools
below were in the past, and as these fill up promises above them break.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

from cloudsim.model.errors import SpecError
from cloudsim.model.requests import MOST_POOLS
from cloudsim.prediction.samples import STACK_TOP, Flavour
from cloudsim.scheduling.inventory import Inventory

#: The number of pools in P3 §3.1.
POOLS = 5
#: The number of levels of a band, to which positions are rounded up.
LEVELS = 4


@dataclass(frozen=True)
class PoolView:
    """One pool as a request finds it.

    room_cores: cores of its band that may still be sold. flavour: the flavour of the position that the
    request would get. condition: one more than the cores above that position which are not in own use; below
    1 own users have taken the position already.
    """

    number: int
    room_cores: int
    flavour: Flavour
    condition: int


@dataclass(frozen=True)
class Pools:
    """The bands of a cloud's stack of cores.

    tops: where each band ends, in cores from the bottom of the stack; pool 0 first. steps: levels of a band.
    With one step all of a pool is promised what its top is, and requests reveal nothing finer.
    """

    tops: tuple[int, ...]
    steps: int = LEVELS

    @classmethod
    def cut(cls, cores: int, count: int, steps: int = LEVELS, *, field: str = "pools") -> Pools:
        """Cut a stack into ``count`` bands of equal size, as far as whole cores allow.

        Raises
        ------
        SpecError
            When there are too many pools or none; it names ``field``.
        """
        most = min(cores, MOST_POOLS)
        if not 1 <= count <= most:
            raise SpecError(f"a cloud of {cores} cores has 1 to {most} pools, not {count}", field=field)
        return cls(tuple(cores * (count - number) // count for number in range(count)), steps)

    def __len__(self) -> int:
        return len(self.tops)

    @property
    def _bottoms(self) -> tuple[int, ...]:
        return (*self.tops[1:], 0)

    @property
    def bands(self) -> tuple[int, ...]:
        """The cores of each pool."""
        return tuple(top - bottom for top, bottom in zip(self.tops, self._bottoms, strict=True))

    def levels(self, number: int) -> tuple[int, ...]:
        """Return the positions to which those in a pool are rounded up, ascending; the last is its top."""
        bottom, band = self._bottoms[number], self.bands[number]
        return tuple(sorted({bottom - (-band * step // self.steps) for step in range(1, self.steps + 1)}))

    @property
    def flavours(self) -> tuple[Flavour, ...]:
        """The flavours of the tables: one for each level, whatever the sizes that are sold from it."""
        return tuple(_flavour(top) for number in range(len(self)) for top in reversed(self.levels(number)))

    def held_cores(self, inventory: Inventory) -> tuple[int, ...]:
        """Return the cores of each pool that running instances hold."""
        in_pools = [0] * len(self)
        for instance in inventory.spot():
            if instance.pool is not None:  # after a change to fewer pools the last one has the rest
                in_pools[min(instance.pool, len(in_pools) - 1)] += instance.cores
        return tuple(in_pools)

    def views(self, inventory: Inventory, cores: int) -> tuple[PoolView, ...]:
        """Return all pools as a request of ``cores`` finds them.

        Closed nodes do not count: own users cannot start there either.
        """
        unused = int(inventory.free_normal[0][~inventory.closed].sum())
        in_pools, views = self.held_cores(inventory), []
        for number, (bottom, band) in enumerate(zip(self._bottoms, self.bands, strict=True)):
            levels = self.levels(number)
            at = min(bisect_left(levels, bottom + in_pools[number] + cores), len(levels) - 1)
            views.append(
                PoolView(number, band - in_pools[number], _flavour(levels[at]), unused - levels[at] + 1)
            )
        return tuple(views)


def _flavour(top: int) -> Flavour:
    return 1, ((STACK_TOP, top),)
