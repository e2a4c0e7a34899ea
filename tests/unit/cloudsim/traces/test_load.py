"""Load, arrivals and lifetimes as the plain loop has them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloudsim.model.errors import SpecError
from cloudsim.traces import statistics
from cloudsim.traces.statistics import DropOut
from cloudsim.traces.trace import Trace

ROWS = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 20), st.integers(1, 4)), min_size=1, max_size=12)


def make(rows: list[tuple[int, int, int]]) -> Trace:
    starts, lengths, cores = zip(*rows, strict=True)
    ids = [f"i{at}" for at in range(len(rows))]
    return Trace.checked("x", ids, starts, [s + n for s, n in zip(starts, lengths, strict=True)], cores)


@given(ROWS, st.integers(1, 9))
def test_load_over_time_equals_looking_every_tenth_of_a_second(
    rows: list[tuple[int, int, int]], stretches: int
) -> None:
    trace = make(rows)
    load = statistics.load_over_time(trace, stretches)
    assert len(load.edges_s) == stretches + 1
    assert (load.edges_s[0], load.edges_s[-1]) == (trace.start_s[0], trace.last_stop_s)
    begin, end = load.edges_s[:-1], load.edges_s[1:]
    for at in range(stretches):
        inside = np.minimum(trace.stop_s, end[at]) - np.maximum(trace.start_s, begin[at])
        area = float(trace.cores @ np.maximum(inside, 0))
        assert load.mean_cores[at] == pytest.approx(area / (end[at] - begin[at]))
        changes = trace.start_s[(trace.start_s >= begin[at]) & (trace.start_s < end[at])]
        used = [trace.cores[(trace.start_s <= t) & (trace.stop_s > t)].sum() for t in [begin[at], *changes]]
        assert load.peak_cores[at] == max(used)
    assert load.starts.sum() == len(trace)
    assert load.peak_cores.max() == max(
        trace.cores[(trace.start_s <= t) & (trace.stop_s > t)].sum() for t in trace.start_s
    )


def test_an_instant_is_a_load_too() -> None:
    load = statistics.load_over_time(Trace.checked("x", ["a"], [5], [5], [3]), 4)
    assert load.starts.sum() == 1
    assert load.mean_cores.tolist() == [0] * 4
    with pytest.raises(SpecError, match="stretches"):
        statistics.load_over_time(Trace.checked("x", ["a"], [5], [5], [3]), 0)


def test_arrivals() -> None:
    starts = [0, 3600, 3700, 3800, 86400]
    found = statistics.Arrivals.of(
        Trace.checked("x", list("abcde"), starts, [s + 1 for s in starts], [1] * 5)
    )
    assert found.per_day == pytest.approx(5 * 86400 / 86401)
    assert found.mean_gap_s == 86400 / 4
    assert found.variation == pytest.approx(np.std([3600, 100, 100, 82600]) / 21600)
    assert (found.busiest_hour_s, found.most_an_hour) == (3600, 3)


def test_arrivals_of_one() -> None:
    found = statistics.Arrivals.of(Trace.checked("x", ["a"], [7200], [7200], [1]))
    assert (found.per_day, found.mean_gap_s, found.variation, found.most_an_hour) == (1, None, None, 1)


def test_the_peak_is_told_where_it_is_first() -> None:
    assert statistics.peak_at_s(make([(0, 2, 1), (5, 3, 2), (9, 1, 2)])) == 5


def test_lifetimes_are_those_that_were_seen_whole() -> None:
    trace = Trace.checked(
        "x", list("abcde"), [0, 1, 2, 3, 100], [9, 4, 4, 13, 150], [1] * 5,
        right_censored=[False, False, True, False, False],
    )  # fmt: skip
    seconds, shares = statistics.lifetime_shares(trace, ())
    assert (seconds.tolist(), shares.tolist()) == ([3, 9, 10, 50], [0.25, 0.5, 0.75, 1])
    assert statistics.lifetime_shares(trace, [DropOut(13, 100, 1, 1)])[0].tolist() == [3, 9]
    assert len(statistics.lifetime_shares(trace, (), points=2)[0]) == 2
    assert len(statistics.lifetime_shares(trace.select(slice(2, 3)), ())[0]) == 0
