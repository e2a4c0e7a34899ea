"""Which clouds a request is offered to, and in which order. Pure: from what the clouds say of themselves.

This is for wall time. Adverts are a little old, so a cloud is passed over only where its advert leaves no
doubt; everything else is the owner's to decide. In trace time every target is asked instead.
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
    """One row of a published table: lifetimes survived at some SLAs, for a range of free slots."""

    free_slots_from: int
    free_slots_to: int
    followed_up_s: float  # nothing is known of longer lifetimes
    survives_s: tuple[tuple[float, float], ...]  # (sla, seconds), SLAs ascending


@dataclass(frozen=True)
class TableSummary:
    """A cloud's table as far as it shows it: cells by instance size in cores, by free slots.

    flavours: those of sizes that need more than cores, by cores and amounts.
    """

    version: str
    made_at_s: float
    cells: dict[int, tuple[TableCell, ...]]
    flavours: dict[tuple[int, Amounts], tuple[TableCell, ...]] = field(default_factory=dict)

    @classmethod
    def from_json(cls, text: bytes | str) -> TableSummary:
        """Reads what the owner published under ``keys.table`` (rows as of ``QuantileTable.rows``).

        Raises ValueError, KeyError or TypeError where it is something else.
        """
        published = json.loads(text)
        cells: dict[tuple[int, Amounts], list[TableCell]] = {}
        for row in published["rows"]:
            survives = sorted((float(sla), float(seconds)) for sla, seconds in row["quantiles_s"].items())
            amounts = tuple(sorted((str(name), int(one)) for name, one in row.get("amounts", {}).items()))
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
        """Those that a request is judged by."""
        if request.resources:
            return self.flavours.get((request.cores, tuple(request.resources.items())), ())
        return self.cells.get(request.cores, ())


@dataclass(frozen=True)
class Member:
    """A cloud as the broker sees it now. ``reachable`` False: its advert is too old, or there is none.

    ``broken``: by SLA, the promises that it does not keep lately (``broker.ledger.ledger``); nothing in
    trace time.
    """

    info: CloudInfo
    advert: Advert | None = None
    table: TableSummary | None = None
    reachable: bool = True
    advert_age_s: float | None = None
    broken: Mapping[float, BrokenPromise] = field(default_factory=dict)

    def broken_at(self, sla: float | None) -> BrokenPromise | None:
        """How it broke its promises at this SLA; None: as far as is known it keeps them."""
        return None if sla is None else self.broken.get(sla)


class UnfittableError(ValueError):
    """No member has a node that large; ``largest_node`` is what the largest one holds, in cores."""

    def __init__(self, cores: int, largest_node: int):
        self.cores, self.largest_node = cores, largest_node
        super().__init__(
            f"{cores} cores fit on no member's node: ask for at most {largest_node} cores an instance"
        )


class UnknownTargetError(ValueError):
    """The request names a cloud that is no member."""

    def __init__(self, cloud: str, known: Iterable[str]):
        self.cloud = cloud
        super().__init__(f"no member is called {cloud!r}; there are: {', '.join(known) or 'none yet'}")


@dataclass(frozen=True)
class Route:
    """``candidates`` in the order in which they are asked; ``passed_over`` says why the others are not."""

    candidates: tuple[str, ...]
    passed_over: tuple[Refusal, ...]


@dataclass
class ReservedRoom:
    """Cores that earlier requests of the same list were routed to, by cloud: no advert tells of them yet."""

    cores: dict[str, int] = field(default_factory=dict)

    def add(self, cloud: str, cores: int) -> None:
        """One more request goes to ``cloud``."""
        self.cores[cloud] = self.cores.get(cloud, 0) + cores


def targets_of(request: SpotRequest, members: Sequence[Member]) -> list[Member]:
    """The members a request may be sent to, in cloud order: those it names, else all but its origin.

    Raises UnknownTargetError when it names a cloud that is no member.
    """
    ordered = sorted(members, key=lambda member: member.info.order)
    if request.targets is None:
        return [member for member in ordered if member.info.id != request.origin]
    known = [member.info.id for member in ordered]
    for target in request.targets:
        if target not in known:
            raise UnknownTargetError(target, known)
    return [member for member in ordered if member.info.id in request.targets]


@dataclass(frozen=True)
class CandidateSet:
    """What the members say to a request: all that ``route`` looks at but what was booked meanwhile.

    ``rooms``: of each member that may be asked, its place in the order of clouds, the fit, its free cores.
    """

    cores: int
    rooms: tuple[tuple[int, Quote, int], ...]
    passed_over: tuple[Refusal, ...]
    distrusted: frozenset[str]

    def route(self, most: int, booked: ReservedRoom | None = None) -> Route:
        """As ``route``."""
        taken = booked.cores if booked is not None else {}
        quotes: list[tuple[int, Quote]] = []
        doubtful: list[tuple[int, Quote]] = []  # full, as far as is known
        for order, quote, free_cores in self.rooms:
            full = quote.free_slots == 0 or free_cores - taken.get(quote.cloud, 0) < self.cores
            (doubtful if full else quotes).append((order, quote))
        ranked = rank_quotes(quotes) + rank_quotes(doubtful)
        if self.distrusted:
            ranked.sort(key=lambda quote: quote.cloud in self.distrusted)
        return Route(tuple(quote.cloud for quote in ranked[:most]), self.passed_over)


def route(
    request: SpotRequest, members: Sequence[Member], *, most: int, booked: ReservedRoom | None = None
) -> Route:
    """The clouds to ask, tightest fit first, at most ``most`` of them; and a refusal for all passed over.

    Those that broke their promises at the request's SLA come last, in the same order. A member beyond
    ``most`` gets no refusal: nothing is known against it. ``booked`` is not added to here.

    Raises UnfittableError when no member has a node that large, UnknownTargetError for a target that is none.
    """
    return survey(request, members).route(most, booked)


def survey(request: SpotRequest, members: Sequence[Member]) -> CandidateSet:
    """The same for all requests that want the same. Raises as ``route`` does."""
    targets = targets_of(request, members)
    largest = max((member.info.largest_node for member in members), default=0)
    if members and request.cores > largest:
        raise UnfittableError(request.cores, largest)
    rooms: list[tuple[int, Quote, int]] = []
    passed_over: list[Refusal] = []
    wanted = {member.info.id for member in targets}
    for member in sorted(members, key=lambda one: one.info.order):
        cloud = member.info.id
        refusal = (
            _objection(request, member) if cloud in wanted else Refusal(cloud, RefusalReason.NOT_A_TARGET)
        )
        if refusal is not None:
            passed_over.append(refusal)
            continue
        assert member.advert is not None, "a cloud without an advert is unreachable"
        room = member.advert.room(promised=_promised(request))
        slots = free_slots(room, request.cores)
        if slots is None:
            slots = room.free_cores // request.cores  # no more than that
        quote = Quote(cloud, request.cores, slots, None, None, None, None)
        rooms.append((member.info.order, quote, room.free_cores))
    distrusted = frozenset(member.info.id for member in targets if member.broken_at(request.sla) is not None)
    return CandidateSet(request.cores, tuple(rooms), tuple(passed_over), distrusted)


def _promised(request: SpotRequest) -> bool:
    return promises(Kind.SPOT, request.sla)


def free_slots(room: Room, cores: int) -> int | None:
    """Free slots of that size as far as the advert, which need not list all sizes, tells. None: unknown."""
    listed = room.free_slots.get(cores)
    if listed is not None:
        return listed
    if cores > room.free_cores or any(size < cores and slots == 0 for size, slots in room.free_slots.items()):
        return 0
    return None


def smaller_size(request: SpotRequest, member: Member) -> int | None:
    """The largest advertised size below the request's that this cloud would surely admit now, or None.

    Adverts vouch for cores alone.
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
        if advert.admission is Mode.POPULATION:  # its bar is known to the owner alone
            return None
        table = member.table
        cells = table.cells.get(cores, ()) if table and table.version == advert.table_version else ()
        here = next((one for one in cells if one.free_slots_from <= slots <= one.free_slots_to), None)
        if (request.lifetime_s or 0.0) <= (_surely_survived(here, request.sla or 0.0) or 0.0):
            return cores
    return None


def _objection(request: SpotRequest, member: Member) -> Refusal | None:
    """Why this cloud would certainly refuse, in the order of precedence of ``RefusalReason``.

    But unreachable comes before what an advert says that is too old to be believed. What is free of other
    resources, or on nodes with some labels, is known to the owner alone: slots of cores are no fewer.
    """
    cloud, advert, cores = member.info.id, member.advert, request.cores
    hopeless = _hopeless(request, member.info)
    if hopeless is not None:
        return hopeless
    if advert is None or not member.reachable:
        return Refusal(cloud, RefusalReason.UNREACHABLE)
    promised = _promised(request)
    slots = free_slots(advert.room(promised=promised), cores)
    if slots == 0 and not member.info.fair_share:  # else it has to know who waits
        closed = (("cordon", advert.closed_nodes),) if advert.closed_nodes else ()
        return Refusal(cloud, RefusalReason.NO_CAPACITY, free_slots=0, removed=closed)
    if promised:
        assert request.sla is not None
        return _risk(request, request.sla, member, slots)
    return None


def _hopeless(request: SpotRequest, info: CloudInfo) -> Refusal | None:
    """A refusal if none of its nodes would do, were they all empty."""
    if request.cores > info.largest_node:
        return Refusal(info.id, RefusalReason.TOO_LARGE)
    kinds = info.node_kinds
    if kinds and request.resources and not any(_holds(kind, request) for kind in kinds):
        return Refusal(info.id, RefusalReason.TOO_LARGE)
    wanted = request.labels.items()
    if kinds and wanted and not any(wanted <= kind.labels.items() for kind in kinds):
        return Refusal(
            info.id, RefusalReason.NO_SUCH_NODE, removed=(("labels", sum(kind.nodes for kind in kinds)),)
        )
    return None


def _holds(kind: NodeKind, request: SpotRequest) -> bool:
    enough = all(kind.resources.get(name, 0) >= amount for name, amount in request.resources.items())
    return enough and kind.cores >= request.cores


def _risk(request: SpotRequest, sla: float, member: Member, slots: int | None) -> Refusal | None:
    """A refusal if the table would not do for any number of free slots.

    A published lifetime at an SLA no smaller than the wanted one bounds what is survived at the wanted one;
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
    bounds = [_survived_at_least(cell, sla) for cell in cells]
    if not bounds or any(bound is None or request.lifetime_s <= bound for bound in bounds):
        return None
    slots = None if request.needs_more else slots  # of those that would do there may be fewer
    here = next(
        (cell for cell in cells if slots and cell.free_slots_from <= slots <= cell.free_slots_to), None
    )
    unseen = here is not None and request.lifetime_s > here.followed_up_s
    return Refusal(
        cloud,
        RefusalReason.NO_EVIDENCE if unseen else RefusalReason.RISK_TOO_HIGH,
        free_slots=slots,
        eviction_probability=_sla_for(here, request.lifetime_s),
        survives_s=_surely_survived(here, sla),
        table_version=table.version,
        table_made_at_s=table.made_at_s,
    )


def _survived_at_least(cell: TableCell, sla: float) -> float | None:
    """Published lifetime at the smallest SLA not below ``sla``: an upper bound of the one at ``sla``."""
    return next((seconds for shown, seconds in cell.survives_s if shown >= sla), None)


def _surely_survived(cell: TableCell | None, sla: float) -> float | None:
    """A lifetime this cell would accept at ``sla``, as a counter-offer."""
    if cell is None:
        return None
    return max((seconds for shown, seconds in cell.survives_s if shown <= sla), default=None)


def _sla_for(cell: TableCell | None, lifetime_s: float) -> float | None:
    """An SLA at which this cell would accept the lifetime, as a counter-offer."""
    if cell is None:
        return None
    return next((shown for shown, seconds in cell.survives_s if seconds >= lifetime_s), None)
