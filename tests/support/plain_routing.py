"""Routing in its plain form, as it was first: each member is judged alone, with nothing worked out before.

``broker.requests.routing`` and ``broker.requests.candidates`` must come to the same; the benchmark tells what
each costs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from broker.contract import NodeKind, RefusalView, SpotRequest
from broker.contract.convert import to_refusal_view
from broker.requests.open_request import add_broken_promise
from broker.requests.routing import (
    Member,
    ReservedRoom,
    Route,
    TableCell,
    count_free_slots,
    find_targets,
)
from cloudsim.federation.ranking import rank_quotes
from cloudsim.model.instances import Quote
from cloudsim.model.refusals import Refusal, RefusalReason
from cloudsim.model.requests import Kind, Mode, promises


@dataclass(frozen=True)
class PlainRouting:
    """A request and all members."""

    request: SpotRequest
    members: Sequence[Member]

    def route(self, most: int, reserved: ReservedRoom) -> tuple[Route, list[RefusalView]]:
        """Return the clouds to ask, and the refusals on behalf of the others, twice."""
        request = self.request
        roomy: list[tuple[int, Quote]] = []
        full: list[tuple[int, Quote]] = []
        refusals: list[Refusal] = []
        targets = find_targets(request, self.members)
        by_cloud = {member.info.id: member for member in targets}
        for member in sorted(self.members, key=lambda member: member.info.order):
            refusal = self._refuse(member, by_cloud)
            if refusal is not None:
                refusals.append(refusal)
                continue
            assert member.advert is not None
            room = member.advert.room(promised=promises(Kind.SPOT, request.sla))
            slots = count_free_slots(room, request.cores)
            slots = room.free_cores // request.cores if slots is None else slots
            quote = Quote(member.info.id, request.cores, slots, None, None, None, None)
            left = room.free_cores - reserved.cores.get(member.info.id, 0)
            (roomy if slots and left >= request.cores else full).append((member.info.order, quote))
        broken = {member.info.id for member in targets if member.broken_at(request.sla) is not None}
        ranked = sorted(rank_quotes(roomy) + rank_quotes(full), key=lambda quote: quote.cloud in broken)
        return (
            Route(tuple(quote.cloud for quote in ranked[:most]), tuple(refusals)),
            [add_broken_promise(self._view(refusal, by_cloud), targets, request.sla) for refusal in refusals],
        )

    def _refuse(self, member: Member, targets: Mapping[str, Member]) -> Refusal | None:
        request, info, advert = self.request, member.info, member.advert
        if info.id not in targets:
            return Refusal(info.id, RefusalReason.NOT_A_TARGET)
        kinds, labels = info.node_kinds, request.labels.items()
        if request.cores > info.largest_node:
            return Refusal(info.id, RefusalReason.TOO_LARGE)
        if kinds and request.resources and not any(_holds(kind, request) for kind in kinds):
            return Refusal(info.id, RefusalReason.TOO_LARGE)
        if kinds and labels and not any(labels <= kind.labels.items() for kind in kinds):
            nodes = sum(kind.nodes for kind in kinds)
            return Refusal(info.id, RefusalReason.NO_SUCH_NODE, removed=(("labels", nodes),))
        if advert is None or not member.reachable:
            return Refusal(info.id, RefusalReason.UNREACHABLE)
        promised = promises(Kind.SPOT, request.sla)
        slots = count_free_slots(advert.room(promised=promised), request.cores)
        if slots == 0 and not info.fair_share:
            closed = (("cordon", advert.closed_nodes),) if advert.closed_nodes else ()
            return Refusal(info.id, RefusalReason.NO_CAPACITY, free_slots=0, removed=closed)
        return self._refuse_by_table(member, slots) if promised else None

    def _refuse_by_table(self, member: Member, slots: int | None) -> Refusal | None:
        request, table, advert, sla = self.request, member.table, member.advert, self.request.sla
        assert advert is not None
        assert sla is not None
        if advert.table_version is None:
            return Refusal(member.info.id, RefusalReason.NO_TABLE, free_slots=slots)
        known = table is not None and table.version == advert.table_version
        if table is None or not known or request.lifetime_s is None or advert.admission is Mode.POPULATION:
            return None
        cells = table.cells.get((request.cores, tuple(request.resources.items())), ())
        bounds = [next((s for at, s in cell.survives_s if at >= sla), None) for cell in cells]
        if not bounds or any(bound is None or request.lifetime_s <= bound for bound in bounds):
            return None
        slots = None if request.needs_more else slots
        cell = _cell_at(cells, slots) if slots else None
        survives = () if cell is None else cell.survives_s
        unseen = cell is not None and request.lifetime_s > cell.followed_up_s
        return Refusal(
            member.info.id,
            RefusalReason.NO_EVIDENCE if unseen else RefusalReason.RISK_TOO_HIGH,
            free_slots=slots,
            eviction_probability=next((at for at, s in survives if s >= request.lifetime_s), None),
            survives_s=max((s for at, s in survives if at <= sla), default=None),
            table_version=table.version,
            table_made_at_s=table.made_at_s,
        )

    def _view(self, refusal: Refusal, targets: Mapping[str, Member]) -> RefusalView:
        target = targets.get(refusal.cloud)
        smaller = None if target is None else self._smaller_size(target)
        return to_refusal_view(refusal, cores=self.request.cores, smaller=smaller)

    def _smaller_size(self, member: Member) -> int | None:
        request, advert, table = self.request, member.advert, member.table
        if advert is None or not member.reachable or request.needs_more:
            return None
        promised = promises(Kind.SPOT, request.sla)
        for cores, slots in sorted(advert.room(promised=promised).free_slots.items(), reverse=True):
            if cores >= request.cores or slots == 0:
                continue
            if not promised:
                return cores
            if advert.admission is Mode.POPULATION:
                return None
            known = table is not None and table.version == advert.table_version
            cells = table.cells.get((cores, ()), ()) if table is not None and known else ()
            cell = _cell_at(cells, slots)
            sure_s = (
                max((s for at, s in cell.survives_s if at <= (request.sla or 0)), default=0) if cell else 0
            )
            if (request.lifetime_s or 0.0) <= sure_s:
                return cores
        return None


def _holds(kind: NodeKind, request: SpotRequest) -> bool:
    amounts = request.resources.items()
    return kind.cores >= request.cores and all(kind.resources.get(name, 0) >= most for name, most in amounts)


def _cell_at(cells: Sequence[TableCell], slots: int) -> TableCell | None:
    return next((cell for cell in cells if cell.free_slots_from <= slots <= cell.free_slots_to), None)
