"""Which lifetime to ask a live cloud for, and what the study's code says of it."""

from __future__ import annotations

import numpy as np
import pytest

from cloudsim.disclosure.levels import LATTICE_S, Disclosed, Disclosure
from cloudsim.disclosure.targeting import LINEAR, VALUES, choose_target, find_target_s, parse_disclosed
from cloudsim.model.errors import SpecError

HOUR_S = 3600.0


def full(*steps: tuple[float, float]) -> Disclosed:
    """Survival of that much up to each length in hours."""
    curve = np.zeros(len(LATTICE_S))
    for hours, share in reversed(steps):
        curve[hours * HOUR_S >= LATTICE_S] = share
    return Disclosed(Disclosure.FULL, survival=tuple(curve.tolist()))


def test_of_a_whole_curve_the_value_is_exact() -> None:
    told = full((1.0, 0.9), (4.0, 0.5), (5.0, 0.1))
    choice = choose_target(told, LINEAR)
    assert choice is not None
    assert (choice.lifetime_s, choice.chance, choice.value_h) == (4 * HOUR_S, 0.5, 2.0)
    assert (choice.value_per_core_hour, choice.sla) == (0.5, 0.5)


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_the_lifetime_is_the_study_s(value: object) -> None:
    for told in (
        full((2.0, 0.8), (20.0, 0.3)),
        Disclosed(Disclosure.P90, median_s=HOUR_S, quantile_s=9 * HOUR_S),
        Disclosed(Disclosure.P10, median_s=5 * HOUR_S, quantile_s=HOUR_S),
        Disclosed(Disclosure.MTTR, mean_s=3 * HOUR_S),
    ):
        choice = choose_target(told, value)  # type: ignore[arg-type]
        assert choice is not None
        assert choice.lifetime_s == find_target_s(told, value)  # type: ignore[arg-type]


def test_what_two_figures_let_one_believe_and_what_is_promised() -> None:
    choice = choose_target(Disclosed(Disclosure.P90, median_s=HOUR_S, quantile_s=9 * HOUR_S), LINEAR)
    assert choice is not None
    assert choice.chance is not None
    assert 0.1 < choice.chance < 0.5, "a Gaussian beyond its median"
    assert choice.sla == 0.9
    certain = choose_target(Disclosed(Disclosure.P10, median_s=HOUR_S, quantile_s=HOUR_S), LINEAR)
    assert certain is not None
    assert (certain.lifetime_s, certain.chance, certain.value_h, certain.sla) == (HOUR_S, 1.0, 1.0, 0.1)
    mean = choose_target(Disclosed(Disclosure.MTTR, mean_s=2 * HOUR_S), LINEAR)
    assert mean is not None
    assert (mean.lifetime_s, mean.chance, mean.value_per_core_hour, mean.sla) == (6300.0, None, None, None)


def test_where_nothing_is_told_nothing_is_chosen() -> None:
    assert choose_target(Disclosed(Disclosure.NOTHING), LINEAR) is None
    assert choose_target(Disclosed(Disclosure.P90, median_s=0.0, quantile_s=0.0), LINEAR) is None
    assert choose_target(full(), LINEAR) is None


def test_figures_of_the_wrong_level_are_refused() -> None:
    assert parse_disclosed("mttr", {"mean_s": 1.0, "median_s": None}) == Disclosed(
        Disclosure.MTTR, mean_s=1.0
    )
    with pytest.raises(SpecError, match="median_s"):
        parse_disclosed("mttr", {"mean_s": 1.0, "median_s": 2.0})
