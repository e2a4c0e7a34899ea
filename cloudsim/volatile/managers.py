"""Revoke units when a pool shrinks, by four policies, and count the intervals that result (P3 §3.1).

The policies get the same number of units at the same time and take them from different holders, so the sum of
all lengths is the same and only their distribution differs (docs/design/volatile-resources.md "One sample, in
this order"). ``kernels`` does the work, and ``reference`` is its plain-Python reference.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cloudsim.model.errors import SpecError
from cloudsim.model.lengths import LengthHistogram


class RevocationPolicy(StrEnum):
    """Policy that decides which unit is revoked first."""

    RANDOM = "random"  # any
    FIFO = "fifo"  # oldest current start first
    LIFO = "lifo"  # last in first
    LIFO_POOLS = "lifo-pools"  # the LIFO stack in bands of which each has its own statistics


class Renewal(StrEnum):
    """Place of a unit of a stack after its 48 hours: where it stood, or on top as the newest."""

    SLOT = "slot"
    RECENCY = "recency"


#: Bands of LIFO-pools, and positions in each: pool 0 is on top of the stack, the last one at the bottom.
POOLS = 5
POOL_UNITS = 1000
_FLOORS = np.arange(POOLS)[::-1] * POOL_UNITS


def count_intervals(
    units: NDArray[np.integer[Any]],
    policy: RevocationPolicy,
    generator: np.random.Generator | None = None,
    renewal: Renewal = Renewal.SLOT,
) -> tuple[LengthHistogram, ...]:
    """Count the lengths of all intervals of a pool, cut at 48 hours and closed at the end.

    Returns one histogram, or for LIFO-pools one for each pool, pool 0 first.

    Parameters
    ----------
    units
        Units at each sample of 5 minutes.
    generator
        Needed by the random policy only, which draws one uniform number for each unit that it revokes.
    renewal
        Used by LIFO and LIFO-pools only.

    Raises
    ------
    SpecError
        When there are no units, units are negative or, for LIFO-pools, more than all pools hold; or when the
        random policy has no generator. Names the field.
    """
    from cloudsim.volatile import kernels

    units = check_units(units)
    match policy:
        case RevocationPolicy.RANDOM:
            if generator is None:
                raise SpecError("the random policy draws from a generator: give it one", field="generator")
            counts = [kernels.count_random(units, generator.random(count_revocations(units)))]
        case RevocationPolicy.FIFO:
            counts = [kernels.count_queue(units, False)]
        case RevocationPolicy.LIFO if renewal is Renewal.RECENCY:
            counts = [kernels.count_queue(units, True)]
        case RevocationPolicy.LIFO:
            counts = list(kernels.count_stack(units, _FLOORS[-1:]))
        case RevocationPolicy.LIFO_POOLS:
            if units.max() > POOLS * POOL_UNITS:
                raise SpecError(f"{POOLS} pools hold {POOLS * POOL_UNITS:,} units", field="units")
            if renewal is Renewal.RECENCY:
                counts = [
                    kernels.count_queue(np.clip(units - floor, 0, POOL_UNITS), True) for floor in _FLOORS
                ]
            else:
                counts = list(kernels.count_stack(units, _FLOORS))
    return tuple(LengthHistogram(count) for count in counts)


def check_units(units: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """Return the units as int64[samples].

    Raises
    ------
    SpecError
        Unless they are one row of whole numbers from 0.
    """
    units = np.asarray(units)
    if units.ndim != 1 or not len(units) or not np.issubdtype(units.dtype, np.integer):
        raise SpecError("units are one row of whole numbers, one for each sample", field="units")
    if units.min() < 0:
        raise SpecError(f"units are at least 0, not {units.min()}", field="units")
    return np.array(units, dtype=np.int64)


def count_revocations(units: NDArray[np.integer[Any]]) -> int:
    """Count the units that are revoked before the end."""
    return int(np.maximum(-np.diff(units), 0).sum())
