"""One cloud: its inventory, its own load, its quantile table and every decision about them.

The same object runs under a replay, under the simulated federation and inside a live owner. It is told the
time and never asks for it; every decision is planned, turned into changes, and applied by ``apply``, which
recovery calls with the same changes read from the journal.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cloudsim.admission import STRICT_RULE, AdmissionRule, examine
from cloudsim.eventlog import PHASE_ON_DEMAND, PHASE_SPOT, PHASE_STOP
from cloudsim.history import History, stop_phase
from cloudsim.inventory import Inventory
from cloudsim.offers import examine_extension
from cloudsim.population import RequestLog, Threshold
from cloudsim.prediction.rule import OUR_RULE, PredictionRule
from cloudsim.promises import Ledger
from cloudsim.requests import (
    Change,
    End,
    Ended,
    Extended,
    Instance,
    Kind,
    Mode,
    Placement,
    Quote,
    Reason,
    Refusal,
    Request,
    Started,
    TurnedAway,
)
from cloudsim.scheduling.lineups import YOUNGEST_JOB_FIRST, LineUp
from cloudsim.scheduling.pipeline import plan
from cloudsim.traces.trace import Trace

if TYPE_CHECKING:
    from cloudsim.prediction.tables import QuantileTable

HOUR_S = 3600.0


@dataclass(frozen=True)
class CloudSpec:
    """What a cloud is. Tables are made at k x ``refresh_s``, the first at ``first_table_s`` (P2 §3.1)."""

    id: str
    node_cores: tuple[int, ...]
    lineup: LineUp = YOUNGEST_JOB_FIRST
    admission: AdmissionRule = STRICT_RULE
    prediction: PredictionRule = OUR_RULE
    first_table_s: float = 24 * HOUR_S
    refresh_s: float = 6 * HOUR_S


class Cloud:
    """State machine of one cloud. ``own_load`` is a trace of on-demand requests that it plays by itself,
    or None."""

    def __init__(self, spec: CloudSpec, own_load: Trace | None = None, own_load_until_s: float = math.inf):
        self.spec = spec
        self.inventory = Inventory(spec.node_cores)
        self.history = History()
        self.ledger = Ledger()
        # Population mode: requests by SLA, and the one considered last (SLA, risk, lifetime).
        self._request_logs: dict[float, RequestLog] = {}
        self._considered: tuple[float, float, float] | None = None
        self.table: QuantileTable | None = None
        self.now_s = 0.0
        self._own_arrivals = [] if own_load is None else _arrivals(own_load, own_load_until_s)
        self._own_load_next = 0  # number of the own request that comes next
        self._own_prefix = f"{spec.id}/own-"
        self._ends: list[tuple[float, int, int, str]] = []  # heap of time, phase, number, instance id

    # -- time ------------------------------------------------------------------------------------------------

    def advance(self, now_s: float, phase: int = PHASE_SPOT) -> list[Change]:
        """Lets everything happen that comes before (``now_s``, ``phase``): ends and own on-demand requests.

        With the default phase a spot request at ``now_s`` comes after the stops and on-demand starts of
        its instant and before the stops of instances that started in it (PREDICTION.md "Order of events").
        """
        changes: list[Change] = []
        while True:
            end = self._next_end()
            arrival = self._next_arrival()
            if end is None and arrival is None:
                break
            end_key = (end[0], end[1]) if end else (math.inf, 0)
            arrival_key = (arrival.start_s, PHASE_ON_DEMAND) if arrival else (math.inf, 0)
            if min(end_key, arrival_key) >= (now_s, phase):
                break
            if end is not None and end_key < arrival_key:
                heapq.heappop(self._ends)
                changes += self.end(end[3], end[0], End.COMPLETED)
            else:
                assert arrival is not None
                changes += self._play(arrival)
        self.now_s = max(self.now_s, now_s) if math.isfinite(now_s) else self.now_s
        return changes

    def next_event(self) -> tuple[float, int]:
        """Time and phase of what happens next by itself; ``AFTER_EVERYTHING`` when nothing will."""
        end, arrival = self._next_end(), self._next_arrival()
        moments = [(end[0], end[1])] if end else []
        if arrival:
            moments.append((arrival.start_s, PHASE_ON_DEMAND))
        return min(moments, default=AFTER_EVERYTHING)

    def _next_end(self) -> tuple[float, int, int, str] | None:
        while self._ends:
            end = self._ends[0]
            instance = self.inventory.get(end[3])
            if instance is not None and instance.end_s == end[0]:
                return end
            heapq.heappop(self._ends)  # it ended otherwise
        return None

    def _next_arrival(self) -> _Arrival | None:
        row = self._own_load_next
        return self._own_arrivals[row] if row < len(self._own_arrivals) else None

    def _play(self, arrival: _Arrival) -> list[Change]:
        self.now_s = arrival.start_s
        request = Request(
            id=f"{self._own_prefix}{arrival.row}",
            kind=Kind.ON_DEMAND,
            cores=arrival.cores,
            lifetime_s=arrival.stop_s - arrival.start_s,
            origin=self.spec.id,
        )
        return self._start_on_demand(request, arrival.start_s, arrival.stop_s)

    # -- decisions -------------------------------------------------------------------------------------------

    def quote(self, request: Request) -> Quote | Refusal:
        """What the cloud would answer to a spot request now. No side effects, the same code path as
        ``admit``."""
        return examine(
            self.spec.id,
            request,
            self.inventory,
            self.table,
            self.now_s,
            self.spec.admission,
            self._threshold(request),
        )

    def _threshold(self, request: Request) -> Threshold | None:
        if self.spec.admission.mode is Mode.STRICT or request.sla is None:
            return None
        log = self._request_logs.get(request.sla)
        return log.threshold if log else None

    def consider(self, request: Request) -> Quote | Refusal:
        """``quote`` for a request that is meant; population mode learns from it what is asked for.

        Once a request, whether it is admitted or not. What it teaches counts from the next one on: between
        its quote and its admission the bar stays where it is.
        """
        if self._considered is not None:
            sla, risk, lifetime_s = self._considered
            log = self._request_logs.setdefault(sla, RequestLog(sla))
            log.note(risk, lifetime_s, self.ledger.account(sla))
            self._considered = None
        answer = self.quote(request)
        risk_now = answer.eviction_probability
        # None: there is no table yet, or no room, and nothing was weighed.
        if self.spec.admission.mode is Mode.POPULATION and request.promised and risk_now is not None:
            assert request.sla is not None
            assert request.lifetime_s is not None
            self._considered = (request.sla, risk_now, request.lifetime_s)
        return answer

    def admit(self, request: Request, now_s: float) -> list[Change] | Refusal:
        """Admits a spot request that the quote allows, or says why not."""
        answer = self.quote(request)
        if isinstance(answer, Refusal):
            return answer
        placement = plan(self.inventory, request, self.spec.lineup)
        assert isinstance(placement, Placement), "a free slot was counted where nothing fits"
        assert request.lifetime_s is not None
        return self._place(
            request, placement, now_s, now_s + request.lifetime_s,
            answer.eviction_probability, answer.free_slots,
        )  # fmt: skip

    def start_on_demand(self, request: Request, now_s: float) -> list[Change]:
        """Places a request of the cloud's own users, evicting spot instances if need be; or turns it away."""
        end_s = math.inf if request.lifetime_s is None else now_s + request.lifetime_s
        return self._start_on_demand(request, now_s, end_s)

    def _start_on_demand(self, request: Request, now_s: float, end_s: float) -> list[Change]:
        placement = plan(self.inventory, request, self.spec.lineup)
        if isinstance(placement, Reason):
            refusal = Refusal(self.spec.id, placement, free_slots=self.inventory.free_slots(request.cores))
            changes: list[Change] = [TurnedAway(request, now_s, refusal)]
            self._apply_all(changes)
            return changes
        return self._place(request, placement, now_s, end_s)

    def _place(
        self, request: Request, placement: Placement, now_s: float, end_s: float, risk: float | None = None,
        free_slots: int | None = None,
    ) -> list[Change]:  # fmt: skip
        changes: list[Change] = [
            Ended(victim, now_s, End.EVICTED, cause=request.id) for victim in placement.victims
        ]
        instance = Instance(
            request.id, request.kind, request.cores, placement.node, now_s, end_s,
            number=self.history.instances, origin=request.origin, sla=request.sla, risk=risk,
            free_slots=free_slots,
        )  # fmt: skip
        changes.append(Started(instance))
        self._apply_all(changes)
        return changes

    def end(self, instance_id: str, at_s: float, how: End, cause: str | None = None) -> list[Change]:
        """Ends a running instance; nothing happens when it does not run (any more)."""
        instance = self.inventory.get(instance_id)
        if instance is None:
            return []
        changes: list[Change] = [Ended(instance, at_s, how, cause)]
        self._apply_all(changes)
        return changes

    def extend(
        self,
        instance_id: str,
        until_s: float,
        now_s: float,
        sla: float | None = None,
        cause: str | None = None,
    ) -> list[Change] | Refusal:
        """Promises a running spot instance a later end, or says why not and what would be accepted.

        sla: of the time from ``now_s`` to the new end; None: the instance's own. What was promised nothing
        stays so. Every mode of admission asks for a risk within the SLA here.
        """
        instance = self.inventory.get(instance_id)
        if instance is None or instance.kind is not Kind.SPOT:
            return Refusal(self.spec.id, Reason.ENDED)
        sla = sla if instance.promised and sla is not None else instance.sla
        answer = examine_extension(self.spec.id, instance, until_s, sla, now_s, self.table)
        if isinstance(answer, Refusal):
            return answer
        longer = replace(instance, end_s=until_s, sla=sla, risk=answer.eviction_probability)
        changes: list[Change] = [Extended(longer, now_s, cause)]
        self._apply_all(changes)
        return changes

    # -- tables ----------------------------------------------------------------------------------------------

    def table_due_s(self, now_s: float) -> float | None:
        """The refresh boundary whose table a request at ``now_s`` must meet, if that table is not there
        yet."""
        boundary_s = math.floor(now_s / self.spec.refresh_s) * self.spec.refresh_s
        if boundary_s < self.spec.first_table_s:
            return None
        if self.table is not None and self.table.made_at_s >= boundary_s:
            return None
        return boundary_s

    def needs_table(self, request: Request) -> bool:
        """Whether the answer to a spot request can depend on the table at all."""
        return request.promised and request.cores <= self.inventory.largest_node

    # -- the fold --------------------------------------------------------------------------------------------

    def _apply_all(self, changes: list[Change]) -> None:
        for change in changes:
            self.apply(change)

    def apply(self, change: Change) -> None:
        """Makes a change true. Live decisions and recovery from the journal both go through here."""
        match change:
            case Started(instance):
                self.now_s = max(self.now_s, instance.start_s)
                self.inventory.place(instance)
                self.history.record_start(instance)
                self.ledger.started(instance)
                self._expect_end(instance)
                self._own_request_done(instance.id)
            case Ended(instance, at_s, how, _):
                self.now_s = max(self.now_s, at_s)
                self.inventory.remove(instance.id)
                self.ledger.ended(instance, how)
                if how in (End.CANCELLED, End.FAILED):
                    self.history.record_changed_stop(instance, at_s)
            case Extended(instance, at_s, _):
                self.now_s = max(self.now_s, at_s)
                before = self.inventory.replace(instance)
                self.history.record_changed_stop(instance, instance.end_s)
                self._expect_end(instance)
                # One instance, one promise at a time: the earlier one is withdrawn for the longer one.
                self.ledger.ended(before, End.CANCELLED)
                self.ledger.started(instance)
            case TurnedAway(request, at_s, _):
                self.now_s = max(self.now_s, at_s)
                self._own_request_done(request.id)

    def _expect_end(self, instance: Instance) -> None:
        if math.isfinite(instance.end_s):
            phase = stop_phase(instance.start_s, instance.end_s)
            heapq.heappush(self._ends, (instance.end_s, phase, instance.number, instance.id))

    def _own_request_done(self, request_id: str) -> None:
        if request_id.startswith(self._own_prefix):
            self._own_load_next = int(request_id.removeprefix(self._own_prefix)) + 1


@dataclass(frozen=True, slots=True)
class _Arrival:
    """A row of the own load."""

    row: int
    start_s: float
    stop_s: float
    cores: int


def _arrivals(load: Trace, until_s: float) -> list[_Arrival]:
    rows = slice(0, int(load.start_s.searchsorted(until_s, side="right")))
    columns = (load.start_s[rows].tolist(), load.stop_s[rows].tolist(), load.cores[rows].tolist())
    return [_Arrival(row, *values) for row, values in enumerate(zip(*columns, strict=True))]


#: The end of a federation: every stop of an instant, nothing after it.
AFTER_EVERYTHING = (math.inf, PHASE_STOP)
