"""Promised against realised: the same case, picture and sentences for every test bed on which it is asked.

Several experiments ask it: whether an SLA is kept, in how many seeds, and how much is admitted at it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cloudsim.admission.rule import AdmissionRule
from cloudsim.experiments.drawing import LINES
from cloudsim.experiments.experiment import Case, Row
from cloudsim.experiments.panels import legend_below, panels, share_axis
from cloudsim.experiments.promise.beds import SPOT_DELAY_S, draw
from cloudsim.experiments.runs import single_cloud_row
from cloudsim.model.binomial import clopper_pearson
from cloudsim.model.requests import Mode
from cloudsim.plots import GREY
from cloudsim.prediction.rule import rule_for

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SLAS = (0.25, 0.10, 0.05, 0.01)

#: The papers' SLA-unaware baseline: everything that fits is admitted.
UNAWARE = "unaware"

STRICT, POPULATION = Mode.STRICT.value, Mode.POPULATION.value

#: Of tests: long enough for two days with tables.
QUICK_HOURS, QUICK_BIRTHS, QUICK_SLAS = 60.0, 300, (0.25, 0.01)

#: A promise should hold in so many runs.
ENOUGH = 0.95

#: Admitted shares to compare with, by bed, rule and SLA.
Goals = Mapping[tuple[str, str, float | None], float]


def measure(
    data: Path | None,
    *,
    bed: str,
    seed: int,
    rules: Sequence[str],
    births: int = 10_000,
    slas: Sequence[float] = SLAS,
    hours: float | None = None,
) -> list[Row]:
    """A case: one draw of a bed under some rules ("unaware", "strict", "population"), each at all ``slas``.

    A row is that of ``single_cloud_row`` with the names of the bed and of the rule.
    """
    del data
    drawn = draw(bed, seed, hours)
    rows = []
    for rule in rules:
        mode = Mode.STRICT if rule == UNAWARE else Mode(rule)
        rows += [
            single_cloud_row(
                pair=bed, nodes=drawn.nodes, on_demand=drawn.on_demand, spot=drawn.spot, sla=sla,
                spot_delay_s=SPOT_DELAY_S, admission=AdmissionRule(mode), births=births, seed=seed,
                prediction=rule_for(mode),
            )
            | {"bed": bed, "rule": rule}
            for sla in ((None,) if rule == UNAWARE else slas)
        ]  # fmt: skip
    return rows


@dataclass(frozen=True)
class BedOutcome:
    """Runs of one bed, rule and SLA, one a seed.

    admitted, evicted: shares of requests and of admitted, all seeds pooled. low, high: Clopper-Pearson bounds
    (95 %) of the evicted share as if evictions were independent; they come together, so that the spread over
    seeds says more. held: in how many seeds the evicted share was at most the SLA.
    """

    seeds: int
    admitted: float
    evicted: float
    low: float
    high: float
    held: int

    @property
    def held_text(self) -> str:
        """ "38 of 40"."""
        return f"{self.held} of {self.seeds}"


def outcome(rows: Sequence[Row]) -> BedOutcome:
    """Of rows with the same SLA, at least one."""
    requests, admitted, evicted = (
        sum(int(row[column]) for row in rows) for column in ("spot_requests", "spot_admitted", "evicted")
    )
    low, high = clopper_pearson(evicted, admitted)
    held = sum(row["sla"] is None or row["evicted"] <= row["sla"] * row["spot_admitted"] for row in rows)
    return BedOutcome(
        len(rows), admitted / max(requests, 1), evicted / max(admitted, 1), low, high, int(held)
    )


def chosen(rows: Sequence[Row], **columns: object) -> list[Row]:
    """The rows that have these values."""
    return [row for row in rows if all(row.get(column) == value for column, value in columns.items())]


def values(rows: Sequence[Row], column: str) -> list[str]:
    """The different values of a column, in order of appearance."""
    return list(dict.fromkeys(row[column] for row in rows))


def share(value: float) -> str:
    """Two digits that count, as the papers write shares: .71, .0012."""
    text = f"{value:.3f}" if value >= 0.01 else f"{value:.4f}"
    return text.removeprefix("0") if value else "0"


def findings(rows: Sequence[Row], goals: Goals) -> list[str]:
    """A sentence for each bed and rule, and at the end what falls short."""
    said, short = [], []
    for bed in values(rows, "bed"):
        for rule in values(chosen(rows, bed=bed), "rule"):
            parts = []
            for sla in (None,) if rule == UNAWARE else SLAS:
                own = chosen(rows, bed=bed, rule=rule, sla=sla)
                if not own:
                    continue
                found, goal = outcome(own), goals.get((bed, rule, sla))
                parts.append(_part(sla, found, goal))
                at = f"{bed}, {rule}" + ("" if sla is None else f" at {sla:g}")
                if found.held < ENOUGH * found.seeds:
                    short.append(
                        f"{at} the promise breaks in {found.seeds - found.held} of {found.seeds} seeds"
                    )
                if goal is not None and found.admitted < goal - 0.01:
                    short.append(f"{at} {share(goal - found.admitted)} less is admitted than the goal asks")
            said.append(f"{bed}, {rule} – {'; '.join(parts)}.")
    return said + ([f"What falls short: {'; '.join(short)}."] if short else [])


def _part(sla: float | None, found: BedOutcome, goal: float | None) -> str:
    at = "no SLA" if sla is None else f"{sla:g}"
    aim = "" if goal is None else f" (goal {share(goal)})"
    held = "" if sla is None else f", kept in {found.held_text} seeds"
    return (
        f"{at}: {share(found.admitted)} admitted{aim}, {share(found.evicted)} of them evicted "
        f"({share(found.low)} to {share(found.high)}){held}"
    )


def case(bed: str, seed: int, rules: Sequence[str], *, quick: bool, births: int = 10_000) -> Case:
    """``measure`` of one draw; quick: a short one with few samples."""
    options: dict[str, Any] = {"bed": bed, "seed": seed, "rules": list(rules), "births": births}
    if quick:
        options |= {"hours": QUICK_HOURS, "births": QUICK_BIRTHS, "slas": list(QUICK_SLAS)}
    return Case(f"{bed}, seed {seed}: {', '.join(rules)}", measure, options)


def reliability(rows: Sequence[Row], title: str) -> Figure:
    """Realised against promised (above) and what is admitted at it (below), a column of panels for each bed.

    Pale dots are single seeds, marks are all seeds together with their Clopper-Pearson interval.
    """
    beds = values(rows, "bed")
    with panels(title, 2, len(beds), size=(4.9 * len(beds) + 0.6, 6.6), sharex=True, sharey="row") as (
        figure,
        grid,
    ):
        for column, bed in enumerate(beds):
            realised, admitted = grid[0, column], grid[1, column]
            rules = [rule for rule in values(chosen(rows, bed=bed), "rule") if rule != UNAWARE]
            for number, rule in enumerate(rules):
                _draw_rule(realised, admitted, chosen(rows, bed=bed, rule=rule), rule, number, len(rules))
            _draw_unaware(realised, admitted, chosen(rows, bed=bed, rule=UNAWARE))
            _promise_axes(realised, admitted, bed, first=column == 0)
        legend_below(figure, grid[1, 0])
    return figure


def _promise_axes(realised: Axes, admitted: Axes, bed: str, *, first: bool) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    realised.set_title(bed, fontweight="bold")
    realised.set_xscale("log")
    realised.set_xlim(min(SLAS) / 1.8, max(SLAS) * 1.8)
    realised.xaxis.set_major_locator(FixedLocator(SLAS))
    realised.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    realised.xaxis.set_minor_locator(NullLocator())
    ends = np.array(realised.get_xlim())
    realised.plot(ends, ends, color=GREY, lw=1, zorder=1)
    realised.annotate(
        "promise", (ends[1], ends[1]), xytext=(-3, -12), textcoords="offset points", ha="right", va="top",
        color=GREY, fontsize=8,
    )  # fmt: skip
    share_axis(realised, "evicted share of admitted" if first else "", log=True)
    share_axis(admitted, "admitted share of requests" if first else "")
    admitted.set_ylim(0, 1)
    admitted.set_xlabel("SLA: promised largest probability of eviction")


def _draw_rule(
    realised: Axes, admitted: Axes, rows: Sequence[Row], rule: str, number: int, count: int
) -> None:
    colour, marker = LINES[number]
    beside = 1.09 ** (2 * number - count + 1)  # so that rules do not hide each other
    pooled = []
    for sla in SLAS:
        own = chosen(rows, sla=sla)
        if not own:
            continue
        found = outcome(own)
        pooled.append((sla * beside, found))
        each = [row["evicted"] / max(row["spot_admitted"], 1) for row in own]
        taken = [row["spot_admitted"] / max(row["spot_requests"], 1) for row in own]
        at = [sla * beside] * len(own)
        realised.plot(at, [one or np.nan for one in each], ".", color=colour, alpha=0.25, ms=4, mew=0)
        admitted.plot(at, taken, ".", color=colour, alpha=0.25, ms=4, mew=0)
        realised.annotate(
            f"{found.held}/{found.seeds}", (sla * beside, max(*each, found.high)),
            xytext=(0, 3 if number % 2 == 0 else 13), textcoords="offset points", ha="center", fontsize=7.5,
            color=colour, annotation_clip=False,
        )  # fmt: skip
    for x, found in pooled:
        realised.plot([x, x], [found.low or np.nan, found.high], color=colour, lw=1.5, zorder=3)
    x_values = [x for x, _ in pooled]
    style: Any = {
        "color": colour,
        "marker": marker,
        "ms": 6,
        "mec": "white",
        "mew": 0.5,
        "lw": 1.2,
        "zorder": 4,
    }
    realised.plot(x_values, [found.evicted or np.nan for _, found in pooled], **style)
    admitted.plot(x_values, [found.admitted for _, found in pooled], label=rule, **style)


def _draw_unaware(realised: Axes, admitted: Axes, rows: Sequence[Row]) -> None:
    if not rows:
        return
    found = outcome(rows)
    realised.axhline(found.evicted, color=GREY, lw=1, ls=(0, (4, 3)))
    admitted.axhline(found.admitted, color=GREY, lw=1, ls=(0, (4, 3)), label="unaware of SLAs")
