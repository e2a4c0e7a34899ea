"""Gangs: on-demand instances whose cores may be on several nodes, and which start and stop together."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from cloudsim.cloud.cloud import Cloud
from cloudsim.cloud.spec import CloudSpec, sampler_spec
from cloudsim.federation.direct_cloud import DirectCloud
from cloudsim.model.changes import Booked, Change, Ended, Noticed, Started, TurnedAway
from cloudsim.model.instances import Instance, Placement
from cloudsim.model.refusals import Refusal, RefusalReason
from cloudsim.model.requests import Kind, Request, Spread
from cloudsim.model.reserved_ids import is_block
from cloudsim.prediction.predictor import LocalPredictor
from cloudsim.prediction.samplers.line_up import LineUpSampler
from cloudsim.prediction.samplers.plain import ReplayedCloud
from cloudsim.prediction.samplers.replay import ReplaySampler
from cloudsim.scheduling.inventory import Inventory, parse_nodes
from cloudsim.scheduling.lineups import LINEUPS, YOUNGEST_JOB_FIRST, LineUp
from cloudsim.scheduling.pipeline import plan
from cloudsim.traces.trace import Trace
from tests.support.reference import line_up, youngest_first
from tests.unit.cloudsim.prediction.clouds import lived

NODES = (8, 8, 6)
NAMES = [lineup.name for lineup in LINEUPS]


def on_demand(name: str, cores: int, **more: object) -> Request:
    return Request(name, Kind.ON_DEMAND, cores, 100.0, **more)  # type: ignore[arg-type]


def full_of_spot(nodes: tuple[int, ...] = (4, 4), cores: int = 2, *, grace_s: float = 0.0) -> Cloud:
    cloud = Cloud(CloudSpec("a", nodes, grace_s=grace_s))
    for number in range(sum(nodes) // cores):
        spot = Request(f"s{number}", Kind.SPOT, cores, 1000.0)
        assert not isinstance(cloud.admit(spot, float(number)), Refusal)
    return cloud


def places(instance: Instance) -> dict[str, int]:
    """The node of each member, by its number in the history."""
    if not instance.parts:
        return {str(instance.number): instance.node}
    nodes = [node for node, cores in instance.parts for _ in range(cores)]
    return {str(instance.number + member): node for member, node in enumerate(nodes)}


# -- placement -----------------------------------------------------------------------------------------------


def test_a_job_wider_than_a_node_takes_free_cores_node_by_node():
    cloud = Cloud(CloudSpec("a", (4, 4, 4)))
    cloud.start_on_demand(on_demand("small", 3), 0.0)
    (started,) = cloud.start_on_demand(on_demand("wide", 6), 0.0)
    assert isinstance(started, Started)
    assert started.instance.parts == ((0, 1), (1, 4), (2, 1))
    cloud.inventory.validate()
    assert [change for change in cloud.advance(101.0) if isinstance(change, Ended)][1].instance.id == "wide"
    assert len(cloud.inventory) == 0


def test_a_parallel_job_is_a_gang_on_one_node_too_and_others_are_not():
    cloud = Cloud(CloudSpec("a", (4, 4)))
    cloud.start_on_demand(on_demand("one", 3), 0.0)
    cloud.start_on_demand(on_demand("two", 3), 0.0)
    (turned,) = cloud.start_on_demand(on_demand("machine", 2), 0.0)
    assert isinstance(turned, TurnedAway)
    (started,) = cloud.start_on_demand(on_demand("job", 2, parallel=True), 0.0)
    assert isinstance(started, Started)
    assert started.instance.parts == ((0, 1), (1, 1))


@pytest.mark.parametrize("more", [{}, {"parallel": True}])
def test_what_can_never_fit_is_too_large(more: dict[str, object]):
    cloud = full_of_spot()
    (turned,) = cloud.start_on_demand(on_demand("wide", 9, **more), 9.0)
    assert isinstance(turned, TurnedAway)
    assert turned.refusal.reason is RefusalReason.TOO_LARGE
    assert not turned.refusal.eviction_would_help
    # An instance that must be together with others, or apart from them, is on one node.
    (turned,) = cloud.start_on_demand(on_demand("near", 5, group="g", spread=Spread.TOGETHER), 9.0)
    assert isinstance(turned, TurnedAway)
    assert turned.refusal.reason is RefusalReason.TOO_LARGE


def test_where_leases_cannot_name_several_nodes_there_are_no_gangs():
    cloud = Cloud(CloudSpec("a", (4, 4)))
    cloud.inventory.may_spread = False
    cloud.inventory = cloud.inventory.copy().with_nodes((4, 4, 4), cloud.inventory.details)
    (turned,) = cloud.start_on_demand(on_demand("wide", 5), 0.0)
    assert isinstance(turned, TurnedAway)
    assert turned.refusal.reason is RefusalReason.TOO_LARGE
    (started,) = cloud.start_on_demand(on_demand("job", 3, parallel=True), 0.0)
    assert isinstance(started, Started)
    assert not started.instance.parts


def test_a_gang_evicts_the_youngest_until_it_fits_or_nobody():
    cloud = full_of_spot()
    cloud.start_on_demand(on_demand("old", 2), 5.0)  # evicts s3
    changes = cloud.start_on_demand(on_demand("wide", 5), 6.0)
    assert [change.instance.id for change in changes if isinstance(change, Ended)] == ["s2", "s1", "s0"]
    cloud.inventory.validate()
    cloud = full_of_spot()
    cloud.start_on_demand(on_demand("old", 4), 5.0)
    (turned,) = cloud.start_on_demand(on_demand("wide", 5), 6.0)
    assert isinstance(turned, TurnedAway)
    assert turned.refusal.reason is RefusalReason.NO_CAPACITY
    assert {instance.id for instance in cloud.inventory.spot()} == {"s0", "s1"}


@pytest.mark.parametrize("lineup", LINEUPS, ids=NAMES)
def test_members_are_placed_one_after_the_other(lineup: LineUp):
    gangs = 0
    for seed in range(4):
        cloud = lived(NODES, lineup, seed, gangs=True)
        for cores in (2, 5, 9):
            request = on_demand("gang", cores, amounts=(("memory_mb", cores),), parallel=True)
            placement = plan(cloud.inventory, request, lineup, cloud.now_s)
            expected = one_by_one(cloud.inventory, cores, lineup, cloud.now_s)
            if expected is None:
                assert placement is RefusalReason.NO_CAPACITY
                continue
            assert isinstance(placement, Placement)
            nodes, victims = expected
            assert {node: nodes.count(node) for node in nodes} == dict(placement.parts)
            assert victims == [victim.id for victim in placement.victims]
            gangs += bool(victims)
    assert gangs


def one_by_one(
    inventory: Inventory, cores: int, lineup: LineUp, now_s: float
) -> tuple[list[int], list[str]] | None:
    """Where members go when each is an instance of its own, and who leaves for them."""
    trial = inventory.copy()
    nodes: list[int] = []
    victims: list[str] = []
    for number in range(cores):
        member = on_demand(f"m{number}", 1, amounts=(("memory_mb", 1),))
        placement = plan(trial, member, lineup, now_s)
        if not isinstance(placement, Placement):
            return None
        victims += [trial.remove(victim.id).id for victim in placement.victims]
        instance = Instance(
            member.id, member.kind, 1, placement.node, now_s, math.inf, 0, amounts=member.amounts
        )
        trial.place(instance)
        nodes.append(placement.node)
    return nodes, victims


@pytest.mark.parametrize("headroom", [(), (2, 1)])
def test_users_who_call_directly_run_parallel_jobs_too(headroom: tuple[int, ...]):
    """Room for a refused job is freed on several nodes, and nobody is counted twice."""
    nodes = (4, 4, 4)
    load, until_s = parallel_load(3, 150, 12), 30_000.0
    cloud = DirectCloud(CloudSpec("a", nodes, headroom=headroom, grace_s=30.0), load, until_s, 60.0)
    generator = np.random.default_rng(3)
    changes: list[Change] = []
    for number, at_s in enumerate(np.sort(generator.uniform(0, until_s, 150)).tolist()):
        changes += cloud.advance(at_s)
        cloud.admit(Request(f"s{number}", Kind.SPOT, int(generator.integers(1, 4)), 900.0), at_s)
        cloud.inventory.validate()
    changes += cloud.advance(math.inf)
    started = [c.instance for c in changes if isinstance(c, Started) and not is_block(c.instance.id)]
    turned = [change for change in changes if isinstance(change, TurnedAway)]
    asked = int((load.start_s <= until_s).sum())
    assert len(started) + len(turned) == asked
    assert len({instance.id for instance in started}) == len(started)
    assert any(len(instance.parts) > 1 for instance in started)
    assert cloud.delays_s


# -- notice --------------------------------------------------------------------------------------------------


def test_with_grace_a_gang_starts_when_all_of_its_nodes_have_room():
    cloud = full_of_spot((4, 4, 4), 4, grace_s=30.0)
    cloud.start_on_demand(on_demand("first", 4), 10.0)  # notice to s2 until 40
    cloud.acknowledge("s2", 15.0)
    assert "first" in cloud.inventory
    changes = cloud.start_on_demand(on_demand("wide", 6), 20.0)
    assert [change.instance.id for change in changes if isinstance(change, Noticed)] == ["s1", "s0"]
    (booked,) = [change for change in changes if isinstance(change, Booked)]
    assert booked.starts_by_s == 50.0
    cloud.inventory.validate()
    assert not [change for change in cloud.acknowledge("s1", 25.0) if isinstance(change, Started)]
    cloud.inventory.validate()
    # What the gang needs there is kept for it; what is left is not.
    assert cloud.inventory.free_slots(1) == 0
    behind = cloud.start_on_demand(on_demand("behind", 1, parallel=True), 26.0)
    assert [type(change) for change in behind] == [Booked]
    assert behind[0].starts_by_s == 50.0  # type: ignore[union-attr]
    started_ids = [c.instance.id for c in cloud.acknowledge("s0", 30.0) if isinstance(c, Started)]
    assert started_ids == ["wide", "behind"]
    cloud.inventory.validate()


@pytest.mark.parametrize("lineup", [YOUNGEST_JOB_FIRST, LINEUPS[7], LINEUPS[-1]], ids=lambda one: one.name)
def test_no_booked_instance_starts_later_than_was_told(lineup: LineUp):
    waited = 0
    for seed in range(2):
        generator = np.random.default_rng(seed)
        cloud = Cloud(CloudSpec("A", NODES, lineup=lineup, grace_s=120.0))
        changes: list[Change] = []
        for number, at_s in enumerate(np.cumsum(generator.exponential(40.0, 200)).tolist()):
            changes += cloud.advance(at_s)
            kind = Kind.SPOT if generator.random() < 0.5 else Kind.ON_DEMAND
            cores = int(generator.integers(1, 5 if kind is Kind.SPOT else 14))
            request = Request(
                f"r{number}", kind, cores, float(generator.exponential(500.0)), parallel=number % 3 == 0
            )
            if kind is Kind.ON_DEMAND:
                changes += cloud.start_on_demand(request, at_s)
            elif not isinstance(admitted := cloud.admit(request, at_s), Refusal):
                changes += admitted
            cloud.inventory.validate()
        changes += cloud.advance(math.inf)
        limits = {change.instance.id: change.starts_by_s for change in changes if isinstance(change, Booked)}
        starts = {change.instance.id: change.instance for change in changes if isinstance(change, Started)}
        for name, latest_s in limits.items():
            assert starts[name].start_s <= latest_s
            waited += bool(starts[name].parts)
    assert waited > 5


# -- histories, kernels and their references -----------------------------------------------------------------


@pytest.mark.parametrize("lineup", LINEUPS, ids=NAMES)
def test_the_recorded_history_replayed_is_the_cloud_itself(lineup: LineUp):
    cloud = lived(NODES, lineup, 1, gangs=True)
    log = cloud.history.cut(float(np.nextafter(cloud.now_s, np.inf)))
    reference = ReplayedCloud(sampler_spec(cloud.spec, 1, 10))
    for row in range(len(log)):
        reference.play(log, row)
    members: dict[str, int] = {}
    for instance in cloud.inventory:
        members |= places(instance)
    played = {one.id: one.node for one in reference.inventory}
    assert played.keys() == members.keys()
    # Members of one gang are alike: how many are on each node is what counts.
    for instance in cloud.inventory:
        names = places(instance)
        assert sorted(played[name] for name in names) == sorted(names.values())


@pytest.mark.parametrize("lineup", LINEUPS, ids=NAMES)
def test_kernels_equal_their_references_with_gangs(lineup: LineUp):
    cloud = lived(NODES, lineup, 2, gangs=True)
    until_s = float(np.nextafter(cloud.now_s, np.inf))
    log = cloud.history.cut(until_s)
    spec = sampler_spec(cloud.spec, 4, 12)
    sampler = LineUpSampler(spec, 2, amounts=(("memory_mb", 3),))
    sampler.feed(log, until_s)
    samples = sampler.samples()
    assert samples.evicted.any()
    for row in range(0, len(samples), 2):
        reference = line_up.replay(spec, log, until_s, 2, float(samples.birth_s[row]), (("memory_mb", 3),))
        assert reference is not None
        assert reference.free_slots == samples.free_slots[row]
        assert reference.evicted == samples.evicted[row]
        assert reference.duration_s == samples.duration_s[row]


def parallel_load(seed: int, jobs: int, cores: int) -> Trace:
    """Jobs of a machine of some cores, which now and then is full."""
    generator = np.random.default_rng(seed)
    start_s = np.sort(generator.uniform(0, 40_000.0, jobs))
    size = np.minimum(2 ** generator.integers(0, 6, jobs), cores)
    return Trace.checked(
        "jobs",
        [str(job) for job in range(jobs)],
        start_s,
        start_s + generator.exponential(600.0, jobs),
        size,
        parallel=size > 1,
    )


@pytest.mark.parametrize("always_youngest", [False, True])
def test_fast_kernels_equal_their_reference_with_gangs(always_youngest: bool):
    nodes = (8, 8, 8, 6)
    cloud = Cloud(CloudSpec("a", nodes), parallel_load(1, 400, sum(nodes)))
    generator = np.random.default_rng(1)
    for number, at_s in enumerate(np.sort(generator.uniform(0, 40_000.0, 200)).tolist()):
        cloud.advance(at_s)
        cloud.admit(Request(f"s{number}", Kind.SPOT, int(generator.integers(1, 5)), 900.0), at_s)
    log = cloud.history.cut(40_000.0)
    spec = replace(sampler_spec(cloud.spec, 2, 60), always_youngest=always_youngest)
    sampler = ReplaySampler(spec, 2)
    sampler.feed(log, 40_000.0)
    samples = sampler.samples()
    assert samples.evicted.any()
    for row in range(len(samples)):
        reference = youngest_first.replay(
            nodes, log, 40_000.0, 2, float(samples.birth_s[row]), always_youngest=always_youngest
        )
        assert reference is not None
        assert (reference.free_slots, reference.duration_s, reference.evicted) == (
            samples.free_slots[row], samples.duration_s[row], samples.evicted[row],
        )  # fmt: skip


# -- one machine, many shapes --------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_a_load_of_parallel_jobs_is_the_same_on_all_shapes(seed: int):
    load = parallel_load(seed, 300, 32)
    happened = []
    for shape in ("32x1", "16x2", "8x4", "2x16", "1x20,4x3"):
        cloud = Cloud(CloudSpec("a", parse_nodes(shape)), load)
        happened.append(
            [
                (type(change).__name__, change.request.id)
                if isinstance(change, TurnedAway)
                else (type(change).__name__, change.instance.id, change.instance.cores)
                for change in cloud.advance(math.inf)
                if isinstance(change, TurnedAway | Started | Ended)
            ]
        )
        cloud.inventory.validate()
    assert all(other == happened[0] for other in happened)
    assert {name for name, *_ in happened[0]} == {"TurnedAway", "Started", "Ended"}


def test_a_table_knows_when_a_machine_of_single_cores_is_full():
    """Case 17: jobs as wide as the machine leave nothing to promise beyond their gaps."""
    start_s = np.array([0.0, 100.0, 90_000.0, 180_000.0, 270_000.0])
    stop_s = start_s + np.array([86_400.0, 60.0, 86_400.0, 86_400.0, 60.0])
    load = Trace.checked(
        "n03", list("12345"), start_s, stop_s, [64, 1, 64, 64, 1], parallel=[True, False, True, True, False]
    )
    for shape in ("4x16", "64x1", "1x60,1x4"):
        spec = CloudSpec("a", parse_nodes(shape))
        cloud = Cloud(spec, load)
        cloud.advance(270_000.0)
        predictor = LocalPredictor(sampler_spec(spec, 0, 500), [1])
        table = predictor.table(cloud.history.cut(270_000.0), 270_000.0)
        distribution = table.distribution(1, 64)
        assert distribution is not None
        assert distribution.survives_s(0.01) < 3600.0
