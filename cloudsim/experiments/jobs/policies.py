"""P4 Figures 9 to 11: policies by length, memory and revocations on the markets of 2015 (§6.2)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cloudsim.experiments.experiment import Case, Claim, Experiment, Picture, Row, Verdict, where
from cloudsim.experiments.jobs.runs import (
    BASE_GB,
    BASE_HOURS,
    JOBS,
    MARKETS_2015,
    PRICES_OD_2015,
    describe,
    draw_policies,
    job_of,
    policy_rows,
    world_2015,
)

BASIC, CHECKPOINTS, COST_AWARE = "basic", "checkpoint only", "cost-aware"

HOURS = (1.0, 2.0, 5.0, 10.0, 20.0, 40.0)
MEMORY_GB = (1.0, 2.0, 3.0, 4.0, 7.5, 15.0, 30.0)
PER_DAY = (0.0, 1.0, 6.0, 24.0)
#: Largest memory that is saved within the warning.
_FITS_GB = 4.0
#: docs/design/batch-jobs.md "Acceptance": cost at each of ``PER_DAY``.
EXPECTED = {BASIC: (0.13, 0.35, 0.78, 0.95), COST_AWARE: (0.13, 0.14, 0.15, 0.25)}


def measure(
    data: Path,
    *,
    value: float,
    jobs: int,
    hours: float = BASE_HOURS,
    memory_gb: float = BASE_GB,
    per_day: float = 0.0,
) -> list[Row]:
    """Run jobs of one kind under each policy.

    Columns: value (varied by the figure), and those of ``jobs.runs.policy_rows``.
    """
    world = world_2015(data, per_day)
    return [{"value": value, **row} for row in policy_rows([job_of(hours, memory_gb)] * jobs, world)]


def _cases(option: str, values: Sequence[float], label: str, quick: bool) -> list[Case]:
    """Return one case for each value of an option of ``measure``."""
    jobs, needs = 6 if quick else JOBS, (MARKETS_2015, PRICES_OD_2015)
    return [
        Case(f"{label} {value:g}", measure, {"value": value, option: value, "jobs": jobs}, needs)
        for value in (values[:: len(values) - 1] if quick else values)
    ]


def _by_policy(rows: Sequence[Row], column: str = "cost") -> dict[str, dict[float, float]]:
    """Return policy → value → a column."""
    columns: dict[str, dict[float, float]] = {}
    for row in rows:
        columns.setdefault(row["policy"], {})[row["value"]] = row[column]
    return columns


def _sentences(rows: Sequence[Row], label: str) -> list[str]:
    return [
        f"{label} {row['value']:g}, {row['policy']}: {describe(row)}, "
        f"{row['revocations']:.2f} revocations a job."
        for row in rows
    ]


def _beside_expected(rows: Sequence[Row]) -> list[str]:
    costs = _by_policy(rows)
    return [
        f"{name}, cost at {', '.join(f'{value:g}' for value in costs[name])} more revocations a day: "
        f"{', '.join(f'{cost:.2f}' for cost in costs[name].values())}; docs/design/batch-jobs.md "
        f"says, at 0, 1, 6 and 24, "
        f"{', '.join(f'{cost:.2f}' for cost in expected)}."
        for name, expected in EXPECTED.items()
    ]


def cheapest(rows: Sequence[Row]) -> Verdict:
    """Judge whether the cost-aware policy costs least at every value; equal costs count as least."""
    costs = _by_policy(rows)
    least = all(
        cost <= 1.001 * min(by[value] for by in costs.values()) for value, cost in costs[COST_AWARE].items()
    )
    figures = (f"{name} {', '.join(f'{cost:.3f}' for cost in by.values())}" for name, by in costs.items())
    return Verdict(least, "; ".join(figures))


def _all_below_on_demand(rows: Sequence[Row]) -> Verdict:
    most = max(row["cost"] for row in rows)
    return Verdict(most < 1.0, f"at most {most:.3f} of it")


def _near_on_demand(rows: Sequence[Row]) -> Verdict:
    times = _by_policy(rows, "time")[COST_AWARE]
    figures = ", ".join(f"{time - 1:+.1%} at {value:g}" for value, time in times.items())
    return Verdict(max(times.values()) <= 1.1, figures)


def _saves_more_than_checkpoints(rows: Sequence[Row]) -> Verdict:
    costs = _by_policy(rows)
    saved = {value: 1 - cost / costs[CHECKPOINTS][value] for value, cost in costs[COST_AWARE].items()}
    figures = ", ".join(f"{share:.1%} at {value:g}" for value, share in saved.items())
    return Verdict(all(share > 0.001 for share in saved.values()), f"{figures} less")


def _saves_most_beside_checkpoints(rows: Sequence[Row]) -> Verdict:
    costs = _by_policy(rows)
    saved = max(1 - cost / costs[CHECKPOINTS][value] for value, cost in costs[COST_AWARE].items())
    return Verdict(saved >= 0.7, f"at most {saved:.0%} less")


def _two_per_cent(rows: Sequence[Row]) -> Verdict:
    times = _by_policy(rows, "time")[COST_AWARE].values()
    mean_time = sum(times) / len(times)
    return Verdict(mean_time <= 1.03, f"{mean_time - 1:+.1%} in the mean of all lengths")


def _gain_falls(rows: Sequence[Row]) -> Verdict:
    costs = _by_policy(rows)
    saved = [1 - cost / costs[CHECKPOINTS][value] for value, cost in costs[COST_AWARE].items()]
    figures = f"{saved[0]:.1%} less at the lowest value, {saved[-1]:.1%} at the highest"
    return Verdict(saved[0] > 0.001 and saved[-1] < saved[0], figures)


def _saves(rows: Sequence[Row]) -> Verdict:
    costs = _by_policy(rows)[COST_AWARE]
    figures = ", ".join(f"{1 - cost:.1%} at {hours:g} h" for hours, cost in costs.items())
    return Verdict(min(costs.values()) <= 0.2, f"{figures} below on-demand")


def _migrates(rows: Sequence[Row]) -> Verdict:
    small = [row["used"] for row in where(rows, policy=COST_AWARE) if row["value"] <= _FITS_GB]
    attempts = sum(sum(used.values()) for used in small)
    migrated = sum(used.get("migrate", 0) for used in small)
    return Verdict(migrated == attempts, f"{migrated} of {attempts} attempts up to {_FITS_GB:g} GB")


def _times_cheaper(rows: Sequence[Row]) -> Verdict:
    costs = _by_policy(rows)[COST_AWARE]
    small = [cost for memory, cost in costs.items() if memory <= _FITS_GB]
    large = [cost for memory, cost in costs.items() if memory > _FITS_GB]
    ratio = (sum(large) / len(large)) / (sum(small) / len(small))
    return Verdict(ratio >= 4, f"{ratio:.2f} times")


def _basic_loses(rows: Sequence[Row]) -> Verdict:
    costs = _by_policy(rows)
    gap = {value: cost / costs[COST_AWARE][value] for value, cost in costs[BASIC].items()}
    figures = ", ".join(f"{ratio:.1f} times at {value:g}" for value, ratio in gap.items())
    return Verdict(all(ratio > 1 for ratio in gap.values()), f"basic costs {figures}")


FIGURE_9 = Experiment(
    name="jobs-figure-9",
    title="Batch jobs: policies by the length of a job",
    source="P4 §6.2, Figure 9",
    cases=lambda quick: _cases("hours", HOURS, "hours", quick),
    pictures=(
        Picture(
            "jobs-figure-9",
            "Cost and time of 30 jobs of 7.5 GB over three months of 2015, relative to on-demand, with 95 % "
            "intervals.",
            lambda rows: draw_policies(rows, "Policies by the length of a job", "running time, hours"),
        ),
    ),
    sentences=lambda rows: _sentences(rows, "hours"),
    claims=(
        Claim("Figure 9", "all policies cost less than on-demand", _all_below_on_demand),
        Claim("Figure 9", "the cost-aware policy costs least", cheapest),
        Claim("Figure 9", "it costs less than with checkpoints only", _saves_more_than_checkpoints),
        Claim(
            "§6.2",
            "it costs up to 74 % less than with checkpoints only (here: 70 %)",
            _saves_most_beside_checkpoints,
        ),
        Claim("Figure 9", "what it gains over checkpoints only falls with the length", _gain_falls),
        Claim("§6.2", "it saves as much as 86 % (here: at least 80 %)", _saves),
        Claim("§6.2", "the time is 2 % longer than on-demand (here: at most 3 %)", _two_per_cent),
        Claim("§6.2", "the time is near that of on-demand (here: at most 10 % more)", _near_on_demand),
    ),
)

FIGURE_10 = Experiment(
    name="jobs-figure-10",
    title="Batch jobs: policies by memory",
    source="P4 §6.2, Figure 10",
    cases=lambda quick: _cases("memory_gb", MEMORY_GB, "memory GB", quick),
    pictures=(
        Picture(
            "jobs-figure-10",
            "Cost and time of 30 jobs of ten hours by memory, relative to on-demand, with 95 % intervals.",
            lambda rows: draw_policies(rows, "Policies by memory", "memory, GB"),
        ),
    ),
    sentences=lambda rows: _sentences(rows, "GB"),
    claims=(
        Claim("Figure 10", "all policies cost less than on-demand", _all_below_on_demand),
        Claim("Figure 10", "the cost-aware policy costs least", cheapest),
        Claim("§6.2", "the cost-aware policy migrates whenever that is feasible", _migrates),
        Claim("§6.2", "jobs that can migrate cost a fourth of larger ones", _times_cheaper),
    ),
)

FIGURE_11 = Experiment(
    name="jobs-figure-11",
    title="Batch jobs: policies by injected revocations",
    source="P4 §6.2, Figure 11",
    cases=lambda quick: _cases("per_day", PER_DAY, "per day", quick),
    pictures=(
        Picture(
            "jobs-figure-11",
            "Cost and time of 30 jobs of ten hours and 7.5 GB, relative to on-demand, with 95 % intervals, "
            "when revocations are injected into the prices of every market.",
            lambda rows: draw_policies(rows, "Policies by revocations", "injected revocations a day"),
        ),
    ),
    sentences=lambda rows: [*_beside_expected(rows), *_sentences(rows, "more revocations a day")],
    claims=(
        Claim("Figure 11", "the cost-aware policy costs least at every rate", cheapest),
        Claim("Figure 11", "it costs less than with checkpoints only", _saves_more_than_checkpoints),
        Claim("Figure 11", "what it gains over checkpoints only falls with the rate", _gain_falls),
        Claim("Figure 11", "whoever does not look at volatility pays more", _basic_loses),
        Claim(
            "Figure 11", "the time stays near that of on-demand (here: at most 10 % more)", _near_on_demand
        ),
    ),
)
