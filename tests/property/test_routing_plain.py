"""Routing keeps what requests of one size and SLA share, and chooses and refuses as its plain form does."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from broker.contract import BrokenPromise, NodeKind, Room, SpotRequest
from broker.requests.candidates import MemberEvaluator
from broker.requests.routing import Member, ReservedRoom, TableCell, TableSummary
from cloudsim.model.requests import Amounts, Mode
from tests.support.plain_routing import PlainRouting
from tests.unit.broker.requests.test_routing import member

SIZES = (1, 2, 3, 4)
SLAS = (0.01, 0.05, 0.1)
LIFETIMES_S = (1.0, 10.0, 100.0, 1000.0)
KIND = NodeKind(nodes=2, cores=4, resources={"gpus": 1}, labels={"zone": "x"})
AMOUNTS: tuple[Amounts, ...] = (), (("gpus", 1),)
BROKEN = BrokenPromise(sla=0.05, evicted=9, admitted=10, at_least=0.5, detail="most")
HARMLESS = TableSummary("v", 0.0, {})


def some_table(random: Random) -> TableSummary:
    """A table in which cells, and SLAs in cells, may be missing."""

    def cell(edge: int) -> TableCell:
        slas = sorted(random.sample(SLAS, random.choice([0, 3, 3, 3])))
        survives = zip(slas, sorted(random.choices(LIFETIMES_S, k=3)), strict=False)
        return TableCell(edge, edge + random.randint(0, 3), random.choice(LIFETIMES_S), tuple(survives))

    cells = {
        (cores, amounts): tuple(
            cell(edge) for edge in sorted(random.sample(range(1, 4), random.choice([0, 1, 1, 2])))
        )
        for cores in SIZES
        for amounts in AMOUNTS
        if random.random() < 0.7
    }
    return TableSummary(random.choice("vvw"), 5.0, cells)


def some_member(random: Random, number: int) -> Member:
    made = member(
        f"c{number}",
        random.randint(0, 3),
        {cores: random.choice([0, 1, 3]) for cores in SIZES if random.random() < 0.7},
        largest=random.choice([2, 4]),
        version=random.choice(["v", "v", None]),
        table=random.choice([None, HARMLESS, some_table(random), some_table(random)]),
        reachable=random.random() < 0.9,
        broken=random.choice([{}, {0.05: BROKEN}]),
    )
    assert made.advert is not None
    info = {"node_kinds": random.choice([(), (KIND,)]), "fair_share": random.random() < 0.3}
    advert = {
        "promised_room": random.choice([None, Room(free_cores=8, free_slots={1: 2, 2: 4})]),
        "admission": random.choice([Mode.STRICT, Mode.STRICT, Mode.POPULATION]),
        "closed_nodes": random.randint(0, 1),
    }
    return replace(
        made,
        info=made.info.model_copy(update=info),
        advert=made.advert.model_copy(update=advert) if random.random() < 0.9 else None,
    )


def some_shape(random: Random) -> dict[str, Any]:
    needs = random.random() < 0.3
    return {
        "cores": random.choice([1, 2, 4, 4]),
        "sla": random.choice([None, 0.0, *SLAS, *SLAS, 0.07, 0.5, 1.0]),
        "resources": {"gpus": 1} if needs else {},
        "labels": {"zone": random.choice("xy")} if needs and random.random() < 0.5 else {},
    }


def some_request(random: Random, number: int, shape: dict[str, Any]) -> SpotRequest:
    return SpotRequest(
        id=f"r{number}",
        origin=random.choice(["user", "user", "c0"]),
        lifetime_s=random.choice([*LIFETIMES_S, random.uniform(0.5, 2000)]),
        targets=random.choice([None, None, ("c0",)]),
        **shape,
    )


@given(seed=st.integers(0, 10**9))
def test_what_is_kept_changes_no_choice(seed: int) -> None:
    random = Random(seed)
    members = [some_member(random, number) for number in range(random.randint(1, 4))]
    evaluator, reserved = MemberEvaluator(members), ReservedRoom({"c0": random.randint(0, 4)})
    shapes = [some_shape(random), some_shape(random)]
    for number in range(12):
        request = some_request(random, number, random.choice(shapes))
        try:
            evaluation = evaluator.evaluate(request)
        except ValueError:
            continue  # this federation cannot be asked for that
        assert evaluation.candidates is not None
        most = random.choice([2, 9])
        route, views = PlainRouting(request, members).route(most, reserved)
        assert evaluation.candidates.route(most, reserved) == route
        assert evaluation.passed_over == views
