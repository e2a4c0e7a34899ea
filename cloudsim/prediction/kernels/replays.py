"""The replays that are under way: one row each, grown and reused as virtual instances are born and end."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Replays(NamedTuple):
    """Replays of one cloud's history, with one virtual instance each or none; one row a replay.

    free: int32[rows, nodes], free cores. node: int16[rows, slots], where the instance with that slot number
    is, -1 if it does not run in this replay. virtual_node: int64[rows], where the virtual instance is, -1 if
    there is none. rank: int64[rows], how many spot instances had started when it was born: it is younger than
    all of these.
    """

    free: NDArray[np.int32]
    node: NDArray[np.int16]
    virtual_node: NDArray[np.int64]
    rank: NDArray[np.int64]


class FirstFit(NamedTuple):
    """Where each size of a chunk would be placed in one replay, for clouds too wide to be searched node by
    node.

    fits: uint64[sizes, words], bit n of row k is set where node n has room for ``Events.sizes[k]``. some:
    uint64[sizes, words of words], bit w of row k is set where word w of ``fits`` is not 0. level:
    int32[nodes], how many of these sizes, ascending, have room on the node.
    """

    fits: NDArray[np.uint64]
    some: NDArray[np.uint64]
    level: NDArray[np.int32]


def empty_replays(nodes: int) -> Replays:
    """No rows yet, on a cloud of so many nodes."""
    return Replays(
        np.zeros((0, nodes), np.int32),
        np.full((0, 0), -1, np.int16),
        np.zeros(0, np.int64),
        np.zeros(0, np.int64),
    )


def base_replay(node_cores: tuple[int, ...]) -> Replays:
    """One row: an empty cloud without a virtual instance."""
    return Replays(
        np.array([node_cores], np.int32),
        np.full((1, 0), -1, np.int16),
        np.full(1, -1, np.int64),
        np.zeros(1, np.int64),
    )


def copy_replays(replays: Replays) -> Replays:
    """The same rows, to be run on by themselves."""
    return resize_replays(replays, len(replays.rank), replays.node.shape[1])


def resize_replays(replays: Replays, rows: int, slots: int) -> Replays:
    """The same replays with room for so many rows and slots; new slots are empty."""
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
