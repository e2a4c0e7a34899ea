"""Check the recorded history and cut it into chunks that a kernel can run every replay through.

An instance gets a slot number when it starts and gives it back at its *requested* stop, which is the same in
every replay, whether the instance runs there or not. Numbers are given back at the end of a chunk only, so
that within a chunk a slot number, or a place in the line of spot instances, never means two instances.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloudsim.history.event_log import (
    RENEWAL,
    START_ON_DEMAND,
    START_SPOT,
    STOP,
    EventLog,
    check_times,
    log_fault,
    starts_among,
)

#: Few enough that replays in equal states are joined soon, and that a chunk fits into the first-level cache
#: together with a replay's rows; many enough that the search for equal states costs little.
EVENTS_A_CHUNK = 256

#: Up to this many nodes, first-fit searches node by node. Above, it uses an index of the nodes with room for
#: each size (``FirstFit``), built for each replay and chunk, which pays only over enough events.
NODES_SEARCHED_ONE_BY_ONE = 64
EVENTS_A_NODE = 4

MOST_CORES = 2**31 - 1


class Events(NamedTuple):
    """Events of a chunk, as columns of equal length.

    Attributes
    ----------
    kind
        int8[events], as in ``EventLog``.
    slot
        int32[events], slot number of the instance.
    cores
        int32[events], size of the instance.
    spots_before
        int32[events], places of the chunk's ``SpotLine`` that have started before the event.
    sizes
        int32[sizes], ascending, distinct cores of the chunk's starts; empty if nodes are searched one by one.
    level
        int32[events], index in ``sizes`` of a start's cores; meaningless for other events.
    """

    kind: NDArray[np.int8]
    slot: NDArray[np.int32]
    cores: NDArray[np.int32]
    spots_before: NDArray[np.int32]
    sizes: NDArray[np.int32]
    level: NDArray[np.int32]


class SpotLine(NamedTuple):
    """Spot instances that are open when a chunk begins or start in it, oldest first.

    An instance is open until its requested stop.

    Attributes
    ----------
    slot
        int32[places], slot number.
    cores
        int32[places], size.
    ordinal
        int64[places], number of spot instances that had started, or were renewed, before.
    """

    slot: NDArray[np.int32]
    cores: NDArray[np.int32]
    ordinal: NDArray[np.int64]


class Chunk(NamedTuple):
    """Consecutive events of a log, from ``begin`` to ``begin + len(events.kind) - 1``.

    Attributes
    ----------
    begin
        Row of the first event in the log.
    events
        The events.
    spots
        Spot instances that are open or start in the chunk.
    slots
        All slot numbers in use are below this.
    """

    begin: int
    events: Events
    spots: SpotLine
    slots: int


class HistoryCutter:
    """Cuts consecutive event logs of one cloud into chunks, and remembers open instances between them.

    Parameters
    ----------
    nodes
        Number of nodes of the cloud; wide clouds get longer chunks with an index of sizes.
    """

    def __init__(self, nodes: int = 1) -> None:
        self._indexed = nodes > NODES_SEARCHED_ONE_BY_ONE
        self._length = max(EVENTS_A_CHUNK, EVENTS_A_NODE * nodes) if self._indexed else EVENTS_A_CHUNK
        self.slots = 0  # numbers ever given out
        self.spot_starts = 0
        self._last_number = -1
        # Instances whose stop has not come, by instance number.
        self._number = np.empty(0, np.int64)
        self._cores = np.empty(0, np.int64)
        self._slot = np.empty(0, np.int32)
        self._free = np.empty(0, np.int32)  # slot numbers given back
        self._line = SpotLine(np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.int64))

    def cut(self, events: EventLog, from_s: float, until_s: float) -> list[Chunk]:
        """Return the chunks, at least one, of a log that goes on where the last one ended.

        A log that is refused leaves no trace.

        Parameters
        ----------
        events
            Events in [from_s, until_s), seconds.

        Raises
        ------
        InputError
            When events are out of order, or one stops an instance that is not open.
        """
        self._check(events, from_s, until_s)
        starts = np.flatnonzero(events.starts)
        number = np.concatenate((self._number, events.instance[starts]))
        cores = np.concatenate((self._cores, events.cores[starts]))
        stops = np.flatnonzero(events.kind == STOP)
        stopped = self._match(events, stops, starts, number, cores)
        twice = np.sort(stopped)
        if np.any(twice[1:] == twice[:-1]):
            raise log_fault(f"instance {number[twice[:-1][twice[1:] == twice[:-1]][0]]} stops twice")
        renewals = np.flatnonzero(events.kind == RENEWAL)

        instance = np.empty(len(events), np.int64)  # row of each event's instance in ``number``
        instance[starts] = np.arange(len(self._number), len(number))
        instance[stops] = stopped
        instance[renewals] = self._match(events, renewals, starts, number, cores)
        slot = np.concatenate((self._slot, np.empty(len(starts), np.int32)))
        # Within a chunk the line stays as it is: a renewal begins one of its own.
        begins = np.union1d(np.arange(0, max(len(events), 1), self._length), renewals).tolist()
        chunks = [
            self._chunk(events, begin, instance[begin:end], slot)
            for begin, end in zip(begins, [*begins[1:], len(events)], strict=True)
        ]
        running = np.ones(len(number), np.bool_)
        running[stopped] = False
        self._number, self._cores, self._slot = number[running], cores[running], slot[running]
        self._last_number = int(events.instance[starts[-1]]) if len(starts) else self._last_number
        return chunks

    def _check(self, events: EventLog, from_s: float, until_s: float) -> None:
        """Check columns, times and the order of starts."""
        check_times(events, from_s, until_s)
        if not len(events):
            return
        if not np.all(np.isin(events.kind, (STOP, START_ON_DEMAND, START_SPOT, RENEWAL))):
            raise log_fault("an event is a STOP, START_ON_DEMAND, START_SPOT or RENEWAL")
        if events.cores.min() < 1 or events.cores.max() > MOST_CORES:
            raise log_fault(f"instances have 1 to {MOST_CORES} cores")
        started = np.append(self._last_number, events.instance[events.starts])
        if np.any(started[1:] <= started[:-1]):
            at = int(np.flatnonzero(started[1:] <= started[:-1])[0])
            raise log_fault(
                f"instance {started[at + 1]} starts after instance {started[at]}: numbers rise with starts"
            )

    @staticmethod
    def _match(
        events: EventLog,
        events_naming: NDArray[np.int64],
        starts: NDArray[np.int64],
        number: NDArray[np.int64],
        cores: NDArray[np.int64],
    ) -> NDArray[np.int64]:
        """Return the row in ``number`` of the instance that each stop or renewal names."""
        instances = events.instance[events_naming]
        rows = np.searchsorted(number, instances)
        unknown = rows == len(number)
        unknown[~unknown] = number[rows[~unknown]] != instances[~unknown]
        # Rows of instances that start in this log come last in ``number``; their stop must come after their
        # start.
        open_before = len(number) - len(starts)
        known = np.flatnonzero(~unknown & (rows >= open_before))
        early = known[starts[rows[known] - open_before] > events_naming[known]]
        unknown[early] = True
        if np.any(unknown):
            raise log_fault(f"instance {instances[unknown][0]} stops but does not run")
        if np.any(cores[rows] != events.cores[events_naming]):
            wrong = instances[cores[rows] != events.cores[events_naming]][0]
            raise log_fault(f"instance {wrong} stops with other cores than it started with")
        return rows

    def _renew(self, slot: int) -> None:
        """Move the open spot instance with that slot number to the end of the line."""
        newest = self._line.slot == slot
        order = np.argsort(newest, kind="stable")
        ordinal = np.where(newest, self.spot_starts, self._line.ordinal)
        self._line = SpotLine(self._line.slot[order], self._line.cores[order], ordinal[order])
        self.spot_starts += 1

    def _chunk(
        self, events: EventLog, begin: int, instance: NDArray[np.int64], slot: NDArray[np.int32]
    ) -> Chunk:
        """Give slot numbers to the starts of a chunk, and take back those of its stops.

        Parameters
        ----------
        begin
            Row of the first event in the log.
        instance
            int64[events], row in ``slot`` of each event's instance.
        slot
            int32[instances], slot numbers; those of the chunk's starts are written.
        """
        end = begin + len(instance)
        kind = events.kind[begin:end].astype(np.int8)  # a copy: one kind of array is one compilation
        cores = events.cores[begin:end].astype(np.int32)
        starts = np.flatnonzero(starts_among(kind))
        reused = min(len(starts), len(self._free))
        fresh = len(starts) - reused
        given = np.concatenate(
            (
                self._free[len(self._free) - reused :],
                np.arange(self.slots, self.slots + fresh, dtype=np.int32),
            )
        )
        self.slots += fresh
        slot[instance[starts]] = given
        slots = slot[instance]
        if len(kind) and kind[0] == RENEWAL:
            self._renew(int(slots[0]))
        spot = kind == START_SPOT
        open_before, started = len(self._line.slot), np.cumsum(spot)
        spots = SpotLine(
            np.concatenate((self._line.slot, slots[spot])),
            np.concatenate((self._line.cores, cores[spot])),
            np.concatenate((self._line.ordinal, self.spot_starts + np.arange(np.count_nonzero(spot)))),
        )
        self.spot_starts += int(np.count_nonzero(spot))
        given_back = slots[kind == STOP]
        self._free = np.concatenate((self._free[: len(self._free) - reused], given_back))
        still_open = ~np.isin(spots.slot, given_back)
        self._line = SpotLine(spots.slot[still_open], spots.cores[still_open], spots.ordinal[still_open])
        sizes = np.unique(cores[starts]) if self._indexed else np.empty(0, np.int32)
        return Chunk(
            begin,
            Events(
                kind,
                slots,
                cores,
                (open_before + started - spot).astype(np.int32),
                sizes,
                np.searchsorted(sizes, cores).astype(np.int32),
            ),
            spots,
            self.slots,
        )
