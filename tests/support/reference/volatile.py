"""Reference of ``kernels``: one event loop in plain Python for all policies, unit by unit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from cloudsim.model.lengths import LONGEST_BINS


@dataclass(slots=True)
class Unit:
    """A unit that is up.

    Attributes
    ----------
    start
        Sample at which its current interval began.
    place
        Units with a higher place came later.
    """

    start: int
    place: int


#: Chooses the unit that is revoked next: its row among those that are up in a pool.
Order = Callable[[Sequence[Unit]], int]


def oldest_first(up: Sequence[Unit]) -> int:
    """Choose the unit with the oldest current start (FIFO)."""
    return min(range(len(up)), key=lambda row: (up[row].start, up[row].place))


def top_first(up: Sequence[Unit]) -> int:
    """Choose the unit on top of the stack (LIFO where a renewed unit keeps its place)."""
    return max(range(len(up)), key=lambda row: up[row].place)


def newest_first(up: Sequence[Unit]) -> int:
    """Choose the unit with the newest current start (LIFO where a renewed unit is the newest)."""
    return max(range(len(up)), key=lambda row: (up[row].start, up[row].place))


def random_order(draws: Iterable[float]) -> Order:
    """Return an order that chooses uniformly among all units that are up, by the next number in [0, 1)."""
    numbers = iter(draws)
    return lambda up: int(next(numbers) * len(up))


def list_intervals(units: Sequence[int], order: Order, pool_units: Sequence[int]) -> list[list[int]]:
    """Return the lengths in samples of all intervals, for each pool.

    Parameters
    ----------
    units
        Units that are up at each sample, never more than all pools hold.
    pool_units
        Units that each pool holds, from the top, which is revoked from first, to the bottom, which is filled
        first.
    """
    pools: list[list[Unit]] = [[] for _ in pool_units]
    lengths: list[list[int]] = [[] for _ in pool_units]
    arrived = 0
    for sample, here in enumerate(units):
        while sum(map(len, pools)) > here:
            top = next(pool for pool, up in enumerate(pools) if up)
            lengths[top].append(sample - _take(pools[top], order).start)
        for up, ended in zip(pools, lengths, strict=True):
            for unit in up:
                if sample - unit.start == LONGEST_BINS:
                    ended.append(LONGEST_BINS)
                    unit.start = sample
        for up, room in zip(reversed(pools), reversed(pool_units), strict=True):
            while len(up) < room and sum(map(len, pools)) < here:
                up.append(Unit(sample, arrived))
                arrived += 1
    for up, ended in zip(pools, lengths, strict=True):
        ended += [len(units) - unit.start for unit in up]
    return lengths


def _take(up: list[Unit], order: Order) -> Unit:
    """Take a unit out of a pool; the last one then stands in its row."""
    row = order(up)
    up[row], up[-1] = up[-1], up[row]
    return up.pop()
