"""What was measured, as a table: a row a case and party."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.bench.nova.scenarios import Scenario

OURS = "ours"


@dataclass(frozen=True)
class Measured:
    """The requests of one party in one case, over all rounds: ms each."""

    party: str
    hosts: int
    scenario: Scenario
    ms: tuple[float, ...]

    @property
    def median_ms(self) -> float:
        return statistics.median(self.ms)

    @property
    def mean_ms(self) -> float:
        return statistics.fmean(self.ms)

    @property
    def deviation_ms(self) -> float:
        """The standard deviation, the error bars of Figure 2."""
        return statistics.pstdev(self.ms)


def rows(measured: Sequence[Measured]) -> list[dict[str, Any]]:
    """A row a case and party; ``ratio`` is its median over ours of the same case."""
    ours = {(one.hosts, one.scenario): one.median_ms for one in measured if one.party == OURS}
    return [
        {
            "hosts": one.hosts, **one.scenario.as_row(), "party": one.party, "requests": len(one.ms),
            "median_ms": round(one.median_ms, 4), "mean_ms": round(one.mean_ms, 4),
            "deviation_ms": round(one.deviation_ms, 4),
            "ratio": round(one.median_ms / ours[one.hosts, one.scenario], 1),
        }
        for one in measured
    ]  # fmt: skip
