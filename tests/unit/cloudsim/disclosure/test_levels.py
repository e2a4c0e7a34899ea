"""What is told at each level: its figures, and nothing else."""

import json
from dataclasses import asdict

import numpy as np
import pytest

from cloudsim.disclosure.levels import LATTICE_S, Disclosed, Disclosure, disclose
from cloudsim.model.errors import SpecError
from cloudsim.model.lengths import LengthHistogram
from cloudsim.prediction.lifetimes import LifetimeDistribution

#: Ten intervals of 5, 10, … 50 minutes.
TEN = LengthHistogram.from_lengths(np.arange(1, 11) * 300.0)

FIGURES: dict[Disclosure, dict] = {
    Disclosure.NOTHING: {},
    Disclosure.MTTR: {"mean_s": 1650.0},
    Disclosure.P10: {"median_s": 1500.0, "quantile_s": 300.0},
    Disclosure.P90: {"median_s": 1500.0, "quantile_s": 2700.0},
    Disclosure.FULL: {"survival": (*np.arange(10, 0, -1) / 10, *np.zeros(566))},
}


def told(disclosed: Disclosed) -> dict:
    return {name: value for name, value in asdict(disclosed).items() if value is not None}


def test_the_lattice():
    assert (LATTICE_S[0], LATTICE_S[1], LATTICE_S[-1], len(LATTICE_S)) == (300.0, 600.0, 172_800.0, 576)


@pytest.mark.parametrize("level", Disclosure)
def test_a_level_tells_its_figures_and_nothing_else(level: Disclosure):
    assert told(disclose(TEN, level)) == {"level": level, **FIGURES[level]}


@pytest.mark.parametrize("level", Disclosure)
def test_json_and_back(level: Disclosure):
    read = json.loads(json.dumps(told(disclose(TEN, level))))
    read["level"] = Disclosure(read["level"])
    if "survival" in read:
        read["survival"] = tuple(read["survival"])
    assert Disclosed(**read) == disclose(TEN, level)


@pytest.mark.parametrize("level", Disclosure)
@pytest.mark.parametrize(
    "extra", [{"mean_s": 1.0}, {"median_s": 1.0}, {"quantile_s": 1.0}, {"survival": (0.0,) * 576}]
)
def test_no_figure_of_another_level_fits_in(level: Disclosure, extra: dict):
    (name,) = extra
    if name in FIGURES[level]:
        with pytest.raises(SpecError, match=f"{name}: the level {level} needs {name}"):
            Disclosed(level, **{key: value for key, value in FIGURES[level].items() if key != name})
    else:
        with pytest.raises(SpecError, match=f"{name}: the level {level} has no {name}"):
            Disclosed(level, **FIGURES[level], **extra)


@pytest.mark.parametrize("figure", [-1.0, float("nan"), float("inf")])
def test_figures_are_seconds(figure: float):
    with pytest.raises(SpecError, match="mean_s: "):
        Disclosed(Disclosure.MTTR, mean_s=figure)
    with pytest.raises(SpecError, match="quantile_s: "):
        Disclosed(Disclosure.P90, median_s=1.0, quantile_s=figure)


@pytest.mark.parametrize(
    "curve", [(0.5,) * 575, (0.5,) * 577, (0.5,) * 575 + (0.6,), (1.1,) * 576, (float("nan"),) * 576]
)
def test_a_curve_falls_on_the_lattice(curve: tuple[float, ...]):
    with pytest.raises(SpecError, match="survival: "):
        Disclosed(Disclosure.FULL, survival=curve)


def live() -> LifetimeDistribution:
    """Evicted after 1 h and after 3 h; one still ran after 2 h, one after 4 h.

    Kaplan-Meier: 3/4 outlive 1 h, half of the two that are left 3 h.
    """
    return LifetimeDistribution.from_samples(
        np.array([3600.0, 7200.0, 10_800.0, 14_400.0]), np.array([True, False, True, False])
    )


def test_a_live_cloud_tells_of_its_estimate_up_to_where_it_was_followed():
    assert disclose(live(), Disclosure.MTTR).mean_s == pytest.approx(3600 * (1 + 0.75 * 2 + 0.375))
    assert told(disclose(live(), Disclosure.P10)) == {"level": "p10", "median_s": 10_800, "quantile_s": 3600}
    assert told(disclose(live(), Disclosure.P90)) == {
        "level": "p90",
        "median_s": 10_800,
        "quantile_s": 14_400,
    }
    curve = np.array(disclose(live(), Disclosure.FULL).survival)
    by_hour = [1.0, 0.75, 0.75, 0.375, *(0.0,) * 44]
    assert curve.reshape(48, 12) == pytest.approx(np.repeat(by_hour, 12).reshape(48, 12))


def test_a_cloud_without_evidence_tells_of_no_time():
    nobody = LifetimeDistribution.from_samples(np.array([]), np.array([], np.bool_))
    assert told(disclose(nobody, Disclosure.MTTR)) == {"level": "mttr", "mean_s": 0.0}
    assert told(disclose(nobody, Disclosure.P90)) == {"level": "p90", "median_s": 0.0, "quantile_s": 0.0}
    assert disclose(nobody, Disclosure.FULL).survival == (0.0,) * 576


def test_mean_and_quantiles_agree_with_the_curve():
    """Without censoring they are those of the samples."""
    lengths_s = np.asarray(np.random.default_rng(5).integers(1, 400, 200) * 300, np.float64)
    curve = LifetimeDistribution.from_samples(lengths_s, np.ones(200, np.bool_))
    histogram = LengthHistogram.from_lengths(lengths_s)
    assert curve.mean_s == pytest.approx(histogram.mean_s)
    assert curve.survival(LATTICE_S) == pytest.approx(histogram.survival(LATTICE_S))
    for share in (0.1234, 0.5021, 0.901):
        assert curve.quantile_s(share) == histogram.quantile_s(share)
    with pytest.raises(SpecError, match="share: "):
        curve.quantile_s(0.0)
