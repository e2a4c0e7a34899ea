"""P1 Figure 1, P2 Figure 1: who is admitted and who is evicted at which SLA, on the synthetic set-up.

Three rules. ``papers`` takes their text literally: a virtual instance is the youngest as long as it lives
(P2 §2.4), and only lifetimes that an eviction ended are samples ("when the virtual spot instance is evicted
eventually by an on-demand request, its lifetime is recorded", P2 §2.3). ``strict`` and ``population`` are
ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cloudsim.admission.rule import PAPERS_ADMISSION, AdmissionRule
from cloudsim.experiments.experiment import Case, Experiment, Picture, Row
from cloudsim.experiments.promise import beds, published_numbers
from cloudsim.experiments.promise.published_numbers import (
    ADMITTED,
    EVICTED,
    LITERAL,
    POPULATION,
    STRICT,
    UNAWARE,
)
from cloudsim.model.requests import Mode
from cloudsim.prediction.rule import CAREFUL_RULE, OUR_RULE, Censoring, PredictionRule

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SEEDS = range(30)
SLAS: tuple[float, ...] = (0.25, 0.10, 0.05, 0.01)
_QUICK_HOURS = 48.0

#: Name → how spot requests are judged, and from which risks.
RULES: dict[str, tuple[AdmissionRule, PredictionRule]] = {
    LITERAL: (PAPERS_ADMISSION, PredictionRule(censoring=Censoring.DROPPED, always_youngest=True)),
    STRICT: (AdmissionRule(), OUR_RULE),
    POPULATION: (AdmissionRule(mode=Mode.POPULATION), CAREFUL_RULE),
}
_LABELS = {
    UNAWARE: "no SLA", LITERAL: "the papers' text, literally",
    STRICT: "ours, strict", POPULATION: "ours, population",
}  # fmt: skip


def run(
    _data: Path | None, *, rule: str, seed: int, slas: Sequence[float | None], hours: float | None
) -> list[Row]:
    """One draw of the bed under one rule: a row for each SLA."""
    from cloudsim.experiments.runs import single_cloud_row

    bed = beds.draw("synthetic", seed, hours)
    admission, prediction = RULES.get(rule, (AdmissionRule(), OUR_RULE))
    return [
        {
            "rule": rule,
            **single_cloud_row(
                pair=bed.name, nodes=bed.nodes, on_demand=bed.on_demand, spot=bed.spot, sla=sla,
                admission=admission, prediction=prediction, seed=seed,
            ),
        }
        for sla in slas
    ]  # fmt: skip


def _cases(quick: bool) -> list[Case]:
    hours, slas = (_QUICK_HOURS, SLAS[:2]) if quick else (None, SLAS)
    return [
        Case(
            f"{rule}, seed {seed}", run,
            {"rule": rule, "seed": seed, "slas": [None] if rule == UNAWARE else list(slas), "hours": hours},
        )
        for rule in (UNAWARE, *RULES)
        for seed in beds.seeds(SEEDS, quick, few=1)
    ]  # fmt: skip


def _values(rows: Sequence[Row], rule: str, sla: float | None, quantity: str) -> list[float]:
    chosen = [row for row in rows if row["rule"] == rule and row["sla"] == sla]
    return [value for row in chosen if (value := published_numbers.quantity(row, quantity)) is not None]


def _findings(rows: Sequence[Row]) -> list[str]:
    slas = [sla for sla in SLAS if _values(rows, STRICT, sla, ADMITTED)]
    found = [_level(rows, rule, slas) for rule in RULES]
    found += [_against(rows, figure) for figure in published_numbers.FIGURES if _is_expected(figure, rows)]
    reached = [
        f"{sum(value >= 0.085 for value in values)} of {len(values)} seeds under the rule {rule!r} (highest "
        f"{max(values):.3f})"
        for rule in RULES
        if (values := _values(rows, rule, 0.25, EVICTED))
    ]
    found.append(f"The papers' .09 evicted at SLA .25 is reached by {', '.join(reached)}.")
    gains = [
        f"{_mean(rows, POPULATION, sla, ADMITTED) - _mean(rows, STRICT, sla, ADMITTED):+.3f} at {sla:g}"
        for sla in slas
    ]
    found.append(f"Admitted by population minus strict: {', '.join(gains)}.")
    return found


def _mean(rows: Sequence[Row], rule: str, sla: float | None, quantity: str) -> float:
    return published_numbers.interval(_values(rows, rule, sla, quantity))[0]


def _level(rows: Sequence[Row], rule: str, slas: Sequence[float]) -> str:
    parts = []
    for sla in slas:
        evicted = _values(rows, rule, sla, EVICTED)
        kept = sum(value <= sla for value in evicted)
        parts.append(
            f"SLA {sla:g}: {_mean(rows, rule, sla, ADMITTED):.3f} admitted, "
            f"{_mean(rows, rule, sla, EVICTED):.4f} of them evicted, kept in {kept} of {len(evicted)} runs"
        )
    return f"{_LABELS[rule].capitalize()} – {'; '.join(parts)}."


def _is_expected(figure: published_numbers.PublishedNumber, rows: Sequence[Row]) -> bool:
    return (
        figure.experiment == EXPERIMENT.name and figure.where == "PREDICTION.md" and bool(figure.values(rows))
    )


def _against(rows: Sequence[Row], figure: published_numbers.PublishedNumber) -> str:
    ours, half = published_numbers.interval(figure.values(rows))
    inside = abs(ours - figure.number) <= figure.tolerance + half
    sla = "without an SLA" if figure.of["sla"] is None else f"at SLA {figure.of['sla']:g}"
    spread = f" ± {figure.spread:g}" if figure.spread else ""
    return (
        f"{figure.quantity.capitalize()} {sla}: {ours:.4f} ± {half:.4f} (95 % of the mean), "
        f"{'within' if inside else 'outside'} what PREDICTION.md expects ({figure.value}{spread})."
    )


def _draw(rows: Sequence[Row]) -> Figure:
    from cloudsim.experiments.drawing import evicted_axis, figure_of, styled

    with styled():
        figure = figure_of(8.4, 4.0)
        admitted, evicted = figure.subplots(1, 2)
        _panel(admitted, rows, ADMITTED, "admitted ÷ requested")
        _panel(evicted, rows, EVICTED, "evicted ÷ admitted")
        evicted_axis(evicted, 0.55)
        _promises(evicted)
        admitted.set_ylim(0, 0.8)
        handles, labels = evicted.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3)
    return figure


_SHOWN: tuple[float | None, ...] = (None, *SLAS)


def _panel(axes: Axes, rows: Sequence[Row], quantity: str, label: str) -> None:
    """Means over the seeds, with a line from the 5th to the 95th hundredth of them."""
    import numpy as np

    from cloudsim.experiments.drawing import LINES
    from cloudsim.plots import GREY, INK

    looks = {UNAWARE: (GREY, "P"), **dict(zip(RULES, LINES, strict=False))}
    for number, rule in enumerate(looks):
        colour, marker = looks[rule]
        at = [
            (place + ((number - 2) * 0.16 if rule in RULES else 0.0), values)
            for place, sla in enumerate(_SHOWN)
            if (values := _values(rows, rule, sla, quantity))
        ]
        places = [place for place, _ in at]
        for place, values in at:
            axes.plot([place] * 2, np.quantile(values, [0.05, 0.95]), color=colour, lw=3, alpha=0.35)
        axes.plot(
            places, [float(np.mean(values)) for _, values in at], marker, color=colour, ms=5.5, mec="white",
            mew=0.5, label=_LABELS[rule],
        )  # fmt: skip
    printed = [
        (_SHOWN.index(figure.of["sla"]), figure.number)
        for figure in published_numbers.FIGURES
        if figure.experiment == EXPERIMENT.name and figure.quantity == quantity
        if figure.where != "PREDICTION.md" and figure.of["rule"] in {UNAWARE, STRICT}
    ]
    axes.plot(
        [place for place, _ in printed], [value for _, value in printed], "_", color=INK, ms=26, mew=1.6,
        label="printed in the papers",
    )  # fmt: skip
    axes.set_xticks(range(len(_SHOWN)), ["none", *(f"{sla:g}" for sla in SLAS)])
    axes.set_xlim(-0.5, len(_SHOWN) - 0.5)
    axes.set_xlabel("SLA: largest acceptable probability of eviction")
    axes.set_ylabel(label)


def _promises(axes: Axes) -> None:
    from cloudsim.plots import GREY

    for place, sla in enumerate(_SHOWN):
        if sla is not None:
            axes.plot(
                [place - 0.42, place + 0.42], [sla] * 2, ":", color=GREY, lw=1.4, zorder=0,
                label="the promise" if place == 1 else None,
            )  # fmt: skip


EXPERIMENT = Experiment(
    name="figure-1",
    title="Admission and eviction on the synthetic set-up",
    source="P1 Figure 1 (§III-A), P2 Figure 1 (§3.1)",
    cases=_cases,
    pictures=(
        Picture(
            "figure-1",
            "Spot requests admitted (left) and admitted ones evicted (right) by SLA: means over the seeds, "
            "with bars from the 5th to the 95th hundredth of the seeds. Dashes are the values the papers "
            "print, dotted lines the promise. 8 nodes of 4 cores, 240 h, log-normal arrivals and durations.",
            _draw,
        ),
    ),
    findings=_findings,
)
