"""Made workloads keep the numbers they are made from."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from cloudsim.model.errors import SpecError
from cloudsim.traces import statistics, synthesis
from cloudsim.traces.synthesis import PRODUCTION, SizeProfile, TraceProfile
from cloudsim.traces.trace import Trace

#: data/eucalyptus/PROVENANCE.md: VMs, days, mean cores, peak, capacity, cores per VM.
PUBLISHED = {
    "A": (900, 283.9, 18.6, 83, 84, {1: 296, 2: 407, 4: 119, 8: 27, 12: 51}),
    "B": (2600, 279.8, 7.3, 44, 56, {1: 1430, 2: 842, 4: 328}),
    "C": (8456, 33.4, 565.5, 749, 992, {1: 4375, 2: 2658, 4: 1325, 6: 24, 12: 21, 16: 13, 24: 40}),
    "D": (4157, 34.7, 639.6, 816, 992, {1: 969, 2: 1880, 4: 1175, 6: 3, 12: 35, 16: 19, 24: 71, 30: 5}),
}
MAKERS: dict[str, Callable[[np.random.Generator], Trace]] = {
    "lognormal": lambda rng: synthesis.lognormal_trace(rng, hours=50),
    "bursty": lambda rng: synthesis.bursty_trace(rng, hours=50, cores=([1, 4], [3, 1])),
    "production": lambda rng: synthesis.production_like(rng, "A", days=20),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_the_generator_is_all_the_randomness(make: Callable[[np.random.Generator], Trace]) -> None:
    one, again, other = (make(np.random.default_rng(seed)) for seed in (7, 7, 8))
    assert one.equals(again)
    assert not one.equals(other)
    assert len(set(one.instance)) == len(one)


@pytest.mark.parametrize("seed", range(4))
def test_table_one(seed: int) -> None:
    trace = synthesis.lognormal_trace(np.random.default_rng(seed), hours=1000)
    gaps = np.diff(trace.start_s, prepend=0.0)
    assert gaps.mean() == pytest.approx(math.exp(4), rel=0.03)
    assert np.log(gaps).mean() == pytest.approx(3.5, abs=0.03)
    assert np.log(gaps).std() == pytest.approx(1.0, abs=0.02)
    assert np.log(trace.lifetime_s).mean() == pytest.approx(6.0, abs=0.04)
    assert np.log(trace.lifetime_s).std() == pytest.approx(1.5, abs=0.03)
    assert set(trace.cores) == {1}
    assert 3.59e6 < trace.start_s[-1] <= 3.6e6


def test_mixed_sizes_keep_their_weights() -> None:
    sizes, weights = [1, 2, 4, 8, 12], [0.4, 0.25, 0.2, 0.1, 0.05]
    trace = synthesis.lognormal_trace(np.random.default_rng(1), hours=1000, cores=(sizes, weights))
    shares = [np.mean(trace.cores == size) for size in sizes]
    assert shares == pytest.approx(weights, abs=0.01)


def test_arrival_mu_for_load_offers_that_load() -> None:
    mix = ([1, 2, 4, 8, 12], [0.4, 0.25, 0.2, 0.1, 0.05])
    mu = synthesis.arrival_mu_for_load(0.6, 192, duration_mu=8.0, duration_sigma=1.0, cores=mix)
    trace = synthesis.lognormal_trace(
        np.random.default_rng(3),
        hours=24 * 400,
        arrival_mu=mu,
        duration_mu=8.0,
        duration_sigma=1.0,
        cores=mix,
    )
    assert statistics.core_seconds(trace) / (400 * 86400) == pytest.approx(0.6 * 192, rel=0.03)


def test_bursts_have_their_rate_change_points_and_batches() -> None:
    hours, third = 1200, 400 * 3600
    traces = [synthesis.bursty_trace(np.random.default_rng(seed), hours=hours) for seed in range(6)]
    thirds = np.sum([np.histogram(t.start_s, [0, third, 2 * third, 3 * third])[0] for t in traces], axis=0)
    # 2 % of the arrivals bring 8 instances instead of one.
    expected = len(traces) * third / math.exp(4) * (1 + 0.02 * 7)
    assert thirds == pytest.approx(expected * np.array([1, 1.3, 1.3 * 0.75]), rel=0.06)
    _, together = np.unique(traces[0].start_s, return_counts=True)
    assert together[together > 1].min() >= 2
    assert together.max() <= 14
    assert np.mean(together > 1) == pytest.approx(0.02, abs=0.004)


def test_bursts_come_and_go_where_plain_arrivals_do_not() -> None:
    def spread(trace: Trace) -> float:
        hourly = np.histogram(trace.start_s, np.arange(0, 1000 * 3600, 3600))[0]
        return float(hourly.var() / hourly.mean())

    quiet = {"ou_sigma": 0.0, "daily": 0.0, "batch_share": 0.0}
    plain = synthesis.bursty_trace(np.random.default_rng(5), hours=1000, change_points=(), **quiet)  # type: ignore[arg-type]
    assert spread(plain) == pytest.approx(1.0, abs=0.15)
    assert spread(synthesis.bursty_trace(np.random.default_rng(5), hours=1000)) > 5


def test_the_day_has_a_shape() -> None:
    trace = synthesis.bursty_trace(
        np.random.default_rng(5), hours=2400, ou_sigma=0.0, batch_share=0.0, change_points=()
    )
    by_quarter = np.histogram(trace.start_s % 86400, [0, 21600, 43200, 64800, 86400])[0]
    rise = 0.3 * 2 / np.pi
    assert by_quarter / by_quarter.mean() == pytest.approx([1 + rise, 1 + rise, 1 - rise, 1 - rise], abs=0.03)


@pytest.mark.parametrize("which", PUBLISHED)
def test_profiles_are_the_published_numbers(which: str) -> None:
    instances, days, mean, peak, capacity, sizes = PUBLISHED[which]
    profile = PRODUCTION[which]
    assert profile.instances == instances
    assert profile.span_s / 86400 == pytest.approx(days, abs=0.06)
    assert profile.mean_cores == pytest.approx(mean, abs=0.06)
    assert profile.peak_cores == peak
    assert profile.nodes * profile.cores_per_node == capacity
    assert {size.cores: size.count for size in profile.sizes} == sizes


@pytest.mark.parametrize("which", PUBLISHED)
@pytest.mark.parametrize("seed", [1, 2])
def test_stand_ins_keep_the_published_numbers(which: str, seed: int) -> None:
    _, days, mean, peak, _, sizes = PUBLISHED[which]
    trace = synthesis.production_like(np.random.default_rng(seed), which)
    summary = statistics.summarise(trace)
    assert dict(summary.sizes) == sizes
    assert summary.mean_cores == pytest.approx(mean, rel=0.01)
    assert summary.span_s / 86400 == pytest.approx(days, rel=0.01)
    assert mean < summary.peak_cores <= peak
    assert (trace.start_s % 1 == 0).all()
    assert (trace.lifetime_s >= 1).all()
    for size in PRODUCTION[which].sizes:
        if size.median_s < size.mean_s / 2 and size.count > 10:
            lifetimes = trace.lifetime_s[trace.cores == size.cores]
            assert np.median(lifetimes) == pytest.approx(size.median_s, rel=0.6)


@pytest.mark.parametrize("which", PUBLISHED)
@pytest.mark.parametrize("days", [2, 7, 30, 60])
def test_a_shorter_or_longer_stand_in_keeps_the_load(which: str, days: float) -> None:
    _, full_days, mean, peak, _, _ = PUBLISHED[which]
    trace = synthesis.production_like(np.random.default_rng(4), which, days=days)
    assert statistics.core_seconds(trace) / (days * 86400) == pytest.approx(mean, rel=0.05)
    assert trace.last_stop_s <= days * 86400
    assert len(trace) >= PUBLISHED[which][0] * min(days / full_days, 1) * 0.95
    assert statistics.peak_cores(trace) <= peak * (1 if days <= full_days else 1.1)


def test_a_profile_of_ones_own() -> None:
    profile = TraceProfile(
        "mine", 4, 8, 10 * 86400.0, 20, (SizeProfile(1, 200, 600, 3600), SizeProfile(4, 50, 3e4, 3e4))
    )
    summary = statistics.summarise(synthesis.modelled_on(np.random.default_rng(0), profile))
    assert summary.name == "mine"
    assert summary.sizes == ((1, 200), (4, 50))
    assert summary.core_seconds == pytest.approx(profile.mean_cores * profile.span_s, rel=0.01)
    assert summary.peak_cores <= 20


@pytest.mark.parametrize(
    ("field", "bad"),
    [
        ("hours", {"hours": 0}),
        ("hours", {"hours": math.inf}),
        ("cores", {"hours": 1, "cores": 0}),
        ("cores", {"hours": 1, "cores": ([1, 2], [1])}),
        ("cores", {"hours": 1, "cores": ([1, 2], [0, 0])}),
        ("cores", {"hours": 1, "cores": ([1, 2], [1, -1])}),
        ("cores", {"hours": 1, "cores": ([1, 2], [1, math.nan])}),
        ("cores", {"hours": 1, "cores": ([], [])}),
        ("duration_sigma", {"hours": 1, "duration_sigma": -1}),
        ("duration_mu", {"hours": 1, "duration_mu": math.nan}),
    ],
)
@pytest.mark.parametrize("make", [synthesis.lognormal_trace, synthesis.bursty_trace])
def test_bad_parameters_are_named(make: Callable[..., Trace], field: str, bad: dict[str, object]) -> None:
    with pytest.raises(SpecError) as error:
        make(np.random.default_rng(0), **bad)
    assert error.value.field == field


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("base_per_minute", -1.0),
        ("ou_sigma", -0.1),
        ("ou_memory_s", 0.0),
        ("daily", 1.5),
        ("batch_share", 2.0),
        ("batch_sizes", (5, 2)),
        ("change_points", ((0.5, 0.0),)),
    ],
)
def test_bad_burst_parameters_are_named(field: str, value: object) -> None:
    with pytest.raises(SpecError) as error:
        synthesis.bursty_trace(np.random.default_rng(0), hours=1, **{field: value})  # type: ignore[arg-type]
    assert error.value.field == field


@pytest.mark.parametrize(
    ("which", "days"), [("E", None), ("a", None), ("A", 0.0), ("A", -1.0), ("B", math.nan)]
)
def test_there_are_four_production_traces(which: str, days: float | None) -> None:
    with pytest.raises(SpecError):
        synthesis.production_like(np.random.default_rng(0), which, days=days)
