"""Lifetimes in wall time, from what a cloud discloses and what it quotes."""

import numpy as np
import pytest

from workers.job_manager.market import SpotLifetimes


def test_a_risk_alone_is_the_same_at_any_age() -> None:
    lives = SpotLifetimes(600.0, 0.5, speed=6.0)  # 100 s of wall time
    assert lives.survival(np.array([-1.0, 0.0, 100.0, 200.0])) == pytest.approx([1.0, 1.0, 0.5, 0.25])
    assert lives.quantile_s(0.5) == pytest.approx(100.0)
    assert lives.mean_s == pytest.approx(100.0 / np.log(2), rel=0.02)


def test_a_curve_is_bent_to_the_risk_that_is_quoted_now() -> None:
    def usual(length_s: object) -> np.ndarray:
        return np.exp(-np.asarray(length_s) / 1000.0)

    lives = SpotLifetimes(1000.0, 1 - np.exp(-2.0), curve=usual)
    assert lives.survival(np.array([0.0, 500.0, 1000.0])) == pytest.approx([1.0, np.exp(-1.0), np.exp(-2.0)])
    untold = SpotLifetimes(1000.0, None, curve=usual)
    assert untold.survival(np.array([1000.0])) == pytest.approx([np.exp(-1.0)])
