"""How a cloud turns its history into risks. The defaults are ours; the papers' rule can be chosen instead."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum

from cloudsim.model.errors import SpecError
from cloudsim.model.requests import Mode


class Censoring(StrEnum):
    """What becomes of samples that still run when the history ends (PREDICTION.md "What the papers leave
    open")."""

    KAPLAN_MEIER = "kaplan-meier"  # right-censored
    DROPPED = "dropped"  # left out: deadlocks where nobody is evicted
    AS_EVICTED = "as-evicted"  # counted as if evicted at the end of the history: far too careful


#: How much of a lifetime the room that others will leave is counted for.
RELEASE_SHARE = 0.25


@dataclass(frozen=True)
class PredictionRule:
    """censoring: of running samples. always_youngest: the virtual instance is evicted before any other spot
    instance for as long as it lives (P2 §2.4), instead of by its own age. confidence_z: risks are the upper
    Wilson bound at so many standard errors; 0 takes the estimate itself. horizon_s: samples are followed up
    no longer than this; inf follows them to the end of the history. sampled: histories of uniform sizes are
    sampled like all others, not worked out for every birth: to see what sampling error does.
    release_horizons_s: better information, on uniform sizes: a lifetime is looked up not by the slots that
    are free now but by those that will be once the spot instances have left whose requested end comes within
    the first of these spans that is at least RELEASE_SHARE of the lifetime (PREDICTION.md "Beyond the
    papers" 3); ascending, empty for free slots alone. on_demand_ages: those horizons forecast the room
    instead, by the ages of running on-demand instances too (``ages.Forecast``).

    Raises SpecError when a bound or a horizon makes no sense.
    """

    censoring: Censoring = Censoring.KAPLAN_MEIER
    always_youngest: bool = False
    confidence_z: float = 0.0
    horizon_s: float = math.inf
    sampled: bool = False
    release_horizons_s: tuple[float, ...] = ()
    # Not in the repr, which versions of tables hang on: they add it where it is set.
    on_demand_ages: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        if not 0 <= self.confidence_z < math.inf:
            raise SpecError(
                f"a bound is at 0 or more standard errors, not {self.confidence_z}", field="confidence_z"
            )
        horizons_s = self.release_horizons_s
        if list(horizons_s) != sorted(set(horizons_s)) or any(one <= 0 for one in horizons_s):
            raise SpecError(f"horizons rise from above 0 s, not {horizons_s}", field="release_horizons_s")
        if self.on_demand_ages and not horizons_s:
            raise SpecError("ages of on-demand instances need release horizons", field="on_demand_ages")
        if not self.horizon_s > 0:
            raise SpecError(f"a horizon is more than 0 s, not {self.horizon_s} s", field="horizon_s")

    @property
    def lookup_limits_s(self) -> tuple[float, ...]:
        """The longest lifetime that goes by each of the release horizons."""
        return (*(one / RELEASE_SHARE for one in self.release_horizons_s[:-1]), math.inf)


OUR_RULE = PredictionRule()
#: For population mode: what it admits beyond the SLA itself lies where the samples are few, and a threshold
#: picks those cells whose risk came out too low by chance (PREDICTION.md "Beyond the papers" 2).
CAREFUL_RULE = PredictionRule(confidence_z=0.5)


def rule_for(mode: Mode) -> PredictionRule:
    """By which rule a cloud predicts that admits so."""
    return CAREFUL_RULE if mode is Mode.POPULATION else OUR_RULE


#: Knows the requested ends of running spot instances as well.
INFORMED_RULE = PredictionRule(release_horizons_s=(150.0, 600.0, 2400.0, 9600.0))
#: And how long the running on-demand instances have run.
AGED_RULE = PredictionRule(release_horizons_s=(37.5, 150.0, 600.0, 2400.0, 9600.0), on_demand_ages=True)
#: As P1 and P2 describe it: P2 §2.3 records the lifetime of a virtual instance that was "eventually" evicted,
#: and §2.4 evicts it before all others.
PAPERS_RULE = PredictionRule(censoring=Censoring.DROPPED, always_youngest=True, sampled=True)
