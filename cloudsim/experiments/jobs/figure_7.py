"""The paper's Figure 7: its job of an hour under each mechanism, and what memory and I/O do to it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cloudsim.experiments.claims import Claim, Verdict, judged
from cloudsim.experiments.experiment import Case, Experiment, Picture, Row
from cloudsim.experiments.jobs.synthetic_job import (
    BASE_GB,
    BASE_IO,
    BASE_PER_DAY,
    BASE_PRICE,
    BASE_S,
    MECHANISM_NAMES,
    MECHANISMS,
    baseline,
    draw_sweep,
    point,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BASELINE, MEMORY, IO = "baseline", "memory", "io share"
_MEMORY_GB = (1.0, 2.0, 4.0, 8.0, 16.0, 24.0)
_IO_SHARE = (0.0, 0.25, 0.5, 0.75, 1.0)
#: JOBS.md "Acceptance": time and cost.
EXPECTED = {"checkpoint": (1.98, 0.397), "replicate": (1.01, 0.390), "backup": (1.04, 0.415)}


def measure(_data: Path | None, *, panel: str, memory_gb: float, io_share: float, jobs: int) -> list[Row]:
    """A case: each mechanism for one job. Columns: panel, value (what the panel varies), and those of
    ``jobs_made.point``."""
    job = baseline(BASE_S, memory_gb, io_share)
    value = {BASELINE: 0.0, MEMORY: memory_gb, IO: io_share}[panel]
    return [
        {"panel": panel, "value": value, **point(name, job, BASE_PER_DAY, BASE_PRICE, jobs=jobs, seed=seed)}
        for seed, name in enumerate(MECHANISMS)
    ]


def _cases(quick: bool) -> list[Case]:
    jobs = 200 if quick else 2000
    told: list[dict[str, Any]] = [{"panel": BASELINE, "memory_gb": BASE_GB, "io_share": BASE_IO}]
    told += [{"panel": MEMORY, "memory_gb": one, "io_share": BASE_IO} for one in _MEMORY_GB]
    told += [{"panel": IO, "memory_gb": BASE_GB, "io_share": one} for one in _IO_SHARE]
    return [
        Case(
            f"{one['panel']} {one['memory_gb']:g} GB {one['io_share']:g}",
            measure,
            {**one, "jobs": jobs * 5 if one["panel"] == BASELINE and not quick else jobs},
        )
        for one in told
    ]


def _panel(rows: Sequence[Row], panel: str, mechanism: str | None = None) -> list[Row]:
    return [row for row in rows if row["panel"] == panel and mechanism in {None, row["mechanism"]}]


def _base(rows: Sequence[Row]) -> dict[str, Row]:
    return {row["mechanism"]: row for row in _panel(rows, BASELINE)}


def _own_keys(rows: Sequence[Row]) -> dict[str, Any]:
    base = _base(rows)
    simulated = ("simulated_time", "simulated_cost", "simulated_time_plus_minus", "simulated_cost_plus_minus")
    return {
        **{name: {"time": row["time"], "cost": row["cost"]} for name, row in base.items()},
        "simulated": {
            name: {key.removeprefix("simulated_"): row[key] for key in simulated}
            for name, row in base.items()
        },
    }


def _halves_the_cost(rows: Sequence[Row]) -> Verdict:
    cost = {name: row["cost"] for name, row in _base(rows).items()}
    return Verdict(max(cost.values()) < 0.5, _listed(cost))


def _replicas_are_sooner(rows: Sequence[Row]) -> Verdict:
    time = {name: row["time"] for name, row in _base(rows).items()}
    return Verdict(max(time["replicate"], time["backup"]) < time["checkpoint"], _listed(time))


def _similar_costs(rows: Sequence[Row]) -> Verdict:
    base = _base(rows)
    ratio = base["backup"]["cost"] / base["checkpoint"]["cost"]
    return Verdict(abs(ratio - 1) < 0.1, f"the backup costs {ratio:.3f} times as much")


def _only_checkpoints_move(panel: str) -> Claim:
    def check(rows: Sequence[Row]) -> Verdict:
        spread = {}
        for name in MECHANISMS:
            cost = [row["cost"] for row in _panel(rows, panel, name)]
            spread[name] = max(cost) / min(cost)
        moved = spread["checkpoint"] > 1.2 and max(spread["replicate"], spread["backup"]) < 1.001
        return Verdict(moved, f"highest over lowest cost: {_listed(spread)}")

    return Claim(
        f"Figure 7, {panel}", "it moves the cost of checkpointing and leaves that of replication alone", check
    )


def _cpu_bound(rows: Sequence[Row]) -> Verdict:
    cost = {row["mechanism"]: row["cost"] for row in _panel(rows, IO) if row["value"] == 0.0}
    return Verdict(cost["checkpoint"] < min(cost["replicate"], cost["backup"]), _listed(cost))


CLAIMS = (
    Claim("Figure 7a", "every mechanism more than halves the cost of on-demand", _halves_the_cost),
    Claim("Figure 7a", "both kinds of replication are done sooner than checkpointing", _replicas_are_sooner),
    Claim("Figure 7a", "a backup server and checkpoints cost about the same", _similar_costs),
    _only_checkpoints_move(MEMORY),
    _only_checkpoints_move(IO),
    Claim("Figure 7c", "of jobs without I/O checkpoints are the cheapest", _cpu_bound),
)


def _listed(values: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.3f}" for name, value in values.items())


def _findings(rows: Sequence[Row]) -> list[str]:
    lines = [
        f"{MECHANISM_NAMES[name]}: time {row['time']:.3f} and cost {row['cost']:.3f} by estimate, "
        f"{row['simulated_time']:.3f} ± {row['simulated_time_plus_minus']:.3f} and "
        f"{row['simulated_cost']:.3f} ± {row['simulated_cost_plus_minus']:.3f} of on-demand's by simulation "
        f"of {row['jobs']:,} jobs; JOBS.md says {EXPECTED[name][0]} and {EXPECTED[name][1]}."
        for name, row in _base(rows).items()
    ]
    off = max(abs(row["cost"] / row["simulated_cost"] - 1) for row in rows)
    lines.append(
        f"Over all {len(rows)} rows the estimate of the cost is within {off:.1%} of the simulation, which "
        "restores nothing when a revocation comes before the first checkpoint."
    )
    return [*lines, *judged(CLAIMS, rows)]


def _draw(rows: Sequence[Row]) -> Figure:
    from cloudsim.experiments.panels import legend_below, panels

    title = "The paper's job of an hour: half I/O, price 20 % of on-demand, 2.4 revocations a day"
    with panels(title, 2, 2, size=(9, 6.4)) as (figure, axes):
        for column, (panel, label) in enumerate(((MEMORY, "memory, GB"), (IO, "share of I/O"))):
            for line, what in enumerate(("time", "cost")):
                axis = axes[line, column]
                draw_sweep(axis, _panel(rows, panel), what)
                axis.set(xlabel=label, ylabel=f"{what} / on-demand")
        legend_below(figure, axes[0, 0])
    return figure


EXPERIMENT = Experiment(
    name="jobs-figure-7",
    title="Batch jobs: mechanisms by memory and I/O",
    source="paper 003, §6.1, Figure 7",
    cases=_cases,
    pictures=(
        Picture(
            "jobs-figure-7",
            "Time and cost of each mechanism as memory (left) and the share of I/O (right) grow: lines by "
            "estimate, dots by simulation with their 95 % intervals.",
            _draw,
        ),
    ),
    findings=_findings,
    own_keys=_own_keys,
)
