"""Routing: the clouds to which a request is offered, and their order, judged by adverts alone.

Routing is for wall time. Adverts are a little old, so a cloud is passed over only where its advert leaves no
doubt; its owner decides everything else. In trace time every target is asked instead.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import NamedTuple

from broker.contract import Advert, BrokenPromise, CloudInfo, NodeKind, Room, SpotRequest
from cloudsim.federation.ranking import rank_quotes
from cloudsim.model.refusals import Refusal, RefusalReason
from cloudsim.model.requests import Amounts, Kind, Mode, promises

_Flavour = tuple[int, Amounts]


class TableCell(NamedTuple):
    """One row of a published table: the lifetimes survived at some SLAs, for a range of free slots."""

    free_slots_from: int
    free_slots_to: int
    followed_up_s: float  # longer lifetimes were not observed
    survives_s: tuple[tuple[float, float], ...]  # (sla, seconds), SLAs ascending


@dataclass(frozen=True)
class TableSummary:
    """The published part of a cloud's table: by cores and amounts, its cells in the order of free slots."""

    version: str
    made_at_s: float
    cells: dict[_Flavour, tuple[TableCell, ...]]

    @classmethod
    def from_json(cls, text: bytes | str) -> TableSummary:
        """Read what the owner published under ``keys.table`` (rows of ``QuantileTable.rows``).

        Raises
        ------
        ValueError, KeyError, TypeError
            When it is something else.
        """
        published = json.loads(text)
        cells: dict[_Flavour, list[TableCell]] = {}
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
            {flavour: tuple(sorted(rows)) for flavour, rows in cells.items()},
        )

    @cached_property
    def _bounds(self) -> dict[_Flavour, tuple[list[float], list[float]]]:
        return {flavour: _find_bounds(cells) for flavour, cells in self.cells.items()}

    def bound_s(self, flavour: _Flavour, sla: float) -> float:
        """Return the lifetime beyond which a flavour is refused at this SLA whatever is free.

        A published lifetime at an SLA no smaller than the request's bounds the lifetime at the request's SLA,
        and conditions between two cells are mixtures of both. So a lifetime above that bound in all cells is
        refused. It is infinite where a cell has no bound, or there is no cell.
        """
        slas, bounds_s = self._bounds.get(flavour, _UNBOUNDED)
        return bounds_s[bisect_left(slas, sla)]


_UNBOUNDED: tuple[list[float], list[float]] = [], [math.inf]


def _find_bounds(cells: Sequence[TableCell]) -> tuple[list[float], list[float]]:
    """Return the published SLAs, and the bounds up to each of them and beyond the last."""
    slas = sorted({sla for cell in cells for sla, _ in cell.survives_s})
    longest_s = [[_longest_lifetime_s(cell, sla) for cell in cells] for sla in slas]
    return slas, [*(max(lifetimes_s) for lifetimes_s in longest_s), math.inf]


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
    clouds = {member.info.id: member for member in ordered}
    for target in request.targets:
        if target not in clouds:
            raise UnknownTargetError(target, clouds)
    targets = set(request.targets)
    return [member for cloud, member in clouds.items() if cloud in targets]


class Candidate(NamedTuple):
    """A cloud that may be asked: the slots of the size that are free at most, and its free cores."""

    cloud: str
    free_slots: int
    free_cores: int


@dataclass(frozen=True)
class CandidateSet:
    """The clouds that may be asked for requests with equal requirements.

    Attributes
    ----------
    cores:
        The size of the requests.
    candidates:
        The clouds in the order of ranking.
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
        ordered = (
            cloud
            for distrusted in (False, True)
            for full in (False, True)  # as far as is known
            for cloud, free_slots, free_cores in self.candidates
            if (cloud in self.distrusted) is distrusted
            and (free_slots == 0 or free_cores - taken.get(cloud, 0) < self.cores) is full
        )
        return Route(tuple(islice(ordered, most)), self.passed_over)


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
    return MemberFits(request, members).find_candidates(request, targets)


class MemberFit(NamedTuple):
    """Says how a member fits requests of one size, needs and SLA, by its description, advert and table.

    Attributes
    ----------
    refusal:
        The refusal on its behalf, whatever the lifetime and the targets; then it is no candidate.
    bound_s:
        The lifetime beyond which its table refuses.
    slots:
        The free slots of the size; None if the advert does not tell.
    """

    member: Member
    refusal: Refusal | None
    candidate: Candidate | None = None
    bound_s: float = math.inf
    slots: int | None = None


class MemberFits:
    """All members as they fit requests of one size, needs and SLA: only lifetimes and targets differ.

    Attributes
    ----------
    fits:
        In cloud order.
    """

    def __init__(self, request: SpotRequest, members: Sequence[Member]):
        """Judge the members. Raises UnfittableError when none has a node for this size."""
        largest = max((member.info.largest_node for member in members), default=0)
        if members and request.cores > largest:
            raise UnfittableError(request.cores, largest)
        ordered = sorted(members, key=lambda member: member.info.order)
        flavour = (request.cores, tuple(request.resources.items())) if _promised(request) else None
        self._cells: dict[str, tuple[TableCell | None, float | None]] = {}  # that judge it, by cloud
        self.fits = [_judge(request, flavour, member) for member in ordered]
        self._ranked = tuple(
            rank_quotes(
                (fit.member.info.order, fit.candidate) for fit in self.fits if fit.candidate is not None
            )
        )
        self._distrusted = frozenset(
            member.info.id for member in ordered if member.broken and member.broken_at(request.sla)
        )

    def find_candidates(self, request: SpotRequest, targets: Sequence[Member]) -> CandidateSet:
        """Return the candidates for a request of this size, needs and SLA; ``targets``: see find_targets."""
        target_ids = {member.info.id for member in targets}
        lifetime_s = request.lifetime_s or 0.0
        passed_over = [
            self._refuse(request, fit, is_target=fit.member.info.id in target_ids)
            for fit in self.fits
            if fit.refusal is not None or lifetime_s > fit.bound_s or fit.member.info.id not in target_ids
        ]
        refusing = {refusal.cloud for refusal in passed_over}
        candidates = tuple([candidate for candidate in self._ranked if candidate.cloud not in refusing])
        return CandidateSet(request.cores, candidates, tuple(passed_over), self._distrusted)

    def _refuse(self, request: SpotRequest, fit: MemberFit, *, is_target: bool) -> Refusal:
        cloud, table = fit.member.info.id, fit.member.table
        if not is_target:
            return Refusal(cloud, RefusalReason.NOT_A_TARGET)
        if fit.refusal is not None:
            return fit.refusal
        assert table is not None
        lifetime_s = request.lifetime_s or 0.0
        slots = None if request.needs_more else fit.slots  # fewer may meet the other needs
        if cloud not in self._cells:
            cells = table.cells[request.cores, tuple(request.resources.items())]
            cell = _cell_at(cells, slots) if slots else None
            self._cells[cloud] = cell, _sure_lifetime_s(cell, request.sla or 0.0)
        cell, survives_s = self._cells[cloud]
        unseen = cell is not None and lifetime_s > cell.followed_up_s
        return Refusal(
            cloud,
            RefusalReason.NO_EVIDENCE if unseen else RefusalReason.RISK_TOO_HIGH,
            free_slots=slots,
            eviction_probability=_sure_sla(cell, lifetime_s),
            survives_s=survives_s,
            table_version=table.version,
            table_made_at_s=table.made_at_s,
        )


def _judge(request: SpotRequest, flavour: _Flavour | None, member: Member) -> MemberFit:
    """Judge a member; ``flavour``: by which its table does, None where nothing is promised.

    A refusal has the first reason in their precedence. But UNREACHABLE precedes reasons from an advert that
    is too old to be believed. The owner alone knows what is free of other resources, or on nodes with some
    labels; there are at least as many slots of cores.
    """
    info, advert = member.info, member.advert
    if request.cores > info.largest_node or request.needs_more:
        refusal = _refuse_when_empty(request, info)
        if refusal is not None:
            return MemberFit(member, refusal)
    if advert is None or not member.reachable:
        return MemberFit(member, Refusal(info.id, RefusalReason.UNREACHABLE))
    room = advert.room(promised=flavour is not None)
    slots = count_free_slots(room, request.cores)
    if slots == 0 and not info.fair_share:  # else it has to see the request
        closed = (("cordon", advert.closed_nodes),) if advert.closed_nodes else ()
        return MemberFit(member, Refusal(info.id, RefusalReason.NO_CAPACITY, free_slots=0, removed=closed))
    bound_s = math.inf
    if flavour is not None:
        table, version = member.table, advert.table_version
        if version is None:
            return MemberFit(member, Refusal(info.id, RefusalReason.NO_TABLE, free_slots=slots))
        # In population mode risks above the SLA may be taken.
        if table is not None and table.version == version and advert.admission is not Mode.POPULATION:
            bound_s = table.bound_s(flavour, request.sla or 0.0)
    at_most = room.free_cores // request.cores if slots is None else slots
    return MemberFit(member, None, Candidate(info.id, at_most, room.free_cores), bound_s, slots)


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


def find_smaller_sizes(request: SpotRequest, member: Member) -> tuple[tuple[int, float], ...]:
    """Return the advertised sizes below the request's, largest first, that this cloud would surely admit.

    Each is in cores, with the longest lifetime in seconds that it would have at the SLA. Adverts tell of
    cores alone: a request that needs more gets none.
    """
    advert, table = member.advert, member.table
    if advert is None or not member.reachable or request.needs_more:
        return ()
    promised = _promised(request)
    free_slots = advert.room(promised=promised).free_slots
    sizes = [cores for cores, slots in free_slots.items() if slots and cores < request.cores]
    if not promised:
        return ((max(sizes), math.inf),) if sizes else ()
    if advert.admission is Mode.POPULATION:  # the owner alone knows its threshold
        return ()
    cells = table.cells if table is not None and table.version == advert.table_version else {}
    sure = [(cores, _cell_at(cells.get((cores, ()), ()), free_slots[cores])) for cores in sizes]
    return tuple(
        (cores, _sure_lifetime_s(cell, request.sla or 0.0) or 0.0)
        for cores, cell in sorted(sure, reverse=True)
    )


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


def _cell_at(cells: Sequence[TableCell], slots: int) -> TableCell | None:
    """Return the cell for a number of free slots."""
    return next((cell for cell in cells if cell.free_slots_from <= slots <= cell.free_slots_to), None)


def _longest_lifetime_s(cell: TableCell, sla: float) -> float:
    """Return the lifetime at the smallest published SLA not below ``sla``, an upper bound."""
    return next((seconds for published, seconds in cell.survives_s if published >= sla), math.inf)


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
