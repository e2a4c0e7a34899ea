"""Sample the time until eviction under any line-up: the policy shapes the lifetimes (P1 §II-C).

Virtual instances stream as in ``ReplaySampler``: each is a counterfactual replay of the cloud's history from
its birth on, but under the cloud's own line-up, with all its resources, labels and groups. The virtual
instance is a spot instance of its flavour without labels and group, and with the SLA of the spec: younger
than all that started before it, older than all that start later. In a random order, which goes by the numbers
of instances, it has the next number, and later instances have one more.

An extension is a renewal where the line-up renews: the instance then counts as the newest. Not replayed:
nodes that were closed or drained, and promises that were changed by extensions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloudsim.history.event_log import NO_GROUP, EventLog, StartDetails, log_fault, starts_among
from cloudsim.model.requests import Amounts, Labels
from cloudsim.prediction.history_chunks import Chunk
from cloudsim.prediction.kernels.line_up_replays import (
    RANDOM,
    YOUNGEST,
    EventDetails,
    ExtraResources,
    LineUpSpotLine,
    Virtual,
    rules_of,
)
from cloudsim.prediction.kernels.replays import copy_replays
from cloudsim.prediction.samplers.replay import YOUNGEST_OF_ALL, ReplaySampler, SamplerSpec
from cloudsim.scheduling.eviction import ByKey
from cloudsim.scheduling.lineups import lineup
from cloudsim.scheduling.victims import InOrder


class _Slots(NamedTuple):
    """Open instances, by slot number; ``number`` is that of the instance, ``group`` as in the log."""

    further: NDArray[np.int64]
    start_s: NDArray[np.float64]
    sla: NDArray[np.float64]
    number: NDArray[np.int64]
    group: NDArray[np.int64]


class LineUpSampler(ReplaySampler):
    """Samples one flavour under ``spec.lineup``; the interface is that of ``ReplaySampler``.

    Parameters
    ----------
    amounts
        Amounts of other resources that the flavour needs; resources that the cloud does not have are ignored.

    Raises
    ------
    SpecError
        When the line-up cannot be replayed.
    """

    def __init__(self, spec: SamplerSpec, cores: int, share: int = 0, shares: int = 1, amounts: Amounts = ()):
        super().__init__(spec, cores, share, shares, amounts)
        victims = lineup(spec.lineup).victims
        self._rules = rules_of(lineup(spec.lineup))
        self._key = (
            victims.order.key if isinstance(victims, InOrder) and isinstance(victims.order, ByKey) else None
        )
        # Whether replays with virtual instances of different birth, or draw, can never be in equal states.
        self._births_differ = self._rules.cost.changes
        self._draws_differ = self._rules.order == RANDOM
        self._resources = spec.details.resources[1:]
        has, nodes = dict(amounts), len(spec.node_cores)
        further = np.array([has.get(name, 0) for name in self._resources], np.int64)
        key = 0.0 if self._key is None else float(self._key(self.cores, float(spec.sla)))
        self._virtual = Virtual(self.cores, further, float(spec.sla), key)
        capacity = np.array([each for _, each in spec.details.amounts], np.int64)
        self._base_more = ExtraResources(
            capacity.reshape(1, len(further), nodes), np.zeros(1), np.zeros(1, np.uint64)
        )
        self._base.rank[:] = YOUNGEST_OF_ALL  # all started before a virtual instance that never comes
        self._more = _resize_resources(self._base_more, 0)
        self._slots = _resize_slots(None, 0, len(further))
        self._label_sets: tuple[Labels, ...] = ()
        self._masks = np.empty((0, nodes), np.bool_)
        # Of the log that is being fed.
        self._events, self._details = EventLog.empty(), _no_details(0, self._resources)
        self._next_number = np.zeros(1, np.int64)  # before each event, and after the last

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
            When the events are out of order, or the log has other resources than the cloud.
        """
        details = events.details or _no_details(len(events), self._resources)
        self._check(details, len(events))
        self._events, self._details = events, details
        started = np.where(events.starts, events.instance, -1) + 1
        next_number = np.maximum.accumulate(np.concatenate((self._next_number[-1:], started)))
        before, self._next_number = self._next_number, next_number
        try:
            super().feed(events, until_s)
        except Exception:
            self._next_number = before
            raise

    def _check(self, details: StartDetails, events: int) -> None:
        """Check the details that the kernel takes for granted, and learn new sets of labels."""
        if details.resources != self._resources:
            raise log_fault(f"the cloud has {self._resources}, the log {details.resources}")
        columns = (details.amounts, details.sla, details.labels, details.group, details.spread)
        if any(len(column) != events for column in columns):
            raise log_fault("the columns of an event log have the same length")
        if np.any(details.amounts < 0):
            raise log_fault("amounts are 0 or more")
        known, label_sets = self._label_sets, details.label_sets
        if known[: len(label_sets)] != label_sets[: len(known)]:
            raise log_fault("sets of labels are those of the logs before, and new ones after them")
        if np.any((details.labels < 0) | (details.labels >= len(label_sets))):
            raise log_fault("labels are one of the log's sets")
        if len(label_sets) > len(known):
            of_nodes = self.spec.details.labels or (frozenset(),) * len(self.spec.node_cores)
            self._label_sets = label_sets
            self._masks = np.array(
                [[labels <= node_labels for node_labels in of_nodes] for labels in label_sets], np.bool_
            )

    # -- steps of ReplaySampler that differ here -------------------------------------------------------------

    def _count_free_slots(self, chunks: list[Chunk], count: int) -> NDArray[np.int32]:
        from cloudsim.prediction.kernels import line_up as kernel

        base, more = copy_replays(self._base), _resize_resources(self._base_more, 1)
        slots = _resize_slots(self._slots, len(self._slots.number), len(self._resources))
        free_slots = np.empty(count + 1, np.int32)
        whole = np.zeros(1, np.int64)
        for chunk in chunks:
            line, view = self._kernel_view(chunk, slots)
            end = np.array([len(chunk.events.kind)])
            written = free_slots[chunk.begin : chunk.begin + int(end[0]) + 1]
            kernel.advance(
                self._rules, chunk.events, line, view, self._virtual, base, more, whole, whole, end,
                np.empty(1, np.int64), base, more, whole[:0], written,
            )  # fmt: skip
        return free_slots

    def _ranks(self, events: EventLog, gap: NDArray[np.int64]) -> NDArray[np.int64]:
        if self._draws_differ:  # the order ignores ages: no instance is always the youngest
            return super()._ages(events, gap)
        return super()._ranks(events, gap)

    def _give_birth(
        self, chunk: Chunk, born: slice, gap: NDArray[np.int64], rank: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        from cloudsim.prediction.kernels import line_up as kernel

        self._current_view = line, view = self._kernel_view(chunk, self._slots)
        first = np.arange(len(gap)) if self._births_differ else np.flatnonzero(np.diff(gap, prepend=-1))
        rows = self._take_rows(len(first))
        self._row[born] = np.repeat(rows, np.diff(first, append=len(gap)))
        self._replays.rank[rows] = rank[first]
        self._more.birth_s[rows] = self._birth_s[born][first]
        self._more.draw[rows] = _draws(self._next_number[gap[first]])
        begin = gap[first] - chunk.begin
        # The replay without a virtual instance, from birth to birth and to the end.
        edges = np.concatenate(([0], begin, [len(chunk.events.kind)]))
        kernel.advance(
            self._rules, chunk.events, line, view, self._virtual, self._base, self._base_more,
            np.zeros(len(edges) - 1, np.int64), edges[:-1], edges[1:], np.empty(len(edges) - 1, np.int64),
            self._replays, self._more, rows, np.empty(0, np.int32),
        )  # fmt: skip
        return rows, begin

    def _advance(
        self,
        chunk: Chunk,
        rows: NDArray[np.int64],
        begin: NDArray[np.int64],
        end: NDArray[np.int64],
        evicted_by: NDArray[np.int64],
    ) -> None:
        from cloudsim.prediction.kernels import line_up as kernel

        line, view = self._current_view
        kernel.advance(
            self._rules, chunk.events, line, view, self._virtual, self._replays, self._more, rows, begin, end,
            evicted_by, self._replays, self._more, rows[:0], np.empty(0, np.int32),
        )  # fmt: skip

    def _join_equal_replays(self, chunk: Chunk) -> None:
        if not self._births_differ and not self._draws_differ:
            super()._join_equal_replays(chunk)

    def _take_rows(self, count: int) -> NDArray[np.int64]:
        rows = super()._take_rows(count)
        if len(self._replays.rank) > len(self._more.draw):
            self._more = _resize_resources(self._more, len(self._replays.rank))
        return rows

    def _widen(self, slots: int) -> None:
        super()._widen(slots)
        width = self._base.node.shape[1]
        if width > len(self._slots.number):
            self._slots = _resize_slots(self._slots, width, len(self._resources))

    # -- arguments of the kernel -----------------------------------------------------------------------------

    def _kernel_view(self, chunk: Chunk, slots: _Slots) -> tuple[LineUpSpotLine, EventDetails]:
        """Return a chunk as the kernel reads it, and note instances that start in it in ``slots``."""
        part = slice(chunk.begin, chunk.begin + len(chunk.events.kind))
        details, time_s = self._details, self._events.time_s[part]
        starts = np.flatnonzero(starts_among(chunk.events.kind))
        at, rows = chunk.events.slot[starts], starts + chunk.begin
        slots.further[at], slots.start_s[at] = details.amounts[rows], time_s[starts]
        slots.sla[at], slots.number[at] = details.sla[rows], self._events.instance[rows]
        slots.group[at] = details.group[rows]
        view = EventDetails(
            np.ascontiguousarray(time_s, np.float64),
            np.ascontiguousarray(details.labels[part], np.int64),
            np.ascontiguousarray(details.group[part], np.int64),
            np.ascontiguousarray(details.spread[part], np.int8),
            slots.further,
            slots.group,
            self._masks,
        )
        return self._line(chunk, slots), view

    def _line(self, chunk: Chunk, slots: _Slots) -> LineUpSpotLine:
        slot, ordinal = chunk.spots.slot, chunk.spots.ordinal
        amounts = np.empty((len(slot) + 1, 1 + len(self._resources)), np.int64)
        amounts[:-1, 0], amounts[:-1, 1:] = chunk.spots.cores, slots.further[slot]
        amounts[-1, 0], amounts[-1, 1:] = self.cores, self._virtual.further
        sla = slots.sla[slot]
        order, later = np.arange(len(slot)), np.empty(0, np.int64)
        draw = later_draw = np.empty(0, np.uint64)
        if self._rules.order == RANDOM:
            draw, later_draw = _draws(slots.number[slot]), _draws(slots.number[slot] + 1)
            order, later = np.argsort(draw), np.argsort(later_draw)
        elif self._rules.order == YOUNGEST:
            order = order[::-1].copy()
        key = np.empty(0)
        if self._key is not None:
            key = np.asarray(self._key(amounts[:-1, 0], sla), np.float64)
            order = order[np.argsort(key[order], kind="stable")]
        return LineUpSpotLine(
            slot, ordinal, amounts, slots.start_s[slot], sla, order, key, draw, later, later_draw
        )


def _draws(number: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Compute ``eviction.random_order`` of many numbers.

    SplitMix64's finalizer keeps different numbers different.
    """
    value = number.astype(np.uint64)
    value += np.uint64(0x9E3779B97F4A7C15)
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


def _no_details(events: int, resources: tuple[str, ...]) -> StartDetails:
    """Return the details of a log that records cores only."""
    return StartDetails(
        resources,
        (frozenset(),),
        np.zeros((events, len(resources)), np.int64),
        np.ones(events),
        np.zeros(events, np.int64),
        np.full(events, NO_GROUP),
        np.zeros(events, np.int8),
    )


def _resize_resources(more: ExtraResources, rows: int) -> ExtraResources:
    """Return a copy with this many rows."""
    grown = ExtraResources(
        np.zeros((rows, *more.further.shape[1:]), np.int64), np.zeros(rows), np.zeros(rows, np.uint64)
    )
    kept = min(rows, len(more.draw))
    for new, old in zip(grown, more, strict=True):
        new[:kept] = old[:kept]
    return grown


def _resize_slots(slots: _Slots | None, count: int, resources: int) -> _Slots:
    """Return a copy with this many slots."""
    grown = _Slots(
        np.zeros((count, resources), np.int64),
        np.zeros(count),
        np.ones(count),
        np.zeros(count, np.int64),
        np.full(count, NO_GROUP),
    )
    if slots is not None:
        for new, old in zip(grown, slots, strict=True):
            new[: len(old)] = old
    return grown
