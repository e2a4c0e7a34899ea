"""docs/design/batch-jobs.md "Acceptance" on the markets of 2015: 30 jobs of ten hours under each policy."""

from pathlib import Path

import pytest

from cloudsim.experiments.experiment import Row
from cloudsim.experiments.jobs.policies import EXPECTED, PER_DAY
from cloudsim.experiments.jobs.runs import JOBS, job_of, policy_rows, reference_price, series_2015, world_2015


def rows_of(data: Path, memory_gb: float = 7.5, per_day: float = 0.0) -> dict[str, Row]:
    rows = policy_rows([job_of(memory_gb=memory_gb)] * JOBS, world_2015(data, per_day))
    return {row["policy"]: row for row in rows}


def test_the_markets_are_those_that_were_handed_out(data_dir: Path) -> None:
    assert len(series_2015(data_dir)) == 10
    assert reference_price(data_dir) == 0.175


def test_jobs_that_migrate_are_87_to_89_percent_cheaper_and_hardly_later(data_dir: Path) -> None:
    found = rows_of(data_dir, memory_gb=3.5)["cost-aware"]
    assert 0.11 <= found["cost"] <= 0.13
    assert 1.004 <= found["time"] <= 1.011
    assert found["used"]["migrate"] >= 0.9 * sum(found["used"].values())


def test_jobs_with_hourly_checkpoints_are_as_cheap_and_take_the_checkpoints_longer(data_dir: Path) -> None:
    found = rows_of(data_dir)
    for policy in ("checkpoint only", "cost-aware"):
        assert 0.11 <= found[policy]["cost"] <= 0.13
        assert 1.044 <= found[policy]["time"] - found[policy]["time_plus_minus"] <= 1.073
    assert found["basic"]["cost"] > found["cost-aware"]["cost"]


@pytest.mark.parametrize("place", range(len(PER_DAY)), ids=lambda place: f"{PER_DAY[place]:g} a day")
def test_injected_revocations_cost_what_is_expected(data_dir: Path, place: int) -> None:
    found = rows_of(data_dir, per_day=PER_DAY[place])
    basic, aware = found["basic"], found["cost-aware"]
    assert aware["cost"] == pytest.approx(EXPECTED["cost-aware"][place], abs=0.012)
    assert abs(basic["cost"] - EXPECTED["basic"][place]) < max(basic["cost_plus_minus"], 0.03)
