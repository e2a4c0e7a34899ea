"""Routing: the clouds to which a request is offered, and their order, judged by adverts alone.

Routing is for wall time. Adverts are a little old, so a cloud is passed over only where its advert leaves no
doubt; its owner decides everything else. In trace time every target is asked instead.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from broker.contract import Advert, BrokenPromise, CloudInfo, NodeKind, Room, SpotRequest
from cloudsim.federation.ranking import rank_quotes
from cloudsim.model.instances import Quote
from cloudsim.model.refusals import Refusal, RefusalReason
from cloudsim.model.requests import Amounts, Kind, Mode, promises


class TableCell(NamedTuple):
    """One row of a published table: the lifetimes survived at some SLAs, for a range of free slots."""

    free_slots_from: int
    free_slots_to: int
    followed_up_s: float  # longer lifetimes were not observed
    survives_s: tuple[tuple[float, float], ...]  # (sla, seconds), SLAs ascending


@dataclass(frozen=True)
class TableSummary:
    """The published part of a cloud's table: its cells in the order of free slots.

    ``cells`` has them by size in cores, ``flavours`` those of sizes that need more than cores, by cores and
    amounts.
    """

    version: str
    made_at_s: float
    cells: dict[int, tuple[TableCell, ...]]
    flavours: dict[tuple[int, Amounts], tuple[TableCell, ...]] = field(default_factory=dict)

    @classmethod
    def from_json(cls, text: bytes | str) -> TableSummary:
        """Read what the owner published under ``keys.table`` (rows of ``QuantileTable.rows``).

        Raises
        ------
        ValueError, KeyError, TypeError
            When it is something else.
        """
        published = json.loads(text)
        cells: dict[tuple[int, Amounts], list[TableCell]] = {}
        for row in published["rows"]:
            survives = sorted((float(sla), float(seconds)) for sla, seconds in row["quantiles_s"].items())
            amounts = tuple(
                sorted((str(name), int(amount)) for name, amount in row.get("amounts", {}).items())
            )
            cells.setdefault((int(row["cores"]), amounts), []).append(
                TableCell(
                    int(row["free_slots_from"]),
                    int(row["free_slots_to"]),
                    float(row["followed_up_s"]),
                    tuple(survives),
                )
            )
        return cls(
            str(published["version"]),
            float(published["made_at_s"]),
            {cores: tuple(sorted(rows)) for (cores, amounts), rows in cells.items() if not amounts},
            {flavour: tuple(sorted(rows)) for flavour, rows in cells.items() if flavour[1]},
        )

    def cells_of(self, request: SpotRequest) -> tuple[TableCell, ...]:
        """Return the cells by which a request is judged."""
        if request.resources:
            return self.flavours.get((request.cores, tuple(request.resources.items())), ())
        return self.cells.get(request.cores, ())


@dataclass(frozen=True)
class Member:
    """A cloud as the broker sees it now.

    Attributes
    ----------
    reachable:
        False if its advert is too old, or there is none, or its agent hears nothing of a real cloud.
    broken:
        The evidence that it breaks promises, by SLA (``broker.ledger.ledger``); empty in trace time.
    """

    info: CloudInfo
    advert: Advert | None = None
    table: TableSummary | None = None
    reachable: bool = True
    advert_age_s: float | None = None
    broken: Mapping[float, BrokenPromise] = field(default_factory=dict)

    def broken_at(self, sla: float | None) -> BrokenPromise | None:
        """Return the evidence that it breaks promises at this SLA; None if there is none."""
        return None if sla is None else self.broken.get(sla)


class UnfittableError(ValueError):
    """No member has a node for this size. ``largest_node`` is the size of the largest one, in cores."""

    def __init__(self, cores: int, largest_node: int):
        self.cores, self.largest_node = cores, largest_node
        super().__init__(
            f"{cores} cores fit on no member's node: ask for at most {largest_node} cores an instance"
        )


class UnknownTargetError(ValueError):
    """A request names a cloud that is not a member."""

    def __init__(self, cloud: str, members: Iterable[str]):
        self.cloud = cloud
        super().__init__(f"no member is called {cloud!r}; there are: {', '.join(members) or 'none yet'}")


@dataclass(frozen=True)
class Route:
    """The clouds to ask, in this order, and the refusals on behalf of those that are passed over."""

    candidates: tuple[str, ...]
    passed_over: tuple[Refusal, ...]


@dataclass
class ReservedRoom:
    """Cores by cloud that earlier requests of the same call will take, and no advert tells of yet."""

    cores: dict[str, int] = field(default_factory=dict)

    def add(self, cloud: str, cores: int) -> None:
        """Note that one more request goes to a cloud."""
        self.cores[cloud] = self.cores.get(cloud, 0) + cores


def find_targets(request: SpotRequest, members: Sequence[Member]) -> list[Member]:
    """Return the members a request may be sent to, in cloud order: those it names, or all but its origin.

    Raises
    ------
    UnknownTargetError
        When it names a cloud that is not a member.
    """
    ordered = sorted(members, key=lambda member: member.info.order)
    if request.targets is None:
        return [member for member in ordered if member.info.id != request.origin]
    clouds = [member.info.id for member in ordered]
    for target in request.targets:
        if target not in clouds:
            raise UnknownTargetError(target, clouds)
    return [member for member in ordered if member.info.id in request.targets]


class Candidate(NamedTuple):
    """A cloud that may be asked: its place in the order of clouds, its fit as a quote, its free cores."""

    order: int
    quote: Quote
    free_cores: int


@dataclass(frozen=True)
class CandidateSet:
    """The clouds that may be asked for requests with equal requirements, not yet in the order of asking.

    Attributes
    ----------
    cores:
        The size of the requests.
    passed_over:
        The refusals on behalf of the other clouds.
    distrusted:
        The clouds that break promises at the SLA of the requests: they are asked last.
    """

    cores: int
    candidates: tuple[Candidate, ...]
    passed_over: tuple[Refusal, ...]
    distrusted: frozenset[str]

    def route(self, most: int, reserved: ReservedRoom | None = None) -> Route:
        """Order the candidates for one request and return at most ``most`` of them.

        The tightest fit comes first. Clouds that are full, counting the ``reserved`` room, come behind the
        others, and clouds that are distrusted behind all. A cloud beyond ``most`` gets no refusal: nothing is
        known against it.
        """
        taken = reserved.cores if reserved is not None else {}
        roomy: list[tuple[int, Quote]] = []
        full: list[tuple[int, Quote]] = []  # as far as is known
        for order, quote, free_cores in self.candidates:
            fits = quote.free_slots != 0 and free_cores - taken.get(quote.cloud, 0) >= self.cores
            (roomy if fits else full).append((order, quote))
        ranked = rank_quotes(roomy) + rank_quotes(full)
        if self.distrusted:
            ranked.sort(key=lambda quote: quote.cloud in self.distrusted)
        return Route(tuple(quote.cloud for quote in ranked[:most]), self.passed_over)


def route(
    request: SpotRequest, members: Sequence[Member], *, most: int, reserved: ReservedRoom | None = None
) -> Route:
    """Find the candidates for a request and order them, see ``find_candidates`` and ``CandidateSet.route``.

    ``reserved`` is not added to.
    """
    return find_candidates(request, members).route(most, reserved)


def find_candidates(request: SpotRequest, members: Sequence[Member]) -> CandidateSet:
    """Evaluate all members for requests with these requirements.

    Raises
    ------
    UnfittableError
        When no member has a node for this size.
    UnknownTargetError
        When the request names a cloud that is not a member.
    """
    targets = find_targets(request, members)
    largest = max((member.info.largest_node for member in members), default=0)
    if members and request.cores > largest:
        raise UnfittableError(request.cores, largest)
    candidates: list[Candidate] = []
    passed_over: list[Refusal] = []
    target_ids, promised = {member.info.id for member in targets}, _promised(request)
    for member in sorted(members, key=lambda member: member.info.order):
        cloud, advert = member.info.id, member.advert
        if cloud not in target_ids:
            passed_over.append(Refusal(cloud, RefusalReason.NOT_A_TARGET))
        elif (refusal := _refuse_when_empty(request, member.info)) is not None:
            passed_over.append(refusal)
        elif advert is None or not member.reachable:
            passed_over.append(Refusal(cloud, RefusalReason.UNREACHABLE))
        else:
            room = advert.room(promised=promised)
            slots = count_free_slots(room, request.cores)
            if (refusal := _refuse_for(request, member, advert, slots)) is not None:
                passed_over.append(refusal)
                continue
            if slots is None:
                slots = room.free_cores // request.cores  # no more than that
            quote = Quote(cloud, request.cores, slots, None, None, None, None)
            candidates.append(Candidate(member.info.order, quote, room.free_cores))
    distrusted = frozenset(member.info.id for member in targets if member.broken_at(request.sla) is not None)
    return CandidateSet(request.cores, tuple(candidates), tuple(passed_over), distrusted)


def _promised(request: SpotRequest) -> bool:
    return promises(Kind.SPOT, request.sla)


def count_free_slots(room: Room | Advert, cores: int) -> int | None:
    """Return the number of free slots of a size; None if the advert does not tell."""
    listed = room.free_slots.get(cores)
    if listed is not None:
        return listed
    if cores > room.free_cores or any(size < cores and slots == 0 for size, slots in room.free_slots.items()):
        return 0
    return None


def find_smaller_size(request: SpotRequest, member: Member) -> int | None:
    """Return the largest advertised size below the request's that this cloud would surely admit, or None.

    Adverts tell of cores alone: a request that needs more gets None.
    """
    advert = member.advert
    if advert is None or not member.reachable or request.needs_more:
        return None
    promised = _promised(request)
    for cores, slots in sorted(advert.room(promised=promised).free_slots.items(), reverse=True):
        if cores >= request.cores or slots == 0:
            continue
        if not promised:
            return cores
        if advert.admission is Mode.POPULATION:  # the owner alone knows its threshold
            return None
        table = member.table
        cells = table.cells.get(cores, ()) if table and table.version == advert.table_version else ()
        cell = _cell_at(cells, slots)
        if (request.lifetime_s or 0.0) <= (_sure_lifetime_s(cell, request.sla or 0.0) or 0.0):
            return cores
    return None


def _refuse_for(request: SpotRequest, member: Member, advert: Advert, slots: int | None) -> Refusal | None:
    """Return the refusal of a cloud that would certainly refuse, with the first reason in their precedence.

    But UNREACHABLE precedes reasons from an advert that is too old to be believed. The owner alone knows what
    is free of other resources, or on nodes with some labels; there are at least as many slots of cores.
    """
    if slots == 0 and not member.info.fair_share:  # else it has to see the request
        closed = (("cordon", advert.closed_nodes),) if advert.closed_nodes else ()
        return Refusal(member.info.id, RefusalReason.NO_CAPACITY, free_slots=0, removed=closed)
    if _promised(request):
        assert request.sla is not None
        return _refuse_by_table(request, request.sla, member, slots)
    return None


def _refuse_when_empty(request: SpotRequest, info: CloudInfo) -> Refusal | None:
    """Return a refusal if none of the cloud's nodes would do even if they were all empty."""
    if request.cores > info.largest_node:
        return Refusal(info.id, RefusalReason.TOO_LARGE)
    if not request.needs_more:
        return None
    kinds = info.node_kinds
    if kinds and request.resources and not any(_holds(kind, request) for kind in kinds):
        return Refusal(info.id, RefusalReason.TOO_LARGE)
    labels = request.labels.items()
    if kinds and labels and not any(labels <= kind.labels.items() for kind in kinds):
        return Refusal(
            info.id, RefusalReason.NO_SUCH_NODE, removed=(("labels", sum(kind.nodes for kind in kinds)),)
        )
    return None


def _holds(kind: NodeKind, request: SpotRequest) -> bool:
    enough = all(kind.resources.get(name, 0) >= amount for name, amount in request.resources.items())
    return enough and kind.cores >= request.cores


def _refuse_by_table(request: SpotRequest, sla: float, member: Member, slots: int | None) -> Refusal | None:
    """Return a refusal if the table does not allow the lifetime for any number of free slots.

    A published lifetime at an SLA no smaller than the request's bounds the lifetime at the request's SLA, and
    conditions between two cells are mixtures of both. So a lifetime above that bound in all cells is refused
    whatever is free.
    """
    assert member.advert is not None
    cloud, table = member.info.id, member.table
    if member.advert.table_version is None:
        return Refusal(cloud, RefusalReason.NO_TABLE, free_slots=slots)
    if table is None or table.version != member.advert.table_version or request.lifetime_s is None:
        return None
    if member.advert.admission is Mode.POPULATION:  # risks above the SLA may be taken
        return None
    cells = table.cells_of(request)
    bounds = [_longest_lifetime_s(cell, sla) for cell in cells]
    if not bounds or any(bound is None or request.lifetime_s <= bound for bound in bounds):
        return None
    slots = None if request.needs_more else slots  # fewer may meet the other needs
    cell = _cell_at(cells, slots) if slots else None
    unseen = cell is not None and request.lifetime_s > cell.followed_up_s
    return Refusal(
        cloud,
        RefusalReason.NO_EVIDENCE if unseen else RefusalReason.RISK_TOO_HIGH,
        free_slots=slots,
        eviction_probability=_sure_sla(cell, request.lifetime_s),
        survives_s=_sure_lifetime_s(cell, sla),
        table_version=table.version,
        table_made_at_s=table.made_at_s,
    )


def _cell_at(cells: Sequence[TableCell], slots: int) -> TableCell | None:
    """Return the cell for a number of free slots."""
    return next((cell for cell in cells if cell.free_slots_from <= slots <= cell.free_slots_to), None)


def _longest_lifetime_s(cell: TableCell, sla: float) -> float | None:
    """Return the lifetime at the smallest published SLA not below ``sla``, an upper bound."""
    return next((seconds for published, seconds in cell.survives_s if published >= sla), None)


def _sure_lifetime_s(cell: TableCell | None, sla: float) -> float | None:
    """Return a lifetime that this cell would accept at ``sla``, for a counter-offer."""
    if cell is None:
        return None
    return max((seconds for published, seconds in cell.survives_s if published <= sla), default=None)


def _sure_sla(cell: TableCell | None, lifetime_s: float) -> float | None:
    """Return an SLA at which this cell would accept the lifetime, for a counter-offer."""
    if cell is None:
        return None
    return next((published for published, seconds in cell.survives_s if seconds >= lifetime_s), None)
