"""The test beds: what they hold on average, and that a seed always gives the same one."""

import numpy as np
import pytest

from cloudsim.experiments.promise.beds import BEDS, Bed, draw
from cloudsim.experiments.runs import SPOT_DELAY_S
from cloudsim.model.errors import SpecError
from cloudsim.scheduling.inventory import parse_nodes
from cloudsim.traces.trace import Trace

SEEDS = range(6)


def load(trace: Trace, hours: float, nodes: str) -> float:
    """Cores asked for on average, of those there are."""
    return float(trace.cores @ trace.lifetime_s) / (hours * 3600 * sum(parse_nodes(nodes)))


def drawn(name: str, hours: float) -> list[Bed]:
    return [draw(name, seed, hours) for seed in SEEDS]


@pytest.mark.parametrize("name", BEDS)
def test_a_seed_gives_one_bed(name: str) -> None:
    one, same, other = draw(name, 3, 100.0), draw(name, 3, 100.0), draw(name, 4, 100.0)
    assert one.name == name
    assert one.on_demand.equals(same.on_demand)
    assert one.spot.equals(same.spot)
    assert not one.on_demand.equals(other.on_demand)
    assert not np.array_equal(one.on_demand.start_s[:100], one.spot.start_s[:100])


@pytest.mark.parametrize("name", BEDS)
def test_delayed_spot_requests_fall_within_the_arrivals_of_the_cloud(name: str) -> None:
    bed = draw(name, 0, 100.0)
    assert bed.spot.start_s[-1] + SPOT_DELAY_S <= 100 * 3600
    assert bed.on_demand.start_s[-1] <= 100 * 3600
    assert bed.on_demand.start_s[-1] > 90 * 3600


def test_lengths_and_shapes_are_those_of_the_design_notes() -> None:
    lengths = {name: draw(name, 0).on_demand.start_s[-1] / 3600 for name in ("synthetic", "mixed")}
    assert lengths["synthetic"] == pytest.approx(240, abs=1)
    assert lengths["mixed"] == pytest.approx(720, abs=2)
    assert {name: draw(name, 0, 48.0).nodes for name in BEDS} == {
        "synthetic": "8x4", "bursts": "8x4", "mixed": "12x16", "mixed-bursts": "12x16", "long-lived": "8x4",
    }  # fmt: skip


def test_synthetic_has_the_parameters_of_table_1() -> None:
    beds = drawn("synthetic", 240)
    gaps = np.concatenate([np.diff(bed.on_demand.start_s) for bed in beds])
    lifetimes = np.concatenate([bed.spot.lifetime_s for bed in beds])
    assert gaps.mean() == pytest.approx(54.6, rel=0.02)
    assert np.log(lifetimes).mean() == pytest.approx(6, abs=0.03)
    assert np.log(lifetimes).std() == pytest.approx(1.5, rel=0.02)


def test_mixed_loads_are_six_tenths_each_and_sizes_have_their_weights() -> None:
    beds = drawn("mixed", 720)
    for trace in ("on_demand", "spot"):
        loads = [load(getattr(bed, trace), 720 if trace == "on_demand" else 696, "12x16") for bed in beds]
        assert np.mean(loads) == pytest.approx(0.6, rel=0.04)
    cores = np.concatenate([bed.spot.cores for bed in beds])
    shares = {size: float(np.mean(cores == size)) for size in (1, 2, 4, 8, 12)}
    assert shares == pytest.approx({1: 0.4, 2: 0.25, 4: 0.2, 8: 0.1, 12: 0.05}, abs=0.01)


@pytest.mark.parametrize(("bursty", "steady"), [("bursts", "synthetic"), ("mixed-bursts", "mixed")])
def test_bursts_gather_arrivals_and_leave_the_load_before_the_change_point(bursty: str, steady: str) -> None:
    hours = 150.0

    def before(bed: Bed) -> Trace:
        return bed.on_demand.until(hours * 3600 / 3)

    def hourly(name: str) -> list[np.ndarray]:
        return [
            np.histogram(before(bed).start_s, 50, (0, hours * 1200))[0]
            for bed in [draw(name, seed, hours) for seed in range(20)]
        ]

    calm, wild = np.concatenate(hourly(steady)), np.concatenate(hourly(bursty))
    assert wild.mean() == pytest.approx(calm.mean(), rel=0.1)
    assert wild.std() > 1.5 * calm.std()


def test_long_lived_instances_outlive_most_of_a_table_refresh() -> None:
    lifetimes = np.concatenate([bed.on_demand.lifetime_s for bed in drawn("long-lived", 240)])
    assert lifetimes.mean() == pytest.approx(np.exp(11), rel=0.1)


def test_an_unknown_bed_is_named() -> None:
    with pytest.raises(SpecError, match=r"bed: 'feather' is not one of synthetic, bursts"):
        draw("feather", 0)
