"""The parts of the benchmark that need no nova: whom the paper ends, which cases there are, the table."""

from __future__ import annotations

import pytest

from tests.bench.nova.scenarios import FIGURE_2, RESIDENTS, Scenario, run_times_s
from tests.bench.nova.table import OURS, Measured, rows
from tests.bench.nova.termination import Resident, period_cost, select_victims

VCPUS = {"S": 1, "M": 2, "L": 4}


def residents(*described: tuple[str, str, int]) -> list[Resident]:
    return [
        Resident(name, VCPUS[size], 2000 * VCPUS[size], 60.0 * minutes) for name, size, minutes in described
    ]


@pytest.mark.parametrize(
    ("on_host", "size", "free", "ended"),
    [
        pytest.param((("BP1", "M", 71), ("BP2", "M", 91)), "M", 0, ["BP1"], id="Table 3"),
        pytest.param((("CP1", "M", 181), ("CP2", "M", 160)), "M", 0, ["CP1"], id="Table 4"),
        pytest.param(
            (("AP2", "M", 278), ("AP3", "S", 190), ("AP4", "S", 187)),
            "L",
            0,
            ["AP2", "AP3", "AP4"],
            id="Table 5",
        ),
        pytest.param(
            (("BP1", "L", 272), ("BP2", "M", 212), ("BP3", "S", 380)), "M", 1, ["BP3"], id="Table 6"
        ),
        pytest.param(
            (("P1", "M", 59), ("P2", "S", 3), ("P3", "S", 4)), "M", 0, ["P2", "P3"], id="two for one"
        ),
        pytest.param((("P1", "S", 3),), "M", 2, [], id="room enough"),
    ],
)
def test_the_cheapest_sufficient_instances_of_a_host_are_ended(
    on_host: tuple[tuple[str, str, int], ...], size: str, free: int, ended: list[str]
) -> None:
    short = VCPUS[size] - free
    victims = select_victims(residents(*on_host), short, 2000 * short)
    assert victims is not None
    assert [victim.uuid for victim in victims] == ended


def test_memory_counts_as_cores_do() -> None:
    some = [Resident("many cores", 4, 1000, 60.0), Resident("much memory", 1, 8000, 120.0)]
    victims = select_victims(some, 1, 4000)
    assert victims is not None
    assert [victim.uuid for victim in victims] == ["much memory"]


def test_nobody_is_ended_in_vain() -> None:
    assert select_victims(residents(("P1", "S", 3), ("P2", "M", 5)), 4, 8000) is None


def test_whole_hours_cost_nothing() -> None:
    assert period_cost(residents(("P1", "S", 120), ("P2", "S", 119), ("P3", "S", 61))) == 60 * 60.0


def test_saturated_hosts_are_the_same_in_every_process() -> None:
    times_s = run_times_s(3)
    assert times_s == run_times_s(4)[:3]
    assert [len(one) for one in times_s] == [RESIDENTS] * 3
    assert all(600 <= time_s <= 18_000 for one in times_s for time_s in one)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        (("greedy",), "scheduler"),
        (("plain", "saturated"), "scheduler"),
        (("aware", "saturated", "preemptible"), "kind"),
        (("aware", "empty", "normal", "huge"), "size"),
    ],
)
def test_a_case_that_cannot_be_is_refused_by_field(fields: tuple[str, ...], named: str) -> None:
    with pytest.raises(ValueError, match=f"^{named}: "):
        Scenario(*fields)


def test_a_round_must_fit() -> None:
    for scenario in FIGURE_2:
        scenario.check(24, 130)
    large = Scenario("aware", "saturated", "normal", "large")
    large.check(24, 48)
    with pytest.raises(ValueError, match=r"^requests: 49 large ones do not fit 24 hosts"):
        large.check(24, 49)


def test_the_ratio_is_between_medians_of_the_same_case() -> None:
    plain, aware = Scenario("plain"), Scenario("aware")
    table = rows(
        [
            Measured(OURS, 24, plain, (0.1, 0.2, 9.0)),
            Measured("nova", 24, plain, (1.0, 2.0, 6.0)),
            Measured(OURS, 24, aware, (0.5,)),
            Measured("nova", 24, aware, (2.0,)),
        ]
    )
    assert [row["ratio"] for row in table] == [1.0, 10.0, 1.0, 4.0]
    assert [row["mean_ms"] for row in table] == [3.1, 3.0, 0.5, 2.0]
    assert table[1]["party"] == "nova"
    assert table[1]["requests"] == 3
