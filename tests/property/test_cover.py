"""The exact victim search, plain and compiled, equals trying every set."""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from cloudsim.scheduling.cover import MOST_NODES, MOST_STEPS, Cover, cheapest_cover
from cloudsim.scheduling.cover_kernel import INFEASIBLE, best_cover, check_fault, search_nodes
from cloudsim.scheduling.eviction import Cost, cost_of
from cloudsim.scheduling.victims_kernel import cheapest_nodes
from tests.support.label_cover import cover_by_labels

seeds = st.integers(0, 2**32 - 1)


class Case(NamedTuple):
    deficit: NDArray[np.int64]
    freed: NDArray[np.int64]
    cost: NDArray[np.int64]
    rank: NDArray[np.int64]


def random_case(generator: np.random.Generator, most: int = 10) -> Case:
    """Few amounts and few costs, so that there are many ties."""
    count, resources = int(generator.integers(0, most + 1)), int(generator.integers(1, 4))
    scales = generator.choice([1, 3, 2000], resources)
    freed = generator.integers(0, generator.integers(1, 7) + 1, (count, resources))
    deficit = generator.integers(-2, generator.integers(-1, 12) + 1, resources)
    cost = generator.integers(0, generator.integers(1, 7), count) * int(generator.choice([1, 777, 60_000]))
    return Case(deficit * scales, freed * scales, cost, generator.permutation(count) * 3 - 5)


def best_of_all_sets(case: Case) -> tuple[tuple[int, ...], int] | None:
    """Slow, and word by word as the order of preference is told."""
    best = None
    for number in range(2 ** len(case.cost)):
        rows = [row for row in range(len(case.cost)) if number >> row & 1]
        freed = case.freed[rows].sum(axis=0)
        if np.all(freed >= case.deficit):
            surplus = np.maximum(freed - np.maximum(case.deficit, 0), 0).tolist()
            cost, ranks = int(case.cost[rows].sum()), sorted(case.rank[rows].tolist())
            preference = (cost, len(rows), surplus, ranks)
            if best is None or preference < best[0]:
                best = preference, tuple(sorted(rows, key=lambda row: case.rank[row]))
    return None if best is None else (best[1], best[0][0])


def expected(case: Case) -> Cover | None:
    best = best_of_all_sets(case)
    return None if best is None else Cover(*best, proven_optimal=True)


@given(seeds)
def test_equals_trying_all_sets(seed):
    generator = np.random.default_rng(seed)
    for most in (4, 6, 7, 8):
        case = random_case(generator, most)
        assert cheapest_cover(*case) == cover_by_labels(*case) == expected(case)


@given(seeds)
def test_the_solver_equals_trying_all_sets(seed):
    case = random_case(np.random.default_rng(seed), 7)
    assert cheapest_cover(*case, most_steps=0) == expected(case)


@pytest.mark.parametrize("seed", range(12))
def test_ten_candidates(seed):
    generator = np.random.default_rng(seed)
    case = random_case(generator)
    while len(case.cost) < 10:
        case = random_case(generator)
    assert cheapest_cover(*case) == cheapest_cover(*case, most_steps=0) == expected(case)


@given(seeds)
def test_the_order_of_the_candidates_does_not_matter(seed):
    generator = np.random.default_rng(seed)
    case = random_case(generator, 24)
    order = generator.permutation(len(case.cost))
    shuffled = Case(case.deficit, case.freed[order], case.cost[order], case.rank[order])
    # Without steps and with one node of the solver's tree, mostly what greed found.
    for steps, nodes in ((MOST_STEPS, MOST_NODES), (0, 1)):
        first = cheapest_cover(*case, most_steps=steps, most_nodes=nodes)
        second = cheapest_cover(*shuffled, most_steps=steps, most_nodes=nodes)
        assert (first is None) == (second is None)
        if first is not None and second is not None:
            assert first == Cover(
                tuple(order[list(second.chosen)].tolist()), second.cost, second.proven_optimal
            )


@pytest.mark.parametrize("seed", range(4))
def test_many_candidates_of_few_flavours(seed):
    generator = np.random.default_rng(seed)
    flavour = generator.integers(0, 3, 128)
    freed = np.stack((np.array([1, 2, 4])[flavour], np.array([2000, 4000, 8000])[flavour]), axis=1)
    cost, rank = generator.integers(0, 30, 128) * 60_000, generator.permutation(128)
    case = Case(np.array([8, 15_000]), freed, cost, rank)
    found = cheapest_cover(*case)
    assert found is not None
    assert found.proven_optimal
    assert found == cheapest_cover(*case, most_steps=0)


@given(seeds)
def test_compiled_costs_equal_trying_all_sets(seed):
    """Exact for the least and all its ties; elsewhere bounds between the least and the truth."""
    generator = np.random.default_rng(seed)
    resources, count, width = int(generator.integers(1, 4)), int(generator.integers(1, 6)), 6
    rows = count * width
    freed = generator.integers(0, generator.integers(1, 5) + 1, (rows, resources))
    cost = generator.integers(0, generator.integers(1, 9), rows)
    free = generator.integers(-1, generator.integers(1, 4), (resources, count))
    request = generator.integers(0, 12, resources)
    places = generator.permutation(rows).reshape(count, width)
    slots = np.where(generator.random((count, width)) < generator.random(), places, -1)
    nodes = generator.permutation(count)[: int(generator.integers(1, count + 1))]
    case = request, free, slots, freed, cost
    bounded = np.empty(0, np.int64)
    costs, settled, fault = search_nodes(*case, nodes, bounded)
    check_fault(fault)
    assert settled.all()
    true_costs = []
    for node in nodes:
        here = slots[node][slots[node] >= 0]
        found = best_of_all_sets(Case(request - free[:, node], freed[here], cost[here], np.arange(len(here))))
        true_costs.append(INFEASIBLE if found is None else found[1])
    least = min(true_costs)
    for true_cost, told in zip(true_costs, costs.tolist(), strict=True):
        if true_cost in {least, INFEASIBLE}:
            assert told == true_cost
        else:
            assert least < told <= true_cost
    assert [search_nodes(*case, nodes[[at]], bounded)[0].item() for at in range(len(nodes))] == true_costs
    # At a glance: the same least cost and the same ties, lower bounds elsewhere.
    glanced, settled, fault = search_nodes(*case, nodes, np.maximum(freed.max(axis=0), 1))
    check_fault(fault)
    assert settled.all()
    for true_cost, told in zip(true_costs, glanced.tolist(), strict=True):
        assert told == true_cost if true_cost == least else least < told <= true_cost


@given(seeds)
def test_all_nodes_at_once_equal_trying_all_sets(seed: int) -> None:
    generator = np.random.default_rng(seed)
    resources, count, width = int(generator.integers(1, 4)), int(generator.integers(1, 7)), 5
    rows = count * width
    amounts = generator.integers(0, generator.integers(1, 5) + 1, (rows, resources))
    start_s = (-900.0 * generator.integers(0, 9, rows)).astype(np.float64)
    sla = generator.choice([0.0, 0.05, 1.0], rows)
    cost = Cost(*generator.choice([0.0, 1.0], 4, p=[0.7, 0.3]).tolist())
    room = generator.integers(-1, generator.integers(1, 4), (resources, count))
    needed = generator.integers(0, 9, resources)
    needed[0] = room[0].max() + 1  # there is no room without victims
    places = generator.permutation(rows).reshape(count, width)
    slots = np.where(generator.random((count, width)) < generator.random(), places, -1)
    allowed = generator.random(count) < 0.8 if generator.random() < 0.5 else np.empty(0, np.bool_)
    number = generator.permutation(rows)

    costs = np.rint(cost_of(cost, 100.0 - start_s, amounts[:, 0], sla) * 1000).astype(np.int64)
    best = {}
    for node in np.flatnonzero(allowed) if len(allowed) else range(count):
        here = slots[node][slots[node] >= 0]
        found = best_of_all_sets(Case(needed - room[:, node], amounts[here], costs[here], -number[here]))
        if found is not None:
            best[int(node)] = [int(here[row]) for row in found[0]], found[1]
    least = min((cost for _, cost in best.values()), default=INFEASIBLE)

    def ask(*, only_least: bool) -> tuple[list[list[int]], list[int]]:
        found, victims, fault = cheapest_nodes(
            tuple(cost), 100.0, needed, room, allowed, only_least, slots, rows, start_s, sla, amounts, number
        )
        check_fault(fault)
        return found.T.tolist(), victims.tolist()

    cheapest, victims = ask(only_least=True)
    assert cheapest == [[node, cost, 1] for node, (_, cost) in best.items() if cost == least]
    assert victims == (best[cheapest[0][0]][0] if cheapest else [])
    every, victims = ask(only_least=False)
    assert [node for node, _, _ in every] == list(best)
    assert not victims
    for node, bound, settled in every:
        true_cost = best[node][1]
        assert settled
        assert bound == least if true_cost == least else least < bound <= true_cost


@given(seeds)
def test_the_best_cover_of_a_node_equals_trying_all_sets(seed: int) -> None:
    generator = np.random.default_rng(seed)
    for most in (0, 3, 6, 8):
        case = random_case(generator, most)
        # Rows in any order, with room between them on the node; the lower the rank, the larger the number.
        count = len(case.cost)
        rows = np.full(count + 2, -1)
        rows[generator.permutation(count + 2)[:count]] = np.arange(count)
        chosen, cost, settled = best_cover(case.deficit, rows, case.freed, case.cost, -case.rank, 1000)
        best = expected(case)
        assert settled == (best is not None)
        assert cost == (-1 if best is None else best.cost)
        assert tuple(chosen.tolist()) == (() if best is None else best.chosen)


def larger_case(generator: np.random.Generator) -> Case:
    """Up to 140 candidates: few flavours or many, in one to three resources; costs all alike, few or many."""
    count, resources = int(generator.integers(9, 140)), int(generator.integers(1, 4))
    freed = 2 ** generator.integers(0, 4, (count, resources)) * generator.choice([1, 1000], resources)
    if generator.random() < 0.5:
        freed = freed[:, :1] * generator.choice([1, 2000], resources)
    if generator.random() < 0.3:
        freed = generator.integers(1, 9, (count, resources))
    deficit = (freed.sum(axis=0) * generator.uniform(0.02, 0.3, resources)).astype(np.int64)
    cost = generator.integers(0, generator.choice([1, 5, 3_600_000]), count) + 1
    return Case(deficit, freed, cost, generator.permutation(count) * 3 - 5)


@pytest.mark.parametrize("seed", range(40))
def test_what_labels_settle_the_search_settles_alike(seed: int) -> None:
    case = larger_case(np.random.default_rng(seed))
    labels = cover_by_labels(*case, most_labels=2000)
    assert labels is not None
    if not labels.proven_optimal:
        return
    chosen, cost, settled = best_cover(
        case.deficit, np.arange(len(case.cost)), case.freed, case.cost, -case.rank, MOST_STEPS
    )
    assert (tuple(chosen.tolist()), cost, settled) == (labels.chosen, labels.cost, True)
