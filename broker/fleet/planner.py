"""Decides the next step of a fleet, from what it has and the present time; pure.

Times are seconds of wall time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

#: A lease is extended when this share of its lifetime is left; after a refusal, when half of that is left.
_EXTEND_AT = 1 / 4
#: A lease that cannot be extended is replaced before its end: by a share of its lifetime, at most by seconds.
_REPLACE_AT, _REPLACE_AT_MOST_S = 1 / 16, 600.0


@dataclass(frozen=True)
class FleetTarget:
    """The size that a fleet is kept at.

    lead_s: the least time in which a lease can be replaced. batch: most requests at once.
    """

    instances: int
    lead_s: float
    batch: int = 100


@dataclass(frozen=True)
class HeldLease:
    """A lease of the fleet.

    lifetime_s: the lifetime that was asked for, of which remaining_s are left; None: its cloud renews it.
    told_to_leave: it is under notice, or is not renewed. refused_at_s: time that was left when a later end
    was refused.
    """

    lease: str
    cloud: str
    remaining_s: float | None
    lifetime_s: float | None
    told_to_leave: bool = False
    refused_at_s: float | None = None

    def leaves(self, lead_s: float) -> bool:
        """Return whether the lease needs a replacement now. ``lead_s``: time that replacing it takes."""
        if self.told_to_leave or self.remaining_s is None or self.lifetime_s is None:
            return self.told_to_leave
        early_s = min(max(_REPLACE_AT * self.lifetime_s, lead_s), _REPLACE_AT_MOST_S)
        return self.remaining_s <= min(early_s, _EXTEND_AT * self.lifetime_s)

    @property
    def wants_longer(self) -> bool:
        """True when it is time to ask for a later end."""
        if self.told_to_leave or self.remaining_s is None or self.lifetime_s is None:
            return False
        limit_s = _EXTEND_AT * self.lifetime_s if self.refused_at_s is None else self.refused_at_s / 2
        return 0 < self.remaining_s <= limit_s


@dataclass(frozen=True)
class Fleet:
    """The present state of a fleet.

    leases: oldest first. unanswered: number of requests without an answer. cooling: clouds that have just
    evicted an instance, and until when they are not asked. not_before_s: the time of the next requests after
    a refusal.
    """

    leases: tuple[HeldLease, ...] = ()
    unanswered: int = 0
    cooling: Mapping[str, float] = field(default_factory=dict)
    not_before_s: float = 0.0


@dataclass(frozen=True)
class FleetPlan:
    """The next step of a fleet.

    ask: number of new requests. avoid: clouds that these leave out. extend, give_back: ids of leases.
    """

    ask: int
    avoid: frozenset[str]
    extend: tuple[str, ...]
    give_back: tuple[str, ...]


def decide(target: FleetTarget, fleet: Fleet, now_s: float) -> FleetPlan:
    """Decide the next step.

    It never makes the leases that stay and the unanswered requests more than the target; where they are more
    already, the youngest leases are given back.
    """
    staying = [lease for lease in fleet.leases if not lease.leaves(target.lead_s)]
    missing = target.instances - len(staying) - fleet.unanswered
    ask = min(missing, target.batch) if missing > 0 and now_s >= fleet.not_before_s else 0
    surplus = staying[target.instances :]
    return FleetPlan(
        ask,
        frozenset(cloud for cloud, until_s in fleet.cooling.items() if until_s > now_s),
        tuple(lease.lease for lease in fleet.leases if lease.wants_longer and lease not in surplus),
        tuple(lease.lease for lease in surplus),
    )
