"""The run most experiments are made of, and the windows of the experiment on overestimates."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from cloudsim.experiments.promise import overestimates
from cloudsim.experiments.runs import share_of_work, single_cloud_row
from cloudsim.model.binomial import clopper_pearson
from cloudsim.scheduling.lineups import SPOT_WORST_FIT
from cloudsim.traces.synthesis import lognormal_trace
from cloudsim.traces.trace import Trace

TWO_SIZES = ((1, 4), (0.8, 0.2))


def load(seed: int, hours: float = 30) -> Trace:
    return lognormal_trace(np.random.default_rng(seed), hours=hours, cores=TWO_SIZES, name=f"t{seed}")


def row(**options: Any) -> dict[str, Any]:
    return single_cloud_row(
        **{
            "pair": "1-2", "nodes": "8x4", "on_demand": load(1), "spot": load(2), "sla": None, "births": 100,
            "spot_delay_s": 3600.0, **options,
        }
    )  # fmt: skip


def test_a_row_adds_up() -> None:
    found = row()
    assert json.loads(json.dumps(found)) == found
    assert (found["pair"], found["nodes"], found["mode"], found["bursts"]) == ("1-2", "8x4", "strict", False)
    assert found["spot_admitted"] == found["spot_completed"] + found["evicted"] > 100
    assert found["spot_requests"] - found["spot_admitted"] == sum(found["refusals"].values())
    interval = clopper_pearson(found["evicted"], found["spot_admitted"])
    assert (found["evicted_low"], found["evicted_high"]) == pytest.approx(interval, abs=1e-6)
    assert found["evicted_low"] < found["evicted_share"] < found["evicted_high"]
    by_size = found["by_size"]
    assert [part["cores"] for part in by_size] == [1, 4]
    for whole, part in (
        ("spot_requests", "requests"), ("spot_admitted", "admitted"), ("evicted", "evicted"),
        ("spot_core_hours_requested", "core_hours_requested"),
        ("spot_core_hours_completed", "core_hours_completed"),
    ):  # fmt: skip
        assert found[whole] == pytest.approx(sum(size[part] for size in by_size), abs=1e-5)
    share = found["spot_core_hours_completed"] / found["spot_core_hours_requested"]
    assert found["completed_of_requested"] == pytest.approx(share)


def test_without_spot_is_the_same_cloud() -> None:
    found, none = row(), row(spot=load(2).head(0))
    assert none["spot_requests"] == 0
    assert none["evicted_share"] is None
    assert none["completed_of_requested"] is None
    assert found["utilisation_without_spot"] == none["utilisation"] == none["utilisation_without_spot"]
    assert found["on_demand_admitted_without_spot"] == none["on_demand_admitted"]
    assert 0 < found["utilisation_without_spot"] < found["utilisation"] < 1


def test_work_stands_beside_that_of_the_baseline() -> None:
    plain, promised = row(), row(sla=0.25)
    assert plain["completed_of_baseline"] == 1.0
    assert promised["spot_core_hours_baseline"] == plain["spot_core_hours_completed"]
    share = promised["spot_core_hours_completed"] / plain["spot_core_hours_completed"]
    assert promised["completed_of_baseline"] == pytest.approx(share)
    first, second = promised["completed_of_requested"], promised["completed_of_baseline"]
    shares = [f"{value:.3f}".removeprefix("0") for value in (first, second)]
    assert share_of_work(promised) == f"work {shares[0]} ({shares[1]} of the baseline's)"


def test_what_is_asked_for_is_what_is_run() -> None:
    plain = row()
    assert row(sla=0.25)["spot_admitted"] < plain["spot_admitted"]
    spread = row(lineup=SPOT_WORST_FIT)
    assert spread["lineup"] == SPOT_WORST_FIT.name
    assert spread["spot_core_hours_completed"] != plain["spot_core_hours_completed"]
    assert row(spot_delay_s=30 * 3600.0)["spot_requests"] < plain["spot_requests"]


def test_windows_begin_at_zero_and_keep_what_fits_on_a_node() -> None:
    length_s = overestimates.WINDOW_S
    log = Trace.checked(
        "log", ["before", "cut", "wide", "whole", "late"],
        [length_s - 1, length_s, length_s + 1, length_s + 2, length_s + 50],
        [length_s + 9, length_s + 100, length_s + 2, length_s + 7, length_s + 60],
        [1, 1, 17, 16, 1], requested_s=[20, 60, 20, np.nan, 20],
    )  # fmt: skip
    window = overestimates.window(log, 1, length_s=50)
    assert window.instance.tolist() == ["cut", "whole"]
    assert window.start_s.tolist() == [0, 2]
    assert window.stop_s.tolist() == [60, 7]  # no longer than was asked for
