"""One cloud: its inventory, its own load, its quantile table and every decision about them.

The same object runs under a replay, under the simulated federation and inside a live owner. It is told the
time and never asks for it; every decision is planned, turned into changes, and applied by ``apply``, which
recovery calls with the same changes read from the journal.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable
from dataclasses import replace

from cloudsim.admission.pools import PoolView
from cloudsim.admission.population import RequestLog, Threshold
from cloudsim.admission.products import Products
from cloudsim.admission.rule import examine
from cloudsim.cloud.cloud_state import CloudState
from cloudsim.cloud.extensions import examine_longer
from cloudsim.cloud.inventory import Inventory, starts_by_s
from cloudsim.disclosure.masking import mask_answer, mask_refusal
from cloudsim.history.event_log import PHASE_ON_DEMAND, PHASE_SPOT, PHASE_STOP
from cloudsim.history.own_load import Arrival
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
from cloudsim.model.instances import Instance, Placement, Quote
from cloudsim.model.refusals import Refusal, RefusalReason
from cloudsim.model.requests import Kind, Mode, Request
from cloudsim.scheduling.fit import fits
from cloudsim.scheduling.pipeline import allowed_nodes, explain, plan

#: The end of a federation: every stop of an instant, nothing after it.
AFTER_EVERYTHING = (math.inf, PHASE_STOP)


class Cloud(CloudState):
    """State machine of one cloud: its time and its decisions."""

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
            blocks_key = self.headroom.due or (math.inf, 0)
            if end is None and arrival is None and self.headroom.due is None:
                break
            end_key = (end[0], end[1]) if end else (math.inf, 0)
            arrival_key = (arrival.start_s, PHASE_ON_DEMAND) if arrival else (math.inf, 0)
            if min(end_key, arrival_key, blocks_key) >= (self.headroom.not_before(now_s), phase):
                break
            if blocks_key < min(end_key, arrival_key):  # after the on-demand starts of their instant
                changes += self._keep_headroom(blocks_key[0])
            elif end is not None and end_key <= arrival_key:
                changes += self._end_next(end)
            else:
                assert arrival is not None
                changes += self._play(arrival)
        self.now_s = max(self.now_s, now_s) if math.isfinite(now_s) else self.now_s
        return changes

    def _end_next(self, end: tuple[float, int, int, str]) -> list[Change]:
        heapq.heappop(self._ends)
        return self.end(end[3], end[0], End.EVICTED if end[1] == PHASE_ON_DEMAND else End.COMPLETED)

    def _end_before(self, at_s: float) -> list[Change]:
        """Lets end what ends before the stops of ``at_s``."""
        changes: list[Change] = []
        while (end := self._next_end()) is not None and (end[0], end[1]) < (at_s, PHASE_STOP):
            changes += self._end_next(end)
        return changes

    def next_event(self) -> tuple[float, int]:
        """Time and phase of what happens next by itself; ``AFTER_EVERYTHING`` when nothing will."""
        end, arrival = self._next_end(), self._next_arrival()
        moments = [(end[0], end[1])] if end else []
        if arrival:
            moments.append((arrival.start_s, PHASE_ON_DEMAND))
        if self.headroom.due:
            moments.append(self.headroom.due)
        return min(moments, default=AFTER_EVERYTHING)

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
        )

    def _keep_headroom(self, at_s: float) -> list[Change]:
        """Places the blocks that are missing, as far as there is room."""
        if at_s < self.now_s:  # a cloud that was told to keep others than before it was restarted
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
        self.headroom.due = None
        return changes

    # -- decisions -------------------------------------------------------------------------------------------

    def quote(self, request: Request, inventory: Inventory | None = None) -> Quote | Refusal:
        """What the cloud would answer to a spot request now. No side effects, the same code path as
        ``admit``. inventory: as if that were what runs; None: what does."""
        inventory = self.inventory if inventory is None else inventory
        answer = self._examined(request, inventory, self._threshold(request), self.spec.products)
        answer = self.spec.spot_caps.applied(answer, request, inventory)
        answer = self.contention.applied(answer, request, inventory, self.now_s)
        return mask_answer(answer, request, self.spec.disclosure, self.table, self.spec.node_cores)

    def _examined(
        self, request: Request, inventory: Inventory, threshold: Threshold | None, products: Products
    ) -> Quote | Refusal:
        cloud = self.spec

        def examined(sold: Request, pool: PoolView | None) -> Quote | Refusal:
            allowed = allowed_nodes(inventory, sold, cloud.lineup)
            return examine(
                cloud.id, sold, inventory, self.table, self.now_s, cloud.admission, threshold, allowed, pool
            )

        return products.answer(cloud.id, request, inventory, examined)

    def _threshold(self, request: Request) -> Threshold | None:
        if self.spec.admission.mode is Mode.STRICT or request.sla is None:
            return None
        log = self._request_logs.get(request.sla)
        return log.threshold if log else None

    def consider(self, request: Request) -> Quote | Refusal:
        """``quote`` for a request that is meant: who waits is learned from it, and in population mode what is
        asked for.

        Once a request, whether it is admitted or not. What it teaches counts from the next one on: between
        its quote and its admission the bar stays where it is.
        """
        if self._considered is not None:
            sla, risk, lifetime_s = self._considered
            log = self._request_logs.setdefault(sla, RequestLog(sla))
            log.note(risk, lifetime_s, self.ledger.account(sla))
            self._considered = None
        answer = self.quote(request)
        self.contention.heard(answer, request, self.inventory, self.now_s, self.quote)
        risk_now = answer.eviction_probability
        # None: there is no table yet, or no room, and nothing was weighed.
        if self.spec.admission.mode is Mode.POPULATION and request.promised and risk_now is not None:
            assert request.sla is not None
            sold_s = self.spec.products.sold(request).lifetime_s
            assert sold_s is not None
            self._considered = (request.sla, risk_now, sold_s)
        return answer

    def admit(self, request: Request, now_s: float, quote: Quote | None = None) -> list[Change] | Refusal:
        """Admits a spot request that the quote allows, or says why not. ``quote``: what it was just told, if
        nothing happened since."""
        answer = quote or self.quote(request)
        if isinstance(answer, Refusal):
            return answer
        placement = plan(self.inventory, request, self.spec.lineup, now_s)
        assert isinstance(placement, Placement), "a free slot was counted where nothing fits"
        lifetime_s = self.spec.products.sold(request).lifetime_s
        assert lifetime_s is not None
        now_s = self.headroom.not_before(now_s)
        instance = self._instance(request, placement.node, now_s, now_s + lifetime_s, answer)
        return self._place(instance, placement)

    def start_on_demand(self, request: Request, now_s: float) -> list[Change]:
        """Places a request of the cloud's own users, evicting spot instances if need be; or turns it away."""
        end_s = math.inf if request.lifetime_s is None else now_s + request.lifetime_s
        return self._start_on_demand(request, now_s, end_s)

    def _start_on_demand(self, request: Request, now_s: float, end_s: float) -> list[Change]:
        now_s = self.headroom.not_before(now_s)
        given_up, placement = self.headroom.room_for(self.inventory, request, self.spec.lineup, now_s)
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
        instance = self._instance(request, placement.node, now_s, max(end_s, now_s))
        if not placement.waits and not (placement.victims and self.gives_notice):
            return changes + self._place(instance, placement, makes_room=bool(given_up))
        notices: list[Change] = [self._notice(victim, now_s, request.id) for victim in placement.victims]
        self._apply_all(notices)
        booked = Booked(instance, now_s, starts_by_s(self.inventory, instance))
        self.apply(booked)
        changes += [*notices, booked]
        return changes + (self._start_waiting(instance.node, now_s) if given_up else [])

    def _give_up(self, blocks: Iterable[Instance], now_s: float, cause: str | None) -> list[Change]:
        """Blocks leave their room, or do not wait for it any more."""
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
        """Whether victims are told beforehand. Where there is no grace any more, but some were told when
        there was, the next ones are, too: for no time at all, as who needs the room may wait for the others.
        """
        return self.spec.grace_s > 0 or bool(self.noticed_for)

    def turn_away(self, requests: Iterable[Request], now_s: float, refusal: Refusal) -> list[Change]:
        """Refuses requests of the cloud's own users."""
        changes: list[Change] = [TurnedAway(request, now_s, refusal) for request in requests]
        self._apply_all(changes)
        return changes

    def _instance(
        self, request: Request, node: int, now_s: float, end_s: float, quote: Quote | None = None
    ) -> Instance:
        return Instance(
            request.id, request.kind, request.cores, node, now_s, end_s, number=self.history.instances,
            origin=request.origin, sla=request.sla, risk=quote.eviction_probability if quote else None,
            free_slots=quote.free_slots if quote else None, amounts=request.amounts, group=request.group,
            labels=request.labels, spread=request.spread, pool=quote.pool if quote else None,
        )  # fmt: skip

    def _place(self, instance: Instance, placement: Placement, *, makes_room: bool = False) -> list[Change]:
        changes: list[Change] = [
            Ended(victim, instance.start_s, End.EVICTED, cause=instance.id) for victim in placement.victims
        ]
        changes.append(Started(instance))
        self._apply_all(changes)
        # Victims may have left more than this one takes, enough for somebody who waits there.
        makes_room = makes_room or bool(placement.victims)
        return changes + (self._start_waiting(instance.node, instance.start_s) if makes_room else [])

    def _notice(self, victim: Instance, now_s: float, cause: str | None) -> Noticed:
        return Noticed(replace(victim, evict_at_s=now_s + self.spec.grace_s), now_s, cause)

    def end(self, instance_id: str, at_s: float, how: End, cause: str | None = None) -> list[Change]:
        """Ends a running instance, or gives up a booked one; nothing happens when there is none (any more).

        Those who waited for the room start.
        """
        booked = self.inventory.waiting(instance_id)
        instance = booked or self.inventory.get(instance_id)
        if instance is None:
            return []
        how, cause = self._counted_end(instance, how, cause)
        changes: list[Change] = [Withdrawn(instance, at_s) if booked else Ended(instance, at_s, how, cause)]
        self._apply_all(changes)
        return changes + self._start_waiting(instance.node, at_s)

    def _counted_end(self, instance: Instance, how: End, cause: str | None) -> tuple[End, str | None]:
        """Return how an end counts, and its cause: an instance under notice is evicted for what it was told,
        also when its holder ends it before it must leave."""
        if instance.evict_at_s is not None and how is not End.COMPLETED:
            return End.EVICTED, self.noticed_for[instance.id]
        return how, cause

    def _start_waiting(self, node: int, at_s: float) -> list[Change]:
        """Starts those that waited for room on a node, in the order of their booking."""
        changes: list[Change] = []
        while (booked := self.inventory.first_waiting(node)) is not None:
            if not fits(self.inventory.idle[:, node].tolist(), self.inventory.needed(booked)):
                break
            end_s = at_s + (booked.end_s - booked.start_s)
            started = Started(replace(booked, start_s=at_s, end_s=end_s))
            self.apply(started)
            changes.append(started)
        return changes

    def acknowledge(self, instance_id: str, at_s: float) -> list[Change]:
        """The holder of a spot instance that was told to leave is done with it; nothing happens when it was
        not told."""
        instance = self.inventory.get(instance_id)
        if instance is None or instance.evict_at_s is None:
            return []
        return self.end(instance_id, at_s, End.EVICTED)

    def drain(
        self, nodes: tuple[int, ...] | None, now_s: float, cause: str | None, *, dry_run: bool = False
    ) -> list[Change]:
        """Closes nodes (None: all) for new instances and makes their spot instances leave, youngest first.

        On-demand instances stay until their users stop them; headroom moves to other nodes. dry_run: only
        tells what would happen.
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
        there = list(self.headroom.present(self.inventory))
        blocks = [one for one in there if drained is None or one.node in drained]
        changes += self._give_up(blocks, now_s, cause)
        for node in sorted({block.node for block in blocks}):
            changes += self._start_waiting(node, now_s)
        return changes

    def reopen(self, nodes: tuple[int, ...] | None, now_s: float) -> list[Change]:
        """Nodes (None: all) take new instances again. Notices that were given stand."""
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
        """Promises a running spot instance a later end, or says why not and what would be accepted.

        sla: of the time from ``now_s`` to the new end; None: the instance's own. What was promised nothing
        stays so. Every mode of admission asks for a risk within the SLA here.
        """
        instance = self.inventory.get(instance_id)
        if instance is None or instance.kind is not Kind.SPOT:
            return Refusal(self.spec.id, RefusalReason.ENDED)
        if instance.evict_at_s is not None:
            return Refusal(self.spec.id, RefusalReason.NOTICED)
        sla = sla if instance.promised and sla is not None else instance.sla
        longer = examine_longer(self.spec, instance, until_s, sla, now_s, self.table, self._as_newborn)
        if isinstance(longer, Refusal):
            return mask_refusal(longer, self.spec.disclosure)
        changes: list[Change] = [Extended(longer, now_s, cause)]
        self._apply_all(changes)
        return changes

    def _as_newborn(self, request: Request) -> Quote | Refusal:
        """The answer to a running instance as if it had left and were asked for anew, for any duration."""
        without = self.inventory.copy()
        without.remove(request.id)
        return self._examined(request, without, None, Products(self.spec.products.pools))

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
        return request.promised and not self.inventory.lacks(request)
