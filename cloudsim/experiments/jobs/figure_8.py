"""The paper's Figure 8: mechanisms by the length of a job, the rate of revocations, and the price."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cloudsim.experiments.claims import Claim, Verdict, judged
from cloudsim.experiments.experiment import Case, Experiment, Picture, Row
from cloudsim.experiments.jobs.synthetic_job import (
    BASE_PER_DAY,
    BASE_PRICE,
    BASE_S,
    MECHANISMS,
    baseline,
    draw_sweep,
    point,
)
from cloudsim.markets.revocation import HOUR_S

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HOURS, RATE, RATIO = "hours", "revocations a day", "on-demand : spot price"
VALUES = {
    HOURS: (0.25, 0.5, 1.0, 2.0, 4.0, 8.0),
    RATE: (0.5, 1.0, 2.4, 6.0, 12.0, 24.0),
    RATIO: (2.5, 4.0, 5.0, 7.0, 10.0),
}
#: JOBS.md "Acceptance": cost at 0.5 and at 24 revocations a day.
EXPECTED = {"checkpoint": (0.39, 0.49), "replicate": (0.40, 0.65), "backup": (0.40, 0.58)}


def measure(_data: Path | None, *, panel: str, value: float, jobs: int) -> list[Row]:
    """A case: each mechanism at one value. Columns: panel, value, and those of ``jobs_made.point``."""
    job = baseline(value * HOUR_S if panel == HOURS else BASE_S)
    per_day = value if panel == RATE else BASE_PER_DAY
    price = 1.0 / value if panel == RATIO else BASE_PRICE
    return [
        {"panel": panel, "value": value, **point(name, job, per_day, price, jobs=jobs, seed=seed)}
        for seed, name in enumerate(MECHANISMS)
    ]


def _cases(quick: bool) -> list[Case]:
    jobs = 100 if quick else 2000
    return [
        Case(f"{panel} {value:g}", measure, {"panel": panel, "value": value, "jobs": jobs})
        for panel, values in VALUES.items()
        for value in (values[:: len(values) - 1] if quick else values)
    ]


def _costs(rows: Sequence[Row], panel: str, what: str = "cost") -> dict[str, dict[float, float]]:
    return {
        name: {row["value"]: row[what] for row in rows if (row["panel"], row["mechanism"]) == (panel, name)}
        for name in MECHANISMS
    }


def _told(costs: dict[str, dict[float, float]]) -> str:
    return "; ".join(
        f"{name} {next(iter(by.values())):.3f} to {list(by.values())[-1]:.3f}" for name, by in costs.items()
    )


def _short_jobs(rows: Sequence[Row]) -> Verdict:
    costs = _costs(rows, HOURS)
    short = [value for value in costs["checkpoint"] if value < 1]
    least = all(costs["checkpoint"][one] == min(by[one] for by in costs.values()) for one in short)
    return Verdict(least, _told(costs) + " from the shortest to the longest")


def _replicas_grow_less(rows: Sequence[Row]) -> Verdict:
    costs = _costs(rows, HOURS)
    growth = {name: max(by.values()) / min(by.values()) for name, by in costs.items()}
    told = ", ".join(f"{name} × {ratio:.2f}" for name, ratio in growth.items())
    return Verdict(max(growth["replicate"], growth["backup"]) < growth["checkpoint"], told)


def _robust(rows: Sequence[Row]) -> Verdict:
    costs = _costs(rows, RATE)
    growth = {name: by[max(by)] / by[min(by)] for name, by in costs.items()}
    return Verdict(min(growth, key=growth.__getitem__) == "checkpoint", _told(costs) + " (0.5 to 24 a day)")


def _backup_makes_progress(rows: Sequence[Row]) -> Verdict:
    costs, times = _costs(rows, RATE), _costs(rows, RATE, "time")
    most = max(costs["backup"])
    holds = (
        times["backup"][most] > times["replicate"][most] and costs["backup"][most] < costs["replicate"][most]
    )
    return Verdict(
        holds,
        f"backup time {times['backup'][most]:.2f}, cost {costs['backup'][most]:.2f}; replicas "
        f"{times['replicate'][most]:.2f} and {costs['replicate'][most]:.2f}",
    )


def _only_the_backup_slows(rows: Sequence[Row]) -> Verdict:
    times = _costs(rows, RATIO, "time")
    spread = {name: max(by.values()) / min(by.values()) for name, by in times.items()}
    moves = spread["backup"] > 1.001 and max(spread["checkpoint"], spread["replicate"]) < 1.001
    dearest = min(times["backup"])
    slower = times["backup"][dearest] == max(times["backup"].values())
    told = ", ".join(f"{value:g} : 1 {time:.3f}" for value, time in times["backup"].items())
    return Verdict(moves and slower, f"time of the backup: {told}")


CLAIMS = (
    Claim("Figure 8a", "for jobs below an hour checkpoints cost least", _short_jobs),
    Claim("Figure 8a", "with the length replication grows less than checkpointing", _replicas_grow_less),
    Claim("Figure 8b", "checkpointing bears a growing rate of revocations best", _robust),
    Claim(
        "Figure 8b",
        "at 24 a day a backup takes longer than replicas and costs less",
        _backup_makes_progress,
    ),
    Claim("Figure 8c", "as spot prices rise only a backup takes longer", _only_the_backup_slows),
)


def _findings(rows: Sequence[Row]) -> list[str]:
    estimated, simulated = _costs(rows, RATE), _costs(rows, RATE, "simulated_cost")
    lines = [
        f"{name}: cost {by[min(by)]:.3f} at {min(by):g} and {by[max(by)]:.3f} at {max(by):g} revocations "
        f"a day by estimate, {simulated[name][min(by)]:.3f} and {simulated[name][max(by)]:.3f} by "
        f"simulation; JOBS.md says {EXPECTED[name][0]} and {EXPECTED[name][1]}."
        for name, by in estimated.items()
    ]
    return [*lines, *judged(CLAIMS, rows)]


def _draw(rows: Sequence[Row]) -> Figure:
    from cloudsim.experiments.panels import legend_below, panels

    with panels("Mechanisms by length, rate of revocations and price", 2, 3, size=(11, 6.4)) as (
        figure,
        axes,
    ):
        for column, panel in enumerate(VALUES):
            own = [row for row in rows if row["panel"] == panel]
            for axis, what in zip(axes[:, column], ("time", "cost"), strict=True):
                draw_sweep(axis, own, what)
                axis.set(xlabel=panel, ylabel=f"{what} / on-demand")
                if panel != RATIO:
                    axis.set_xscale("log")
                axis.set_xticks(VALUES[panel], [f"{value:g}" for value in VALUES[panel]], minor=False)
                axis.minorticks_off()
        legend_below(figure, axes[0, 0])
    return figure


EXPERIMENT = Experiment(
    name="jobs-figure-8",
    title="Batch jobs: mechanisms by length, revocations and price",
    source="paper 003, §6.1, Figure 8",
    cases=_cases,
    pictures=(
        Picture(
            "jobs-figure-8",
            "Time and cost of each mechanism by the length of the job, revocations a day, and the ratio of "
            "prices: lines by estimate, dots by simulation with their 95 % intervals.",
            _draw,
        ),
    ),
    findings=_findings,
)
