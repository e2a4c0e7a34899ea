"""What a cloud is at a moment, and the fold that makes changes true.

Decisions (``cloudsim.cloud.cloud``) and recovery from a journal both go through ``apply``.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import replace
from typing import TYPE_CHECKING

from cloudsim.admission.fair_share import Contention
from cloudsim.admission.population import RequestLog
from cloudsim.admission.promise_ledger import PromiseLedger
from cloudsim.cloud.headroom import Headroom
from cloudsim.cloud.inventory import Inventory
from cloudsim.cloud.spec import CloudSpec, recorded_resources
from cloudsim.disclosure.masked_tables import coarsen_table
from cloudsim.history.event_log import PHASE_ON_DEMAND
from cloudsim.history.history import History, stop_phase
from cloudsim.history.own_load import Arrival, arrivals_of
from cloudsim.model.changes import (
    Booked,
    Change,
    Cordoned,
    End,
    Ended,
    Extended,
    Noticed,
    Started,
    TurnedAway,
    Withdrawn,
)
from cloudsim.model.instances import Instance
from cloudsim.traces.trace import Trace

if TYPE_CHECKING:
    from cloudsim.prediction.tables import QuantileTable

#: How a cause begins when somebody drains a node. Requests have no spaces in their ids.
DRAIN = "drain by "
#: How it begins when the cloud took an instance back by itself, for no request that its owner knows.
TAKEN = "taken back: "


def for_nobody(cause: str | None) -> bool:
    """Whether no request of the history takes the room of who is evicted for this cause."""
    return cause is not None and cause.startswith((DRAIN, TAKEN))


class CloudState:
    """Inventory, history, table and counts of one cloud. ``own_load`` is a trace of on-demand requests that
    it plays by itself, or None."""

    def __init__(self, spec: CloudSpec, own_load: Trace | None = None, own_load_until_s: float = math.inf):
        self.spec = spec
        self.inventory = Inventory(spec.node_cores, spec.details)
        self.history = History(recorded_resources(spec))
        self.ledger = PromiseLedger()
        # Population mode: requests by SLA, and the one considered last (SLA, risk, lifetime).
        self._request_logs: dict[float, RequestLog] = {}
        self._considered: tuple[float, float, float] | None = None
        self._table: QuantileTable | None = None
        self.contention = Contention(spec.fair_share)
        self.now_s = 0.0
        self._own_arrivals = [] if own_load is None else arrivals_of(own_load, own_load_until_s)
        self._own_load_next = 0  # number of the own request that comes next
        self._own_prefix = f"{spec.id}/own-"
        self.headroom = Headroom(spec.id, spec.headroom)
        # Heap of time, phase, number, instance id. An eviction that was announced has PHASE_ON_DEMAND: after
        # the stops of its instant, before the arrivals that may want the room.
        self._ends: list[tuple[float, int, int, str]] = []
        self.noticed_for: dict[str, str | None] = {}  # instance, and what it has to leave for

    @property
    def table(self) -> QuantileTable | None:
        """What it decides by: no more than it discloses (``cloudsim.disclosure.masked_tables``)."""
        return self._table

    @table.setter
    def table(self, table: QuantileTable | None) -> None:
        self._table = table and coarsen_table(table, self.spec.disclosure)

    def _next_end(self) -> tuple[float, int, int, str] | None:
        while self._ends:
            end = self._ends[0]
            instance = self.inventory.get(end[3])
            if instance is not None:
                leaves_s = instance.evict_at_s if end[1] == PHASE_ON_DEMAND else instance.end_s
                if leaves_s == end[0]:
                    return end
            heapq.heappop(self._ends)  # it ended otherwise
        return None

    def _next_arrival(self) -> Arrival | None:
        row = self._own_load_next
        return self._own_arrivals[row] if row < len(self._own_arrivals) else None

    # -- the fold --------------------------------------------------------------------------------------------

    def _apply_all(self, changes: list[Change]) -> None:
        for change in changes:
            self.apply(change)

    def apply(self, change: Change) -> None:
        """Makes a change true. Live decisions and recovery from the journal both go through here."""
        self._apply(change)
        self.headroom.note(change)

    def _apply(self, change: Change) -> None:
        match change:
            case Started(instance):
                self._apply_start(instance)
            case Ended(instance, at_s, how, cause):
                self.now_s = max(self.now_s, at_s)
                self.inventory.remove(instance.id)
                self.ledger.ended(instance, how)
                self.noticed_for.pop(instance.id, None)
                if how in (End.CANCELLED, End.FAILED) or for_nobody(cause):
                    self.history.record_changed_stop(instance, at_s)
            case Extended(instance, at_s, _):
                self.now_s = max(self.now_s, at_s)
                before = self.inventory.replace(instance)
                self.history.record_changed_stop(instance, instance.end_s)
                if instance.renewed_at_s == at_s:
                    self.history.record_renewal(instance, at_s)
                self._expect_end(instance)
                # One instance, one promise at a time: the earlier one is withdrawn for the longer one.
                self.ledger.ended(before, End.CANCELLED)
                self.ledger.started(instance)
            case TurnedAway(request, at_s, _):
                self.now_s = max(self.now_s, at_s)
                self._own_request_done(request.id)
            case _:
                self._apply_notice(change)

    def _apply_start(self, instance: Instance) -> None:
        self.now_s = max(self.now_s, instance.start_s)
        if self.inventory.waiting(instance.id) is not None:  # in the history since it was booked
            self.history.record_changed_stop(instance, instance.end_s)
        else:
            self.history.record_start(instance)
        self.inventory.place(instance)
        self.ledger.started(instance)
        self._expect_end(instance)
        self._own_request_done(instance.id)

    def _apply_notice(self, change: Noticed | Booked | Withdrawn | Cordoned) -> None:
        self.now_s = max(self.now_s, change.at_s)
        match change:
            case Noticed(instance, _, cause):
                self.inventory.replace(instance)
                self.noticed_for[instance.id] = cause
                assert instance.evict_at_s is not None
                end = (instance.evict_at_s, PHASE_ON_DEMAND, instance.number, instance.id)
                heapq.heappush(self._ends, end)
            case Booked(instance):
                self.inventory.book(instance)
                # When it will stop is not known before it starts.
                self.history.record_start(replace(instance, end_s=math.inf))
                self._own_request_done(instance.id)
            case Withdrawn(instance, at_s):
                self.inventory.withdraw(instance.id)
                self.history.record_changed_stop(instance, at_s)
            case Cordoned(nodes, closed, _):
                self.inventory.close(nodes, closed=closed)

    def _expect_end(self, instance: Instance) -> None:
        if math.isfinite(instance.end_s):
            phase = stop_phase(instance.start_s, instance.end_s)
            heapq.heappush(self._ends, (instance.end_s, phase, instance.number, instance.id))

    def _own_request_done(self, request_id: str) -> None:
        if request_id.startswith(self._own_prefix):
            # One that had to wait starts after those that came later.
            number = int(request_id.removeprefix(self._own_prefix))
            self._own_load_next = max(self._own_load_next, number + 1)
