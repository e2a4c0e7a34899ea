"""Sample the time until eviction under line-ups with parts in plain Python, by the scheduler itself.

No compiled replay knows what a function of one's own does, so each virtual instance goes on in a copy of the
cloud. That takes hundreds of times as long as ``line_up``: fewer births are followed.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cloudsim.history.event_log import (
    APART,
    NO_GROUP,
    NO_SPREAD,
    RENEWAL,
    START_ON_DEMAND,
    STOP,
    TOGETHER,
    EventLog,
)
from cloudsim.model.instances import Instance, Placement
from cloudsim.model.requests import Amounts, Kind, Request, Spread
from cloudsim.prediction.history_chunks import Chunk
from cloudsim.prediction.samplers.replay import ReplaySampler, SamplerSpec
from cloudsim.scheduling.inventory import Inventory
from cloudsim.scheduling.lineups import lineup
from cloudsim.scheduling.pipeline import plan

#: The most births that are followed, whatever is asked for.
PLAIN_BIRTHS = 200

#: Id of the virtual instance.
VIRTUAL = "virtual"
_SPREADS = {NO_SPREAD: None, TOGETHER: Spread.TOGETHER, APART: Spread.APART}


class ReplayedCloud:
    """One replay of a history under a line-up, by the scheduler itself.

    Attributes
    ----------
    shift
        Added to the numbers of instances that start from now on: 1 once the virtual instance is born.
    """

    def __init__(self, spec: SamplerSpec):
        self.spec, self.lineup = spec, lineup(spec.lineup)
        self.inventory = Inventory(spec.node_cores, spec.details)
        self.next_number, self.shift = 0, 0
        self.evictions = 0

    def copy(self) -> ReplayedCloud:
        """Return a copy that goes on by itself."""
        other = copy(self)
        other.inventory = self.inventory.copy()
        return other

    def start(self, request: Request, number: int, now_s: float) -> None:
        """Place an instance if it can be placed, evicting if it may."""
        placement = plan(self.inventory, request, self.lineup, now_s)
        self.next_number = number + 1
        if not isinstance(placement, Placement):
            return
        for victim in placement.victims:
            self.inventory.remove(victim.id)
            self.evictions += 1
        instance = Instance(
            request.id, request.kind, request.cores, placement.node, now_s, np.inf, number,
            sla=request.sla, amounts=request.amounts, group=request.group,
        )  # fmt: skip
        self.inventory.place(instance)
        if request.kind is Kind.SPOT and self.spec.always_youngest and VIRTUAL in self.inventory:
            virtual = self.inventory.remove(VIRTUAL)
            self.inventory.place(replace(virtual, number=2**60 + number))

    def play(self, events: EventLog, row: int) -> None:
        """Replay one event of the log."""
        number, now_s = int(events.instance[row]), float(events.time_s[row])
        if events.kind[row] == STOP:
            if str(number) in self.inventory:
                self.inventory.remove(str(number))
            return
        if events.kind[row] == RENEWAL:
            renewed = self.inventory.get(str(number))
            if renewed is not None:
                self.inventory.replace(replace(renewed, renewed_at_s=now_s))
            return
        self.start(_request(events, row), number + self.shift, now_s)

    def give_birth(self, cores: int, amounts: Amounts, now_s: float) -> int:
        """Place the virtual instance under the cloud's next number; return the free slots before."""
        free_slots = self.inventory.free_slots(cores, amounts=amounts)
        if free_slots:
            request = Request(VIRTUAL, Kind.SPOT, cores, None, self.spec.sla, amounts=amounts)
            self.start(request, self.next_number, now_s)
            self.shift = 1
        return free_slots


def _request(events: EventLog, row: int) -> Request:
    on_demand = events.kind[row] == START_ON_DEMAND
    kind = Kind.ON_DEMAND if on_demand else Kind.SPOT
    request = Request(
        str(events.instance[row]), kind, int(events.cores[row]), None, None if on_demand else 0.05
    )
    details = events.details
    if details is None:
        return request
    amounts = zip(details.resources, details.amounts[row].tolist(), strict=True)
    group = int(details.group[row])
    return replace(
        request,
        sla=None if on_demand else float(details.sla[row]),
        amounts=tuple((name, amount) for name, amount in amounts if amount),
        labels=details.label_sets[details.labels[row]],
        group=None if group == NO_GROUP else f"group-{group}",
        spread=_SPREADS[int(details.spread[row])],
    )


class PlainSampler(ReplaySampler):
    """Samples one flavour under any line-up; births, boundaries and samples are those of ``ReplaySampler``.

    Parameters
    ----------
    amounts
        Amounts of other resources that the flavour needs.
    """

    def __init__(self, spec: SamplerSpec, cores: int, share: int = 0, shares: int = 1, amounts: Amounts = ()):
        spec = replace(spec, births=min(spec.births, PLAIN_BIRTHS))
        super().__init__(spec, cores, share, shares, amounts)
        self._cloud = ReplayedCloud(spec)
        self._clouds: dict[int, ReplayedCloud] = {}  # by row
        self._events = EventLog.empty()

    def feed(self, events: EventLog, until_s: float) -> None:
        """Go on with the history up to, not including, ``until_s``; see ``ReplaySampler.feed``."""
        before, self._events = self._events, events
        try:
            super().feed(events, until_s)
        except Exception:
            self._events = before
            raise

    def _count_free_slots(self, chunks: list[Chunk], count: int) -> NDArray[np.int32]:
        del chunks
        cloud, free_slots = self._cloud.copy(), np.empty(count + 1, np.int32)
        for row in range(count + 1):
            free_slots[row] = cloud.inventory.free_slots(self.cores, amounts=self.amounts)
            if row < count:
                cloud.play(self._events, row)
        return free_slots

    def _give_birth(
        self, chunk: Chunk, born: slice, gap: NDArray[np.int64], rank: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        del rank
        rows = self._take_rows(len(gap))
        self._row[born] = rows
        begin = gap - chunk.begin
        births = zip(rows.tolist(), begin.tolist(), self._birth_s[born].tolist(), strict=True)
        played = 0
        for row, before, birth_s in births:
            self._play(self._cloud, chunk, played, before)
            played = before
            self._clouds[row] = self._cloud.copy()
            self._clouds[row].give_birth(self.cores, self.amounts, birth_s)
        self._play(self._cloud, chunk, played, len(chunk.events.kind))
        return rows, begin

    def _advance(
        self,
        chunk: Chunk,
        rows: NDArray[np.int64],
        begin: NDArray[np.int64],
        end: NDArray[np.int64],
        evicted_by: NDArray[np.int64],
    ) -> None:
        parts = zip(rows.tolist(), begin.tolist(), end.tolist(), strict=True)
        evicted_by[:] = [self._play(self._clouds[row], chunk, first, last) for row, first, last in parts]
        self._clouds = {
            row: self._clouds[row] for row, event in zip(rows.tolist(), evicted_by, strict=True) if event < 0
        }

    def _play(self, cloud: ReplayedCloud, chunk: Chunk, begin: int, end: int) -> int:
        """Play events of a chunk, and return the one that evicted the virtual instance, or -1."""
        followed = VIRTUAL in cloud.inventory
        for event in range(begin, end):
            cloud.play(self._events, chunk.begin + event)
            if followed and VIRTUAL not in cloud.inventory:
                return event
        return -1

    def _join_equal_replays(self, chunk: Chunk) -> None:
        """Join none: whether two states are equal, only their parts could say."""
