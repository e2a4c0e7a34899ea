"""What a line-up costs and keeps: admitted, evicted against the promise, core-hours completed and lost.

The same cloud under each line-up, on the synthetic bed with mixed sizes and on the production pair C-D. A
promise is only as good as the prediction that it is made by: whether evicted <= p is examined for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cloudsim.experiments.experiment import Case, Experiment, Picture, Row
from cloudsim.experiments.promise import outcomes, pairs
from cloudsim.experiments.promise.beds import SPOT_DELAY_S, draw
from cloudsim.experiments.runs import single_cloud_row
from cloudsim.scheduling.lineups import LINEUPS, YOUNGEST_JOB_FIRST, lineup

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BED, PAIR = "mixed", "C-D"
NODES = f"{pairs.FULL_NODES[PAIR[0]]}x{pairs.TRACES[PAIR[0]][1]}"
SLAS = (0.05, 0.01)
#: Of each size: enough to tell the line-ups apart, and 13 of them take minutes.
BIRTHS, QUICK_BIRTHS = 1_000, 50


def on_bed(
    _data: Path | None, *, order: str, births: int, seed: int = 0, hours: float | None = None
) -> list[Row]:
    """One line-up on a draw of the mixed bed at each SLA: rows of ``single_cloud_row``."""
    drawn = draw(BED, seed, hours)
    return [
        single_cloud_row(
            pair=BED, nodes=drawn.nodes, on_demand=drawn.on_demand, spot=drawn.spot, sla=sla,
            spot_delay_s=SPOT_DELAY_S, lineup=lineup(order), births=births, seed=seed,
        )
        for sla in SLAS
    ]  # fmt: skip


def on_pair(data: Path, *, order: str, births: int) -> list[Row]:
    """One line-up on the whole platform of the pair at each SLA: rows of ``single_cloud_row``."""
    from cloudsim.traces.formats import read

    on_demand, spot = (read(data / name)[0] for name in pairs.needs(PAIR))
    return [
        single_cloud_row(
            pair=PAIR, nodes=NODES, on_demand=on_demand, spot=spot, sla=sla, lineup=lineup(order),
            births=births,
        )
        for sla in SLAS
    ]  # fmt: skip


def _cases(quick: bool) -> list[Case]:
    options = {"births": QUICK_BIRTHS, "hours": outcomes.QUICK_HOURS} if quick else {"births": BIRTHS}
    cases = [Case(f"{BED}, {one.name}", on_bed, {"order": one.name, **options}) for one in LINEUPS]
    if not quick:
        cases += [
            Case(f"{PAIR}, {one.name}", on_pair, {"order": one.name, "births": BIRTHS}, pairs.needs(PAIR))
            for one in LINEUPS
        ]
    return cases


def _kept(row: Row) -> bool:
    return bool(row["evicted"] <= row["sla"] * row["spot_admitted"])


def _beside_first(row: Row, rows: Sequence[Row]) -> float:
    """Core-hours completed beside those of youngest-job-first, from -1."""
    (first,) = outcomes.chosen(rows, pair=row["pair"], sla=row["sla"], lineup=YOUNGEST_JOB_FIRST.name)
    base = first["spot_core_hours_completed"]
    return float(row["spot_core_hours_completed"] / base - 1) if base else 0.0


def _part(row: Row) -> str:
    admitted = row["spot_admitted"] / max(row["spot_requests"], 1)
    text = f"at p = {row['sla']:g} {outcomes.share(admitted)} admitted, "
    if row["spot_admitted"]:
        text += (
            f"{outcomes.share(row['evicted_share'])} of them evicted "
            f"({outcomes.share(row['evicted_low'])} to {outcomes.share(row['evicted_high'])}"
            f"{'' if _kept(row) else ', more than promised'}), "
        )
    return text + (
        f"{row['spot_core_hours_completed']:,.0f} core-hours completed and {row['core_hours_lost']:,.0f} lost"
    )


def _findings(rows: Sequence[Row]) -> list[str]:
    found = []
    for pair in outcomes.values(rows, "pair"):
        for name in outcomes.values(rows, "lineup"):
            own = outcomes.chosen(rows, pair=pair, lineup=name)
            found.append(f"{pair}, {name}: {'; '.join(_part(row) for row in own)}.")
        for sla in SLAS:
            own = outcomes.chosen(rows, pair=pair, sla=sla)
            most = max(own, key=lambda row: float(row["spot_core_hours_completed"]))
            least = min(own, key=lambda row: float(row["core_hours_lost"]))
            found.append(
                f"{pair} at p = {sla:g}: most core-hours complete with {most['lineup']} "
                f"({_beside_first(most, rows):+.1%} beside {YOUNGEST_JOB_FIRST.name}), fewest are lost with "
                f"{least['lineup']} ({least['core_hours_lost']:,.0f})."
            )
    broken = [
        f"{row['lineup']} on {row['pair']} at p = {row['sla']:g} ({row['evicted']} of {row['spot_admitted']}"
        f", {'beyond' if row['evicted_low'] > row['sla'] else 'within'} the interval)"
        for row in rows
        if not _kept(row)
    ]
    found.append(
        f"Evicted <= p in {len(rows) - len(broken)} of {len(rows)} runs, examined for each line-up"
        + (f"; not with {'; '.join(broken)}." if broken else ".")
    )
    return found


# -- picture -------------------------------------------------------------------------------------------------


def _draw(rows: Sequence[Row]) -> Figure:
    from cloudsim.experiments.panels import legend_below, panels

    beds, orders = outcomes.values(rows, "pair"), outcomes.values(rows, "lineup")
    height = 1.3 + len(beds) * (0.6 + 0.24 * len(orders))
    title = "Line-ups: the promise, and what it is worth"
    with panels(title, len(beds), 2, size=(9, height), sharey=True) as (figure, axes):
        for line, pair in zip(axes, beds, strict=True):
            own = outcomes.chosen(rows, pair=pair)
            _draw_evicted(line[0], own, orders)
            _draw_hours(line[1], own, orders)
            line[0].set_title(f"{pair}: share evicted of those admitted", loc="left")
            line[1].set_title("core-hours completed ÷ requested", loc="left")
            line[0].set_yticks(range(len(orders)), orders)
            line[0].set_ylim(len(orders) - 0.5, -0.5)
        legend_below(figure, axes[0, 0])
    return figure


def _draw_evicted(axes: Axes, rows: Sequence[Row], orders: Sequence[str]) -> None:
    """Dots with their intervals, and a line for each promise."""
    from cloudsim.experiments.drawing import LINES

    for number, sla in enumerate(SLAS):
        colour, marker = LINES[number]
        axes.axvline(sla, color=colour, lw=1, ls="--", zorder=1)
        own = [row for row in outcomes.chosen(rows, sla=sla) if row["spot_admitted"]]
        at = [orders.index(row["lineup"]) + 0.24 * (number - 0.5) for row in own]
        shares = [row["evicted_share"] for row in own]
        axes.plot(shares, at, marker, color=colour, ms=5, label=f"p = {sla:g}", zorder=3, clip_on=False)
        for y, row in zip(at, own, strict=True):
            axes.plot([row["evicted_low"], row["evicted_high"]], [y, y], color=colour, lw=1.2, zorder=2)
    axes.set_xlim(left=0)


def _draw_hours(axes: Axes, rows: Sequence[Row], orders: Sequence[str]) -> None:
    from cloudsim.experiments.drawing import LINES

    for number, sla in enumerate(SLAS):
        colour, marker = LINES[number]
        own = outcomes.chosen(rows, sla=sla)
        at = [orders.index(row["lineup"]) + 0.24 * (number - 0.5) for row in own]
        axes.plot([row["completed_of_requested"] or 0 for row in own], at, marker, color=colour, ms=5)
    axes.set_xlim(left=0)


EXPERIMENT = Experiment(
    name="line-ups",
    title="Who is evicted: every line-up, and its promise",
    source="our own question; PREEMPTION.md and VOLATILE.md, the line-ups of cloudsim.scheduling.lineups",
    cases=_cases,
    pictures=(
        Picture(
            "line-ups",
            "Strict promises of .05 and .01 (dashed) under each line-up: the share evicted with its exact "
            "95 % interval, and the spot core-hours completed of those requested.",
            _draw,
        ),
    ),
    findings=_findings,
)
