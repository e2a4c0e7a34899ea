"""Rules by which a cloud turns its history into risks; the papers' rule can be chosen instead of ours."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum

from cloudsim.model.errors import SpecError
from cloudsim.model.requests import Mode


class Censoring(StrEnum):
    """Treatment of samples that still run when the history ends.

    docs/design/prediction.md "What the papers leave open" compares the three.
    """

    KAPLAN_MEIER = "kaplan-meier"  # right-censored
    DROPPED = "dropped"  # left out: deadlocks where nobody is evicted
    AS_EVICTED = "as-evicted"  # counted as if evicted at the end of the history: far too careful


#: A release horizon is used for lifetimes up to ``horizon / RELEASE_SHARE``.
RELEASE_SHARE = 0.25


@dataclass(frozen=True)
class PredictionRule:
    """Rule by which samples of virtual instances become risks.

    Attributes
    ----------
    censoring
        Treatment of samples that still run.
    always_youngest
        Evict the virtual instance before any other spot instance for as long as it lives (P2 §2.4), instead
        of by its own age.
    confidence_z
        Use the upper Wilson bound at this many standard errors as the risk; 0 uses the estimate itself.
    horizon_s
        Follow samples up no longer than this; inf follows them to the end of the history.
    sampled
        Sample histories of uniform sizes like all others instead of working them out for every birth, to show
        the effect of sampling error.
    release_horizons_s
        Ascending horizons in seconds, for uniform sizes. If set, a lifetime is looked up not by the slots
        that are free now, but by those free once the spot instances have left whose requested end lies within
        a horizon: the first that is at least RELEASE_SHARE of the lifetime (docs/design/prediction.md "Better
        information").
    on_demand_ages
        Let those horizons forecast the free slots from the ages of running on-demand instances, too
        (``ages.Forecast``).

    Raises
    ------
    SpecError
        When a bound or a horizon makes no sense.
    """

    censoring: Censoring = Censoring.KAPLAN_MEIER
    always_youngest: bool = False
    confidence_z: float = 0.0
    horizon_s: float = math.inf
    sampled: bool = False
    release_horizons_s: tuple[float, ...] = ()
    # Left out of the repr, on which versions of tables depend: they add it where it is set.
    on_demand_ages: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        if not 0 <= self.confidence_z < math.inf:
            raise SpecError(
                f"a bound is at 0 or more standard errors, not {self.confidence_z}", field="confidence_z"
            )
        horizons_s = self.release_horizons_s
        if list(horizons_s) != sorted(set(horizons_s)) or any(horizon_s <= 0 for horizon_s in horizons_s):
            raise SpecError(f"horizons rise from above 0 s, not {horizons_s}", field="release_horizons_s")
        if self.on_demand_ages and not horizons_s:
            raise SpecError("ages of on-demand instances need release horizons", field="on_demand_ages")
        if not self.horizon_s > 0:
            raise SpecError(f"a horizon is more than 0 s, not {self.horizon_s} s", field="horizon_s")

    @property
    def lookup_limits_s(self) -> tuple[float, ...]:
        """Longest lifetime in seconds that is looked up by each of the release horizons."""
        return (*(horizon_s / RELEASE_SHARE for horizon_s in self.release_horizons_s[:-1]), math.inf)


OUR_RULE = PredictionRule()
#: The rule of population mode. What it admits beyond strict mode lies where samples are few, and a threshold
#: picks those cells whose risk came out too low by chance (docs/design/prediction.md "Many samples under
#: bursts").
CAREFUL_RULE = PredictionRule(confidence_z=0.5)


def rule_for(mode: Mode) -> PredictionRule:
    """Return the rule by which a cloud with this admission mode predicts."""
    return CAREFUL_RULE if mode is Mode.POPULATION else OUR_RULE


#: Uses the requested ends of running spot instances as well.
INFORMED_RULE = PredictionRule(release_horizons_s=(150.0, 600.0, 2400.0, 9600.0))
#: Also uses how long the running on-demand instances have run.
AGED_RULE = PredictionRule(release_horizons_s=(37.5, 150.0, 600.0, 2400.0, 9600.0), on_demand_ages=True)
#: The papers' text, taken literally: P2 §2.3 records the lifetime of a virtual instance that was "eventually"
#: evicted, and §2.4 evicts it before all others. It does not give their Table IV, and no reading gives all
#: that they print (docs/design/prediction.md "Readings of the papers").
PAPERS_RULE = PredictionRule(censoring=Censoring.DROPPED, always_youngest=True, sampled=True)
