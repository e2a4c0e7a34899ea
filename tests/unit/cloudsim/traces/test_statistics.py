"""Load, lifetimes, drop-outs, overcommit, grids: naive counting, and the families of cases 2, 14, 15."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cloudsim.model.errors import SpecError
from cloudsim.traces import statistics
from cloudsim.traces.trace import Trace

ROWS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 10), st.integers(1, 8)), max_size=25)
DAY = 86_400.0
HOUR = 3_600.0


def make(rows: list[tuple[float, float, int]]) -> Trace:
    """From (start, lifetime, cores)."""
    return Trace.checked(
        "t",
        [f"i{i}" for i in range(len(rows))],
        [r[0] for r in rows],
        [r[0] + r[1] for r in rows],
        [r[2] for r in rows],
    )


def naive_usage(rows: list[tuple[int, int, int]], second: int) -> int:
    return sum(cores for start, lifetime, cores in rows if start <= second < start + lifetime)


@given(ROWS, st.integers(1, 20))
def test_load_equals_counting_second_by_second(rows: list[tuple[int, int, int]], capacity: int) -> None:
    trace = make([(float(s), float(n), c) for s, n, c in rows])
    seconds = [naive_usage(rows, second) for second in range(42)]
    at_instant = [naive_usage(rows, t) + sum(c for s, n, c in rows if s == t and n == 0) for t, _, _ in rows]
    assert statistics.core_seconds(trace) == sum(seconds)
    assert statistics.peak_cores(trace) == max(at_instant, default=0)
    over = statistics.overcommit(trace, capacity)
    assert over.seconds == sum(used > capacity for used in seconds)
    assert over.core_seconds == sum(max(used - capacity, 0) for used in seconds)
    first = next((t for t, used in enumerate(seconds) if used > capacity), None)
    assert over.first_s == first
    times, cores = statistics.usage(trace)
    assert all(naive_usage(rows, int(t)) == c for t, c in zip(times, cores, strict=True))


def test_more_cores_than_there_are_is_reported() -> None:
    """Case 15: 116 cores in use on 96."""
    trace = make([(0, 1000, 90), (100, 50, 6), (200, 100, 26), (400, 10, 7)])
    over = statistics.overcommit(trace, 96)
    assert (over.peak_cores, over.seconds, over.core_seconds, over.first_s) == (116, 110, 2010, 200)
    assert over.share == pytest.approx(0.11)
    assert statistics.overcommit(trace, 116).seconds == 0
    assert statistics.overcommit(trace, 116).first_s is None


@pytest.mark.parametrize("capacity", [0, -5])
def test_a_capacity_is_at_least_one(capacity: int) -> None:
    with pytest.raises(SpecError, match="capacity_cores"):
        statistics.overcommit(make([]), capacity)


def test_an_empty_trace_has_no_load() -> None:
    summary = statistics.summarise(make([]))
    assert (summary.instances, summary.mean_cores, summary.peak_cores, summary.span_s) == (0, 0, 0, 0)
    assert summary.lifetime_quantiles_s == ()


def busy(start_s: float, end_s: float, every_s: float = HOUR) -> list[tuple[float, float, int]]:
    return [(float(t), every_s / 2, 1) for t in np.arange(start_s, end_s - every_s, every_s)]


def with_drop_out(
    at_s: float, length_s: float, closed: int, reopened: int, spread_s: float = 0.0, every_s: float = HOUR
) -> list[tuple[float, float, int]]:
    """A busy log around a gap: ``closed`` VMs end at its start, ``reopened`` begin at its end."""
    back_s = at_s + length_s
    quiet_s = 0.011 * length_s
    rows = busy(0, at_s - quiet_s, every_s)
    rows += [(0.0, at_s - i * spread_s, 2) for i in range(closed)]
    rows += [(back_s + i * spread_s, 3 * DAY, 2) for i in range(reopened)]
    return rows + busy(back_s + quiet_s, back_s + 3 * DAY, every_s)


@given(
    at_days=st.floats(2, 40),
    length_days=st.floats(3, 20),
    closed=st.integers(2, 30),
    reopened=st.integers(2, 30),
    spread_s=st.floats(0, 60),
)
def test_a_drop_out_is_found(
    at_days: float, length_days: float, closed: int, reopened: int, spread_s: float
) -> None:
    """Case 14, as a family: 12 days in the original."""
    trace = make(with_drop_out(at_days * DAY, length_days * DAY, closed, reopened, spread_s))
    (found,) = statistics.find_drop_outs(trace)
    assert (found.start_s, found.end_s) == pytest.approx((at_days * DAY, (at_days + length_days) * DAY))
    assert (found.closed, found.reopened) == (closed, reopened)
    summary = statistics.summarise(trace)
    assert summary.lifetimes_counted == len(trace) - closed - reopened
    assert {seconds for _, seconds in summary.lifetime_quantiles_s} == {HOUR / 2}


@pytest.mark.parametrize(("closed", "reopened"), [(0, 5), (1, 5), (5, 1), (5, 0), (1, 1)])
def test_a_quiet_time_is_no_drop_out(closed: int, reopened: int) -> None:
    assert (
        statistics.find_drop_outs(make(with_drop_out(10 * DAY, 12 * DAY, closed, reopened, every_s=4 * HOUR)))
        == ()
    )


@pytest.mark.parametrize("every_s", [8 * HOUR, 12 * HOUR])
def test_a_gap_like_the_others_is_no_drop_out(every_s: float) -> None:
    assert statistics.find_drop_outs(make(with_drop_out(80 * DAY, 4 * DAY, 5, 5, every_s=every_s))) == ()


def test_a_night_is_no_drop_out() -> None:
    assert statistics.find_drop_outs(make(with_drop_out(5 * DAY, DAY / 2, 5, 5, every_s=60.0))) == ()


def test_two_equal_drop_outs_do_not_hide_each_other() -> None:
    first = with_drop_out(5 * DAY, 12 * DAY, 3, 4)
    later = [(t + 20 * DAY, n, c) for t, n, c in with_drop_out(5 * DAY, 12 * DAY, 3, 4)]
    assert len(statistics.find_drop_outs(make(first + later))) == 2


def test_ends_that_nobody_saw_close_nothing() -> None:
    rows = with_drop_out(10 * DAY, 12 * DAY, 5, 5, every_s=4 * HOUR)
    trace = make(rows)
    closed = trace.stop_s == 10 * DAY
    blind = Trace.checked(
        "t", trace.instance, trace.start_s, trace.stop_s, trace.cores, right_censored=closed
    )
    assert len(statistics.find_drop_outs(trace)) == 1
    assert statistics.find_drop_outs(blind) == ()


@given(ROWS, st.data())
def test_flagged_lifetimes_move_no_statistic(rows: list[tuple[int, int, int]], data: st.DataObject) -> None:
    """Case 1 and 3: an unknown age or end counts for occupancy, never for lifetimes."""
    n = len(rows)
    flags = [data.draw(st.lists(st.booleans(), min_size=n, max_size=n)) for _ in range(2)]
    plain = make([(float(s), float(life), c) for s, life, c in rows])
    trace = Trace.checked(
        "t",
        plain.instance,
        plain.start_s,
        plain.stop_s,
        plain.cores,
        left_truncated=flags[0],
        right_censored=flags[1],
    )
    summary = statistics.summarise(trace)
    whole = trace.lifetime_s[~(trace.left_truncated | trace.right_censored)]
    assert summary.lifetimes_counted == len(whole)
    assert summary.lifetime_quantiles_s == tuple(
        (q, float(np.quantile(whole, q))) for q in statistics.QUANTILES if len(whole)
    )
    assert summary.core_seconds == statistics.core_seconds(plain)
    assert summary.peak_cores == statistics.peak_cores(plain)


@given(
    step=st.sampled_from([60, 300, 900, 3600]),
    offsets=st.lists(st.integers(1, 59), max_size=20),
    seed=st.integers(0, 1000),
)
def test_times_off_a_grid_are_counted(step: int, offsets: list[int], seed: int) -> None:
    """Case 2, as a family."""
    rng = np.random.default_rng(seed)
    ticks = rng.integers(1, 5000, 300)
    # A coarser grid must not hold by accident.
    assume(all(np.mean(ticks * step % coarser == 0) < 0.5 for coarser in (600, 1800, 3600) if coarser > step))
    rows = [(float(t * step), float(step), 1) for t in ticks]
    rows += [(float(1000 * step + o), float(5 * step), 1) for o in offsets]
    grid = statistics.find_grid(make(rows))
    assert grid is not None
    assert (grid.step_s, grid.off_times, grid.off_instances) == (step, 2 * len(offsets), len(offsets))


@pytest.mark.parametrize("seed", range(5))
def test_times_at_any_second_have_no_grid(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = [(float(t), float(n), 1) for t, n in rng.integers(1, 100_000, (200, 2))]
    assert statistics.find_grid(make(rows)) is None


def test_a_few_times_are_no_evidence_of_a_grid() -> None:
    assert statistics.find_grid(make([(300.0 * i, 300.0, 1) for i in range(9)])) is None


def test_times_nobody_saw_are_not_off_the_grid() -> None:
    rows = [(300.0 * i, 300.0, 1) for i in range(40)]
    trace = Trace.checked(
        "t",
        [str(i) for i in range(41)],
        [r[0] for r in rows] + [7.0],
        [r[0] + r[1] for r in rows] + [99.0],
        [1] * 41,
        left_truncated=[False] * 40 + [True],
        right_censored=[False] * 40 + [True],
    )
    grid = statistics.find_grid(trace)
    assert grid is not None
    assert (grid.step_s, grid.off_times, grid.off_instances) == (300.0, 0, 0)
