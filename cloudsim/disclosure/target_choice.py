"""Which lifetime to ask a live cloud for, by what it discloses: the study's targeting, and what follows from
it for the request (VOLATILE.md "In the product").
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from cloudsim.disclosure.levels import LATTICE_S, Disclosed, Disclosure
from cloudsim.disclosure.masked_tables import promise_curve
from cloudsim.prediction.tables import SHOWN_SLAS
from cloudsim.volatile.targeting import HOUR_S, Value, believed, target_s


@dataclass(frozen=True)
class Choice:
    """A lifetime and what to expect of it.

    chance: that it is reached, and value_h: the mean value in hours, both as far as what is disclosed lets
    one believe; None for a mean, which tells neither. sla: the smallest at which so long a life is promised,
    rounded up; None: at none, so ask without a guarantee.
    """

    lifetime_s: float
    chance: float | None
    value_h: float | None
    sla: float | None

    @property
    def value_per_core_hour(self) -> float | None:
        """Value for each core-hour that is asked for."""
        return None if self.value_h is None else self.value_h / (self.lifetime_s / HOUR_S)


def choose(told: Disclosed, value: Value) -> Choice | None:
    """The lifetime to ask for; None where what is told does not let one choose."""
    chosen_s = target_s(told, value)
    if chosen_s is None:
        return None
    survival = believed(told)
    if survival is None:
        return Choice(chosen_s, None, None, None)
    chosen = np.array([chosen_s])
    chance, value_h = float(survival(chosen)[0]), float(value.expected(chosen, survival)[0])
    return Choice(chosen_s, chance, value_h, _promised(told, chosen_s))


def disclosed_of(level: str, figures: Mapping[str, Any]) -> Disclosed:
    """What was told of one flavour, as it is published. Raises SpecError naming the figure."""
    curve = figures.get("survival")
    return Disclosed(
        Disclosure(level),
        mean_s=figures.get("mean_s"),
        median_s=figures.get("median_s"),
        quantile_s=figures.get("quantile_s"),
        survival=None if curve is None else tuple(curve),
    )


def _promised(told: Disclosed, lifetime_s: float) -> float | None:
    if told.survival is not None:
        risk = 1.0 - told.survival[int(np.searchsorted(LATTICE_S, lifetime_s))]
    else:
        curve = promise_curve(told)
        risk = 1.0 if curve is None else curve.risk(lifetime_s)
    # A smaller one needs more evidence than most clouds have, whatever their curve says (PREDICTION.md).
    rounded = max(math.ceil(risk * 10_000 - 1e-6) / 10_000, min(SHOWN_SLAS))
    return rounded if rounded < 1 else None
