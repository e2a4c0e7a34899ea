"""What a fleet decides: never too many, always again as many as wanted."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from broker.fleet.planner import Fleet, FleetPlan, FleetTarget, HeldLease, decide

TARGET = FleetTarget(4, lead_s=6.0)
NEW = HeldLease("a", "north", 3600.0, 3600.0)


def held(count: int, **changes: object) -> tuple[HeldLease, ...]:
    return tuple(replace(NEW, lease=f"l{number}", **changes) for number in range(count))  # type: ignore[arg-type]


def test_what_is_missing_is_asked_for() -> None:
    assert decide(TARGET, Fleet(), 0.0) == FleetPlan(4, frozenset(), (), ())
    assert decide(TARGET, Fleet(held(1), unanswered=2), 0.0).ask == 1
    assert decide(TARGET, Fleet(held(4)), 0.0).ask == 0
    assert decide(replace(TARGET, batch=3), Fleet(), 0.0).ask == 3


def test_after_a_refusal_it_waits() -> None:
    fleet = Fleet(held(1), not_before_s=10.0)
    assert [decide(TARGET, fleet, now_s).ask for now_s in (9.9, 10.0)] == [0, 3]


def test_clouds_that_evicted_are_avoided_until_they_have_cooled_down() -> None:
    fleet = Fleet(cooling={"north": 10.0, "south": 20.0})
    assert [set(decide(TARGET, fleet, now_s).avoid) for now_s in (5.0, 10.0, 20.0)] == [
        {"north", "south"},
        {"south"},
        set(),
    ]


def test_the_youngest_are_given_back() -> None:
    assert decide(TARGET, Fleet(held(6)), 0.0).give_back == ("l4", "l5")
    assert decide(FleetTarget(0, 6.0), Fleet(held(2), unanswered=1), 0.0).give_back == ("l0", "l1")


def test_ends_are_put_off_and_what_cannot_be_is_replaced_in_time() -> None:
    def at(remaining_s: float, refused_at_s: float | None = None) -> tuple[bool, int]:
        one = replace(NEW, remaining_s=remaining_s, refused_at_s=refused_at_s)
        plan = decide(FleetTarget(1, 6.0), Fleet((one,)), 0.0)
        return plan.extend == ("a",), plan.ask

    assert at(901.0) == (False, 0)
    assert at(900.0) == (True, 0)
    assert at(880.0, refused_at_s=900.0) == (False, 0)
    assert at(450.0, refused_at_s=900.0) == (True, 0)
    assert at(226.0, refused_at_s=240.0) == (False, 0)
    assert at(225.0, refused_at_s=240.0) == (False, 1)
    assert at(0.0, refused_at_s=240.0) == (False, 1)


def test_short_lifetimes_leave_time_to_replace_them() -> None:
    short = HeldLease("a", "north", 9.0, 36.0, refused_at_s=9.0)
    assert decide(FleetTarget(1, 6.0), Fleet((short,)), 0.0).ask == 0
    assert decide(FleetTarget(1, 6.0), Fleet((replace(short, remaining_s=6.0),)), 0.0).ask == 1


def test_who_must_leave_is_replaced_at_once_and_not_extended() -> None:
    told = replace(NEW, remaining_s=None, lifetime_s=None, told_to_leave=True)
    assert decide(FleetTarget(1, 6.0), Fleet((told,)), 0.0) == FleetPlan(1, frozenset(), (), ())
    renewed = replace(told, told_to_leave=False)
    assert decide(FleetTarget(1, 6.0), Fleet((renewed,)), 0.0) == FleetPlan(0, frozenset(), (), ())


leases = st.builds(
    HeldLease,
    st.uuids().map(str),
    st.sampled_from(["north", "south"]),
    st.one_of(st.none(), st.floats(-10, 7200)),
    st.one_of(st.none(), st.floats(1, 7200)),
    st.booleans(),
    st.one_of(st.none(), st.floats(0, 3600)),
)


@given(
    st.integers(0, 20),
    st.lists(leases, max_size=25, unique_by=lambda one: one.lease),
    st.integers(0, 25),
    st.integers(1, 10),
)
def test_never_more_than_wanted(wanted: int, having: list[HeldLease], asked: int, batch: int) -> None:
    target = FleetTarget(wanted, 6.0, batch)
    plan = decide(target, Fleet(tuple(having), asked), 0.0)
    staying = [one for one in having if not one.leaves(target.lead_s)]
    left = [one for one in staying if one.lease not in plan.give_back]
    assert len(left) <= wanted
    if plan.ask:
        assert len(left) + asked + plan.ask <= wanted
        assert not plan.give_back
    assert set(plan.extend).isdisjoint(plan.give_back)
    assert {one.lease for one in staying} >= set(plan.give_back)


@given(st.integers(1, 12), st.lists(st.tuples(st.sampled_from("gres"), st.integers(0, 12)), max_size=30))
def test_it_comes_to_as_many_as_wanted_and_stays_there(wanted: int, story: list[tuple[str, int]]) -> None:
    """In each round some are granted or refused, or stay open, or leases end; in the last all are granted."""
    target, fleet, number, now_s = FleetTarget(wanted, 6.0, batch=5), Fleet(), 0, 0.0
    for what, count in [*story, *[("g", wanted)] * (2 + wanted // 5)]:
        now_s += 1.0
        plan = decide(target, fleet, now_s)
        asked = fleet.unanswered + plan.ask
        assert len(fleet.leases) + asked <= wanted
        many = min(count, len(fleet.leases) if what == "e" else asked)
        if what == "e":
            fleet = replace(fleet, leases=fleet.leases[many:], unanswered=asked)
        elif what == "g":
            new = [replace(NEW, lease=f"l{number + one}") for one in range(many)]
            number += many
            fleet = replace(fleet, leases=(*fleet.leases, *new), unanswered=asked - many)
        elif what == "r":
            fleet = replace(fleet, unanswered=asked - many, not_before_s=now_s + 1.0)
        else:
            fleet = replace(fleet, unanswered=asked)
    assert len(fleet.leases) == wanted
    assert decide(target, fleet, now_s) == FleetPlan(0, frozenset(), (), ())
