"""No pool is evicted while one above it can help; positions in the stack die as a slow walk says."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cloudsim.history.event_log import START_ON_DEMAND, STOP, EventLog
from cloudsim.model.instances import Instance, Placement
from cloudsim.model.requests import Kind, Request
from cloudsim.prediction.samplers.pool import PoolSampler
from cloudsim.prediction.samplers.replay import SamplerSpec
from cloudsim.prediction.samples import STACK_TOP
from cloudsim.scheduling.inventory import Inventory
from cloudsim.scheduling.lineups import LIFO_POOLS
from cloudsim.scheduling.pipeline import plan
from tests.unit.cloudsim.prediction.clouds import DAY_S, part, random_log, random_nodes

NODES = (6, 4, 3)
ABOVE_ALL = -1  # without a guarantee

spots = st.lists(
    st.tuples(st.integers(0, 2), st.integers(1, 3), st.integers(ABOVE_ALL, 3), st.booleans()), max_size=12
)


@settings(max_examples=300)
@given(spots, st.integers(1, 6))
def test_no_pool_is_evicted_while_one_above_it_can_help(
    placed: list[tuple[int, int, int, bool]], cores: int
) -> None:
    inventory = Inventory(NODES)
    for number, (node, size, pool, own) in enumerate(placed):
        if inventory.free[node] < size:
            continue
        sla = None if own or pool == ABOVE_ALL else 0.1
        kind = Kind.ON_DEMAND if own else Kind.SPOT
        inventory.place(
            Instance(
                f"i{number}", kind, size, node, float(number), math.inf, number, sla=sla,
                pool=None if sla is None else pool,
            )
        )  # fmt: skip
    found = plan(inventory, Request("own", Kind.ON_DEMAND, cores, None), LIFO_POOLS)
    if not isinstance(found, Placement) or not found.victims:
        return
    lowest = max(map(height, found.victims))
    for node in range(len(NODES)):
        above = [one for one in inventory.spot() if one.node == node and height(one) < lowest]
        assert inventory.free[node] + sum(one.cores for one in above) < cores
    spared = [one for one in inventory.spot() if one.node == found.node and one not in found.victims]
    whole = int(inventory.free[found.node]) + sum(one.cores for one in found.victims)
    for victim in found.victims:
        assert whole - victim.cores < cores, "nobody leaves in vain"
        for other in spared:
            if height(other) < height(victim):
                assert whole - victim.cores + other.cores < cores
            elif height(other) == height(victim) and other.number > victim.number:
                assert whole - victim.cores + other.cores < cores, "the younger leaves first"


def height(one: Instance) -> int:
    return ABOVE_ALL if one.pool is None else one.pool


@settings(max_examples=150)
@given(st.integers(0, 2**32 - 1))
def test_samples_are_those_of_a_slow_walk(seed: int) -> None:
    generator = np.random.default_rng(seed)
    nodes = random_nodes(generator)
    log = admitted(nodes, random_log(generator, nodes, int(generator.integers(1, 80))))
    top = int(generator.integers(1, sum(nodes) + 1))
    spec = SamplerSpec(nodes, seed, grace_s=float(generator.choice([0.0, 60.0])))
    fed = PoolSampler(spec, top, ((STACK_TOP, top),))
    cut_s = float(generator.uniform(0, DAY_S))
    for until_s in (cut_s, DAY_S):
        fed.feed(part(log, fed.until_s, until_s), until_s)
    found = fed.samples()
    assert not len(PoolSampler(spec, top, ((STACK_TOP, top),), 1, 3).samples())
    for row in range(len(found)):
        born_s = float(found.birth_s[row] + generator.uniform(0, 1) * found.span_s[row])
        dies_s, left = slow(nodes, log, top, born_s)
        assert found.free_slots[row] == left - top + 1 >= 1
        assert found.evicted[row] == math.isfinite(dies_s)
        first_s = min(dies_s, DAY_S) - float(found.birth_s[row]) + spec.grace_s
        assert found.duration_s[row] == first_s
    covered_s = float(found.span_s.sum())
    grid = np.linspace(0, DAY_S, 400, endpoint=False)
    room = np.mean([slow(nodes, log, top, at_s)[1] >= top for at_s in grid.tolist()])
    assert abs(covered_s / DAY_S - room) < 0.06


def admitted(nodes: tuple[int, ...], log: EventLog) -> EventLog:
    """Without own requests beyond the cloud's cores, which no history holds."""
    free, running, kept = sum(nodes), {}, []
    for row, (kind, number, cores) in enumerate(
        zip(log.kind.tolist(), log.instance.tolist(), log.cores.tolist(), strict=True)
    ):
        if kind == START_ON_DEMAND:
            if cores > free:
                continue
            free -= cores
            running[number] = cores
        elif kind == STOP:
            free += running.pop(number, 0)
        kept.append(row)
    return EventLog(log.time_s[kept], log.kind[kept], log.instance[kept], log.cores[kept])


def slow(nodes: tuple[int, ...], log: EventLog, top: int, born_s: float) -> tuple[float, int]:
    """When own users reach the position, inf if they do not; and what they leave when it is taken."""
    left, running, at_birth = sum(nodes), set(), sum(nodes)
    for time_s, kind, number, cores in zip(
        log.time_s.tolist(), log.kind.tolist(), log.instance.tolist(), log.cores.tolist(), strict=True
    ):
        if kind == START_ON_DEMAND:
            too_small = sum(min(node, cores - 1) for node in nodes)
            if time_s > born_s and left <= top + too_small:
                return time_s, at_birth
            left -= cores
            running.add(number)
        elif kind == STOP and number in running:
            left += cores
        if time_s <= born_s:
            at_birth = left
    return math.inf, at_birth
