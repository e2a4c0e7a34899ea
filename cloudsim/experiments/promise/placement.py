"""The place of spot instances: first-fit as in the papers, and three others.

Spot that starts at the other end of the cloud, on the fullest node or on the emptiest leaves other gaps to
later requests; large instances, which hold most of the core-hours, need gaps that are whole nodes. Only the
place of spot differs: on-demand instances stay first-fit. Prediction replays the recorded history and places
its virtual instances in the cloud's own order.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cloudsim.experiments.drawing import Dot, Figure, dots_by_group, legend_below, panels, share_axis
from cloudsim.experiments.experiment import Case, Experiment, Picture, Row, distinct, where
from cloudsim.experiments.promise.outcomes import keeps_promise
from cloudsim.experiments.promise.pairs import FULL_NODES, TRACES, needs, pair_row, shape
from cloudsim.experiments.runs import share_of_work
from cloudsim.scheduling.lineups import (
    SPOT_BEST_FIT,
    SPOT_LAST_FIT,
    SPOT_WORST_FIT,
    YOUNGEST_JOB_FIRST,
    lineup,
)

#: Pair → nodes: about half of the platform, where gaps matter, and all of it.
PAIRS = {
    "A-B": (4, FULL_NODES["A"]),
    "B-A": (4, FULL_NODES["B"]),
    "C-D": (16, FULL_NODES["C"]),
    "D-C": (16, FULL_NODES["D"]),
}
ORDERS = (YOUNGEST_JOB_FIRST, SPOT_LAST_FIT, SPOT_BEST_FIT, SPOT_WORST_FIT)
SLAS: tuple[float | None, ...] = (None, 0.01)
BIRTHS, QUICK_BIRTHS, _QUICK_REQUESTS = 10_000, 100, 400
#: Share of a node from which an instance is called large.
_LARGE_SHARE = 0.5


def run(
    data: Path, *, pair: str, nodes: int, sla: float | None, order: str, births: int, most: int | None
) -> list[Row]:
    """Run one pair under one line-up: a row of ``single_cloud_row`` with the core-hours of large instances.

    Large ones need half a node or more: columns large_core_hours_requested and large_core_hours_completed.
    ``most``: only the first requests of each trace.
    """
    platform = shape(pair, nodes)
    row = pair_row(data, pair, platform, most=most, sla=sla, lineup=lineup(order), births=births)
    large = [part for part in row["by_size"] if part["cores"] >= _LARGE_SHARE * TRACES[pair[0]][1]]
    for column in ("core_hours_requested", "core_hours_completed"):
        row[f"large_{column}"] = sum(part[column] for part in large)
    return [row]


def _cases(quick: bool) -> list[Case]:
    births, most = (QUICK_BIRTHS, _QUICK_REQUESTS) if quick else (BIRTHS, None)
    return [
        Case(
            f"{pair}, {nodes} nodes, SLA {sla}, {order.name}", run,
            {"pair": pair, "nodes": nodes, "sla": sla, "order": order.name, "births": births, "most": most},
            needs(pair),
        )
        for pair, platforms in (list(PAIRS.items())[:1] if quick else PAIRS.items())
        for nodes in platforms
        for sla in SLAS
        for order in ORDERS
    ]  # fmt: skip


def _label(order: str) -> str:
    """Return the spot part of a line-up's name."""
    return order.removeprefix(YOUNGEST_JOB_FIRST.name).removeprefix("-spot-") or "first-fit"


def _sla(sla: float | None) -> str:
    return "no SLA" if sla is None else f"SLA {sla:g}"


def _compared(rows: Sequence[Row], row: Row) -> list[Row]:
    """Return the runs that differ from this one by the line-up only."""
    return where(rows, pair=row["pair"], nodes=row["nodes"], sla=row["sla"])


def _gain(row: Row, compared: Sequence[Row]) -> float:
    """Return the core-hours completed relative to those of first-fit, less 1."""
    (first,) = where(compared, lineup=YOUNGEST_JOB_FIRST.name)
    base = first["spot_core_hours_completed"]
    return float(row["spot_core_hours_completed"] / base - 1) if base else 0.0


def _sentences(rows: Sequence[Row]) -> list[str]:
    texts = []
    for first in where(rows, lineup=YOUNGEST_JOB_FIRST.name):
        at = f"{first['pair']} on {first['nodes']}, {_sla(first['sla'])}"
        compared = _compared(rows, first)
        best = max(compared, key=lambda row: float(row["spot_core_hours_completed"]))
        parts = [
            f"{_label(row['lineup'])} {share_of_work(row)} ({row['evicted']} of "
            f"{row['spot_admitted']} evicted, on-demand {row['on_demand_admitted']})"
            for row in compared
        ]
        texts.append(f"{at}: most core-hours complete with {_label(best['lineup'])}; {', '.join(parts)}.")
        large = [
            f"{_label(row['lineup'])} "
            f"{row['large_core_hours_completed'] / row['large_core_hours_requested']:.3f}"
            for row in compared
            if row["large_core_hours_requested"]
        ]
        if large:
            texts.append(
                f"{at}, instances of half a node and more complete of their core-hours: {', '.join(large)}."
            )
    for order in ORDERS:
        own = where(rows, lineup=order.name)
        gains = [_gain(row, _compared(rows, row)) for row in own]
        promised = [row for row in own if row["sla"] is not None]
        broken = [f"{row['pair']} on {row['nodes']}" for row in promised if not keeps_promise(row)]
        beside = (
            ""
            if order == YOUNGEST_JOB_FIRST
            else f" completes {min(gains):+.1%} to {max(gains):+.1%} core-hours beside first-fit, more in "
            f"{sum(gain > 0 for gain in gains)} of {len(gains)} comparisons, and"
        )
        texts.append(
            f"Spot {_label(order.name)}{beside} breaks the promise in {len(broken)} of {len(promised)} runs"
            + (f" ({', '.join(broken)})." if broken else ".")
        )
    full = [row for row in rows if row["nodes"] == shape(row["pair"])]
    return texts + [_totals(where(full, sla=sla), sla) for sla in distinct(rows, "sla")]


def _totals(rows: Sequence[Row], sla: float | None) -> str:
    """Return which order completes most on the full platforms, all pairs with the same weight."""
    means = {}
    for order in ORDERS:
        shares = [row["completed_of_requested"] or 0.0 for row in where(rows, lineup=order.name)]
        means[_label(order.name)] = sum(shares) / max(len(shares), 1)
    return (
        f"Full platforms, {_sla(sla)}, completed on the mean of the pairs: "
        + ", ".join(f"{label} {mean:.3f}" for label, mean in means.items())
        + f"; {max(means, key=lambda label: means[label])} completes most."
    )


def _draw(rows: Sequence[Row]) -> Figure:
    slas = distinct(rows, "sla")
    columns = {
        "core-hours completed ÷ requested": "spot",
        "the same, instances of half a node and more": "large",
    }
    title = "Where spot instances are placed"
    with panels(title, len(slas), 2, size=(9, 0.8 + 2.5 * len(slas)), sharey=True) as (figure, axes):
        for line, sla in zip(axes, slas, strict=True):
            own = where(rows, sla=sla)
            groups = list(dict.fromkeys(f"{row['pair']}\n{row['nodes']}" for row in own))
            for panel, (label, kind) in zip(line, columns.items(), strict=True):
                series: dict[str, dict[str, Dot]] = {}
                for row in own:
                    if requested := row[f"{kind}_core_hours_requested"]:
                        dots = series.setdefault(f"spot {_label(row['lineup'])}", {})
                        dot = Dot.at(row[f"{kind}_core_hours_completed"] / requested)
                        dots[f"{row['pair']}\n{row['nodes']}"] = dot
                share_axis(panel, _sla(sla))
                dots_by_group(panel, groups, series)
                panel.set_ylim(bottom=0)
                panel.set_title(label, loc="left")
        legend_below(figure, axes[0, 0])
    return figure


EXPERIMENT = Experiment(
    name="placement",
    title="Where spot instances are placed",
    source="our own question; the line-ups of cloudsim.scheduling.lineups",
    cases=_cases,
    pictures=(
        Picture(
            "placement",
            "Spot core-hours completed of those requested, of all instances and of large ones, by the order "
            "in which spot instances look for room: production pairs on reduced and on full platforms.",
            _draw,
        ),
    ),
    sentences=_sentences,
)
