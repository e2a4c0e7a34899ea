"""Sample the time until eviction by replays, youngest job first, where only cores count.

Virtual instances stream: each is replayed once, is kept running between feeds, and is fed only the new
events. Replays in equal states have the same future, so one of them goes on for all, which is exact and most
of the speed: two virtual instances born between the same two events are equal from the start, and others
become equal once the instances they displaced have ended. Random births depend on (seed, size, number) only,
so samples depend neither on the boundaries that were fed nor on the split into shares.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cloudsim.history.event_log import RENEWAL, START_SPOT, EventLog
from cloudsim.model.errors import SpecError
from cloudsim.model.nodes import CORES_ONLY, NodeDetails
from cloudsim.model.requests import Amounts
from cloudsim.prediction.births import BirthGrid, find_level, seed_of
from cloudsim.prediction.history_chunks import MOST_CORES, Chunk, HistoryCutter
from cloudsim.prediction.kernels.replays import base_replay, copy_replays, empty_replays, resize_replays
from cloudsim.prediction.samples import Samples

#: The node of an instance is an int16.
MOST_NODES = 2**15 - 1

#: Some thirty thousand years: the numbers of the births up to it fit into int64.
LATEST_S = 1e12

#: Equal replays are searched for after this many events, or after half as many events as there are slots: a
#: search reads all slots and costs about as much as twenty events, or as one event for every forty slots.
_EVENTS_BETWEEN_SEARCHES = 128

#: Added to a horizon where it saves work only, so that rounding can never cut a sample short.
_SLACK_S = 1.0

_NEVER = -1
#: A rank above that of any instance.
YOUNGEST_OF_ALL = 2**62


@dataclass(frozen=True)
class SamplerSpec:
    """A cloud in exact terms, and how well it is sampled.

    Attributes
    ----------
    node_cores
        Cores of each node, in first-fit order.
    seed
        Key of the births, 0 to 2**64 - 1.
    births
        Samples wanted for each size. There are at least this many as soon as the history has room for them,
        and fewer than about twice as many.
    horizon_s
        A sample is followed up for this many seconds at most, then it is right-censored. The longest lifetime
        that is sold loses nothing (docs/design/prediction.md "Fast").
    always_youngest
        Evict the virtual instance before any other spot instance, whatever its age (P2 §2.4).
    release_horizons_s
        For uniform sizes; see ``PredictionRule``.
    details
        Amounts and labels of the nodes beside cores.
    lineup
        Name of the line-up by which the cloud places and evicts.
    grace_s
        Seconds between the notice and the end of an evicted instance.
    sla
        Promise to the virtual instance; matters only to line-ups that go by promises.
    predictor
        Predictor of an installed package that samples instead of ours, by name, or with its parameters as a
        table in JSON.

    Raises
    ------
    SpecError
        When a field is out of its range.
    """

    node_cores: tuple[int, ...]
    seed: int
    births: int = 10_000
    horizon_s: float = math.inf
    always_youngest: bool = False
    release_horizons_s: tuple[float, ...] = ()
    details: NodeDetails = CORES_ONLY
    lineup: str = "youngest-job-first"
    grace_s: float = 0.0
    sla: float = 0.05
    predictor: str | None = None

    def __post_init__(self) -> None:
        if not 1 <= len(self.node_cores) <= MOST_NODES:
            raise SpecError(
                f"a cloud has 1 to {MOST_NODES} nodes, not {len(self.node_cores)}", field="node_cores"
            )
        if not all(1 <= cores <= MOST_CORES for cores in self.node_cores):
            raise SpecError(f"nodes have 1 to {MOST_CORES} cores", field="node_cores")
        columns = [self.details.labels or self.node_cores, *(each for _, each in self.details.amounts)]
        if any(len(column) != len(self.node_cores) for column in columns):
            raise SpecError("each node has its amounts and its labels", field="details")
        if not 0 <= self.seed < 2**64:
            raise SpecError(f"a seed is 0 to 2**64 - 1, not {self.seed}", field="seed")
        if not 1 <= self.births <= 2**31:
            raise SpecError(f"births are 1 to 2**31, not {self.births}", field="births")
        if not self.horizon_s > 0:
            raise SpecError(f"a horizon is more than 0 s, not {self.horizon_s} s", field="horizon_s")
        if not 0 <= self.grace_s < math.inf:
            raise SpecError(f"a grace is 0 or more seconds, not {self.grace_s}", field="grace_s")
        if not 0 <= self.sla < 1:
            raise SpecError(f"the virtual instance's SLA is below 1, not {self.sla}", field="sla")


def check_share(cores: int, share: int, shares: int) -> None:
    """Check a share of the samples of a size.

    Raises
    ------
    SpecError
        Unless cores, share and number of shares are valid; the number of shares is odd.
    """
    if not 1 <= cores <= MOST_CORES:
        raise SpecError(f"a size is 1 to {MOST_CORES} cores, not {cores}", field="cores")
    if shares < 1 or shares % 2 == 0 or not 0 <= share < shares:
        raise SpecError(
            f"shares are an odd number and a share below it, not {share} of {shares}", field="share"
        )


def check_boundary(last_s: float, until_s: float) -> None:
    """Check the boundary up to which a history is to be fed.

    Raises
    ------
    SpecError
        When it is before the last boundary, or later than ``LATEST_S``.
    """
    if not last_s <= until_s <= LATEST_S:
        raise SpecError(
            f"a boundary is from {last_s} s (the last one) to {LATEST_S} s, not {until_s} s", field="until_s"
        )


class ReplaySampler:
    """Samples the time until eviction of one size: all numbers, or the share with number % shares == share.

    ``shares`` is odd, so that thinning by halves thins all shares alike. ``amounts`` of other resources make
    it a flavour of the size, with births and samples of its own; this replay looks at cores alone.

    Attributes
    ----------
    until_s
        The boundary fed last, in seconds.
    """

    def __init__(self, spec: SamplerSpec, cores: int, share: int = 0, shares: int = 1, amounts: Amounts = ()):
        cores = int(cores)  # sizes often come out of a numpy column
        check_share(cores, share, shares)
        self.spec, self.cores, self.share, self.shares = spec, cores, share, shares
        self.amounts = amounts
        self.until_s = 0.0
        self._level = 0
        self._grid = BirthGrid(seed_of(int(spec.seed), amounts), cores, spec.births)
        # Births with a free slot so far, of all shares, by the largest power of two that divides the number.
        # Counts below ``_level`` are not kept up: the level never falls.
        self._valid = np.zeros(64, np.int64)
        self._cutter = HistoryCutter(len(spec.node_cores))
        self._base = base_replay(spec.node_cores)
        self._replays = empty_replays(len(spec.node_cores))
        self._unused = np.empty(0, np.int64)  # rows of ``_replays`` that are free
        self._unsearched_events = 0
        # Samples by number. end_s is NaN as long as the instance runs, row is then that of its replay; it is
        # inf for one that was followed up long enough.
        self._number = np.empty(0, np.int64)
        self._birth_s = np.empty(0, np.float64)
        self._free_slots = np.empty(0, np.int32)
        self._end_s = np.empty(0, np.float64)
        self._row = np.empty(0, np.int64)

    def feed(self, events: EventLog, until_s: float) -> None:
        """Go on with the history up to, not including, ``until_s``.

        A refused feed changes nothing.

        Parameters
        ----------
        events
            Events in [previous ``until_s``, ``until_s``), going on where the last feed ended.
        until_s
            The new boundary in seconds.

        Raises
        ------
        SpecError
            When the boundary goes back.
        InputError
            When the events are out of order.
        """
        check_boundary(self.until_s, until_s)
        chunks = self._cutter.cut(events, self.until_s, until_s)
        self._widen(chunks[-1].slots)
        free_slots = self._count_free_slots(chunks, len(events))
        number, birth_s = self._draw(events.time_s, free_slots, until_s)
        gap = np.searchsorted(events.time_s, birth_s, side="right")
        unborn = len(self._number)
        self._number = np.concatenate((self._number, number))
        self._birth_s = np.concatenate((self._birth_s, birth_s))
        self._free_slots = np.concatenate((self._free_slots, free_slots[gap]))
        self._end_s = np.concatenate((self._end_s, np.full(len(number), np.nan)))
        self._row = np.concatenate((self._row, np.full(len(number), _NEVER)))
        rank = self._ranks(events, gap)
        for chunk in chunks:
            end = chunk.begin + len(chunk.events.kind)
            # Births after the last event of a chunk belong to the next one, if there is one.
            born = len(gap) if chunk is chunks[-1] else int(np.searchsorted(gap, end))
            begin = int(np.searchsorted(gap, chunk.begin))
            self._run(
                chunk, events.time_s, slice(unborn + begin, unborn + born), gap[begin:born], rank[begin:born]
            )
        self.until_s = until_s

    def samples(self) -> Samples:
        """Return the samples known at ``until_s``; those of running virtual instances are right-censored."""
        running = np.isnan(self._end_s)
        duration_s = np.where(running, self.until_s, self._end_s) - self._birth_s
        # An instance without notice lives on for the grace at least: every sample is followed up that long.
        return Samples(
            self.cores,
            self.until_s,
            self._level,
            self._number,
            self._birth_s,
            self._free_slots,
            np.minimum(duration_s, self.spec.horizon_s) + self.spec.grace_s,
            ~running & (duration_s < self.spec.horizon_s),
            np.zeros(len(duration_s), np.float64),
            amounts=self.amounts,
        )

    # -- births ----------------------------------------------------------------------------------------------

    def _count_free_slots(self, chunks: list[Chunk], count: int) -> NDArray[np.int32]:
        """Count free slots of the size before each event and after the last, without virtual instances."""
        from cloudsim.prediction.kernels import youngest_first as kernel

        base = copy_replays(self._base)
        free_slots = np.empty(count + 1, np.int32)
        for chunk in chunks:
            written = free_slots[chunk.begin : chunk.begin + len(chunk.events.kind) + 1]
            kernel.count_free_slots(chunk.events, chunk.spots, base, self.cores, written)
        return free_slots

    def _draw(
        self, times: NDArray[np.float64], free_slots: NDArray[np.int32], until_s: float
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return this share's births in [self.until_s, until_s) that find a free slot, and their times.

        Their level is the highest one with as many births as wanted in the whole history; older samples are
        thinned to it.
        """
        edges = np.concatenate(([self.until_s], times, [until_s]))
        room = np.concatenate(([False], free_slots > 0, [False]))
        from_s = edges[:-1][room[1:-1] & ~room[:-2]]
        to_s = edges[1:][room[1:-1] & ~room[2:]]
        level = max(self._level, self._grid.highest_level(until_s))
        while True:
            number, birth_s = self._grid.within(from_s, to_s, level)
            if level == self._level or int(self._valid[level:].sum()) + len(number) >= self.spec.births:
                break
            level -= 1
        self._valid += np.bincount(find_level(number), minlength=len(self._valid))
        if level > self._level:
            self._thin(level)
        own = number % self.shares == self.share
        return number[own], birth_s[own]

    def _thin(self, level: int) -> None:
        """Drop the samples that are not of the level, and the replays that no sample needs any more."""
        self._level = level
        kept = self._number % (1 << level) == 0
        self._number, self._birth_s = self._number[kept], self._birth_s[kept]
        self._free_slots, self._end_s = self._free_slots[kept], self._end_s[kept]
        self._row = self._row[kept]
        self._collect()

    def _ranks(self, events: EventLog, gap: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rank of each birth: how many spot instances have started before it.

        A virtual instance that is always the youngest has a rank above that of any instance.
        """
        return np.full(len(gap), YOUNGEST_OF_ALL) if self.spec.always_youngest else self._ages(events, gap)

    def _ages(self, events: EventLog, gap: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how many spot instances have started, or were renewed, before each birth."""
        started = np.zeros(len(events) + 1, np.int64)
        np.cumsum((events.kind == START_SPOT) | (events.kind == RENEWAL), out=started[1:])
        before: NDArray[np.int64] = self._cutter.spot_starts - started[-1] + started[gap]
        return before

    # -- replays ---------------------------------------------------------------------------------------------

    def _run(
        self,
        chunk: Chunk,
        times: NDArray[np.float64],
        born: slice,
        gap: NDArray[np.int64],
        rank: NDArray[np.int64],
    ) -> None:
        """Start the replays of those ``born`` in a chunk, and run all replays through it."""
        old = self._running_rows()
        rows, begin = self._give_birth(chunk, born, gap, rank)
        rows = np.concatenate((old, rows))
        times = times[chunk.begin : chunk.begin + len(chunk.events.kind)]
        if not len(rows) or not len(times):
            return
        evicted_by = np.empty(len(rows), np.int64)
        begin = np.concatenate((np.zeros(len(old), np.int64), begin))
        end = self._ends(rows, times)
        self._advance(chunk, rows, begin, end, evicted_by)
        self._end(rows, evicted_by, times)
        self._unsearched_events += len(times)
        if self._unsearched_events >= max(_EVENTS_BETWEEN_SEARCHES, self._cutter.slots // 2):
            self._unsearched_events = 0
            self._join_equal_replays(chunk)

    def _give_birth(
        self, chunk: Chunk, born: slice, gap: NDArray[np.int64], rank: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the rows of new replays, and the events of the chunk before which they begin."""
        from cloudsim.prediction.kernels import youngest_first as kernel

        first = np.flatnonzero(np.diff(gap, prepend=-1))  # those born before the same event share a replay
        rows = self._take_rows(len(first))
        self._row[born] = np.repeat(rows, np.diff(first, append=len(gap)))
        self._replays.rank[rows] = rank[first]
        begin = gap[first] - chunk.begin
        kernel.give_birth(
            chunk.events,
            chunk.spots,
            self._base,
            self.cores,
            self._replays,
            rows,
            begin,
        )
        return rows, begin

    def _advance(
        self,
        chunk: Chunk,
        rows: NDArray[np.int64],
        begin: NDArray[np.int64],
        end: NDArray[np.int64],
        evicted_by: NDArray[np.int64],
    ) -> None:
        """Run replays through their events of a chunk; write which event evicted each, or -1."""
        from cloudsim.prediction.kernels import youngest_first as kernel

        kernel.advance(chunk.events, chunk.spots, self.cores, self._replays, rows, begin, end, evicted_by)

    def _ends(self, rows: NDArray[np.int64], times: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the event of a chunk at which each replay may end.

        By then all its samples have had their horizon.
        """
        if math.isinf(self.spec.horizon_s):
            return np.full(len(rows), len(times))
        running = np.flatnonzero(self._row != _NEVER)
        youngest_s = np.empty(len(self._replays.rank), np.float64)
        youngest_s[self._row[running]] = self._birth_s[running]  # births rise: the last one stays
        return np.searchsorted(times, youngest_s[rows] + self.spec.horizon_s + _SLACK_S)

    def _end(
        self, rows: NDArray[np.int64], evicted_by: NDArray[np.int64], times: NDArray[np.float64]
    ) -> None:
        """Note the evictions of a chunk, and which samples have had their horizon at its end."""
        by_row = np.full(len(self._replays.rank) + 1, -1, np.int64)  # the last is for samples without a row
        by_row[rows] = evicted_by
        ended = np.flatnonzero(by_row[self._row] != -1)
        self._end_s[ended] = times[by_row[self._row[ended]]]
        over = np.flatnonzero(np.isnan(self._end_s) & (times[-1] - self._birth_s >= self.spec.horizon_s))
        self._end_s[over] = np.inf
        if len(ended) + len(over):
            self._row[ended] = _NEVER
            self._row[over] = _NEVER
            self._collect()

    def _join_equal_replays(self, chunk: Chunk) -> None:
        """Let one replay go on for all that are in the same state."""
        from cloudsim.prediction.kernels import youngest_first as kernel

        rows = self._running_rows()
        words = self._replays.node.view(np.uint64)
        younger, digests = np.empty(len(rows), np.int64), np.empty(len(rows), np.uint64)
        kernel.digest_states(chunk.spots, self._replays, words, rows, younger, digests)
        order = np.argsort(digests, kind="stable")
        rows, same_as = rows[order], np.empty(len(rows), np.int64)
        kernel.find_equal_replays(self._replays, words, rows, younger[order], digests[order], same_as)
        if np.array_equal(same_as, rows):
            return
        by_row = np.arange(len(self._replays.rank) + 1)
        by_row[-1] = _NEVER
        by_row[rows] = same_as
        self._row = by_row[self._row]
        self._collect()

    # -- rows ------------------------------------------------------------------------------------------------

    def _running_rows(self) -> NDArray[np.int64]:
        used = np.ones(len(self._replays.rank), np.bool_)
        used[self._unused] = False
        return np.flatnonzero(used)

    def _collect(self) -> None:
        """Free the rows of replays that no running sample needs."""
        unused = np.ones(len(self._replays.rank) + 1, np.bool_)
        unused[self._row] = False
        self._unused = np.flatnonzero(unused[:-1])

    def _take_rows(self, count: int) -> NDArray[np.int64]:
        rows = len(self._replays.rank)
        if count > len(self._unused):
            grown = max(2 * rows, rows + count)
            self._replays = resize_replays(self._replays, grown, self._base.node.shape[1])
            self._unused = np.concatenate((self._unused, np.arange(rows, grown)))
        taken, self._unused = self._unused[:count], self._unused[count:]
        return taken

    def _widen(self, slots: int) -> None:
        """Make room for this many slot numbers."""
        known = self._base.node.shape[1]
        if slots > known:
            width = -4 * (-max(slots, known + known // 2) // 4)  # four to a word, see ``kernel.digest``
            self._base = resize_replays(self._base, 1, width)
            self._replays = resize_replays(self._replays, len(self._replays.rank), width)
