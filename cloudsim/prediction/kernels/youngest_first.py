"""Replay one cloud's history with virtual spot instances in it, youngest job first, compiled.

Every replay, with or without a virtual instance, goes through the same events; what differs is the node of
each instance. An instance therefore has the same *slot number* in all replays, given by ``history_chunks``,
and a replay is two rows: free cores by node, and node by slot. ``reference/youngest_first.py`` is the plain
reference.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np
from numba.cpython.unsafe.numbers import trailing_zeros
from numpy.typing import NDArray

from cloudsim.history.event_log import START_ON_DEMAND, STOP
from cloudsim.model.jit import compiled
from cloudsim.prediction.history_chunks import Events, SpotLine
from cloudsim.prediction.kernels.replays import FirstFit, Replays

NOWHERE = -1
EVICTED = -2

_lowest_bit = cast("Callable[[np.uint64], int]", trailing_zeros)  # its argument is not 0


@compiled
def _first_fit(free: NDArray[np.int32], cores: int) -> int:
    for node in range(len(free)):
        if free[node] >= cores:
            return node
    return NOWHERE


@compiled
def _mark(
    free: NDArray[np.int32],
    node: NDArray[np.int16],
    spots: SpotLine,
    before: int,
    cores: int,
    virtual_node: int,
    virtual_cores: int,
    virtual_rank: int,
    marked: NDArray[np.int32],
) -> tuple[int, int, bool]:
    """Mark running spot instances by node, youngest first, until one node would have room for ``cores``.

    Returns that node (NOWHERE if evicting all would not help), the place in the line before the last one
    marked, and whether the virtual instance was marked. ``marked`` becomes the marked cores by node.
    """
    marked[:] = 0
    waiting = virtual_node != NOWHERE  # the virtual instance's turn has not come
    at = before - 1
    while True:
        if waiting and (at < 0 or spots.ordinal[at] < virtual_rank):
            waiting = False
            place, size = virtual_node, virtual_cores
        elif at >= 0:
            place, size = int(node[spots.slot[at]]), int(spots.cores[at])
            at -= 1
            if place == NOWHERE:
                continue
        else:
            return NOWHERE, at, False
        marked[place] += size
        if free[place] + marked[place] >= cores:
            return place, at, not waiting


@compiled
def _make_room(
    free: NDArray[np.int32],
    node: NDArray[np.int16],
    spots: SpotLine,
    before: int,
    cores: int,
    virtual_node: int,
    virtual_cores: int,
    virtual_rank: int,
    marked: NDArray[np.int32],
) -> int:
    """Evict, youngest job first, for an on-demand instance of ``cores`` that fits nowhere.

    On the node that would have room first (``_mark``) the marked instances are the victims; those that turn
    out not to be needed are spared, youngest first. Returns the node, NOWHERE if no eviction helps, or
    EVICTED if the virtual instance is a victim: its replay ends there, and is left half done.
    """
    taken, last, came = _mark(
        free, node, spots, before, cores, virtual_node, virtual_cores, virtual_rank, marked
    )
    if taken == NOWHERE:
        return NOWHERE
    surplus = free[taken] + marked[taken] - cores
    waiting = came and virtual_node == taken
    for index in range(before - 1, last, -1):
        if waiting and spots.ordinal[index] < virtual_rank:
            waiting = False
            if virtual_cores > surplus:
                return EVICTED
            surplus -= virtual_cores
        slot = spots.slot[index]
        if node[slot] != taken:
            continue
        size = spots.cores[index]
        if size <= surplus:
            surplus -= size
        else:
            node[slot] = NOWHERE
            free[taken] += size
    # Older than all others that were marked, it was the last one: without it there was no room.
    return EVICTED if waiting else taken


@compiled
def _index(sizes: NDArray[np.int32], free: NDArray[np.int32], index: FirstFit) -> None:
    """Fill the index, if the chunk has one."""
    if len(sizes) == 0:
        return
    index.fits[:] = 0
    index.nonzero[:] = 0
    index.level[:] = 0
    for node in range(len(free)):
        _reindex(sizes, index.fits, index.nonzero, index.level, node, free[node])


@compiled
def _new_index(events: Events, nodes: int) -> FirstFit:
    """Make room for the index of one replay during a chunk."""
    words, sizes = (nodes + 63) >> 6, len(events.sizes)
    return FirstFit(
        np.zeros((sizes, words), np.uint64),
        np.zeros((sizes, (words + 63) >> 6), np.uint64),
        np.zeros(nodes, np.int32),
    )


@compiled
def _first_indexed(fits: NDArray[np.uint64], nonzero: NDArray[np.uint64], row: int) -> int:
    """Return the first node with room for size number ``row``, or NOWHERE."""
    for part in range(nonzero.shape[1]):
        if nonzero[row, part]:
            word = (part << 6) + int(_lowest_bit(nonzero[row, part]))
            return (word << 6) + int(_lowest_bit(fits[row, word]))
    return NOWHERE


@compiled
def _reindex(
    sizes: NDArray[np.int32],
    fits: NDArray[np.uint64],
    nonzero: NDArray[np.uint64],
    level: NDArray[np.int32],
    node: int,
    free: int,
) -> None:
    """Note in an index how many cores are free on a node now."""
    at, word = level[node], node >> 6
    bit, word_bit = np.uint64(1) << np.uint64(node & 63), np.uint64(1) << np.uint64(word & 63)
    while at < len(sizes) and sizes[at] <= free:
        fits[at, word] |= bit
        nonzero[at, word >> 6] |= word_bit
        at += 1
    while at > 0 and sizes[at - 1] > free:
        at -= 1
        fits[at, word] &= ~bit
        if fits[at, word] == 0:
            nonzero[at, word >> 6] &= ~word_bit
    level[node] = at


@compiled
def _run(
    events: Events,
    spots: SpotLine,
    begin: int,
    end: int,
    free: NDArray[np.int32],
    node: NDArray[np.int16],
    virtual_node: int,
    virtual_cores: int,
    virtual_rank: int,
    marked: NDArray[np.int32],
    index: FirstFit,
) -> int:
    """Run one replay through the events begin to end - 1.

    Returns the event that evicted the virtual instance, or NOWHERE. ``index`` is that of ``free`` before and
    after, unless the chunk has none.

    This loop is where the time goes. It works on plain local arrays and calls nothing in the common case:
    handing a dozen arrays to a function costs ten times what an event costs.
    """
    kinds, slots, cores_of, levels = events.kind, events.slot, events.cores, events.level
    sizes, fits, nonzero, level = events.sizes, index.fits, index.nonzero, index.level
    indexed = len(sizes) > 0
    for event in range(begin, end):
        slot, cores = slots[event], cores_of[event]
        if kinds[event] == STOP:
            touched = int(node[slot])
            if touched == NOWHERE:
                continue
            free[touched] += cores
            node[slot] = NOWHERE
        else:
            touched = NOWHERE
            if indexed:
                touched = _first_indexed(fits, nonzero, levels[event])
            else:
                for place in range(len(free)):
                    if free[place] >= cores:
                        touched = place
                        break
            if touched == NOWHERE and kinds[event] == START_ON_DEMAND:
                touched = _make_room(
                    free, node, spots, events.spots_before[event], cores,
                    virtual_node, virtual_cores, virtual_rank, marked,
                )  # fmt: skip
            if touched == EVICTED:
                return event
            if touched == NOWHERE:
                continue
            free[touched] -= cores
            node[slot] = touched
        if indexed:
            _reindex(sizes, fits, nonzero, level, touched, free[touched])
    return NOWHERE


@compiled
def count_free_slots(
    events: Events,
    spots: SpotLine,
    base: Replays,
    cores: int,
    free_slots: NDArray[np.int32],
) -> None:
    """Run the replay without a virtual instance, the only row of ``base``, through a chunk.

    Parameters
    ----------
    cores
        The size whose free slots are counted.
    free_slots
        int32[events + 1]; free slots before each event and after the last one are written.
    """
    free, node = base.free[0], base.node[0]
    marked = np.zeros(len(free), np.int32)
    index = _new_index(events, len(free))
    _index(events.sizes, free, index)
    by_node = free // cores
    slots = by_node.sum()
    free_slots[0] = slots
    for event in range(len(events.kind)):
        # An event changes one node: that where its instance was or is.
        slot = events.slot[event]
        touched = node[slot]
        _run(events, spots, event, event + 1, free, node, NOWHERE, cores, 0, marked, index)
        if touched == NOWHERE:
            touched = node[slot]
        if touched != NOWHERE:
            slots += free[touched] // cores - by_node[touched]
            by_node[touched] = free[touched] // cores
        free_slots[event + 1] = slots


@compiled
def give_birth(
    events: Events,
    spots: SpotLine,
    base: Replays,
    cores: int,
    replays: Replays,
    rows: NDArray[np.int64],
    born_before: NDArray[np.int64],
) -> None:
    """Run ``base`` through a chunk, and start a replay with a virtual instance in it at each birth.

    Parameters
    ----------
    rows
        int64[births], row of each new replay.
    born_before
        int64[births], event before which it is born, ascending, up to the chunk's length.
    """
    free, node = base.free[0], base.node[0]
    marked = np.zeros(len(free), np.int32)
    index = _new_index(events, len(free))
    _index(events.sizes, free, index)
    event = 0
    for birth in range(len(rows) + 1):
        until = born_before[birth] if birth < len(rows) else len(events.kind)
        _run(events, spots, event, until, free, node, NOWHERE, cores, 0, marked, index)
        event = until
        if birth < len(rows):
            row = rows[birth]
            replays.free[row] = free
            replays.node[row] = node
            chosen = _first_fit(free, cores)
            replays.free[row, chosen] -= cores
            replays.virtual_node[row] = chosen


@compiled
def advance(
    events: Events,
    spots: SpotLine,
    cores: int,
    replays: Replays,
    rows: NDArray[np.int64],
    begin: NDArray[np.int64],
    end: NDArray[np.int64],
    evicted_by: NDArray[np.int64],
) -> None:
    """Run the replays ``rows`` through a chunk, each through its own range of events, index after the other.

    Parameters
    ----------
    rows
        int64[replays], rows of ``replays`` to run.
    begin, end
        int64[replays]; each replay runs through events ``begin`` to ``end - 1``.
    evicted_by
        int64[replays]; the event that evicted the virtual instance is written, or -1.
    """
    nodes = replays.free.shape[1]
    marked = np.zeros(nodes, np.int32)
    first_fit = _new_index(events, nodes)
    for index in range(len(rows)):
        row = rows[index]
        _index(events.sizes, replays.free[row], first_fit)
        evicted_by[index] = _run(
            events, spots, begin[index], end[index], replays.free[row], replays.node[row],
            replays.virtual_node[row], cores, replays.rank[row], marked, first_fit,
        )  # fmt: skip


@compiled
def _younger(spots: SpotLine, node: NDArray[np.int16], rank: int) -> int:
    """Count the running spot instances that are younger than the virtual one."""
    count = 0
    index = len(spots.slot) - 1
    while index >= 0 and spots.ordinal[index] >= rank:
        count += node[spots.slot[index]] != NOWHERE
        index -= 1
    return count


@compiled
def digest_states(
    spots: SpotLine,
    replays: Replays,
    words: NDArray[np.uint64],
    rows: NDArray[np.int64],
    younger: NDArray[np.int64],
    digests: NDArray[np.uint64],
) -> None:
    """Write a hash of each replay's state, and how many spot instances are younger than its virtual one.

    Only running spot instances count.

    Parameters
    ----------
    words
        uint64[rows, words], ``replays.node`` with four slots to a word.
    rows
        int64[replays].
    younger
        int64[replays], written.
    digests
        uint64[replays], written.
    """
    factor = np.uint64(0x9E3779B97F4A7C15)
    for index in range(len(rows)):
        row = rows[index]
        younger[index] = _younger(spots, replays.node[row], replays.rank[row])
        value = np.uint64(younger[index] << 16) ^ np.uint64(replays.virtual_node[row])
        for word in range(words.shape[1]):
            value = (value ^ words[row, word]) * factor
            value ^= value >> np.uint64(32)
        digests[index] = value


@compiled
def find_equal_replays(
    replays: Replays,
    words: NDArray[np.uint64],
    rows: NDArray[np.int64],
    younger: NDArray[np.int64],
    digests: NDArray[np.uint64],
    same_as: NDArray[np.int64],
) -> None:
    """Write for each replay the first one in the same state, or itself.

    Equal hashes are only a hint: the states are compared in full. The nodes of all instances determine the
    free cores.

    Parameters
    ----------
    words
        uint64[rows, words], ``replays.node`` with four slots to a word.
    rows
        int64[replays], in order of ``digests``.
    same_as
        int64[replays], written: a row of ``replays``.
    """
    first = 0
    for index in range(len(rows)):
        if digests[index] != digests[first]:
            first = index
        row, other = rows[first], rows[index]
        same = younger[first] == younger[index] and replays.virtual_node[row] == replays.virtual_node[other]
        word = 0
        while same and word < words.shape[1]:
            same = words[row, word] == words[other, word]
            word += 1
        same_as[index] = row if same else other
