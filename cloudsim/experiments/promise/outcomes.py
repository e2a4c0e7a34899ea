"""Promised against realised: the case, the sentences and the picture that all test beds share.

Is an SLA kept, in how many seeds, and how much is admitted at it?
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cloudsim.admission.rule import AdmissionRule
from cloudsim.experiments.drawing import LINES, Axes, Figure, legend_below, panels, share_axis
from cloudsim.experiments.experiment import Case, Row, distinct, where
from cloudsim.experiments.promise.beds import draw
from cloudsim.experiments.runs import share_of_work
from cloudsim.model.binomial import clopper_pearson
from cloudsim.model.requests import Mode
from cloudsim.plots import GREY
from cloudsim.prediction.rule import rule_for

SLAS = (0.25, 0.10, 0.05, 0.01)

#: The papers' SLA-unaware baseline: everything that fits is admitted.
UNAWARE = "unaware"

STRICT, POPULATION = Mode.STRICT.value, Mode.POPULATION.value

#: For tests: long enough for two days with tables.
QUICK_HOURS, QUICK_BIRTHS, QUICK_SLAS = 60.0, 300, (0.25, 0.01)

#: Share of the runs in which a promise should hold.
ENOUGH = 0.95

#: Admitted shares to compare with, by bed, rule and SLA.
Goals = Mapping[tuple[str, str, float | None], float]


def measure(
    _data: Path | None,
    *,
    bed: str,
    seed: int,
    rules: Sequence[str],
    births: int = 10_000,
    slas: Sequence[float] = SLAS,
    hours: float | None = None,
) -> list[Row]:
    """Run one draw of a bed under some rules ("unaware", "strict", "population"), each at all ``slas``.

    A row is that of ``single_cloud_row`` with the names of the bed and of the rule.
    """
    drawn = draw(bed, seed, hours)
    rows = []
    for rule in rules:
        mode = Mode.STRICT if rule == UNAWARE else Mode(rule)
        options = {"admission": AdmissionRule(mode), "prediction": rule_for(mode), "births": births}
        rows += [
            drawn.row(sla=sla, seed=seed, **options) | {"bed": bed, "rule": rule}
            for sla in ((None,) if rule == UNAWARE else slas)
        ]
    return rows


@dataclass(frozen=True)
class BedOutcome:
    """Runs of one bed, rule and SLA, one a seed.

    admitted, evicted: shares of requests and of admitted ones, all seeds pooled. low, high: Clopper-Pearson
    bounds (95 %) of the evicted share as if evictions were independent; they come together, so that the
    spread over seeds says more. kept: number of seeds in which the evicted share was at most the SLA. work:
    text of the completed shares of core-hours.
    """

    seeds: int
    admitted: float
    evicted: float
    low: float
    high: float
    kept: int
    work: str

    @property
    def kept_text(self) -> str:
        """Seeds that keep the promise, for example "38 of 40"."""
        return f"{self.kept} of {self.seeds}"


def outcome(rows: Sequence[Row]) -> BedOutcome:
    """Pool at least one row, all with the same SLA."""
    requests, admitted, evicted = (
        sum(int(row[column]) for row in rows) for column in ("spot_requests", "spot_admitted", "evicted")
    )
    low, high = clopper_pearson(evicted, admitted)
    kept = sum(row["sla"] is None or keeps_promise(row) for row in rows)
    return BedOutcome(
        len(rows), admitted / max(requests, 1), evicted / max(admitted, 1), low, high, int(kept),
        share_of_work(*rows),
    )  # fmt: skip


def keeps_promise(row: Row) -> bool:
    """Return whether at most the promised share of the admitted was evicted; the row has an SLA."""
    return bool(row["evicted"] <= row["sla"] * row["spot_admitted"])


def share(value: float) -> str:
    """Write a share with two significant digits, as the papers do: .71, .0012."""
    text = f"{value:.3f}" if value >= 0.01 else f"{value:.4f}"
    return text.removeprefix("0") if value else "0"


def sentences(rows: Sequence[Row], goals: Goals) -> list[str]:
    """Return a sentence for each bed and rule, and at the end one about what falls short."""
    texts, short = [], []
    for bed in distinct(rows, "bed"):
        for rule in distinct(where(rows, bed=bed), "rule"):
            parts = []
            for sla in (None,) if rule == UNAWARE else SLAS:
                own = where(rows, bed=bed, rule=rule, sla=sla)
                if not own:
                    continue
                pooled, goal = outcome(own), goals.get((bed, rule, sla))
                parts.append(_part(sla, pooled, goal))
                at = f"{bed}, {rule}" + ("" if sla is None else f" at {sla:g}")
                if pooled.kept < ENOUGH * pooled.seeds:
                    short.append(
                        f"{at} the promise breaks in {pooled.seeds - pooled.kept} of {pooled.seeds} seeds"
                    )
                if goal is not None and pooled.admitted < goal - 0.01:
                    short.append(f"{at} {share(goal - pooled.admitted)} less is admitted than the goal asks")
            texts.append(f"{bed}, {rule} – {'; '.join(parts)}.")
    return texts + ([f"What falls short: {'; '.join(short)}."] if short else [])


def _part(sla: float | None, pooled: BedOutcome, goal: float | None) -> str:
    at = "no SLA" if sla is None else f"{sla:g}"
    aim = "" if goal is None else f" (goal {share(goal)})"
    kept = "" if sla is None else f", kept in {pooled.kept_text} seeds"
    return (
        f"{at}: {share(pooled.admitted)} admitted{aim}, {pooled.work}, {share(pooled.evicted)} evicted "
        f"({share(pooled.low)} to {share(pooled.high)}){kept}"
    )


def case(bed: str, seed: int, rules: Sequence[str], *, quick: bool, births: int = 10_000) -> Case:
    """Return the case that measures one draw; quick: a short one with few samples."""
    options: dict[str, Any] = {"bed": bed, "seed": seed, "rules": list(rules), "births": births}
    if quick:
        options |= {"hours": QUICK_HOURS, "births": QUICK_BIRTHS, "slas": list(QUICK_SLAS)}
    return Case(f"{bed}, seed {seed}: {', '.join(rules)}", measure, options)


def reliability(rows: Sequence[Row], title: str) -> Figure:
    """Draw realised against promised (above) and admitted (below), a column of panels for each bed.

    Pale dots are single seeds, marks are all seeds together with their Clopper-Pearson interval.
    """
    beds = distinct(rows, "bed")
    size = (4.9 * len(beds) + 0.6, 6.6)
    with panels(title, 2, len(beds), size=size, sharex=True, sharey="row") as (figure, axes):
        for bed, (realised, admitted) in zip(beds, axes.T, strict=True):
            own = where(rows, bed=bed)
            rules = [rule for rule in distinct(own, "rule") if rule != UNAWARE]
            for number, rule in enumerate(rules):
                _draw_rule(realised, admitted, where(own, rule=rule), rule, number, len(rules))
            if baseline := where(own, rule=UNAWARE):
                pooled = outcome(baseline)
                dashed: Any = {"color": GREY, "lw": 1, "ls": (0, (4, 3))}
                realised.axhline(pooled.evicted, **dashed)
                admitted.axhline(pooled.admitted, label="unaware of SLAs", **dashed)
            _promise_axes(realised, admitted, bed, first=bed == beds[0])
        legend_below(figure, axes[1, 0])
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
    pooled = {sla * beside: outcome(own) for sla in SLAS if (own := where(rows, sla=sla))}
    pale: Any = {"color": colour, "alpha": 0.25, "ms": 4, "mew": 0}
    for sla in SLAS:
        own = where(rows, sla=sla)
        if not own:
            continue
        each = [row["evicted"] / max(row["spot_admitted"], 1) for row in own]
        taken = [row["spot_admitted"] / max(row["spot_requests"], 1) for row in own]
        at = [sla * beside] * len(own)
        realised.plot(at, [value or np.nan for value in each], ".", **pale)
        admitted.plot(at, taken, ".", **pale)
        all_seeds = pooled[sla * beside]
        realised.annotate(
            f"{all_seeds.kept}/{all_seeds.seeds}", (sla * beside, max(*each, all_seeds.high)),
            xytext=(0, 3 if number % 2 == 0 else 13), textcoords="offset points", ha="center", fontsize=7.5,
            color=colour, annotation_clip=False,
        )  # fmt: skip
    for x, dot in pooled.items():
        realised.plot([x, x], [dot.low or np.nan, dot.high], color=colour, lw=1.5, zorder=3)
    style: Any = {
        "color": colour,
        "marker": marker,
        "ms": 6,
        "mec": "white",
        "mew": 0.5,
        "lw": 1.2,
        "zorder": 4,
    }
    realised.plot(list(pooled), [dot.evicted or np.nan for dot in pooled.values()], **style)
    admitted.plot(list(pooled), [dot.admitted for dot in pooled.values()], label=rule, **style)
