"""Count what a replay or a live federation did; both use the same tally.

JSON schema ``spotfed.federation-report/1`` (``Tally.as_dict``):

    until_s       requests after this time of the federation were left out
    clouds.<id>   nodes; on_demand {requests, admitted; where users call the cloud directly also delayed,
                  those admitted after a refusal, and mean_delay_s of these}; spot {admitted, completed,
                  evicted and the realised rate}; by_sla; refusals {reason: count}, once per cloud asked;
                  utilisation: core-seconds in use until ``until_s``, by own users and spot, of those there
                  were
    origins.<id>  requests (each once), admitted, completed, evicted and the realised rate; refusals as above;
                  spot_core_hours {requested, completed, lost}: lost is the work of evicted instances; by_sla;
                  by_size; where requests are renewable also promises {made, evicted, not_renewed}: each
                  admission and each renewal makes one; an instance that was not renewed before it had all
                  that it wanted is not among the completed, and its work neither completed nor lost
    total         the sums over origins: requests, admitted, completed, evicted and the realised rate; by_sla
    overflow.<id> only where a cloud offers to others what it must turn away; in no origin and no total. As an
                  origin, its requests being the offers; own_requests {offered, completed}: what was evicted
                  elsewhere is offered again, so that one own request may be several offers

The realised rate is evicted_share (evicted of admitted, null when nothing was) with evicted_low and
evicted_high, the bounds of its exact 95 % interval (Clopper and Pearson). by_sla and by_size are lists, one
entry for each promise (``sla``, null: none) and each size (``cores``), ascending: every promise is kept or
broken by itself. An instance that its user stopped early counts as completed: nobody took anything from it.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cloudsim.model.binomial import clopper_pearson
from cloudsim.model.changes import End
from cloudsim.model.refusals import RefusalReason
from cloudsim.model.requests import Request

if TYPE_CHECKING:
    from cloudsim.federation.model import Federation

SCHEMA = "spotfed.federation-report/1"

_ANSWERED = ("admitted", "completed", "evicted")
_ASKED = ("requests", *_ANSWERED)
_WORK = ("requested", "completed", "lost")
_DIGITS = 6
#: Ends and starts are rounded, so that a lifetime may be a little shorter than asked for.
_ROUNDING_S = 1e-3


def realised_rate(admitted: int, evicted: int) -> dict[str, float | None]:
    """Return the share of the admitted that was evicted, and the bounds of its exact 95 % interval."""
    low, high = clopper_pearson(evicted, admitted)
    return {
        "evicted_share": round(evicted / admitted, _DIGITS) if admitted else None,
        "evicted_low": round(low, _DIGITS),
        "evicted_high": round(high, _DIGITS),
    }


def work_shares(hours: Mapping[str, float], baseline: float) -> dict[str, float | None]:
    """Return the completed share of the core-hours requested, and of those that the baseline completes.

    Parameters
    ----------
    hours
        ``spot_core_hours`` of a report.
    baseline
        Core-hours that complete without any promise (``replay.complete_without_promise``).
    """
    completed = hours["completed"]
    return {
        "completed_of_requested": completed / hours["requested"] if hours["requested"] else None,
        "completed_of_baseline": completed / baseline if baseline else None,
    }


@dataclass
class _Spot:
    """Spot requests of some kind: how many, and their core-seconds."""

    number: Counter[str] = field(default_factory=Counter)
    core_s: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    def add(self, what: str, work: str | None = None, core_s: float = 0.0) -> None:
        self.number[what] += 1
        if work is not None:
            self.core_s[work] += core_s

    def counts(self, keys: Iterable[str]) -> dict[str, Any]:
        counts = {key: self.number[key] for key in keys}
        return {**counts, **realised_rate(self.number["admitted"], self.number["evicted"])}

    def promises(self) -> dict[str, int]:
        made = self.number["admitted"] + self.number["renewed"]
        return {"made": made, "evicted": self.number["evicted"], "not_renewed": self.number["not_renewed"]}

    def core_hours(self) -> dict[str, float]:
        return {key: round(self.core_s[key] / 3600, _DIGITS) for key in _WORK}


@dataclass
class _Group:
    """Spot requests of one origin, or those that one cloud admitted, by SLA and size."""

    parts: defaultdict[tuple[float | None, int], _Spot] = field(default_factory=lambda: defaultdict(_Spot))
    refusals: Counter[str] = field(default_factory=Counter)
    renewable: bool = False

    def part(self, request: Request) -> _Spot:
        return self.parts[request.sla, request.cores]

    def whole(self) -> _Spot:
        return _sum(self.parts.values())

    def by_sla(self) -> list[tuple[float | None, _Spot]]:
        slas = sorted({sla for sla, _ in self.parts}, key=lambda sla: math.inf if sla is None else sla)
        return [(sla, _sum(part for (own, _), part in self.parts.items() if own == sla)) for sla in slas]

    def by_size(self) -> list[tuple[int, _Spot]]:
        sizes = sorted({cores for _, cores in self.parts})
        return [(size, _sum(part for (_, own), part in self.parts.items() if own == size)) for size in sizes]

    def sla_rows(self, keys: Iterable[str]) -> list[dict[str, Any]]:
        return [{"sla": sla, **part.counts(keys)} for sla, part in self.by_sla()]

    def as_origin(self) -> dict[str, Any]:
        whole = self.whole()
        return {
            **whole.counts(_ASKED),
            "refusals": dict(sorted(self.refusals.items())),
            "spot_core_hours": whole.core_hours(),
            **({"promises": whole.promises()} if self.renewable else {}),
            "by_sla": self.sla_rows(_ASKED),
            "by_size": [
                {"cores": cores, **part.counts(_ASKED), "spot_core_hours": part.core_hours()}
                for cores, part in self.by_size()
            ],
        }


@dataclass
class _CloudCount:
    nodes: str
    cores: int
    spot: _Group = field(default_factory=_Group)
    on_demand_requests: int = 0
    on_demand_admitted: int = 0
    used_core_s: float = 0.0
    delays_s: list[float] | None = None

    def as_dict(self, until_s: float) -> dict[str, Any]:
        offered_core_s = self.cores * until_s
        return {
            "nodes": self.nodes,
            "on_demand": {
                "requests": self.on_demand_requests,
                "admitted": self.on_demand_admitted,
                **self._delays(),
            },
            "spot": self.spot.whole().counts(_ANSWERED),
            "by_sla": self.spot.sla_rows(_ANSWERED),
            "refusals": dict(sorted(self.spot.refusals.items())),
            "utilisation": round(self.used_core_s / offered_core_s, _DIGITS) if offered_core_s else 0.0,
        }

    def _delays(self) -> dict[str, Any]:
        if self.delays_s is None:
            return {}
        mean_s = round(sum(self.delays_s) / len(self.delays_s), _DIGITS) if self.delays_s else None
        return {"delayed": len(self.delays_s), "mean_delay_s": mean_s}


class Tally:
    """Counts requests, answers and ends of a federation.

    A request must be counted with ``asked`` before anything else about it.
    """

    def __init__(self, federation: Federation):
        self._until_s = federation.ends_s
        self._clouds = {
            member.spec.id: _CloudCount(member.nodes, sum(member.spec.node_cores))
            for member in federation.clouds
        }
        self._origins = {workload.origin: _Group() for workload in federation.workloads}
        self._overflow = {member.spec.id: _Group() for member in federation.clouds if member.overflow}
        self._own: Counter[tuple[str, str]] = Counter()  # own requests that overflowed, by cloud and fate
        self._asked: dict[str, tuple[Request, _Group]] = {}

    def on_demand(self, cloud: str, *, requests: int, admitted: int) -> None:
        """Count a cloud's own requests, in all or since the last call."""
        self._clouds[cloud].on_demand_requests += requests
        self._clouds[cloud].on_demand_admitted += admitted

    def delayed(self, cloud: str, delays_s: list[float]) -> None:
        """Record the delays of a cloud's own requests that it refused and admitted later, once for all."""
        self._clouds[cloud].delays_s = delays_s

    def used(self, cloud: str, cores: int, start_s: float, stop_s: float) -> None:
        """Count the use of an instance that has left, on-demand or spot, up to the end of the federation."""
        self._clouds[cloud].used_core_s += cores * (min(stop_s, self._until_s) - min(start_s, self._until_s))

    def asked(self, request: Request, *, overflow: bool = False) -> None:
        """Count a spot request that was sent to the federation.

        Parameters
        ----------
        overflow
            True if the cloud that turned it away sent it.
        """
        assert request.lifetime_s is not None
        group = (self._overflow if overflow else self._origins)[request.origin]
        self._asked[request.id] = request, group
        group.renewable |= request.least_s is not None
        group.part(request).add("requests", "requested", request.cores * request.lifetime_s)

    def admitted(self, request_id: str, cloud: str) -> None:
        """Count a request that a cloud admitted."""
        request, group = self._asked[request_id]
        group.part(request).add("admitted")
        self._clouds[cloud].spot.part(request).add("admitted")

    def refused(self, request_id: str, cloud: str, reason: RefusalReason) -> None:
        """Count the refusal of one of the clouds asked; there may be several for one request."""
        _, group = self._asked[request_id]
        group.refusals[reason.value] += 1
        self._clouds[cloud].spot.refusals[reason.value] += 1

    def ended(self, request_id: str, cloud: str, how: End, ran_s: float) -> None:
        """Count a spot instance that left after ``ran_s`` seconds.

        One that completed before the lifetime that it wanted was not renewed: its work counts neither as
        completed nor as lost.
        """
        request, group = self._asked[request_id]
        done = how in (End.COMPLETED, End.CANCELLED)
        what, work = ("completed", "completed") if done else (how.value, "lost")
        assert request.lifetime_s is not None
        if how is End.COMPLETED and request.least_s is not None and ran_s < request.lifetime_s - _ROUNDING_S:
            what = work = "not_renewed"
        group.part(request).add(what, work, request.cores * ran_s)
        self._clouds[cloud].spot.part(request).add(what)

    def renewed(self, request_id: str) -> None:
        """Count a renewal of a spot instance: one more promise."""
        request, group = self._asked[request_id]
        group.part(request).add("renewed")

    def overflowed(self, cloud: str, fate: str) -> None:
        """Count an own request that was first ``offered`` to others, or ``completed`` there, by ``fate``."""
        self._own[cloud, fate] += 1

    def as_dict(self) -> dict[str, Any]:
        """Return the report in its documented schema."""
        total = _Group()
        for group in self._origins.values():
            for key, part in group.parts.items():
                total.parts[key] = _sum((total.parts[key], part))
        report: dict[str, Any] = {
            "schema": SCHEMA,
            "until_s": self._until_s,
            "clouds": {name: count.as_dict(self._until_s) for name, count in self._clouds.items()},
            "origins": {name: group.as_origin() for name, group in self._origins.items()},
            "total": {**total.whole().counts(_ASKED), "by_sla": total.sla_rows(_ASKED)},
        }
        if self._overflow:
            report["overflow"] = {
                cloud: {
                    "own_requests": {fate: self._own[cloud, fate] for fate in ("offered", "completed")},
                    **group.as_origin(),
                }
                for cloud, group in self._overflow.items()
            }
        return report


def _sum(parts: Iterable[_Spot]) -> _Spot:
    total = _Spot()
    for part in parts:
        total.number.update(part.number)
        for work, core_s in part.core_s.items():
            total.core_s[work] += core_s
    return total
