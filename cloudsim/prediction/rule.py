"""How a cloud turns its history into risks. The defaults are ours; the papers' rule can be chosen instead."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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
    no longer than this; inf follows them to the end of the history.
    """

    censoring: Censoring = Censoring.KAPLAN_MEIER
    always_youngest: bool = False
    confidence_z: float = 0.0
    horizon_s: float = float("inf")


OUR_RULE = PredictionRule()
