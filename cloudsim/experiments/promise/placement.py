"""Where should a spot instance go? The papers place first-fit, for on-demand and for spot.

Spot that starts at the other end of the cloud, on the fullest node or on the emptiest leaves other gaps to
those who come next; large instances, which hold most of the core-hours, need gaps that are whole nodes.
Only where spot goes differs: on-demand instances stay first-fit. Prediction replays the recorded history, and
places its virtual instances, in the order that the cloud has.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cloudsim.experiments.experiment import Case, Experiment, Picture, Row
from cloudsim.experiments.promise.pairs import FULL_NODES, TRACES, needs
from cloudsim.scheduling.lineups import (
    SPOT_BEST_FIT,
    SPOT_LAST_FIT,
    SPOT_WORST_FIT,
    YOUNGEST_JOB_FIRST,
    lineup,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Pair → nodes: half the platform's where there is room to spare, so that gaps matter.
PAIRS = {
    "A-B": (4, FULL_NODES["A"]),
    "B-A": (4, FULL_NODES["B"]),
    "C-D": (16, FULL_NODES["C"]),
    "D-C": (16, FULL_NODES["D"]),
}
ORDERS = (YOUNGEST_JOB_FIRST, SPOT_LAST_FIT, SPOT_BEST_FIT, SPOT_WORST_FIT)
SLAS: tuple[float | None, ...] = (None, 0.01)
BIRTHS, QUICK_BIRTHS, _QUICK_REQUESTS = 10_000, 100, 400
#: From so many cores on an instance is called large: half a node.
_LARGE_SHARE = 0.5


def run(
    data: Path, *, pair: str, nodes: int, sla: float | None, order: str, births: int, most: int | None
) -> list[Row]:
    """One pair under one line-up: a row of ``single_cloud_row`` with the core-hours of large instances, those
    that need half a node or more. ``most``: requests of each trace."""
    from cloudsim.experiments.runs import single_cloud_row
    from cloudsim.traces.formats import read

    on_demand, spot = (read(data / file)[0] for file in needs(pair))
    if most is not None:
        on_demand, spot = on_demand.head(most), spot.head(most)
    cores = TRACES[pair[0]][1]
    row = single_cloud_row(
        pair=pair, nodes=f"{nodes}x{cores}", on_demand=on_demand, spot=spot, sla=sla, lineup=lineup(order),
        births=births,
    )  # fmt: skip
    large = [part for part in row["by_size"] if part["cores"] >= _LARGE_SHARE * cores]
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
    """The spot part of a line-up's name."""
    return order.removeprefix(YOUNGEST_JOB_FIRST.name).removeprefix("-spot-") or "first-fit"


def _settings(rows: Sequence[Row]) -> list[tuple[str, str, float | None]]:
    """Pair, nodes and SLA of each comparison."""
    return list(dict.fromkeys((row["pair"], row["nodes"], row["sla"]) for row in rows))


def _compared(rows: Sequence[Row], setting: tuple[str, str, float | None]) -> list[Row]:
    return [row for row in rows if (row["pair"], row["nodes"], row["sla"]) == setting]


def _gain(row: Row, compared: Sequence[Row]) -> float:
    """Core-hours completed beside those of first-fit."""
    first = next(other for other in compared if other["lineup"] == YOUNGEST_JOB_FIRST.name)
    base = first["spot_core_hours_completed"]
    return float(row["spot_core_hours_completed"] / base - 1) if base else 0.0


def _findings(rows: Sequence[Row]) -> list[str]:
    found = []
    for setting in _settings(rows):
        pair, nodes, sla = setting
        where = f"{pair} on {nodes}, {'no SLA' if sla is None else f'SLA {sla:g}'}"
        compared = _compared(rows, setting)
        best = max(compared, key=lambda row: float(row["spot_core_hours_completed"]))
        found.append(
            f"{where}: most core-hours complete with {_label(best['lineup'])}; "
            + ", ".join(
                f"{_label(row['lineup'])} {row['completed_of_requested'] or 0:.3f} ({row['evicted']} of "
                f"{row['spot_admitted']} evicted, on-demand {row['on_demand_admitted']})"
                for row in compared
            )
            + "."
        )
        if large := [row for row in compared if row["large_core_hours_requested"]]:
            found.append(
                f"{where}, instances of half a node and more complete of their core-hours: "
                + ", ".join(
                    f"{_label(row['lineup'])} "
                    f"{row['large_core_hours_completed'] / row['large_core_hours_requested']:.3f}"
                    for row in large
                )
                + "."
            )
    for order in ORDERS:
        own = [row for row in rows if row["lineup"] == order.name]
        gains = [_gain(row, _compared(rows, (row["pair"], row["nodes"], row["sla"]))) for row in own]
        promised = [row for row in own if row["sla"] is not None]
        broken = [
            f"{row['pair']} on {row['nodes']}"
            for row in promised
            if row["evicted"] > row["sla"] * row["spot_admitted"]
        ]
        beside = (
            ""
            if order == YOUNGEST_JOB_FIRST
            else f" completes {min(gains):+.1%} to {max(gains):+.1%} core-hours beside first-fit, more in "
            f"{sum(gain > 0 for gain in gains)} of {len(gains)} comparisons, and"
        )
        found.append(
            f"Spot {_label(order.name)}{beside} breaks the promise in {len(broken)} of {len(promised)} runs"
            + (f" ({', '.join(broken)})." if broken else ".")
        )
    slas = dict.fromkeys(row["sla"] for row in rows)
    return found + [_totals([row for row in rows if row["sla"] == sla and _full(row)], sla) for sla in slas]


def _full(row: Row) -> bool:
    cloud = row["pair"][0]
    return bool(row["nodes"] == f"{FULL_NODES[cloud]}x{TRACES[cloud][1]}")


def _totals(rows: Sequence[Row], sla: float | None) -> str:
    """Which order completes most on the full platforms, all pairs with the same weight."""
    shares = {
        order.name: [row["completed_of_requested"] or 0.0 for row in rows if row["lineup"] == order.name]
        for order in ORDERS
    }
    means = {name: sum(each) / max(len(each), 1) for name, each in shares.items()}
    return (
        f"Full platforms, {'no SLA' if sla is None else f'SLA {sla:g}'}, completed on the mean of the pairs: "
        + ", ".join(f"{_label(name)} {mean:.3f}" for name, mean in means.items())
        + f"; {_label(max(means, key=lambda name: means[name]))} completes most."
    )


def _draw(rows: Sequence[Row]) -> Figure:
    from cloudsim.experiments.panels import Dot, dots_by_group, legend_below, panels, share_axis

    slas = list(dict.fromkeys(row["sla"] for row in rows))
    columns = {
        "core-hours completed ÷ requested": ("spot_core_hours_completed", "spot_core_hours_requested"),
        "the same, instances of half a node and more": (
            "large_core_hours_completed", "large_core_hours_requested",
        ),
    }  # fmt: skip
    title = "Where spot instances are placed"
    with panels(title, len(slas), 2, size=(9, 0.8 + 2.5 * len(slas)), sharey=True) as (figure, axes):
        for line, sla in zip(axes, slas, strict=True):
            for panel, (label, (above, below)) in zip(line, columns.items(), strict=True):
                own = [row for row in rows if row["sla"] == sla]
                groups = list(dict.fromkeys(f"{row['pair']}\n{row['nodes']}" for row in own))
                series: dict[str, dict[str, Dot]] = {}
                for row in own:
                    if not row[below]:
                        continue
                    share = row[above] / row[below]
                    dots = series.setdefault(f"spot {_label(row['lineup'])}", {})
                    dots[f"{row['pair']}\n{row['nodes']}"] = Dot(share, share, share)
                share_axis(panel, "no SLA" if sla is None else f"SLA {sla:g}")
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
    findings=_findings,
)
