"""What a fleet does next. Pure: what it has and what time it is go in, a plan comes out.

Times are seconds of wall time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

#: A lease's end is put off when this share of its lifetime is left; refused, again when half of that is.
_EXTEND_AT = 1 / 4
#: One that cannot be put off is replaced this much before its end, in shares of the lifetime and in seconds.
_REPLACE_AT, _REPLACE_AT_MOST_S = 1 / 16, 600.0


@dataclass(frozen=True)
class FleetTarget:
    """What is to be kept. lead_s: the least time in which a lease can be replaced. batch: so many are asked
    for at once."""

    instances: int
    lead_s: float
    batch: int = 100


@dataclass(frozen=True)
class HeldLease:
    """A lease of the fleet. lifetime_s: for which it was asked, and remaining_s of it; None: its cloud renews
    it. refused_at_s: what remained when a later end was refused. told_to_leave: it was given notice, or is
    not renewed."""

    lease: str
    cloud: str
    remaining_s: float | None
    lifetime_s: float | None
    told_to_leave: bool = False
    refused_at_s: float | None = None

    def leaves(self, lead_s: float) -> bool:
        """Another one is needed in its place now."""
        if self.told_to_leave or self.remaining_s is None or self.lifetime_s is None:
            return self.told_to_leave
        early_s = min(max(_REPLACE_AT * self.lifetime_s, lead_s), _REPLACE_AT_MOST_S)
        return self.remaining_s <= min(early_s, _EXTEND_AT * self.lifetime_s)

    @property
    def wants_longer(self) -> bool:
        """It is time to ask for a later end."""
        if self.told_to_leave or self.remaining_s is None or self.lifetime_s is None:
            return False
        limit_s = _EXTEND_AT * self.lifetime_s if self.refused_at_s is None else self.refused_at_s / 2
        return 0 < self.remaining_s <= limit_s


@dataclass(frozen=True)
class Fleet:
    """How it stands.

    held: oldest first. asked: requests that nobody has answered yet. cooling: clouds that have just evicted,
    and until when they are not asked. not_before_s: after a refusal it waits until then.
    """

    held: tuple[HeldLease, ...] = ()
    asked: int = 0
    cooling: Mapping[str, float] = field(default_factory=dict)
    not_before_s: float = 0.0


@dataclass(frozen=True)
class FleetPlan:
    """New requests, and clouds that these pass over; leases to be extended, and to be given back."""

    ask: int
    avoid: frozenset[str]
    extend: tuple[str, ...]
    give_back: tuple[str, ...]


def decide(target: FleetTarget, fleet: Fleet, now_s: float) -> FleetPlan:
    """The next step. Those that stay and those that are asked for are never more than wanted by it; where
    they were before, the youngest are given back."""
    staying = [one for one in fleet.held if not one.leaves(target.lead_s)]
    missing = target.instances - len(staying) - fleet.asked
    ask = min(missing, target.batch) if missing > 0 and now_s >= fleet.not_before_s else 0
    surplus = staying[target.instances :]
    return FleetPlan(
        ask,
        frozenset(cloud for cloud, until_s in fleet.cooling.items() if until_s > now_s),
        tuple(one.lease for one in fleet.held if one.wants_longer and one not in surplus),
        tuple(one.lease for one in surplus),
    )
