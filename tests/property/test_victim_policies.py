"""Every victim policy passes one exam: sufficient, none superfluous, protected never touched, ties stable,
input order irrelevant, same seed same answer."""

import itertools
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloudsim.model.instances import Instance, Placement
from cloudsim.model.refusals import RefusalReason
from cloudsim.model.requests import Kind, Request, Spread
from cloudsim.scheduling.eviction import Cost
from cloudsim.scheduling.inventory import Inventory
from cloudsim.scheduling.lineups import LINEUPS, PARTIAL_HOUR, YOUNGEST_JOB_FIRST, LineUp, Ranking
from cloudsim.scheduling.pipeline import plan
from cloudsim.scheduling.victims import Cheapest
from tests.property.scenes import Scene, random_request, random_scene, room_now

seeds = st.integers(0, 2**32 - 1)
# -- what must be true, told without the scheduler -----------------------------------------------------------


class Question(NamedTuple):
    """A request in a scene. evictable: on nodes that it may go to. now, soon: what there is on each of them
    without evicting anybody."""

    inventory: Inventory
    request: Request
    now_s: float
    allowed: list[int]
    needed: tuple[int, ...]
    now: dict[int, list[int]]
    soon: dict[int, list[int]]
    evictable: list[Instance]

    def room(self, node: int) -> list[int]:
        return self.soon[node] if self.request.kind is Kind.ON_DEMAND else self.now[node]

    def suffices(self, node: int, victims: Iterable[Instance]) -> bool:
        room = self.room(node)
        for victim in victims:
            room = [one + freed for one, freed in zip(room, self.inventory.needed(victim), strict=True)]
        return enough(room, self.needed)

    def on(self, node: int, among: Iterable[Instance]) -> list[Instance]:
        return [instance for instance in among if instance.node == node]


def enough(room: Iterable[int], needed: Iterable[int]) -> bool:
    return all(one >= other for one, other in zip(room, needed, strict=True))


def question(scene: Scene, request: Request) -> Question:
    inventory = scene.inventory()
    group = {
        i.node for i in [*scene.placed, *scene.booked] if i.group is not None and i.group == request.group
    }
    allowed = [
        node
        for node in range(len(scene.node_cores))
        if node not in scene.closed
        and request.labels <= scene.details.labels[node]
        and not (group and request.spread is Spread.APART and node in group)
        and not (group and request.spread is Spread.TOGETHER and node not in group)
    ]
    noticed = {instance.id for instance in scene.noticed}
    now, soon = {}, {}
    for node in allowed:
        idle = inventory.capacity[:, node].copy()
        for instance in scene.placed:
            if instance.node == node:
                idle -= inventory.needed(instance)
        first = sorted(scene.noticed, key=lambda one: (one.evict_at_s or 0.0, one.number))
        leaving = [np.array(inventory.needed(one)) for one in first if one.node == node]
        booked = [np.array(inventory.needed(one)) for one in scene.booked if one.node == node]
        soon[node] = (idle + sum(leaving) - sum(booked)).tolist()
        now[node] = room_now(idle, leaving, booked).tolist()
    evictable = [
        instance
        for instance in scene.placed
        if instance.kind is Kind.SPOT
        and instance.id not in noticed
        and instance.node in allowed
        and (request.kind is Kind.ON_DEMAND or (request.promised and not instance.promised))
    ]
    return Question(inventory, request, scene.now_s, allowed, inventory.needed(request), now, soon, evictable)


def candidates(asked: Question) -> list[Instance]:
    """Those without a guarantee, if they suffice anywhere, or else all."""
    weak = [instance for instance in asked.evictable if not instance.promised]
    if any(asked.suffices(node, asked.on(node, weak)) for node in asked.allowed):
        return weak
    return asked.evictable


#: What each costs, by line-up: in thousandths.
COSTS: dict[str, Callable[[Instance, float], float]] = {
    "partial-hour": lambda one, now_s: (now_s - one.start_s) % 3600,
    "partial-hour-weighted": lambda one, now_s: (now_s - one.start_s) % 3600,
    "least-lost-work": lambda one, now_s: (now_s - one.start_s) * one.cores,
    "fewest-victims": lambda one, now_s: 1,
    "promise-keeping": lambda one, now_s: (min(1 / one.sla, 1e6) if one.sla else 1e6) * one.promised,
}
#: Who leaves first has the least, by line-up.
ORDERS: dict[str, Callable[[Instance], Any]] = {
    "youngest-job-first": lambda one: (one.promised, -one.number),
    "oldest-job-first": lambda one: (one.promised, one.number),
    "weakest-promise-first": lambda one: (one.promised, -(one.sla or 0.0) * one.promised, -one.number),
}
for _name in (
    "youngest-job-first-spot-last-fit",
    "youngest-job-first-spot-best-fit",
    "youngest-job-first-spot-worst-fit",
    "consolidation",
):
    ORDERS[_name] = ORDERS["youngest-job-first"]


def cheapest_of_all_sets(asked: Question, node: int, cost: Callable[[Instance, float], float]) -> Any:
    """Cost and victims of the best set on a node; None if there is none."""
    best = None
    here = asked.on(node, candidates(asked))
    for count in range(len(here) + 1):
        for victims in itertools.combinations(here, count):
            if not asked.suffices(node, victims):
                continue
            total = sum(round(cost(one, asked.now_s) * 1000) for one in victims)
            freed = [
                sum(column) for column in zip(*(asked.inventory.needed(one) for one in victims), strict=True)
            ]
            youngest = sorted(-one.number for one in victims)
            preference = (total, count, freed, youngest)
            if best is None or preference < best[0]:
                best = preference, {one.id for one in victims}
    return None if best is None else (best[0][0], best[1])


def first_with_room(asked: Question, first: Callable[[Instance], Any]) -> tuple[int, set[str]]:
    """By order: the node where those marked first make room, and who is needed there."""
    order = sorted(asked.evictable, key=first)
    for count in range(1, len(order) + 1):
        node = order[count - 1].node
        marked = asked.on(node, order[:count])
        if asked.suffices(node, marked):
            for instance in list(marked):
                others = [other for other in marked if other is not instance]
                if asked.suffices(node, others):
                    marked = others
            return node, {one.id for one in marked}
    raise AssertionError("nobody makes room")


def examine(lineup: LineUp, scene: Scene, request: Request) -> Placement | RefusalReason:
    """Asks the line-up, and checks its answer; returns it."""
    asked = question(scene, request)
    inventory = asked.inventory
    answer = plan(inventory, request, lineup, scene.now_s)
    inventory.validate()
    assert list(inventory) == list(scene.inventory()), "a plan changes nothing"
    if not any(enough(inventory.capacity[:, n].tolist(), asked.needed) for n in range(len(scene.node_cores))):
        assert answer is RefusalReason.TOO_LARGE
    elif not asked.allowed:
        assert answer is RefusalReason.NO_SUCH_NODE
    elif any(enough(asked.now[node], asked.needed) for node in asked.allowed):
        assert isinstance(answer, Placement)
        assert (answer.victims, answer.waits) == ((), False)
        assert enough(asked.now[answer.node], asked.needed)
    elif request.kind is Kind.ON_DEMAND and any(enough(asked.soon[n], asked.needed) for n in asked.allowed):
        assert isinstance(answer, Placement)
        assert (answer.victims, answer.waits) == ((), True)
        assert enough(asked.soon[answer.node], asked.needed)
    elif not any(asked.suffices(node, asked.on(node, asked.evictable)) for node in asked.allowed):
        assert answer is RefusalReason.NO_CAPACITY
    else:
        assert isinstance(answer, Placement)
        examine_victims(lineup, asked, answer)
    return answer


def examine_victims(lineup: LineUp, asked: Question, answer: Placement) -> None:
    victims = answer.victims
    assert victims
    assert not answer.waits
    assert answer.proven, "so few are searched exactly"
    assert answer.node in asked.allowed
    assert all(victim.node == answer.node for victim in victims)
    assert len({victim.id for victim in victims}) == len(victims)
    assert all(victim in asked.evictable for victim in victims), "a protected one is touched"
    assert asked.suffices(answer.node, victims)
    for spared in victims:
        others = [victim for victim in victims if victim is not spared]
        assert not asked.suffices(answer.node, others), f"{spared.id} is superfluous"
    assert all(victim in candidates(asked) for victim in victims), "a promise is broken without need"
    chosen = {victim.id for victim in victims}
    if lineup.name in COSTS:
        best = {
            node: found
            for node in asked.allowed
            if (found := cheapest_of_all_sets(asked, node, COSTS[lineup.name])) is not None
        }
        assert best[answer.node][1] == chosen
        if lineup.ranking is Ranking.LEXICOGRAPHIC:
            least = min(cost for cost, _ in best.values())
            assert answer.node == min(node for node, (cost, _) in best.items() if cost == least)
    elif lineup.name in ORDERS:
        assert (answer.node, chosen) == first_with_room(asked, ORDERS[lineup.name])


def test_every_line_up_is_told_apart() -> None:
    known = COSTS.keys() | ORDERS.keys() | {"random-victims"}
    assert known == {lineup.name for lineup in LINEUPS}


every_lineup = pytest.mark.parametrize("lineup", LINEUPS, ids=lambda lineup: lineup.name)


@every_lineup
@given(seeds)
@settings(max_examples=60)
def test_the_exam(lineup: LineUp, seed: int) -> None:
    generator = np.random.default_rng(seed)
    for _ in range(3):
        scene = random_scene(generator)
        examine(lineup, scene, random_request(generator, scene))


def rebuilt(scene: Scene, generator: np.random.Generator) -> Inventory:
    """The same state by another way: others came and went, notices were given early, on-demand instances
    came in another order, and the columns were asked for at some time."""
    inventory = Inventory(scene.node_cores, scene.details)
    inventory.close(tuple(range(len(scene.node_cores))), closed=True)
    spots = [one for one in scene.placed if one.kind is Kind.SPOT]
    others = [one for one in scene.placed if one.kind is Kind.ON_DEMAND]
    generator.shuffle(others)
    notices = {one.id: one for one in scene.noticed}
    turns = [True] * len(spots) + [False] * len(others)
    generator.shuffle(turns)
    for turn in turns:
        instance = spots.pop(0) if turn else others.pop(0)
        if generator.random() < 0.5:
            inventory.place(replace(instance, id="guest", kind=Kind.SPOT, sla=None, group="g"))
            inventory.spots.rows()
            inventory.remove("guest")
        inventory.place(instance)
        if instance.id in notices and generator.random() < 0.5:
            inventory.replace(notices.pop(instance.id))
    for notice in notices.values():
        inventory.replace(notice)
    for booked in scene.booked:
        inventory.book(booked)
    open_nodes = tuple(node for node in range(len(scene.node_cores)) if node not in scene.closed)
    inventory.close(open_nodes, closed=False)
    inventory.validate()
    return inventory


@every_lineup
@given(seeds)
@settings(max_examples=25)
def test_how_the_state_came_about_does_not_matter(lineup: LineUp, seed: int) -> None:
    generator = np.random.default_rng(seed)
    scene = random_scene(generator)
    drawn = replace(lineup, draws=True)
    for _ in range(3):
        request = random_request(generator, scene)
        answer = plan(scene.inventory(), request, lineup, scene.now_s)
        other = rebuilt(scene, generator)
        assert plan(other, request, lineup, scene.now_s) == answer
        assert plan(other.copy(), request, lineup, scene.now_s) == answer
        lots = plan(scene.inventory(), request, drawn, scene.now_s)
        assert plan(other, request, drawn, scene.now_s) == lots
        assert isinstance(lots, Placement) == isinstance(answer, Placement)


@given(seeds)
def test_room_for_on_demand_means_that_somebody_can_leave(seed: int) -> None:
    generator = np.random.default_rng(seed)
    scene = random_scene(generator)
    request = replace(random_request(generator, scene), kind=Kind.ON_DEMAND, sla=None)
    asked = question(scene, request)
    for node in range(len(scene.node_cores)):
        inventory = scene.inventory()
        inventory.close(tuple(n for n in range(len(scene.node_cores)) if n != node), closed=True)
        passes = node in asked.allowed and enough(inventory.free_normal[:, node].tolist(), asked.needed)
        everybody = node in asked.allowed and asked.suffices(node, asked.on(node, asked.evictable))
        assert passes == everybody
        for lineup in (YOUNGEST_JOB_FIRST, PARTIAL_HOUR):
            answer = plan(inventory, request, lineup, scene.now_s)
            assert isinstance(answer, Placement) == passes


def test_draws_reach_every_equal_node() -> None:
    inventory = Inventory((4, 4, 4))
    drawn = replace(YOUNGEST_JOB_FIRST, draws=True)
    answers = [plan(inventory, Request(f"r{n}", Kind.ON_DEMAND, 1, None), drawn) for n in range(30)]
    assert {answer.node for answer in answers if isinstance(answer, Placement)} == {0, 1, 2}


# -- the exam can be failed ----------------------------------------------------------------------------------


def clears_the_node(inventory: Inventory, wanted: Any, choose: Any) -> Placement | None:
    """Everybody leaves the first node that is large enough then."""
    found = YOUNGEST_JOB_FIRST.victims(inventory, wanted, choose)
    return found and replace(found, victims=tuple(one for one in inventory.spot() if one.node == found.node))


#: The longest partial hour leaves.
DEAREST = Cost(instance=3600.0, partial_hour_s=-1.0)

WRONG = (
    LineUp("clears-the-node", clears_the_node),
    replace(YOUNGEST_JOB_FIRST, victims=lambda *asked: None),
    replace(PARTIAL_HOUR, victims=Cheapest(DEAREST)),
    replace(YOUNGEST_JOB_FIRST, filters=()),
)


@pytest.mark.parametrize("lineup", WRONG, ids=["clears the node", "gives up", "dearest", "filters nothing"])
def test_a_wrong_policy_is_found_out(lineup: LineUp) -> None:
    generator = np.random.default_rng(1)
    with pytest.raises(AssertionError):  # noqa: PT012  (one of many scenes is enough)
        for _ in range(300):
            scene = random_scene(generator)
            examine(lineup, scene, random_request(generator, scene))
