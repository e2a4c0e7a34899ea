"""One cloud: its inventory, its own load, its quantile table and every decision about them.

The same object runs in a replay, in the simulated federation and inside a live owner. It is told the time and
never asks for it. Every decision is planned, turned into changes, and made true by ``Cloud.apply``, which
recovery calls with the same changes read from the journal.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from cloudsim.admission.fair_share import Contention
from cloudsim.admission.pools import PoolView
from cloudsim.admission.population import Considered, RequestLog, Threshold
from cloudsim.admission.products import Products
from cloudsim.admission.promise_ledger import PromiseLedger
from cloudsim.admission.rule import examine
from cloudsim.cloud.calendar import Calendar, CalendarEntry, Rank
from cloudsim.cloud.extensions import examine_longer
from cloudsim.cloud.headroom import Headroom
from cloudsim.cloud.node_plan import NodePlan
from cloudsim.cloud.spec import CloudSpec, recorded_resources
from cloudsim.disclosure.masked_tables import coarsen_table
from cloudsim.disclosure.masking import mask_answer, mask_refusal
from cloudsim.history.event_log import PHASE_ON_DEMAND, PHASE_SPOT, PHASE_STOP
from cloudsim.history.history import History, stop_phase
from cloudsim.history.own_load import Arrival, arrivals_of
from cloudsim.history.take_backs import TakeBacks
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
    for_nobody,
    was_taken,
)
from cloudsim.model.instances import Instance, Placement, Quote
from cloudsim.model.refusals import Refusal, RefusalReason
from cloudsim.model.requests import Kind, Mode, Request
from cloudsim.scheduling.inventory import Inventory, latest_start_s
from cloudsim.scheduling.pipeline import allowed_nodes, explain, plan
from cloudsim.traces.trace import Trace

if TYPE_CHECKING:
    from cloudsim.prediction.tables import QuantileTable

#: The end of a federation: every stop of an instant, nothing after it.
AFTER_EVERYTHING = (math.inf, PHASE_STOP)

#: Names of the entries of the calendar that are about no instance. Ids have no spaces.
_OWN_LOAD, _HEADROOM = "own load", "keep headroom"


class Cloud:
    """The state machine of one cloud: what it is at a moment, its time, and its decisions.

    spec: what the cloud is. own_load: a trace of on-demand requests that it plays by itself, or None.
    own_load_until_s: requests of the trace that arrive later are not played.
    """

    def __init__(self, spec: CloudSpec, own_load: Trace | None = None, own_load_until_s: float = math.inf):
        self.spec = spec
        self.inventory = Inventory(spec.node_cores, spec.details)
        self.history = History(recorded_resources(spec))
        self.ledger = PromiseLedger()
        # Population mode: requests by SLA, and the last one considered.
        self.request_logs: dict[float, RequestLog] = {}
        self.considered: Considered | None = None
        self._table: QuantileTable | None = None
        self.contention = Contention(spec.fair_share)
        self.now_s = 0.0
        self.calendar = Calendar()
        self._own_prefix = f"{spec.id}/own-"
        self._own_arrivals = [] if own_load is None else arrivals_of(own_load, own_load_until_s)
        self.own_load_next = 0
        self.continue_own_load(0)
        self.headroom = Headroom(spec.id, spec.headroom, self._schedule_headroom)
        self.take_backs = TakeBacks()
        self.noticed_for: dict[str, str | None] = {}  # by instance under notice, the cause of its notice
        self.own_cores = 0  # of own users' running instances
        self.own_peak_cores = 0  # the most that own users ever wanted at once
        self.largest_own_cores = 0  # of one request of theirs that was admitted

    # -- time ------------------------------------------------------------------------------------------------

    def advance(self, now_s: float, phase: int = PHASE_SPOT) -> list[Change]:
        """Let everything happen that comes before (``now_s``, ``phase``). Returns the changes.

        With the default phase a spot request at ``now_s`` comes after the stops and on-demand starts of its
        instant and before the stops of instances that started in it (docs/design/prediction.md "Order of
        events").
        """
        changes: list[Change] = []
        while (entry := self.calendar.first()) is not None:
            if (entry.at_s, entry.phase) >= (self.headroom.not_before(now_s), phase):
                break
            changes += self.calendar.run(entry)
        self.now_s = max(self.now_s, now_s) if math.isfinite(now_s) else self.now_s
        return changes

    def next_event(self) -> tuple[float, int]:
        """Return time and phase of what happens next by itself; ``AFTER_EVERYTHING`` when nothing will."""
        entry = self.calendar.first()
        return AFTER_EVERYTHING if entry is None else (entry.at_s, entry.phase)

    def expect_end(self, instance: Instance) -> None:
        """Schedule when a running instance completes, or leaves because its notice is over.

        An announced eviction has ``PHASE_ON_DEMAND``: it comes after the stops of its instant, and before the
        arrivals that may want the room.
        """
        end = instance.end_s, stop_phase(instance.start_s, instance.end_s)
        if instance.evict_at_s is not None:
            end = min(end, (instance.evict_at_s, PHASE_ON_DEMAND))
        if math.isfinite(end[0]):
            self.calendar.schedule(
                CalendarEntry(*end, Rank.END, instance.number, instance.id, self._end_in_time)
            )

    def _end_in_time(self, entry: CalendarEntry) -> list[Change]:
        how = End.EVICTED if entry.phase == PHASE_ON_DEMAND else End.COMPLETED
        return self.end(entry.name, entry.at_s, how)

    def _end_before(self, at_s: float) -> list[Change]:
        """End the instances whose time is over before the stops of ``at_s``."""
        changes: list[Change] = []
        while (entry := self.calendar.first_end()) is not None and entry[:2] < (at_s, PHASE_STOP):
            changes += self.calendar.run(entry)
        return changes

    def continue_own_load(self, row: int) -> None:
        """Go on with a row of the own load. Rows before it are over."""
        self.own_load_next = row
        if row < len(self._own_arrivals):
            arrival = self._own_arrivals[row]
            self.calendar.schedule(
                CalendarEntry(arrival.start_s, PHASE_ON_DEMAND, Rank.ARRIVAL, row, _OWN_LOAD, self._play_next)
            )
        else:
            self.calendar.cancel(_OWN_LOAD)

    def end_own_load(self) -> None:
        """Play no more of the own load."""
        self.calendar.cancel(_OWN_LOAD)

    def _play_next(self, entry: CalendarEntry) -> list[Change]:
        return self._play(self._own_arrivals[entry.number])

    def _play(self, arrival: Arrival) -> list[Change]:
        self.now_s = max(self.now_s, arrival.start_s)
        return self._start_on_demand(self._own_request(arrival), arrival.start_s, arrival.stop_s)

    def _own_request(self, arrival: Arrival) -> Request:
        return Request(
            id=f"{self._own_prefix}{arrival.row}",
            kind=Kind.ON_DEMAND,
            cores=arrival.cores,
            lifetime_s=arrival.stop_s - arrival.start_s,
            origin=self.spec.id,
            amounts=self.spec.details.flavour(arrival.cores),
            parallel=arrival.parallel,
        )

    def _own_request_done(self, request_id: str) -> None:
        if request_id.startswith(self._own_prefix):
            # A request that had to wait starts after those that came later.
            row = int(request_id.removeprefix(self._own_prefix)) + 1
            if row > self.own_load_next:
                self.continue_own_load(row)

    def _schedule_headroom(self, at_s: float, phase: int) -> None:
        self.calendar.schedule(CalendarEntry(at_s, phase, Rank.HEADROOM, 0, _HEADROOM, self._keep_headroom))

    def _keep_headroom(self, entry: CalendarEntry) -> list[Change]:
        """Place the blocks of headroom that are missing, as far as there is room."""
        at_s = entry.at_s
        if at_s < self.now_s:  # the cloud was restarted with other blocks
            at_s = math.nextafter(self.now_s, math.inf)
        changes: list[Change] = []
        surplus = self.headroom.surplus(self.inventory)
        if surplus:
            at_s = self.headroom.after_starts(at_s)
            changes = self._end_before(at_s)
        for block in surplus:
            changes += self.end(block.id, at_s, End.CANCELLED, "headroom")
        at_s = self.headroom.not_before(max(at_s, self.now_s))
        for cores in self.headroom.missing():
            request = self.headroom.request(cores, self.history.instances, self.spec.details)
            if isinstance(plan(self.inventory, request, self.spec.lineup, at_s), Placement):
                changes += self._start_on_demand(request, at_s, math.inf)
        self.calendar.cancel(_HEADROOM)
        return changes

    # -- decisions -------------------------------------------------------------------------------------------

    def quote(self, request: Request, inventory: Inventory | None = None) -> Quote | Refusal:
        """Return the answer to a spot request now, without side effects, by the code path of ``admit``.

        inventory: answers as if these instances ran; None for those that do.
        """
        inventory = self.inventory if inventory is None else inventory
        answer = self._examine(request, inventory, self._threshold(request), self.spec.products)
        answer = self.spec.spot_caps.apply_cap(answer, request, inventory)
        answer = self.contention.apply_shares(answer, request, inventory, self.now_s)
        return mask_answer(answer, request, self.spec.disclosure, self.table, self.spec.node_cores)

    def _examine(
        self, request: Request, inventory: Inventory, threshold: Threshold | None, products: Products
    ) -> Quote | Refusal:
        cloud = self.spec

        def examine_pool(sold: Request, pool: PoolView | None) -> Quote | Refusal:
            allowed = allowed_nodes(inventory, sold, cloud.lineup)
            return examine(
                cloud.id, sold, inventory, self.table, self.now_s, cloud.admission, threshold, allowed, pool
            )

        return products.answer_request(cloud.id, request, inventory, examine_pool)

    def _threshold(self, request: Request) -> Threshold | None:
        if self.spec.admission.mode is Mode.STRICT or request.sla is None:
            return None
        log = self.request_logs.get(request.sla)
        return log.threshold if log else None

    def consider(self, request: Request) -> Quote | Refusal:
        """Quote a request that is to be admitted, and learn from it.

        The cloud learns which origins wait, and in population mode the risks and lifetimes of requests. Call
        it once for each request, admitted or not. The threshold changes from the next request on: between
        quote and admission it stays.
        """
        self.recall_considered(None)
        answer = self.quote(request)
        self.contention.note_answer(answer, request, self.inventory, self.now_s, self.quote)
        risk_now = answer.eviction_probability
        # None: there is no table yet, or no room, and no risk was weighed.
        if self.spec.admission.mode is Mode.POPULATION and request.promised and risk_now is not None:
            assert request.sla is not None
            sold_s = self.spec.products.round_up_request(request).lifetime_s
            assert sold_s is not None
            self.considered = (request.sla, risk_now, sold_s)
        return answer

    def recall_considered(self, considered: Considered | None) -> None:
        """Note the last request that was considered, and go on with this one, of which nothing is noted yet.

        None: with a request of which population mode learns nothing.
        """
        if self.considered is not None:
            sla, risk, lifetime_s = self.considered
            log = self.request_logs.setdefault(sla, RequestLog(sla))
            log.note_request(risk, lifetime_s, self.ledger.account(sla))
        self.considered = considered

    def admit(self, request: Request, now_s: float, quote: Quote | None = None) -> list[Change] | Refusal:
        """Admit a spot request, or refuse it. quote: the last answer to it, if nothing has happened since."""
        answer = quote or self.quote(request)
        if isinstance(answer, Refusal):
            return answer
        placement = plan(self.inventory, request, self.spec.lineup, now_s)
        assert isinstance(placement, Placement), "a free slot was counted where nothing fits"
        lifetime_s = self.spec.products.round_up_request(request).lifetime_s
        assert lifetime_s is not None
        now_s = self.headroom.not_before(now_s)
        instance = self._instance(request, placement, now_s, now_s + lifetime_s, answer)
        return self._place(instance, placement)

    def start_on_demand(self, request: Request, now_s: float) -> list[Change]:
        """Place a request of the cloud's own users, evicting spot instances if need be; or turn it away."""
        end_s = math.inf if request.lifetime_s is None else now_s + request.lifetime_s
        return self._start_on_demand(request, now_s, end_s)

    def _start_on_demand(self, request: Request, now_s: float, end_s: float) -> list[Change]:
        now_s = self.headroom.not_before(now_s)
        given_up, placement = self.headroom.find_room(self.inventory, request, self.spec.lineup, now_s)
        if isinstance(placement, RefusalReason):
            removed, would_help = explain(self.inventory, request, self.spec.lineup)
            slots = self.inventory.free_slots(request.cores, amounts=request.amounts)
            refusal = Refusal(self.spec.id, placement, would_help, slots, removed=removed)
            return self.turn_away([request], now_s, refusal)
        if given_up:
            stop_s = self.headroom.after_starts(now_s)
            ended = self._end_before(stop_s)
            if ended:
                return ended + self._start_on_demand(request, stop_s, max(end_s, stop_s))
            now_s = stop_s
        changes = self._give_up(given_up, now_s, request.id)
        freed = [node for block in given_up for node in block.nodes]
        instance = self._instance(request, placement, now_s, max(end_s, now_s))
        if not placement.waits and not (placement.victims and self.gives_notice):
            return changes + self._place(instance, placement, freed)
        notices: list[Change] = [self._notice(victim, now_s, request.id) for victim in placement.victims]
        self._apply_all(notices)
        booked = Booked(instance, now_s, latest_start_s(self.inventory, instance))
        self.apply(booked)
        changes += [*notices, booked]
        return changes + self._start_waiting(freed, now_s)

    def _give_up(self, blocks: Iterable[Instance], now_s: float, cause: str | None) -> list[Change]:
        """End blocks of headroom, or withdraw those that wait for their room."""
        changes: list[Change] = []
        for block in blocks:
            if self.inventory.waiting(block.id) is not None:
                changes.append(Withdrawn(block, now_s))
            else:
                changes.append(Ended(block, now_s, End.CANCELLED, cause))
        self._apply_all(changes)
        return changes

    @property
    def gives_notice(self) -> bool:
        """True if victims get notice before eviction.

        Also true while notices from an earlier, non-zero grace are outstanding: new victims then get a
        zero-length notice, so that no waiting request is overtaken.
        """
        return self.spec.grace_s > 0 or bool(self.noticed_for)

    def turn_away(self, requests: Iterable[Request], now_s: float, refusal: Refusal) -> list[Change]:
        """Refuse requests of the cloud's own users."""
        changes: list[Change] = [TurnedAway(request, now_s, refusal) for request in requests]
        self._apply_all(changes)
        return changes

    def _instance(
        self,
        request: Request,
        placement: Placement,
        now_s: float,
        end_s: float,
        quote: Quote | None = None,
    ) -> Instance:
        return Instance(
            request.id, request.kind, request.cores, placement.node, now_s, end_s,
            number=self.history.instances, origin=request.origin, sla=request.sla,
            risk=quote.eviction_probability if quote else None, parts=placement.parts,
            free_slots=quote.free_slots if quote else None, amounts=request.amounts, group=request.group,
            labels=request.labels, spread=request.spread, pool=quote.pool if quote else None,
        )  # fmt: skip

    def _place(self, instance: Instance, placement: Placement, freed: Iterable[int] = ()) -> list[Change]:
        changes: list[Change] = [
            Ended(victim, instance.start_s, End.EVICTED, cause=instance.id) for victim in placement.victims
        ]
        changes.append(Started(instance))
        self._apply_all(changes)
        # Victims may have left more than this instance takes, enough for one that waits there.
        freed = (*freed, *(victim.node for victim in placement.victims))
        return changes + self._start_waiting(freed, instance.start_s)

    def give_notice(self, instance_id: str, now_s: float, evict_at_s: float, cause: str) -> list[Change]:
        """Let a spot instance leave at ``evict_at_s``, unless it is to leave before; its provider says so."""
        instance = self.inventory.get(instance_id)
        if instance is None or instance.kind is not Kind.SPOT:
            return []
        if (
            min(instance.end_s, math.inf if instance.evict_at_s is None else instance.evict_at_s)
            <= evict_at_s
        ):
            return []
        changes: list[Change] = [Noticed(replace(instance, evict_at_s=evict_at_s), now_s, cause)]
        self._apply_all(changes)
        return changes

    def _notice(self, victim: Instance, now_s: float, cause: str | None) -> Noticed:
        return Noticed(replace(victim, evict_at_s=now_s + self.spec.grace_s), now_s, cause)

    def end(self, instance_id: str, at_s: float, how: End, cause: str | None = None) -> list[Change]:
        """End a running instance, or give up a booked one; without such an instance nothing changes.

        Booked instances that waited for the room start.
        """
        booked = self.inventory.waiting(instance_id)
        instance = booked or self.inventory.get(instance_id)
        if instance is None:
            return []
        how, cause = self._counted_end(instance, how, cause)
        changes: list[Change] = [Withdrawn(instance, at_s) if booked else Ended(instance, at_s, how, cause)]
        self._apply_all(changes)
        return changes + self._start_waiting(instance.nodes, at_s)

    def _counted_end(self, instance: Instance, how: End, cause: str | None) -> tuple[End, str | None]:
        """Return how an end counts, and its cause.

        An instance under notice is evicted for the cause of its notice, also when its holder ends it early.
        """
        if instance.evict_at_s is not None and how is not End.COMPLETED:
            return End.EVICTED, self.noticed_for[instance.id]
        return how, cause

    def _start_waiting(self, nodes: Iterable[int], at_s: float) -> list[Change]:
        """Start the instances that waited for room on some nodes, in the order of their booking.

        A gang starts when it is the first on each of its nodes and has room on all of them.
        """
        changes: list[Change] = []
        left = list(nodes)
        while left:
            booked = self.inventory.first_waiting(left[0])
            if (
                booked is None
                or not self.inventory.has_room(booked)
                or any(self.inventory.first_waiting(node) is not booked for node in booked.nodes)
            ):
                del left[0]
                continue
            left += [node for node in booked.nodes if node != left[0]]  # those behind it may start now
            end_s = at_s + (booked.end_s - booked.start_s)
            started = Started(replace(booked, start_s=at_s, end_s=end_s))
            self.apply(started)
            changes.append(started)
        return changes

    def acknowledge(self, instance_id: str, at_s: float) -> list[Change]:
        """End a spot instance under notice before it must leave; without a notice nothing changes."""
        instance = self.inventory.get(instance_id)
        if instance is None or instance.evict_at_s is None:
            return []
        return self.end(instance_id, at_s, End.EVICTED)

    def drain(
        self, nodes: tuple[int, ...] | None, now_s: float, cause: str | None, *, dry_run: bool = False
    ) -> list[Change]:
        """Close nodes (None: all) for new instances and make their spot instances leave, youngest first.

        On-demand instances stay until their users stop them; headroom moves to other nodes. dry_run: return
        the changes without making them.
        """
        changes: list[Change] = [Cordoned(nodes, closed=True, at_s=now_s)]
        drained = None if nodes is None else frozenset(nodes)
        for instance in reversed(self.inventory.spot()):
            if instance.evict_at_s is None and (drained is None or instance.node in drained):
                if self.spec.grace_s:
                    changes.append(self._notice(instance, now_s, cause))
                else:
                    changes.append(Ended(instance, now_s, End.EVICTED, cause))
        if dry_run:
            return changes
        self._apply_all(changes)
        present = list(self.headroom.present(self.inventory))
        blocks = [block for block in present if drained is None or not drained.isdisjoint(block.nodes)]
        changes += self._give_up(blocks, now_s, cause)
        changes += self._start_waiting(sorted({node for block in blocks for node in block.nodes}), now_s)
        return changes

    def reopen(self, nodes: tuple[int, ...] | None, now_s: float) -> list[Change]:
        """Open nodes (None: all) for new instances again. Notices that were given stand."""
        changes: list[Change] = [Cordoned(nodes, closed=False, at_s=now_s)]
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
        """Promise a running spot instance a later end, or refuse and say what would be accepted.

        sla: the SLA of the time from ``now_s`` to the new end; None for the instance's own. An instance
        without a promise stays without one. Every mode of admission asks for a risk within the SLA here.
        """
        instance = self.inventory.get(instance_id)
        if instance is None or instance.kind is not Kind.SPOT:
            return Refusal(self.spec.id, RefusalReason.ENDED)
        if instance.evict_at_s is not None:
            return Refusal(self.spec.id, RefusalReason.NOTICED)
        sla = sla if instance.promised and sla is not None else instance.sla
        without = self.inventory.copy()
        without.remove(instance_id)
        if self.spec.lineup.youngest_first:
            for younger in self.inventory.spot_after(instance_id):
                without.remove(younger.id)
        free_slots = without.free_slots(instance.cores, promised=instance.promised, amounts=instance.amounts)
        longer = examine_longer(
            self.spec, instance, until_s, sla, now_s, self.table, free_slots,
            lambda request: self._examine(request, without, None, Products(self.spec.products.pools)),
        )  # fmt: skip
        if isinstance(longer, Refusal):
            return mask_refusal(longer, self.spec.disclosure)
        changes: list[Change] = [Extended(longer, now_s, cause)]
        self._apply_all(changes)
        return changes

    # -- tables ----------------------------------------------------------------------------------------------

    @property
    def table(self) -> QuantileTable | None:
        """The table that decisions go by: no more than the cloud discloses."""
        return self._table

    @table.setter
    def table(self, table: QuantileTable | None) -> None:
        self._table = table and coarsen_table(table, self.spec.disclosure)

    def observed_take_backs(self) -> TakeBacks | None:
        """Return what the cloud takes back by itself, running spot instances included; None if it never has.

        Of a cloud that is known to do that, the absence of evidence counts, too.
        """
        if not self.take_backs.taken and not self.spec.takes_back:
            return None
        running_s = sum(self.now_s - instance.start_s for instance in self.inventory.spot())
        return TakeBacks(self.take_backs.taken, self.take_backs.lived_s + running_s)

    def table_due_s(self, now_s: float) -> float | None:
        """Return the boundary of the table that a request at ``now_s`` must wait for; None if it is there."""
        boundary_s = math.floor(now_s / self.spec.refresh_s) * self.spec.refresh_s
        if boundary_s < self.spec.first_table_s:
            return None
        if self.table is not None and self.table.made_at_s >= boundary_s:
            return None
        return boundary_s

    def needs_table(self, request: Request) -> bool:
        """Return whether the answer to a spot request can depend on the table."""
        return request.promised and not self.inventory.lacks(request)

    # -- nodes -----------------------------------------------------------------------------------------------

    def take_nodes(self, plan: NodePlan, at_s: float) -> list[Change]:
        """Go on with the nodes of the specification, as planned for them, and return what changes by it.

        Instances that waited for room start where there is enough now.
        """
        assert not plan.misfits
        changes: list[Change] = []
        if plan.forgotten:
            changes.append(Cordoned(plan.forgotten, self.inventory.closes_new, at_s))
            self._apply_all(changes)
        changes += self._give_up(plan.blocks, at_s, None)
        self.inventory = self.inventory.with_nodes(self.spec.node_cores, self.spec.details)
        waited_on = sorted({node for booked in self.inventory.booked() for node in booked.nodes})
        changes += self._start_waiting(waited_on, at_s)
        return changes

    def widen(self, nodes: int, instance: Instance | None = None) -> None:
        """Make room for an entry of the journal that tells of other nodes than those of the specification.

        The inventory then has at least ``nodes`` nodes, and room for the instance on its nodes.
        """
        if nodes > len(self.inventory.node_cores) or (instance and not self.inventory.has_room(instance)):
            self.inventory = self.inventory.widened(nodes, instance)

    # -- the fold --------------------------------------------------------------------------------------------

    def recall(self, change: Change) -> None:
        """Make a change of the past true again, also one on nodes that are no more: see ``take_nodes``."""
        match change:
            case Started(instance):
                self.widen(max(instance.nodes) + 1, instance)
            case Booked(instance):
                self.widen(max(instance.nodes) + 1)
            case Cordoned(tuple(nodes)):
                self.widen(max(nodes) + 1)
        self.apply(change)

    def _apply_all(self, changes: list[Change]) -> None:
        for change in changes:
            self.apply(change)

    def apply(self, change: Change) -> None:
        """Make a change true. Live decisions and recovery from the journal both go through here."""
        at_s = change.instance.start_s if isinstance(change, Started) else change.at_s
        self.now_s = max(self.now_s, at_s)
        match change:
            case Started(instance):
                self._apply_start(instance)
            case Ended(instance, _, how, cause):
                self.inventory.remove(instance.id)
                self.calendar.cancel(instance.id)
                self.ledger.record_end(instance, how)
                if instance.kind is Kind.SPOT:
                    taken = how is End.EVICTED and was_taken(cause)
                    self.take_backs = self.take_backs.after(at_s - instance.start_s, taken=taken)
                self.noticed_for.pop(instance.id, None)
                if how in (End.CANCELLED, End.FAILED) or for_nobody(cause):
                    self.history.record_changed_stop(instance, at_s)
            case Extended(instance):
                before = self.inventory.replace(instance)
                self.history.record_changed_stop(instance, instance.end_s)
                if instance.renewed_at_s == at_s:
                    self.history.record_renewal(instance, at_s)
                self.expect_end(instance)
                # One instance, one promise at a time: the earlier one is withdrawn for the longer one.
                self.ledger.record_end(before, End.CANCELLED)
                self.ledger.record_start(instance)
            case TurnedAway(request):
                self._own_request_done(request.id)
            case Noticed(instance, _, cause):
                self.inventory.replace(instance)
                self.noticed_for[instance.id] = cause
                self.expect_end(instance)
            case Booked(instance):
                self.inventory.book(instance)
                # When it will stop is not known before it starts.
                self.history.record_start(replace(instance, end_s=math.inf))
                self._own_request_done(instance.id)
            case Withdrawn(instance):
                self.inventory.withdraw(instance.id)
                self.history.record_changed_stop(instance, at_s)
            case Cordoned(nodes, closed):
                self.inventory.close(nodes, closed=closed)
        self.headroom.note_change(change)
        self._note_own_peak(change)

    def _note_own_peak(self, change: Change) -> None:
        match change:
            case Started(Instance(kind=Kind.ON_DEMAND, cores=cores)):
                self.own_cores += cores
                self.own_peak_cores = max(self.own_peak_cores, self.own_cores)
                self.largest_own_cores = max(self.largest_own_cores, cores)
            case Ended(Instance(kind=Kind.ON_DEMAND, cores=cores)):
                self.own_cores -= cores
            case TurnedAway(request, _, Refusal(reason=RefusalReason.NO_CAPACITY)):
                self.own_peak_cores = max(self.own_peak_cores, self.own_cores + request.cores)

    def _apply_start(self, instance: Instance) -> None:
        if self.inventory.waiting(instance.id) is not None:  # in the history since it was booked
            self.history.record_changed_stop(instance, instance.end_s)
        else:
            self.history.record_start(instance)
        self.inventory.place(instance)
        self.ledger.record_start(instance)
        self.expect_end(instance)
        self._own_request_done(instance.id)
