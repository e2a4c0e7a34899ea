"""Published figures: chosen rows, means and tolerances; and what the papers say is copied rightly."""

import pytest

from cloudsim.experiments import registry
from cloudsim.experiments.promise.published_numbers import (
    BASELINE_COUNTS,
    EVICTED,
    FIGURES,
    ON_DEMAND,
    PAIRS,
    QUANTITIES,
    REQUESTS,
    PublishedNumber,
    beside,
    interval,
    quantity,
)


def row(pair: str = "A-B", sla: float | None = 0.01, admitted: int = 100, evicted: int = 1) -> dict:
    return {"pair": pair, "sla": sla, "spot_admitted": admitted, "spot_requests": 200, "evicted": evicted,
            "on_demand_admitted": 9, "on_demand_requests": 10,
            "spot_core_hours_completed": 1.0, "spot_core_hours_requested": 4.0,
            "spot_core_hours_baseline": 2.0}  # fmt: skip


def test_each_published_figure_is_of_a_known_experiment_and_quantity() -> None:
    assert {figure.experiment for figure in FIGURES} <= set(registry.MODULES)
    assert {figure.quantity for figure in FIGURES} <= set(QUANTITIES)
    assert len({(f.experiment, f.where, f.quantity, str(f.of)) for f in FIGURES}) == len(FIGURES)
    for figure in FIGURES:
        assert figure.number >= 0


def test_ours_stands_beside_theirs_where_all_columns_agree() -> None:
    rows = [row(evicted=1), row(evicted=3), row(sla=None, evicted=50), row(pair="D-C", admitted=0, evicted=0)]
    found = {(one["of"], one["quantity"]): one for one in beside("tables-3-4", rows)}
    ours = found["pair A-B, sla 0.01", EVICTED]
    assert ours["published"] == "0.009"
    assert (ours["ours"], ours["lowest"], ours["highest"], ours["runs"]) == (0.02, 0.01, 0.03, 2)
    assert found["pair A-B, sla none", EVICTED]["ours"] == 0.5
    assert found["pair D-C, sla 0.01", ON_DEMAND]["ours"] == 0.9
    assert ("pair D-C, sla 0.01", EVICTED) not in found, "nothing admitted, nothing to divide by"
    assert not any("C-D" in of for of, _ in found), "no rows, no comparison"
    assert beside("censoring", rows) == []


def test_the_interval_of_a_mean_is_that_of_independent_runs() -> None:
    assert interval([0.5]) == (0.5, 0.0)
    mean, half = interval([1.0, 2.0, 3.0, 4.0])
    assert mean == 2.5
    assert half == pytest.approx(1.96 * (5 / 3 / 4) ** 0.5)


def test_a_published_number_is_as_exact_as_its_digits_or_its_interval() -> None:
    assert PublishedNumber("x", "P1", EVICTED, "0.60", {}).tolerance == pytest.approx(0.005)
    assert PublishedNumber("x", "P1", EVICTED, "900", {}).tolerance == 0.5
    assert PublishedNumber("x", "P1", EVICTED, "0.708", {}, 0.009).tolerance == 0.009


def test_quantities_without_a_denominator_or_value_are_none() -> None:
    assert quantity({"evicted": 0, "spot_admitted": 0}, EVICTED) is None
    assert quantity({"quantile_s": None}, "quantile of the lifetime, s") is None
    assert quantity({"quantile_s": 7}, "quantile of the lifetime, s") == 7.0


def test_baseline_counts_fit_the_requests_there_are() -> None:
    for (pair, nodes), (on_demand, spot, evicted) in BASELINE_COUNTS.items():
        assert pair in PAIRS
        assert int(nodes.partition("x")[0]) <= 31
        assert evicted <= spot <= REQUESTS[pair[2]]
        assert on_demand <= REQUESTS[pair[0]]
