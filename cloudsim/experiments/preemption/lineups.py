"""Line-ups compared: admitted, evicted against the promise, core-hours completed and lost.

The same cloud under each line-up, on the synthetic bed with mixed sizes and on the production pair C-D. A
promise is only as good as the prediction behind it: whether evicted <= p is examined for each line-up.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cloudsim.experiments.drawing import LINES, Axes, Figure, legend_below, panels
from cloudsim.experiments.experiment import Case, Experiment, Picture, Row, distinct, where
from cloudsim.experiments.promise import outcomes, pairs
from cloudsim.experiments.promise.beds import draw
from cloudsim.experiments.promise.outcomes import keeps_promise, share
from cloudsim.experiments.runs import share_of_work
from cloudsim.scheduling.lineups import LINEUPS, YOUNGEST_JOB_FIRST, lineup

BED, PAIR = "mixed", "C-D"
SLAS = (0.05, 0.01)
#: Births a size: enough to tell the line-ups apart, and 13 of them take minutes.
BIRTHS, QUICK_BIRTHS = 1_000, 50


def on_bed(
    _data: Path | None, *, order: str, births: int, seed: int = 0, hours: float | None = None
) -> list[Row]:
    """Run one line-up on a draw of the mixed bed at each SLA: rows of ``single_cloud_row``."""
    drawn = draw(BED, seed, hours)
    return [drawn.row(sla=sla, lineup=lineup(order), births=births, seed=seed) for sla in SLAS]


def on_pair(data: Path, *, order: str, births: int) -> list[Row]:
    """Run one line-up on the whole platform of the pair at each SLA: rows of ``single_cloud_row``."""
    return [pairs.pair_row(data, PAIR, sla=sla, lineup=lineup(order), births=births) for sla in SLAS]


def _cases(quick: bool) -> list[Case]:
    options = {"births": QUICK_BIRTHS, "hours": outcomes.QUICK_HOURS} if quick else {"births": BIRTHS}
    cases = [Case(f"{BED}, {order.name}", on_bed, {"order": order.name, **options}) for order in LINEUPS]
    if not quick:
        cases += [
            Case(f"{PAIR}, {order.name}", on_pair, {"order": order.name, "births": BIRTHS}, pairs.needs(PAIR))
            for order in LINEUPS
        ]
    return cases


def _beside_first(row: Row, rows: Sequence[Row]) -> float:
    """Return the core-hours completed relative to those of youngest-job-first, less 1."""
    (first,) = where(rows, pair=row["pair"], sla=row["sla"], lineup=YOUNGEST_JOB_FIRST.name)
    base = first["spot_core_hours_completed"]
    return float(row["spot_core_hours_completed"] / base - 1) if base else 0.0


def _part(row: Row) -> str:
    admitted = row["spot_admitted"] / max(row["spot_requests"], 1)
    text = f"at p = {row['sla']:g} {share(admitted)} admitted, {share_of_work(row)}, "
    if row["spot_admitted"]:
        text += (
            f"{share(row['evicted_share'])} of them evicted "
            f"({share(row['evicted_low'])} to {share(row['evicted_high'])}"
            f"{'' if keeps_promise(row) else ', more than promised'}), "
        )
    return text + (
        f"{row['spot_core_hours_completed']:,.0f} core-hours completed and {row['core_hours_lost']:,.0f} lost"
    )


def _sentences(rows: Sequence[Row]) -> list[str]:
    texts = []
    for pair in distinct(rows, "pair"):
        for name in distinct(rows, "lineup"):
            own = where(rows, pair=pair, lineup=name)
            texts.append(f"{pair}, {name}: {'; '.join(_part(row) for row in own)}.")
        for sla in SLAS:
            own = where(rows, pair=pair, sla=sla)
            most = max(own, key=lambda row: float(row["spot_core_hours_completed"]))
            least = min(own, key=lambda row: float(row["core_hours_lost"]))
            texts.append(
                f"{pair} at p = {sla:g}: most core-hours complete with {most['lineup']} "
                f"({_beside_first(most, rows):+.1%} beside {YOUNGEST_JOB_FIRST.name}), fewest are lost with "
                f"{least['lineup']} ({least['core_hours_lost']:,.0f})."
            )
    broken = [
        f"{row['lineup']} on {row['pair']} at p = {row['sla']:g} ({row['evicted']} of {row['spot_admitted']}"
        f", {'beyond' if row['evicted_low'] > row['sla'] else 'within'} the interval)"
        for row in rows
        if not keeps_promise(row)
    ]
    texts.append(
        f"Evicted <= p in {len(rows) - len(broken)} of {len(rows)} runs, examined for each line-up"
        + (f"; not with {'; '.join(broken)}." if broken else ".")
    )
    return texts


def _draw(rows: Sequence[Row]) -> Figure:
    beds, orders = distinct(rows, "pair"), distinct(rows, "lineup")
    height = 1.3 + len(beds) * (0.6 + 0.24 * len(orders))
    title = "Line-ups: the promise, and what it is worth"
    with panels(title, len(beds), 2, size=(9, height), sharey=True) as (figure, axes):
        for line, pair in zip(axes, beds, strict=True):
            own = where(rows, pair=pair)
            _draw_evicted(line[0], own, orders)
            _draw_hours(line[1], own, orders)
            line[0].set_title(f"{pair}: share evicted of those admitted", loc="left")
            line[1].set_title("core-hours completed ÷ requested", loc="left")
            line[0].set_yticks(range(len(orders)), orders)
            line[0].set_ylim(len(orders) - 0.5, -0.5)
        legend_below(figure, axes[0, 0])
    return figure


def _draw_evicted(axes: Axes, rows: Sequence[Row], orders: Sequence[str]) -> None:
    """Draw dots with their intervals, and a line for each promise."""
    for number, sla in enumerate(SLAS):
        colour, marker = LINES[number]
        axes.axvline(sla, color=colour, lw=1, ls="--", zorder=1)
        own = [row for row in where(rows, sla=sla) if row["spot_admitted"]]
        at = [orders.index(row["lineup"]) + 0.24 * (number - 0.5) for row in own]
        shares = [row["evicted_share"] for row in own]
        axes.plot(shares, at, marker, color=colour, ms=5, label=f"p = {sla:g}", zorder=3, clip_on=False)
        for y, row in zip(at, own, strict=True):
            axes.plot([row["evicted_low"], row["evicted_high"]], [y, y], color=colour, lw=1.2, zorder=2)
    axes.set_xlim(left=0)


def _draw_hours(axes: Axes, rows: Sequence[Row], orders: Sequence[str]) -> None:
    for number, sla in enumerate(SLAS):
        colour, marker = LINES[number]
        own = where(rows, sla=sla)
        at = [orders.index(row["lineup"]) + 0.24 * (number - 0.5) for row in own]
        axes.plot([row["completed_of_requested"] or 0 for row in own], at, marker, color=colour, ms=5)
    axes.set_xlim(left=0)


EXPERIMENT = Experiment(
    name="line-ups",
    title="Who is evicted: every line-up, and its promise",
    source="our own question; docs/design/preemption.md and docs/design/volatile-resources.md",
    cases=_cases,
    pictures=(
        Picture(
            "line-ups",
            "Strict promises of .05 and .01 (dashed) under each line-up: the share evicted with its exact "
            "95 % interval, and the spot core-hours completed of those requested.",
            _draw,
        ),
    ),
    sentences=_sentences,
)
