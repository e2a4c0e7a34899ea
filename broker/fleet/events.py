"""What a fleet tells while it is kept, and what it comes to in the end."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any


class FleetEventKind(StrEnum):
    """What happened."""

    ADMITTED = "admitted"
    FOUND = "found"  # a lease of a keeper before this one
    EXTENDED = "extended"
    REFUSED = "refused"
    EVICTED = "evicted"
    COMPLETED = "completed"
    CANCELLED = "cancelled"  # somebody else gave it back
    FAILED = "failed"
    RETURNED = "returned"
    COMMAND = "command"  # one that was to run for it has failed
    AWAY = "away"  # the broker does not answer
    BACK = "back"


@dataclass(frozen=True)
class FleetEvent:
    """``at``: RFC 3339. held: how many of the ``wanted`` instances there are then. detail: for people."""

    at: str
    kind: FleetEventKind
    held: int
    wanted: int
    lease: str | None = None
    cloud: str | None = None
    detail: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """For a line of JSON."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass
class FleetTotals:
    """Sums over the time that a fleet was kept, in seconds of wall time.

    full_s: with all the instances that were wanted. cost_usd: of the instances whose clouds tell a price,
    which are ``priced_s`` of ``instance_s``.
    """

    seconds: float = 0.0
    full_s: float = 0.0
    instance_s: float = 0.0
    priced_s: float = 0.0
    cost_usd: float = 0.0
    counts: Counter[FleetEventKind] = field(default_factory=Counter)

    def passed(self, seconds: float, prices: list[float | None], wanted: int) -> None:
        """So much time with instances of these prices, US dollars an hour each."""
        told = [price for price in prices if price is not None]
        self.seconds += seconds
        self.full_s += seconds if len(prices) >= wanted else 0.0
        self.instance_s += seconds * len(prices)
        self.priced_s += seconds * len(told)
        self.cost_usd += seconds / 3600 * sum(told)

    def as_dict(self) -> dict[str, Any]:
        """For the last line of JSON. The cost is null where no cloud told a price."""
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
    """RFC 3339 in UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
