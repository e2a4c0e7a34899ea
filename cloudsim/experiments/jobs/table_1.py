"""The paper's Table 1: which mechanism is best for which job in which market."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from cloudsim.experiments.claims import Claim, Verdict, judged
from cloudsim.experiments.drawing import LINES
from cloudsim.experiments.experiment import Case, Experiment, Picture, Row
from cloudsim.experiments.jobs.synthetic_job import BASE_S, baseline, quoted
from cloudsim.jobs.job import IMMEDIATE
from cloudsim.jobs.mechanisms import Backup, Checkpoint, Migration
from cloudsim.jobs.planner import ON_DEMAND, list_plans
from cloudsim.jobs.replicas import Replicate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Low, medium and high, as far as the paper's §6 gives figures for them.
MEMORY_GB = {"low": 2.0, "medium": 8.0}
IO_SHARE = {"low": 0.05, "high": 0.5}
PER_DAY = {"low": 0.5, "high": 24.0}
PRICE = {"low": 0.1, "high": 0.4}

#: As in the paper: what is saved works on remote storage, replicas on local.
_MECHANISMS = (Migration(), Checkpoint(), Replicate(), Backup(), ON_DEMAND)
ORDER = ("migrate", "checkpoint", "replicate", "backup", "on-demand")


def measure(_data: Path | None) -> list[Row]:
    """A case: every combination. Columns: memory, io, volatility, price (low, medium or high), best, and the
    cost of each mechanism that is possible over on-demand."""
    rows: list[Row] = []
    for memory, io, volatility, price in product(MEMORY_GB, IO_SHARE, PER_DAY, PRICE):
        job = baseline(BASE_S, MEMORY_GB[memory], IO_SHARE[io])
        plans = list_plans(job, _MECHANISMS, quoted(PER_DAY[volatility], PRICE[price]), IMMEDIATE)
        costs = {plan.mechanism.name: plan.cost_usd / plans[-1].cost_usd for plan in plans}
        best = min(costs, key=costs.__getitem__)
        levels = {"memory": memory, "io": io, "volatility": volatility, "price": price}
        rows.append({**levels, "best": best, **{f"cost_{name}": costs.get(name) for name in ORDER}})
    return rows


def _best(rows: Sequence[Row], **levels: str) -> list[str]:
    return [row["best"] for row in rows if all(row[name] == level for name, level in levels.items())]


def _claim(text: str, names: tuple[str, ...], **levels: str) -> Claim:
    def check(rows: Sequence[Row]) -> Verdict:
        best = _best(rows, **levels)
        told = ", ".join(f"{name} {best.count(name)}" for name in dict.fromkeys(best))
        return Verdict(set(best) <= set(names), f"best of {len(best)}: {told}")

    return Claim("Table 1", text, check)


CLAIMS = (
    _claim("little memory and I/O: migrate", ("migrate",), memory="low", io="low"),
    _claim(
        "medium memory, little I/O, high volatility and price: checkpoint",
        ("checkpoint",), memory="medium", io="low", volatility="high", price="high",
    ),
    _claim(
        "much I/O, low volatility and price: replicate",
        ("replicate", "backup"), io="high", volatility="low", price="low",
    ),
)  # fmt: skip


def _findings(rows: Sequence[Row]) -> list[str]:
    lines = [
        f"Memory {row['memory']}, I/O {row['io']}, volatility {row['volatility']}, price {row['price']}: "
        f"{row['best']} at {row['cost_' + row['best']]:.3f} of on-demand."
        for row in rows
    ]
    return [*lines, *judged(CLAIMS, rows)]


def _draw(rows: Sequence[Row]) -> Figure:
    from cloudsim.experiments.panels import legend_below, panels

    with panels("Cost of each mechanism, a line for each kind of job and market", 1, 1, size=(9, 5.4)) as (
        figure,
        axes,
    ):
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
    source="paper 003, §3.4, Table 1",
    cases=lambda _quick: [Case("all combinations", measure, {})],
    pictures=(
        Picture(
            "jobs-table-1",
            "Estimated cost of each mechanism for the paper's job, by memory, I/O, volatility and price.",
            _draw,
        ),
    ),
    findings=_findings,
)
