"""Requests for one instance: values, no behaviour. Times are seconds of the cloud's own time."""

from __future__ import annotations

from dataclasses import dataclass

from cloudsim.model.codes import Code
from cloudsim.model.reserved_ids import OVERFLOW


class Kind(Code):
    """The two kinds of instances: what one may do to others, and what may be done to it."""

    ON_DEMAND = "on_demand"  # placed if it fits after evictions; never evicted
    SPOT = "spot"  # placed only in free room; evicted when an on-demand request needs the cores


class Mode(Code):
    """The two meanings of an SLA: to whom it is a promise."""

    STRICT = "strict"  # to each: the request's own risk is at most its SLA
    POPULATION = "population"  # to all: the mean risk of the admitted is at most their SLA


class Door(Code):
    """The ways in which a spot request comes to a cloud."""

    OVERFLOW = "overflow"  # a full cloud had to turn it away: it comes when clouds are full together
    WORKLOAD = "workload"  # a member of the federation offers a recorded load
    USER = "user"  # somebody asks for it


def door_of(request_id: str, origin: str) -> Door:
    """Return the door through which a spot request came; its id and its origin tell."""
    if request_id.startswith(OVERFLOW):
        return Door.OVERFLOW
    return Door.WORKLOAD if request_id.startswith(f"{origin}-w") else Door.USER


class Spread(Code):
    """The rules for where the instances of one group go."""

    TOGETHER = "together"  # affinity: all on one node
    APART = "apart"  # anti-affinity: each on a node of its own


#: The most pools that a cloud can sell (``cloudsim.admission.pools``).
MOST_POOLS = 16

#: What a renewable request begins with at least, unless it says so itself, in seconds.
LEAST_S = 3600.0

#: Amounts of named resources beside cores, by name: ``(("disk_gb", 40), ("memory_mb", 4000))``.
Amounts = tuple[tuple[str, int], ...]

#: Labels of a node, or those that a node must have.
Labels = frozenset[tuple[str, str]]


def amounts_of_member(amounts: Amounts, cores: int) -> Amounts:
    """Return what each core of a gang needs beside itself, rounded up."""
    return tuple((name, -(-amount // cores)) for name, amount in amounts)


def promises(kind: Kind, sla: float | None) -> bool:
    """Return whether an SLA is a promise; None and 1 are none (P2 §3.6, "no guarantee")."""
    return kind is Kind.SPOT and sla is not None and sla < 1


@dataclass(frozen=True, slots=True)
class Request:
    """A request for one instance.

    lifetime_s: how long a spot instance lives at most; None for an on-demand instance that its user will stop
    by hand. sla: the largest acceptable probability of eviction before ``lifetime_s``; None (or 1) asks for
    no guarantee, 0 only for zero risk; None for on-demand. origin: the member on whose behalf it is made.
    actual_lifetime_s: when its user will stop it, known to a replay and to no decision. amounts: what it
    needs beside cores. labels: a node must have all of them. group: the instances that ``spread`` is about.
    pool: of a cloud that sells pools (``cloudsim.admission.pools``), None for any. parallel: its cores may be
    on several nodes, as those of a request that is wider than any node always are. least_s: it is renewable,
    and begins with a promise of at least so long (``cloudsim.cloud.renewals``); None: all or nothing.
    """

    id: str
    kind: Kind
    cores: int
    lifetime_s: float | None
    sla: float | None = None
    origin: str = ""
    actual_lifetime_s: float | None = None
    amounts: Amounts = ()
    labels: Labels = frozenset()
    group: str | None = None
    spread: Spread | None = None
    pool: int | None = None
    parallel: bool = False
    least_s: float | None = None

    @property
    def promised(self) -> bool:
        """True if the request asks for a promise."""
        return promises(self.kind, self.sla)

    @property
    def door(self) -> Door:
        """The door through which it came."""
        return door_of(self.id, self.origin)
