"""Pauses grow, vary and stay within their limit."""

from itertools import islice

import pytest

from broker.backoff import Backoff


def test_pauses_double_up_to_the_longest() -> None:
    backoff = Backoff(first_s=0.1, longest_s=1.0, jitter=(1.0, 1.0))
    assert list(islice(backoff.pauses(), 6)) == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.0, 1.0])


@pytest.mark.parametrize("factor", [2.0, 4.0])
def test_any_number_of_failures_is_allowed(factor: float) -> None:
    assert Backoff(first_s=1e-3, longest_s=60.0, factor=factor).nominal_s(10**6) == 60.0


def test_jitter_stays_in_its_range() -> None:
    backoff = Backoff(first_s=2.0, longest_s=2.0, jitter=(0.5, 1.0))
    pauses = list(islice(backoff.pauses(), 200))
    assert all(1.0 <= pause_s <= 2.0 for pause_s in pauses)
    assert len(set(pauses)) > 1
