"""Events that a fleet reports while it is kept, and its totals at the end."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any


class FleetEventKind(StrEnum):
    """Kinds of events of a fleet."""

    ADMITTED = "admitted"
    FOUND = "found"  # a lease that an earlier process of this fleet asked for
    EXTENDED = "extended"
    REFUSED = "refused"
    EVICTED = "evicted"
    COMPLETED = "completed"
    CANCELLED = "cancelled"  # another client gave it back
    FAILED = "failed"
    RETURNED = "returned"
    COMMAND = "command"  # a command of the user for this lease has failed
    AWAY = "away"  # the broker does not answer
    BACK = "back"


@dataclass(frozen=True)
class FleetEvent:
    """One event of a fleet.

    at: RFC 3339. held: number of instances after the event, of ``wanted``. detail: text for people.
    """

    at: str
    kind: FleetEventKind
    held: int
    wanted: int
    lease: str | None = None
    cloud: str | None = None
    detail: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the event as JSON types, without empty fields."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass
class FleetTotals:
    """Totals of a fleet; times are in seconds of wall time.

    seconds: time that the fleet was kept. full_s: time with all the instances that were wanted. instance_s:
    sum of the times of all instances; clouds told a price for ``priced_s`` of it, which came to
    ``cost_usd``. counts: number of events by kind.
    """

    seconds: float = 0.0
    full_s: float = 0.0
    instance_s: float = 0.0
    priced_s: float = 0.0
    cost_usd: float = 0.0
    counts: Counter[FleetEventKind] = field(default_factory=Counter)

    def add_time(self, seconds: float, prices: list[float | None], wanted: int) -> None:
        """Add a time in which one instance ran for each of ``prices``, in US dollars an hour."""
        known = [price for price in prices if price is not None]
        self.seconds += seconds
        self.full_s += seconds if len(prices) >= wanted else 0.0
        self.instance_s += seconds * len(prices)
        self.priced_s += seconds * len(known)
        self.cost_usd += seconds / 3600 * sum(known)

    def as_dict(self) -> dict[str, Any]:
        """Return the totals as JSON types. The cost is None where no cloud told a price."""
        return {
            "seconds": round(self.seconds, 1),
            "full_share": round(self.full_s / self.seconds, 4) if self.seconds else None,
            "instance_hours": round(self.instance_s / 3600, 4),
            "priced_share": round(self.priced_s / self.instance_s, 4) if self.instance_s else None,
            "cost_usd": round(self.cost_usd, 4) if self.priced_s else None,
            **{
                kind.value: self.counts[kind]
                for kind in FleetEventKind
                if kind not in {FleetEventKind.AWAY, FleetEventKind.BACK}
            },
        }


def now_text() -> str:
    """Return the present time as RFC 3339 in UTC, with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
