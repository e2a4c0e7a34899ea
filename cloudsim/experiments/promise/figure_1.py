"""P1 Figure 1, P2 Figure 1: shares admitted and evicted by SLA on the synthetic set-up.

Three rules. ``papers`` takes their text literally: a virtual instance is the youngest as long as it lives
(P2 §2.4), and only lifetimes that an eviction ended are samples ("when the virtual spot instance is evicted
eventually by an on-demand request, its lifetime is recorded", P2 §2.3). ``strict`` and ``population`` are
ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cloudsim.admission.rule import PAPERS_ADMISSION, AdmissionRule
from cloudsim.experiments.drawing import (
    LINES,
    Axes,
    Figure,
    evicted_axis,
    legend_below,
    panels,
    promise_steps,
)
from cloudsim.experiments.experiment import Case, Experiment, Picture, Row, where
from cloudsim.experiments.promise import beds, published_numbers
from cloudsim.experiments.promise.published_numbers import (
    ADMITTED,
    EVICTED,
    LITERAL,
    POPULATION,
    STRICT,
    UNAWARE,
)
from cloudsim.experiments.runs import share_of_work
from cloudsim.model.requests import Mode
from cloudsim.plots import GREY, INK
from cloudsim.prediction.rule import CAREFUL_RULE, OUR_RULE, Censoring, PredictionRule

SEEDS = range(30)
SLAS: tuple[float, ...] = (0.25, 0.10, 0.05, 0.01)
_QUICK_HOURS = 48.0

#: Name → how spot requests are judged, and by which risks.
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
    """Run one draw of the bed under one rule: a row for each SLA."""
    bed = beds.draw("synthetic", seed, hours)
    admission, prediction = RULES.get(rule, (AdmissionRule(), OUR_RULE))
    return [
        {"rule": rule, **bed.row(sla=sla, admission=admission, prediction=prediction, seed=seed)}
        for sla in slas
    ]


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
    own = where(rows, rule=rule, sla=sla)
    return [value for row in own if (value := published_numbers.quantity(row, quantity)) is not None]


def _sentences(rows: Sequence[Row]) -> list[str]:
    slas = [sla for sla in SLAS if _values(rows, STRICT, sla, ADMITTED)]
    texts = [_level(rows, rule, slas) for rule in RULES]
    texts += [_against(rows, figure) for figure in published_numbers.FIGURES if _is_expected(figure, rows)]
    reached = [
        f"{sum(value >= 0.085 for value in values)} of {len(values)} seeds under the rule {rule!r} (highest "
        f"{max(values):.3f})"
        for rule in RULES
        if (values := _values(rows, rule, 0.25, EVICTED))
    ]
    texts.append(f"The papers' .09 evicted at SLA .25 is reached by {', '.join(reached)}.")
    gains = [
        f"{_mean(rows, POPULATION, sla, ADMITTED) - _mean(rows, STRICT, sla, ADMITTED):+.3f} at {sla:g}"
        for sla in slas
    ]
    texts.append(f"Admitted by population minus strict: {', '.join(gains)}.")
    return texts


def _mean(rows: Sequence[Row], rule: str, sla: float | None, quantity: str) -> float:
    return published_numbers.interval(_values(rows, rule, sla, quantity))[0]


def _level(rows: Sequence[Row], rule: str, slas: Sequence[float]) -> str:
    parts = []
    for sla in slas:
        evicted = _values(rows, rule, sla, EVICTED)
        kept = sum(value <= sla for value in evicted)
        parts.append(
            f"SLA {sla:g}: {_mean(rows, rule, sla, ADMITTED):.3f} admitted, "
            f"{share_of_work(*where(rows, rule=rule, sla=sla))}, "
            f"{_mean(rows, rule, sla, EVICTED):.4f} of them evicted, kept in {kept} of {len(evicted)} runs"
        )
    return f"{_LABELS[rule].capitalize()} – {'; '.join(parts)}."


def _is_expected(figure: published_numbers.PublishedNumber, rows: Sequence[Row]) -> bool:
    return (
        figure.experiment == EXPERIMENT.name
        and figure.where == published_numbers.DESIGN
        and bool(figure.values(rows))
    )


def _against(rows: Sequence[Row], figure: published_numbers.PublishedNumber) -> str:
    ours, half = published_numbers.interval(figure.values(rows))
    inside = abs(ours - figure.number) <= figure.tolerance + half
    sla = "without an SLA" if figure.of["sla"] is None else f"at SLA {figure.of['sla']:g}"
    spread = f" ± {figure.spread:g}" if figure.spread else ""
    return (
        f"{figure.quantity.capitalize()} {sla}: {ours:.4f} ± {half:.4f} (95 % of the mean), "
        f"{'within' if inside else 'outside'} what {figure.where} expects ({figure.value}{spread})."
    )


def _draw(rows: Sequence[Row]) -> Figure:
    with panels(None, 1, 2, size=(8.4, 4.0)) as (figure, axes):
        admitted, evicted = axes[0]
        _draw_panel(admitted, rows, ADMITTED, "admitted ÷ requested")
        _draw_panel(evicted, rows, EVICTED, "evicted ÷ admitted")
        evicted_axis(evicted, 0.55)
        promise_steps(evicted, _SHOWN, 0.42)
        admitted.set_ylim(0, 0.8)
        legend_below(figure, evicted, columns=3)
    return figure


_SHOWN: tuple[float | None, ...] = (None, *SLAS)


def _draw_panel(axes: Axes, rows: Sequence[Row], quantity: str, label: str) -> None:
    """Draw means over the seeds, with a line from their 5th to their 95th percentile."""
    looks = {UNAWARE: (GREY, "P"), **dict(zip(RULES, LINES, strict=False))}
    for number, (rule, (colour, marker)) in enumerate(looks.items()):
        at = {
            place + ((number - 2) * 0.16 if rule in RULES else 0.0): values
            for place, sla in enumerate(_SHOWN)
            if (values := _values(rows, rule, sla, quantity))
        }
        for place, values in at.items():
            axes.plot([place] * 2, np.quantile(values, [0.05, 0.95]), color=colour, lw=3, alpha=0.35)
        axes.plot(
            list(at), [float(np.mean(values)) for values in at.values()], marker, color=colour, ms=5.5,
            mec="white", mew=0.5, label=_LABELS[rule],
        )  # fmt: skip
    printed = [
        (_SHOWN.index(figure.of["sla"]), figure.number)
        for figure in published_numbers.of_experiment(EXPERIMENT.name, quantity)
        if figure.where != published_numbers.DESIGN and figure.of["rule"] in {UNAWARE, STRICT}
    ]
    axes.plot(*zip(*printed, strict=True), "_", color=INK, ms=26, mew=1.6, label="printed in the papers")
    axes.set_xticks(range(len(_SHOWN)), ["none", *(f"{sla:g}" for sla in SLAS)])
    axes.set_xlim(-0.5, len(_SHOWN) - 0.5)
    axes.set(xlabel="SLA: largest acceptable probability of eviction", ylabel=label)


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
    sentences=_sentences,
)
