"""Count the intervals of a pool's units under each order of revocation, compiled (numba).

docs/design/volatile-resources.md "One sample, in this order" defines the orders. All counts are exact whole
numbers. Units are kept by when they started, not singly: a rise is one entry, a fall takes from entries. Only
the random order needs the units themselves.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cloudsim.model.jit import compiled
from cloudsim.model.lengths import LONGEST_BINS


@compiled
def _end(counts: NDArray[np.int64], samples: int, units: int) -> None:
    """Count units that were up for this many samples and were renewed in their place as often as was due."""
    counts[LONGEST_BINS] += units * (samples // LONGEST_BINS)
    if samples % LONGEST_BINS:
        counts[samples % LONGEST_BINS] += units


@compiled
def count_stack(units: NDArray[np.int64], floors: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count intervals under last in, first out, where a renewed unit keeps its place.

    A position of the stack is thus up in runs of samples with at least that many units, and a run is cut into
    48 hours and a rest. Returns counts by length in samples, int64[bands, LONGEST_BINS + 1].

    Parameters
    ----------
    units
        int64[samples].
    floors
        int64[bands], lower ends of the bands of positions, falling to 0; a band ends where the one before
        begins.
    """
    counts = np.zeros((len(floors), LONGEST_BINS + 1), np.int64)
    # Entries: units above `below` and up to the next entry's came at `start`.
    start, below = np.empty(len(units), np.int64), np.empty(len(units), np.int64)
    entries, top = 0, 0
    for sample in range(len(units) + 1):
        here = units[sample] if sample < len(units) else 0
        if here > top:
            start[entries], below[entries] = sample, top
            entries += 1
        band = 0
        while top > here:
            # Down to the entry's lower end, the band's, or where the fall ends.
            while floors[band] >= top:
                band += 1
            lower = max(below[entries - 1], floors[band], here)
            _end(counts[band], sample - start[entries - 1], top - lower)
            top = lower
            if top == below[entries - 1]:
                entries -= 1
        top = here
    return counts


@compiled
def count_queue(units: NDArray[np.int64], newest_first: bool) -> NDArray[np.int64]:
    """Count intervals where the oldest current start is revoked first, or the newest.

    A renewed unit starts anew and so becomes the newest. Returns counts by length in samples,
    int64[LONGEST_BINS + 1].

    Parameters
    ----------
    units
        int64[samples].
    newest_first
        Revoke the newest current start first.
    """
    counts = np.zeros(LONGEST_BINS + 1, np.int64)
    # Units that started at a sample, in a ring: what is due for renewal lies where its new start belongs.
    started = np.zeros(LONGEST_BINS, np.int64)
    # Starts of entries from oldest to newest; some may be empty.
    start = np.empty(len(units), np.int64)
    first, last, active = 0, 0, 0
    for sample in range(len(units) + 1):
        here = units[sample] if sample < len(units) else 0
        while active > here:
            at = start[last - 1] if newest_first else start[first]
            ended = min(started[at % LONGEST_BINS], active - here)
            counts[sample - at] += ended
            started[at % LONGEST_BINS] -= ended
            active -= ended
            if started[at % LONGEST_BINS] == 0:
                if newest_first:
                    last -= 1
                else:
                    first += 1
        renewed = first < last and start[first] == sample - LONGEST_BINS
        if renewed:
            counts[LONGEST_BINS] += started[sample % LONGEST_BINS]
            first += 1
        if renewed or here > active:
            start[last] = sample
            last += 1
            started[sample % LONGEST_BINS] += here - active
            active = here
    return counts


@compiled
def count_random(units: NDArray[np.int64], draws: NDArray[np.float64]) -> NDArray[np.int64]:
    """Count intervals where any active unit is as likely to be revoked as any other.

    The last unit of the row takes the place of one that ends. A unit is drawn whatever its age, so that its
    renewals can be counted at the end. Returns counts by length in samples, int64[LONGEST_BINS + 1].

    Parameters
    ----------
    units
        int64[samples].
    draws
        float64[revocations], uniform in [0, 1), in order.
    """
    ended = np.zeros(len(units) + 1, np.int64)
    start = np.empty(units.max(), np.int32)
    active, drawn = 0, 0
    for sample in range(len(units)):
        for _ in range(active - units[sample]):
            unit = int(draws[drawn] * active)
            drawn += 1
            active -= 1
            ended[sample - start[unit]] += 1
            start[unit] = start[active]
        for row in range(active, units[sample]):
            start[row] = sample
        active = units[sample]
    for row in range(active):
        ended[len(units) - start[row]] += 1
    counts = np.zeros(LONGEST_BINS + 1, np.int64)
    for samples in range(1, len(ended)):
        _end(counts, samples, ended[samples])
    return counts
