"""The zero-eviction oracle against all subsets, and against the cloud itself."""

from itertools import combinations

import numpy as np
import pytest

from cloudsim.cloud.spec import CloudSpec
from cloudsim.experiments.ours.oracle import zero_eviction, zero_eviction_bound
from cloudsim.federation.model import FederatedCloud, Federation, Workload
from cloudsim.federation.replay import replay
from cloudsim.model.errors import SpecError
from cloudsim.traces.trace import Trace


def trace(name: str, *instances: tuple[float, float], cores: int = 1) -> Trace:
    start, stop = zip(*instances, strict=True)
    ids = [f"{name}-{row}" for row in range(len(instances))]
    return Trace.checked(name, ids, start, stop, [cores] * len(instances))


def random_trace(generator: np.random.Generator, name: str, count: int, cores: int) -> Trace:
    """Whole seconds, so that instants coincide and some instances have no length at all."""
    start = generator.integers(0, 12, count)
    stop = start + generator.integers(0, 8, count)
    return trace(name, *zip(start.tolist(), stop.tolist(), strict=True), cores=cores)


def played(on_demand: Trace, spot: Trace, node_cores: tuple[int, ...]) -> tuple[int, int, int]:
    """On-demand admitted, spot admitted and evicted when a cloud takes every request that fits."""
    cloud = FederatedCloud(CloudSpec("cloud", node_cores), "some", on_demand)
    workload = Workload("spot", spot, 0.0, None, ("cloud",))
    report = replay(Federation((cloud,), (workload,)), seed=0, births=1)
    return report["clouds"]["cloud"]["on_demand"]["admitted"], *(
        report["total"][key] for key in ("admitted", "evicted")
    )


@pytest.mark.parametrize("seed", range(12))
def test_it_is_the_largest_choice_that_no_eviction_touches(seed: int) -> None:
    generator = np.random.default_rng(seed)
    cores = int(generator.integers(1, 4))
    node_cores = (cores, 2 * cores + cores // 2)[: int(generator.integers(1, 3))]
    on_demand = random_trace(generator, "own", int(generator.integers(4, 10)), cores)
    spot = random_trace(generator, "spot", 7, cores)
    spot = spot.until(on_demand.last_stop_s)  # later ones are not asked

    def works(rows: list[int]) -> bool:
        alone, admitted, evicted = played(on_demand, spot.select(np.array(rows, np.int64)), node_cores)
        return (alone, admitted, evicted) == (unhindered, len(rows), 0)

    unhindered, _, _ = played(on_demand, spot.head(0), node_cores)
    chosen = np.flatnonzero(zero_eviction(on_demand, spot, node_cores)).tolist()
    assert works(chosen)
    # Whatever is larger than one more would hold one that is one more: a part of what works, works.
    assert not any(works(list(rows)) for rows in combinations(range(len(spot)), len(chosen) + 1))


def test_the_one_that_ends_last_gives_way() -> None:
    own = trace("own", (10, 20))
    spot = trace("spot", (0, 100), (5, 9), (6, 8), (9, 10))
    assert zero_eviction(own, spot, (1,)).tolist() == [False, False, True, True]


def test_an_instance_without_length_takes_its_slot_for_an_instant() -> None:
    """The one that stops at 5 has made room before the one starts that lives for no time."""
    own = trace("own", (0, 1), (9, 10))
    spot = trace("spot", (2, 5), (5, 5), (5, 5))
    first, *others = zero_eviction(own, spot, (1,)).tolist()
    assert first
    assert sorted(others) == [False, True]


def test_on_demand_requests_that_are_turned_away_hold_nothing() -> None:
    own = trace("own", (0, 4), (1, 50))
    assert zero_eviction(own, trace("spot", (5, 20)), (1,)).tolist() == [True]


def test_nothing_is_admitted_where_own_users_need_everything() -> None:
    own = trace("own", (0, 10), (0, 10))
    assert not zero_eviction(own, trace("spot", (0, 1), (9, 10)), (2,)).any()


def test_sizes_must_be_equal_and_fit() -> None:
    own = trace("own", (0, 10), cores=2)
    with pytest.raises(SpecError, match=r"cores.*one size.*\[1, 2\]"):
        zero_eviction(own, trace("spot", (0, 1)), (4,))
    with pytest.raises(SpecError, match="no node holds 2 cores"):
        zero_eviction(own, own, (1, 1))


@pytest.mark.parametrize("seed", range(6))
def test_the_bound_is_exact_for_one_size(seed: int) -> None:
    generator = np.random.default_rng(seed)
    own = random_trace(generator, "own", 12, 2)
    spot = random_trace(generator, "spot", 40, 2).until(own.last_stop_s)
    count = zero_eviction(own, spot, (4, 6)).sum()
    assert 0 < count < len(spot)
    assert zero_eviction_bound(own, spot, (4, 6)) == pytest.approx(count)


def test_the_bound_knows_no_nodes_and_cuts_requests() -> None:
    own = trace("own", (0, 1), (0, 1), cores=3)  # one on each node: 2 x 1 core is left
    assert zero_eviction_bound(own, trace("spot", (0, 1), cores=2), (4, 4)) == pytest.approx(1.0)
    assert zero_eviction_bound(own, trace("spot", (0, 1), cores=4), (4, 4)) == pytest.approx(0.5)
    assert zero_eviction_bound(own, trace("spot", (0, 1), cores=5), (4, 4)) == 0.0
