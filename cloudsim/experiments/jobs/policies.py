"""The policies side by side on the markets of 2015: what the paper's Figures 9, 10 and 11 share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cloudsim.experiments.claims import Verdict
from cloudsim.experiments.experiment import Case, Row
from cloudsim.experiments.jobs.runs import (
    BASE_GB,
    BASE_HOURS,
    JOBS,
    MARKETS_2015,
    PRICES_OD_2015,
    job_of,
    policy_rows,
    said,
    world_2015,
)

BASIC, CHECKPOINTS, COST_AWARE = "basic", "checkpoint only", "cost-aware"


def measure(
    data: Path | None,
    *,
    value: float,
    jobs: int,
    hours: float = BASE_HOURS,
    memory_gb: float = BASE_GB,
    per_day: float = 0.0,
) -> list[Row]:
    """A case: jobs of one kind under each policy. Columns: value (what the figure varies), and those of
    ``jobs_runs.policy_rows``."""
    assert data is not None, "a case with needs has data"
    world = world_2015(data, per_day)
    return [{"value": value, **row} for row in policy_rows([job_of(hours, memory_gb)] * jobs, world)]


def cases(option: str, values: Sequence[float], label: str, quick: bool) -> list[Case]:
    """One case for each value of an option of ``measure``."""
    jobs = 6 if quick else JOBS
    return [
        Case(
            f"{label} {value:g}",
            measure,
            {"value": value, option: value, "jobs": jobs},
            (MARKETS_2015, PRICES_OD_2015),
        )
        for value in (values[:: len(values) - 1] if quick else values)
    ]


def by_policy(rows: Sequence[Row], what: str = "cost") -> dict[str, dict[float, float]]:
    """Column ``what`` by policy and value."""
    found: dict[str, dict[float, float]] = {}
    for row in rows:
        found.setdefault(row["policy"], {})[row["value"]] = row[what]
    return found


def sentences(rows: Sequence[Row], label: str) -> list[str]:
    """A sentence for each row."""
    return [
        f"{label} {row['value']:g}, {row['policy']}: {said(row)}, {row['revocations']:.2f} revocations a job."
        for row in rows
    ]


def cheapest(rows: Sequence[Row]) -> Verdict:
    """Whether the cost-aware policy costs the least everywhere; equal costs are equal."""
    costs = by_policy(rows)
    least = all(
        costs[COST_AWARE][value] <= 1.001 * min(by[value] for by in costs.values())
        for value in costs[COST_AWARE]
    )
    told = "; ".join(
        f"{name} {', '.join(f'{cost:.3f}' for cost in by.values())}" for name, by in costs.items()
    )
    return Verdict(least, told)


def all_below_on_demand(rows: Sequence[Row]) -> Verdict:
    """Whether every policy costs less than on-demand, whatever the value."""
    most = max(row["cost"] for row in rows)
    return Verdict(most < 1.0, f"at most {most:.3f} of it")


def near_on_demand(rows: Sequence[Row]) -> Verdict:
    """Whether the cost-aware policy takes at most 10 % longer than on-demand."""
    times = by_policy(rows, "time")[COST_AWARE]
    told = ", ".join(f"{time - 1:+.1%} at {value:g}" for value, time in times.items())
    return Verdict(max(times.values()) <= 1.1, told)


def saves_more_than_checkpoints(rows: Sequence[Row]) -> Verdict:
    """Whether it costs less than the same policy with checkpoints only."""
    costs = by_policy(rows)
    saved = {value: 1 - cost / costs[CHECKPOINTS][value] for value, cost in costs[COST_AWARE].items()}
    told = ", ".join(f"{share:.1%} at {value:g}" for value, share in saved.items())
    return Verdict(all(share > 0.001 for share in saved.values()), f"{told} less")
