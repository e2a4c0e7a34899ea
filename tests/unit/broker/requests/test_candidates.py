"""What the members say is worked out once for all requests of a call that want the same."""

import pytest

from broker.contract import CloudInfo, SpotRequest
from broker.requests.candidates import MemberEvaluator
from broker.requests.errors import NoMembersError, UnsuitableError
from broker.requests.routing import Member, TableCell, TableSummary
from cloudsim.model.requests import Amounts
from tests.unit.broker.requests.test_routing import member

MEMBERS = [
    Member(CloudInfo(id=cloud, order=order, nodes="1x8", cores=8, largest_node=8, time="wall"))
    for order, cloud in enumerate("ab")
]


def wish(**fields: object) -> SpotRequest:
    return SpotRequest(**({"id": "r", "origin": "o", "cores": 1, "lifetime_s": 60, "sla": 0.05} | fields))


def test_requests_that_differ_in_nothing_but_their_ids_are_looked_at_once() -> None:
    evaluator = MemberEvaluator(MEMBERS)
    assert evaluator.evaluate(wish(id="one")) is evaluator.evaluate(wish(id="two"))


@pytest.mark.parametrize(
    "other",
    [
        {"cores": 2},
        {"lifetime_s": 61},
        {"sla": 0.04},
        {"sla": None},
        {"origin": "a"},
        {"targets": ("a",)},
        {"labels": {"zone": "x"}},
        {"resources": {"memory_mb": 1}},
    ],
)
def test_others_are_looked_at_for_themselves(other: dict[str, object]) -> None:
    evaluator = MemberEvaluator(MEMBERS)
    assert evaluator.evaluate(wish()) is not evaluator.evaluate(wish(**other))
    assert evaluator.evaluate(wish(**other)) == MemberEvaluator(MEMBERS).evaluate(wish(**other))


def test_an_id_is_checked_however_often_the_wish_was_seen() -> None:
    evaluator = MemberEvaluator(MEMBERS)
    evaluator.evaluate(wish())
    with pytest.raises(UnsuitableError, match="belong to the load"):
        evaluator.evaluate(wish(id="a/own-3"))
    with pytest.raises(UnsuitableError, match="longer than"):
        evaluator.evaluate(wish(id="x" * 121))
    with pytest.raises(NoMembersError):
        MemberEvaluator([]).evaluate(wish())


def test_each_lifetime_that_a_table_refuses_gets_its_own_offer() -> None:
    cell = TableCell(1, 9, 1e4, ((0.05, 10.0), (0.1, 100.0), (0.5, 1000.0)))
    cells: dict[tuple[int, Amounts], tuple[TableCell, ...]] = {(2, ()): (cell,)}
    asked = member("a", 0, {2: 4}, version="v", table=TableSummary("v", 0.0, cells))
    evaluator = MemberEvaluator([asked])
    offers = [
        evaluator.evaluate(wish(cores=2, lifetime_s=lifetime_s)).passed_over[0].counter_offers.sla
        for lifetime_s in (50, 500)
    ]
    assert offers == [0.1, 0.5]
