"""P4 Table 1: the best mechanism for each kind of job in each kind of market."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path

from cloudsim.experiments.drawing import LINES, Figure, legend_below, panels
from cloudsim.experiments.experiment import Case, Claim, Experiment, Picture, Row, Verdict, where
from cloudsim.experiments.jobs.synthetic_job import BASE_S, baseline, quoted
from cloudsim.jobs.job import IMMEDIATE
from cloudsim.jobs.mechanisms import Backup, Checkpoint, Migration
from cloudsim.jobs.planner import ON_DEMAND, list_plans
from cloudsim.jobs.replicas import Replicate

#: Low, medium and high, where the paper's §6 gives numbers for them.
MEMORY_GB = {"low": 2.0, "medium": 8.0}
IO_SHARE = {"low": 0.05, "high": 0.5}
PER_DAY = {"low": 0.5, "high": 24.0}
PRICE = {"low": 0.1, "high": 0.4}

#: Mechanisms that save a job use remote storage, replicas local storage, as in the paper.
_MECHANISMS = (Migration(), Checkpoint(), Replicate(), Backup(), ON_DEMAND)
ORDER = ("migrate", "checkpoint", "replicate", "backup", "on-demand")


def measure(_data: Path | None) -> list[Row]:
    """Estimate every combination.

    Columns: memory, io, volatility, price (low, medium or high), best, and for each mechanism its cost over
    on-demand, None where it is impossible.
    """
    rows: list[Row] = []
    for memory, io, volatility, price in product(MEMORY_GB, IO_SHARE, PER_DAY, PRICE):
        job = baseline(BASE_S, MEMORY_GB[memory], IO_SHARE[io])
        plans = list_plans(job, _MECHANISMS, quoted(PER_DAY[volatility], PRICE[price]), IMMEDIATE)
        costs = {plan.mechanism.name: plan.cost_usd / plans[-1].cost_usd for plan in plans}
        best = min(costs, key=costs.__getitem__)
        levels = {"memory": memory, "io": io, "volatility": volatility, "price": price}
        rows.append({**levels, "best": best, **{f"cost_{name}": costs.get(name) for name in ORDER}})
    return rows


def _claim(text: str, names: tuple[str, ...], **levels: str) -> Claim:
    def check(rows: Sequence[Row]) -> Verdict:
        best = [row["best"] for row in where(rows, **levels)]
        counts = ", ".join(f"{name} {best.count(name)}" for name in dict.fromkeys(best))
        return Verdict(set(best) <= set(names), f"best of {len(best)}: {counts}")

    return Claim("Table 1", text, check)


def _sentences(rows: Sequence[Row]) -> list[str]:
    return [
        f"Memory {row['memory']}, I/O {row['io']}, volatility {row['volatility']}, price {row['price']}: "
        f"{row['best']} at {row['cost_' + row['best']]:.3f} of on-demand."
        for row in rows
    ]


def _draw(rows: Sequence[Row]) -> Figure:
    title = "Cost of each mechanism, a line for each kind of job and market"
    with panels(title, 1, 1, size=(9, 5.4)) as (figure, axes):
        axis = axes[0, 0]
        for name, (colour, marker) in zip(ORDER, LINES, strict=False):
            at = [(row[f"cost_{name}"], place) for place, row in enumerate(rows) if row[f"cost_{name}"]]
            axis.plot(*zip(*at, strict=True), marker, color=colour, ms=5, label=name)
        axis.set_yticks(
            range(len(rows)),
            [
                ", ".join(f"{name} {row[name]}" for name in ("memory", "io", "volatility", "price"))
                for row in rows
            ],
        )
        axis.invert_yaxis()
        axis.set(xlabel="cost / on-demand", xlim=(0, 1.6))
        legend_below(figure, axis)
    return figure


EXPERIMENT = Experiment(
    name="jobs-table-1",
    title="Batch jobs: the best mechanism by job and market",
    source="P4 §3.4, Table 1",
    cases=lambda _quick: [Case("all combinations", measure, {})],
    pictures=(
        Picture(
            "jobs-table-1",
            "Estimated cost of each mechanism for the paper's job, by memory, I/O, volatility and price.",
            _draw,
        ),
    ),
    sentences=_sentences,
    claims=(
        _claim("little memory and I/O: migrate", ("migrate",), memory="low", io="low"),
        _claim(
            "medium memory, little I/O, high volatility and price: checkpoint",
            ("checkpoint",),
            memory="medium",
            io="low",
            volatility="high",
            price="high",
        ),
        _claim(
            "much I/O, low volatility and price: replicate",
            ("replicate", "backup"),
            io="high",
            volatility="low",
            price="low",
        ),
    ),
)
