"""How a cloud turns its history into risks. The defaults are ours; the papers' rule can be chosen instead."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from cloudsim.errors import SpecError


class Censoring(StrEnum):
    """What becomes of samples that still run when the history ends (PREDICTION.md "What the papers leave
    open")."""

    KAPLAN_MEIER = "kaplan-meier"  # right-censored
    DROPPED = "dropped"  # left out: deadlocks where nobody is evicted
    AS_EVICTED = "as-evicted"  # counted as if evicted at the end of the history: far too careful


@dataclass(frozen=True)
class PredictionRule:
    """censoring: of running samples. always_youngest: the virtual instance is evicted before any other spot
    instance for as long as it lives (P2 §2.4), instead of by its own age. confidence_z: risks are the upper
    Wilson bound at so many standard errors; 0 takes the estimate itself. horizon_s: samples are followed up
    no longer than this; inf follows them to the end of the history. sampled: histories of uniform sizes are
    sampled like all others, not worked out for every birth: to see what sampling error does.

    Raises SpecError when a bound or a horizon makes no sense.
    """

    censoring: Censoring = Censoring.KAPLAN_MEIER
    always_youngest: bool = False
    confidence_z: float = 0.0
    horizon_s: float = math.inf
    sampled: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.confidence_z < math.inf:
            raise SpecError(
                f"a bound is at 0 or more standard errors, not {self.confidence_z}", field="confidence_z"
            )
        if not self.horizon_s > 0:
            raise SpecError(f"a horizon is more than 0 s, not {self.horizon_s} s", field="horizon_s")


OUR_RULE = PredictionRule()
#: As P1 and P2 describe it: no word on samples that still run, and P2 §2.4 evicts the virtual instance first.
PAPERS_RULE = PredictionRule(censoring=Censoring.AS_EVICTED, always_youngest=True, sampled=True)
