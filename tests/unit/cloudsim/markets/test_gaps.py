"""Which silence is a gap, and how long a last price is known to have held."""

from typing import Any

import numpy as np
import pytest

from cloudsim.markets.gaps import GapRule
from cloudsim.model.errors import SpecError

HOUR = 3600.0
NONE = np.empty((0, 2))


@pytest.mark.parametrize(("hours", "is_gap"), [(35.9, False), (36, False), (36.1, True), (500, True)])
def test_a_market_that_is_silent_for_longer_than_a_repetition_takes(hours: float, is_gap: bool) -> None:
    at_s = np.array([0, 1, 1 + hours]) * HOUR
    gaps_s, ends_s = GapRule().gaps(at_s, at_s[-1], NONE)
    assert gaps_s.tolist() == ([[at_s[1], at_s[2]]] if is_gap else [])
    assert ends_s == at_s[-1]


def test_without_a_limit_nothing_is_a_gap() -> None:
    at_s = np.array([0, 1000 * HOUR])
    assert len(GapRule(max_gap_s=None).gaps(at_s, 9e9, NONE)[0]) == 0
    assert GapRule(max_gap_s=None).gaps(at_s, 9e9, NONE)[1] == 9e9


@pytest.mark.parametrize(("hours", "ends"), [(0, 0), (36, 36), (37, 0)])
def test_a_last_price_holds_while_somebody_listens(hours: float, ends: float) -> None:
    _, ends_s = GapRule().gaps(np.array([0.0]), hours * HOUR, NONE)
    assert ends_s == ends * HOUR


def markets(count: int, silent_h: float) -> list[np.ndarray]:
    """A record an hour of each market, for ten hours before and after a common silence."""
    hours = np.concatenate([np.arange(10.0), np.arange(10.0) + 9 + silent_h])
    return [hours * HOUR + market for market in range(count)]


@pytest.mark.parametrize(
    ("count", "silent_h", "found"), [(8, 5.9, False), (8, 6.1, True), (7, 6.1, False), (7, 60, False)]
)
def test_a_common_silence_of_several_markets(count: int, silent_h: float, found: bool) -> None:
    series = markets(count, silent_h)
    silences = GapRule().silences(series)
    assert silences.tolist() == ([[9 * HOUR + count - 1, (9 + silent_h) * HOUR]] if found else [])
    assert len(GapRule(max_silence_s=None).silences(series)) == 0


def test_a_gap_within_a_markets_own_silence_is_part_of_it() -> None:
    at_s = np.array([0, 40 * HOUR])
    silences = np.array([[10 * HOUR, 20 * HOUR], [25 * HOUR, 32 * HOUR]])
    assert GapRule().gaps(at_s, at_s[-1], silences)[0].tolist() == [[0, 40 * HOUR]]
    assert GapRule(max_gap_s=None).gaps(at_s, at_s[-1], silences)[0].tolist() == [[10 * HOUR, 40 * HOUR]]


def test_a_silence_before_the_first_record_is_no_gap_and_one_after_the_last_ends_it() -> None:
    at_s = np.array([30 * HOUR, 31 * HOUR])
    silences = np.array([[10 * HOUR, 20 * HOUR], [35 * HOUR, 45 * HOUR]])
    gaps_s, ends_s = GapRule().gaps(at_s, 60 * HOUR, silences)
    assert gaps_s.shape == (0, 2)
    assert ends_s == 35 * HOUR


@pytest.mark.parametrize("field", ["max_gap_s", "max_silence_s"])
@pytest.mark.parametrize("limit", [0.0, -1.0, float("nan")])
def test_a_limit_is_above_zero(field: str, limit: float) -> None:
    limits: dict[str, Any] = {field: limit}
    with pytest.raises(SpecError, match=f"^{field}: must be above 0"):
        GapRule(**limits)
