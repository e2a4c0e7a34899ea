"""P4 Figures 7 and 8: its job of an hour under each mechanism (§6.1).

Figure 7 varies memory and I/O; Figure 8 the length of the job, the rate of revocations and the price.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from cloudsim.experiments.drawing import Figure, legend_below, panels
from cloudsim.experiments.experiment import Case, Claim, Experiment, Picture, Row, Verdict, where
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
from cloudsim.jobs.job import Job
from cloudsim.markets.revocation import HOUR_S

#: Panels of Figure 7 (the first without an axis) and of Figure 8.
BASELINE, MEMORY, IO = "baseline", "memory", "io share"
HOURS, RATE, RATIO = "hours", "revocations a day", "on-demand : spot price"
_MEMORY_GB = (1.0, 2.0, 4.0, 8.0, 16.0, 24.0)
_IO_SHARE = (0.0, 0.25, 0.5, 0.75, 1.0)
VALUES = {
    HOURS: (0.25, 0.5, 1.0, 2.0, 4.0, 8.0),
    RATE: (0.5, 1.0, 2.4, 6.0, 12.0, 24.0),
    RATIO: (2.5, 4.0, 5.0, 7.0, 10.0),
}
#: docs/design/batch-jobs.md "Acceptance": time and cost of Figure 7a; cost of Figure 8b at 0.5 and at 24
#: revocations a day.
EXPECTED = {"checkpoint": (1.98, 0.397), "replicate": (1.01, 0.390), "backup": (1.04, 0.415)}
_EXPECTED_BY_RATE = {"checkpoint": (0.39, 0.49), "replicate": (0.40, 0.65), "backup": (0.40, 0.58)}


def measure_job(_data: Path | None, *, panel: str, memory_gb: float, io_share: float, jobs: int) -> list[Row]:
    """Run each mechanism for one job of Figure 7; columns: see ``_rows``."""
    value = {BASELINE: 0.0, MEMORY: memory_gb, IO: io_share}[panel]
    return _rows(panel, value, baseline(BASE_S, memory_gb, io_share), BASE_PER_DAY, BASE_PRICE, jobs)


def measure_market(_data: Path | None, *, panel: str, value: float, jobs: int) -> list[Row]:
    """Run each mechanism at one value of Figure 8; columns: see ``_rows``."""
    job = baseline(value * HOUR_S if panel == HOURS else BASE_S)
    per_day = value if panel == RATE else BASE_PER_DAY
    return _rows(panel, value, job, per_day, 1.0 / value if panel == RATIO else BASE_PRICE, jobs)


def _rows(panel: str, value: float, job: Job, per_day: float, price: float, jobs: int) -> list[Row]:
    """Run each mechanism; columns: panel, value (on its axis), and those of ``synthetic_job.point``."""
    return [
        {"panel": panel, "value": value, **point(name, job, per_day, price, jobs=jobs, seed=seed)}
        for seed, name in enumerate(MECHANISMS)
    ]


def _cases_7(quick: bool) -> list[Case]:
    jobs = 200 if quick else 2000
    kinds = [(BASELINE, BASE_GB, BASE_IO)]
    kinds += [(MEMORY, memory_gb, BASE_IO) for memory_gb in _MEMORY_GB]
    kinds += [(IO, BASE_GB, io_share) for io_share in _IO_SHARE]
    return [
        Case(
            f"{panel} {memory_gb:g} GB {io_share:g}", measure_job,
            {"panel": panel, "memory_gb": memory_gb, "io_share": io_share,
             "jobs": jobs * 5 if panel == BASELINE and not quick else jobs},
        )
        for panel, memory_gb, io_share in kinds
    ]  # fmt: skip


def _cases_8(quick: bool) -> list[Case]:
    jobs = 100 if quick else 2000
    return [
        Case(f"{panel} {value:g}", measure_market, {"panel": panel, "value": value, "jobs": jobs})
        for panel, values in VALUES.items()
        for value in (values[:: len(values) - 1] if quick else values)
    ]


def _by_value(rows: Sequence[Row], panel: str, column: str = "cost") -> dict[str, dict[float, float]]:
    """Return mechanism → value → a column of a panel."""
    return {
        name: {row["value"]: row[column] for row in where(rows, panel=panel, mechanism=name)}
        for name in MECHANISMS
    }


def _base(rows: Sequence[Row], column: str = "cost") -> dict[str, float]:
    return {name: values[0.0] for name, values in _by_value(rows, BASELINE, column).items()}


def _stretch(values: Mapping[float, float]) -> float:
    """Return the largest value over the smallest."""
    return max(values.values()) / min(values.values())


def _list(values: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.3f}" for name, value in values.items())


def _list_ends(costs: Mapping[str, Mapping[float, float]]) -> str:
    ends = {name: list(by.values()) for name, by in costs.items()}
    return "; ".join(f"{name} {values[0]:.3f} to {values[-1]:.3f}" for name, values in ends.items())


def _own_keys(rows: Sequence[Row]) -> dict[str, Any]:
    base = {row["mechanism"]: row for row in where(rows, panel=BASELINE)}
    simulated = ("simulated_time", "simulated_cost", "simulated_time_plus_minus", "simulated_cost_plus_minus")
    return {name: {"time": row["time"], "cost": row["cost"]} for name, row in base.items()} | {
        "simulated": {
            name: {key.removeprefix("simulated_"): row[key] for key in simulated}
            for name, row in base.items()
        }
    }


def _sentences_7(rows: Sequence[Row]) -> list[str]:
    texts = [
        f"{MECHANISM_NAMES[row['mechanism']]}: time {row['time']:.3f} and cost {row['cost']:.3f} by "
        f"estimate, {row['simulated_time']:.3f} ± {row['simulated_time_plus_minus']:.3f} and "
        f"{row['simulated_cost']:.3f} ± {row['simulated_cost_plus_minus']:.3f} of on-demand's by simulation "
        f"of {row['jobs']:,} jobs; docs/design/batch-jobs.md says {EXPECTED[row['mechanism']][0]} and "
        f"{EXPECTED[row['mechanism']][1]}."
        for row in where(rows, panel=BASELINE)
    ]
    off = max(abs(row["cost"] / row["simulated_cost"] - 1) for row in rows)
    texts.append(
        f"Over all {len(rows)} rows the estimate of the cost is within {off:.1%} of the simulation, which "
        "restores nothing when a revocation comes before the first checkpoint."
    )
    return texts


def _sentences_8(rows: Sequence[Row]) -> list[str]:
    estimated, simulated = _by_value(rows, RATE), _by_value(rows, RATE, "simulated_cost")
    return [
        f"{name}: cost {by[min(by)]:.3f} at {min(by):g} and {by[max(by)]:.3f} at {max(by):g} revocations "
        f"a day by estimate, {simulated[name][min(by)]:.3f} and {simulated[name][max(by)]:.3f} by "
        f"simulation; docs/design/batch-jobs.md says {_EXPECTED_BY_RATE[name][0]} and "
        f"{_EXPECTED_BY_RATE[name][1]}."
        for name, by in estimated.items()
    ]


def _halves_the_cost(rows: Sequence[Row]) -> Verdict:
    cost = _base(rows)
    return Verdict(max(cost.values()) < 0.5, _list(cost))


def _replicas_are_sooner(rows: Sequence[Row]) -> Verdict:
    time = _base(rows, "time")
    return Verdict(max(time["replicate"], time["backup"]) < time["checkpoint"], _list(time))


def _similar_costs(rows: Sequence[Row]) -> Verdict:
    cost = _base(rows)
    ratio = cost["backup"] / cost["checkpoint"]
    return Verdict(abs(ratio - 1) < 0.1, f"the backup costs {ratio:.3f} times as much")


def _only_checkpoints_move(panel: str) -> Claim:
    def check(rows: Sequence[Row]) -> Verdict:
        spread = {name: _stretch(by) for name, by in _by_value(rows, panel).items()}
        moved = spread["checkpoint"] > 1.2 and max(spread["replicate"], spread["backup"]) < 1.001
        return Verdict(moved, f"highest over lowest cost: {_list(spread)}")

    text = "it moves the cost of checkpointing and leaves that of replication alone"
    return Claim(f"Figure 7, {panel}", text, check)


def _cpu_bound(rows: Sequence[Row]) -> Verdict:
    cost = {name: by[0.0] for name, by in _by_value(rows, IO).items()}
    return Verdict(cost["checkpoint"] < min(cost["replicate"], cost["backup"]), _list(cost))


def _short_jobs(rows: Sequence[Row]) -> Verdict:
    costs = _by_value(rows, HOURS)
    short = [value for value in costs["checkpoint"] if value < 1]
    least = all(costs["checkpoint"][value] == min(by[value] for by in costs.values()) for value in short)
    return Verdict(least, _list_ends(costs) + " from the shortest to the longest")


def _replicas_grow_less(rows: Sequence[Row]) -> Verdict:
    growth = {name: _stretch(by) for name, by in _by_value(rows, HOURS).items()}
    figures = ", ".join(f"{name} × {ratio:.2f}" for name, ratio in growth.items())
    return Verdict(max(growth["replicate"], growth["backup"]) < growth["checkpoint"], figures)


def _robust(rows: Sequence[Row]) -> Verdict:
    costs = _by_value(rows, RATE)
    growth = {name: by[max(by)] / by[min(by)] for name, by in costs.items()}
    least = min(growth, key=growth.__getitem__)
    return Verdict(least == "checkpoint", _list_ends(costs) + " (0.5 to 24 a day)")


def _backup_makes_progress(rows: Sequence[Row]) -> Verdict:
    most = max(VALUES[RATE])
    cost, time = (
        {name: by[most] for name, by in _by_value(rows, RATE, column).items()} for column in ("cost", "time")
    )
    return Verdict(
        time["backup"] > time["replicate"] and cost["backup"] < cost["replicate"],
        f"backup time {time['backup']:.2f}, cost {cost['backup']:.2f}; replicas "
        f"{time['replicate']:.2f} and {cost['replicate']:.2f}",
    )


def _only_the_backup_slows(
    slowest: Callable[[Collection[float]], float],
) -> Callable[[Sequence[Row]], Verdict]:
    """Return the check that only the backup's time moves, and is longest at this one of the ratios."""

    def check(rows: Sequence[Row]) -> Verdict:
        times = _by_value(rows, RATIO, "time")
        spread = {name: _stretch(by) for name, by in times.items()}
        moves = spread["backup"] > 1.001 and max(spread["checkpoint"], spread["replicate"]) < 1.001
        slower = times["backup"][slowest(times["backup"])] == max(times["backup"].values())
        figures = ", ".join(f"{value:g} : 1 {time:.3f}" for value, time in times["backup"].items())
        return Verdict(moves and slower, f"time of the backup: {figures}")

    return check


def _draw_7(rows: Sequence[Row]) -> Figure:
    title = "The paper's job of an hour: half I/O, price 20 % of on-demand, 2.4 revocations a day"
    with panels(title, 2, 2, size=(9, 6.4)) as (figure, axes):
        for column, (panel, label) in enumerate(((MEMORY, "memory, GB"), (IO, "share of I/O"))):
            for axis, name in zip(axes[:, column], ("time", "cost"), strict=True):
                draw_sweep(axis, where(rows, panel=panel), name)
                axis.set(xlabel=label, ylabel=f"{name} / on-demand")
        legend_below(figure, axes[0, 0])
    return figure


def _draw_8(rows: Sequence[Row]) -> Figure:
    title = "Mechanisms by length, rate of revocations and price"
    with panels(title, 2, 3, size=(11, 6.4)) as (figure, axes):
        for column, (panel, values) in enumerate(VALUES.items()):
            for axis, name in zip(axes[:, column], ("time", "cost"), strict=True):
                draw_sweep(axis, where(rows, panel=panel), name)
                axis.set(xlabel=panel, ylabel=f"{name} / on-demand")
                if panel != RATIO:
                    axis.set_xscale("log")
                axis.set_xticks(values, [f"{value:g}" for value in values], minor=False)
                axis.minorticks_off()
        legend_below(figure, axes[0, 0])
    return figure


FIGURE_7 = Experiment(
    name="jobs-figure-7",
    title="Batch jobs: mechanisms by memory and I/O",
    source="P4 §6.1, Figure 7",
    cases=_cases_7,
    pictures=(
        Picture(
            "jobs-figure-7",
            "Time and cost of each mechanism as memory (left) and the share of I/O (right) grow: lines by "
            "estimate, dots by simulation with their 95 % intervals.",
            _draw_7,
        ),
    ),
    sentences=_sentences_7,
    claims=(
        Claim("Figure 7a", "every mechanism more than halves the cost of on-demand", _halves_the_cost),
        Claim(
            "Figure 7a", "both kinds of replication are done sooner than checkpointing", _replicas_are_sooner
        ),
        Claim("Figure 7a", "a backup server and checkpoints cost about the same", _similar_costs),
        _only_checkpoints_move(MEMORY),
        _only_checkpoints_move(IO),
        Claim("Figure 7c", "of jobs without I/O checkpoints are the cheapest", _cpu_bound),
    ),
    own_keys=_own_keys,
)

FIGURE_8 = Experiment(
    name="jobs-figure-8",
    title="Batch jobs: mechanisms by length, revocations and price",
    source="P4 §6.1, Figure 8",
    cases=_cases_8,
    pictures=(
        Picture(
            "jobs-figure-8",
            "Time and cost of each mechanism by the length of the job, revocations a day, and the ratio of "
            "prices: lines by estimate, dots by simulation with their 95 % intervals.",
            _draw_8,
        ),
    ),
    sentences=_sentences_8,
    claims=(
        Claim("Figure 8a", "for jobs below an hour checkpoints cost least", _short_jobs),
        Claim("Figure 8a", "with the length replication grows less than checkpointing", _replicas_grow_less),
        Claim("Figure 8b", "checkpointing bears a growing rate of revocations best", _robust),
        Claim(
            "Figure 8b",
            "at 24 a day a backup takes longer than replicas and costs less",
            _backup_makes_progress,
        ),
        Claim("Figure 8c", "as spot prices rise only a backup takes longer", _only_the_backup_slows(min)),
        Claim(
            "Figure 8c",
            "as the ratio of the axis, on-demand to spot, rises only a backup takes longer",
            _only_the_backup_slows(max),
        ),
    ),
)
