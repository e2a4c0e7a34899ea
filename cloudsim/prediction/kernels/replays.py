"""Rows of replays under way: one row each, grown and reused as virtual instances are born and end."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Replays(NamedTuple):
    """Replays of one cloud's history, with one virtual instance each or none; one row a replay.

    Attributes
    ----------
    free
        int32[rows, nodes], free cores.
    node
        int16[rows, slots], node of the instance with that slot number, -1 if it does not run in this replay.
    virtual_node
        int64[rows], node of the virtual instance, -1 if there is none.
    rank
        int64[rows], number of spot instances that had started when the virtual instance was born: it is
        younger than all of these.
    """

    free: NDArray[np.int32]
    node: NDArray[np.int16]
    virtual_node: NDArray[np.int64]
    rank: NDArray[np.int64]


class FirstFit(NamedTuple):
    """Index of first-fit: where each size of a chunk would be placed in one replay.

    It serves clouds that are too wide to be searched node by node.

    Attributes
    ----------
    fits
        uint64[sizes, words]; bit n of row k is set if node n has room for ``Events.sizes[k]``.
    nonzero
        uint64[sizes, words of words]; bit w of row k is set if word w of ``fits`` is not 0.
    level
        int32[nodes], how many of these sizes, ascending, have room on the node.
    """

    fits: NDArray[np.uint64]
    nonzero: NDArray[np.uint64]
    level: NDArray[np.int32]


def empty_replays(nodes: int) -> Replays:
    """Return replays without any row, on a cloud of this many nodes."""
    return Replays(
        np.zeros((0, nodes), np.int32),
        np.full((0, 0), -1, np.int16),
        np.zeros(0, np.int64),
        np.zeros(0, np.int64),
    )


def base_replay(node_cores: tuple[int, ...]) -> Replays:
    """Return one row: an empty cloud without a virtual instance."""
    return Replays(
        np.array([node_cores], np.int32),
        np.full((1, 0), -1, np.int16),
        np.full(1, -1, np.int64),
        np.zeros(1, np.int64),
    )


def copy_replays(replays: Replays) -> Replays:
    """Return a copy of all rows."""
    return resize_replays(replays, len(replays.rank), replays.node.shape[1])


def resize_replays(replays: Replays, rows: int, slots: int) -> Replays:
    """Return a copy with room for this many rows and slots; new slots are empty."""
    kept = min(rows, len(replays.rank))
    known = replays.node.shape[1]
    grown = Replays(
        np.zeros((rows, replays.free.shape[1]), np.int32),
        np.full((rows, slots), -1, np.int16),
        np.zeros(rows, np.int64),
        np.zeros(rows, np.int64),
    )
    grown.free[:kept] = replays.free[:kept]
    grown.node[:kept, :known] = replays.node[:kept]
    grown.virtual_node[:kept] = replays.virtual_node[:kept]
    grown.rank[:kept] = replays.rank[:kept]
    return grown
