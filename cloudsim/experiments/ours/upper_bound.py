"""Admission rules against an oracle that knows both traces.

The oracle (``cloudsim.experiments.ours.oracle``) admits as many spot requests as possible without a single
eviction. A rule that accepts evictions may admit more, so the fair comparison is by completed requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from cloudsim.experiments.drawing import Figure, dots_by_group, legend_below, panels, share_axis, spread
from cloudsim.experiments.experiment import Case, Experiment, Picture, Row, distinct, where
from cloudsim.experiments.ours.oracle import zero_eviction, zero_eviction_bound
from cloudsim.experiments.promise import outcomes
from cloudsim.experiments.promise.beds import ONE_SIZE, draw
from cloudsim.experiments.promise.outcomes import POPULATION, STRICT, UNAWARE, share
from cloudsim.experiments.runs import SPOT_DELAY_S, share_of_work
from cloudsim.scheduling.inventory import parse_nodes

SLA = 0.01
RULES = (UNAWARE, STRICT, POPULATION)
ORACLE, BOUND = "oracle", "relaxation"
UNIFORM, MIXED = ("synthetic", "bursts"), ("mixed", "mixed-bursts")
SEEDS, MIXED_SEEDS = range(8), range(4)
BIRTHS = 2_500  # a size of mixed ones; tables of one size are exact

_LABELS = {
    UNAWARE: "unaware of SLAs", STRICT: f"strict, {SLA:g}", POPULATION: f"population, {SLA:g}",
    ORACLE: "oracle", BOUND: "linear relaxation (loose)",
}  # fmt: skip


def measure(data: Path | None, *, bed: str, seed: int, births: int, hours: float | None = None) -> list[Row]:
    """Run one draw of a bed under the rules, and compute what was possible.

    The last row is the oracle's where all sizes are equal, else that of the relaxation, whose admitted may be
    a fraction.
    """
    rows = outcomes.measure(data, bed=bed, seed=seed, rules=RULES, births=births, slas=(SLA,), hours=hours)
    drawn = draw(bed, seed, hours)
    spot = drawn.spot.delayed(SPOT_DELAY_S).until(drawn.on_demand.last_stop_s)
    node_cores = parse_nodes(drawn.nodes)
    if bed in ONE_SIZE:
        rule, admitted = ORACLE, float(zero_eviction(drawn.on_demand, spot, node_cores).sum())
    else:
        rule, admitted = BOUND, zero_eviction_bound(drawn.on_demand, spot, node_cores)
    best = {
        "pair": bed, "bed": bed, "nodes": drawn.nodes, "rule": rule, "sla": 0.0, "seed": seed,
        "spot_requests": len(spot), "spot_admitted": admitted, "spot_completed": admitted, "evicted": 0,
    }  # fmt: skip
    return [*rows, best]


def _cases(quick: bool) -> list[Case]:
    if quick:
        options = {"seed": 0, "births": outcomes.QUICK_BIRTHS, "hours": outcomes.QUICK_HOURS}
        return [Case(bed, measure, {"bed": bed, **options}) for bed in (*UNIFORM, *_mixed())]
    return [
        Case(f"{bed}, seed {seed}", measure, {"bed": bed, "seed": seed, "births": BIRTHS})
        for beds, seeds in ((UNIFORM, SEEDS), (_mixed(), MIXED_SEEDS))
        for bed in beds
        for seed in seeds
    ]


def _mixed() -> tuple[str, ...]:
    """Return the beds with mixed sizes if scipy, an extra, is there to solve the relaxation."""
    return MIXED if find_spec("scipy") is not None else ()


def _shares(rows: Sequence[Row], bed: str, rule: str, column: str) -> list[float]:
    return [row[column] / max(row["spot_requests"], 1) for row in where(rows, bed=bed, rule=rule)]


def _sentences(rows: Sequence[Row]) -> list[str]:
    texts = []
    for bed in distinct(rows, "bed"):
        best = ORACLE if bed in ONE_SIZE else BOUND
        possible = spread(_shares(rows, bed, best, "spot_completed"))
        what = "the oracle admits" if best == ORACLE else "no rule without evictions can admit more than"
        texts.append(
            f"{bed}: {what} {share(possible.value)} of the requests (seeds: {share(possible.low)} to "
            f"{share(possible.high)})" + (" (prototype: .664)." if bed == "synthetic" else ".")
        )
        for rule in RULES:
            completed = spread(_shares(rows, bed, rule, "spot_completed")).value
            admitted = spread(_shares(rows, bed, rule, "spot_admitted")).value
            texts.append(
                f"{bed}, {_LABELS[rule]}: {share(admitted)} admitted, "
                f"{share_of_work(*where(rows, bed=bed, rule=rule))}, {share(completed)} completed, which is "
                f"{100 * completed / possible.value:.0f} % of that."
            )
    if not any(row["rule"] == BOUND for row in rows):
        texts.append("Mixed sizes are left out: the relaxation needs scipy (pip install 'spotfed[solvers]').")
    return texts


def _draw(rows: Sequence[Row]) -> Figure:
    beds = distinct(rows, "bed")
    with panels("Against one who knows the future", 1, 2, size=(9.6, 4.2), sharey=True) as (figure, axes):
        for panel, name in zip(axes[0], ("admitted", "completed"), strict=True):
            series = {
                _LABELS[rule]: {
                    bed: spread(shares)
                    for bed in beds
                    if (shares := _shares(rows, bed, rule, f"spot_{name}"))
                }
                for rule in distinct(rows, "rule")
            }
            dots_by_group(panel, beds, series)
            share_axis(panel, f"{name} share of requests")
            panel.set_ylim(0, 1)
        legend_below(figure, axes[0, 0])
    return figure


EXPERIMENT = Experiment(
    name="upper-bound",
    title="Against an oracle that evicts nobody",
    source='docs/design/prediction.md "Upper bounds"',
    cases=_cases,
    pictures=(
        Picture(
            "upper-bound",
            "Spot requests admitted (left) and completed (right). The oracle knows both traces and admits as "
            "many as can be without any eviction; for mixed sizes a linear relaxation, which lets instances "
            "span nodes and be cut, bounds it from above. Means of the seeds; bars reach over all of them.",
            _draw,
        ),
    ),
    sentences=_sentences,
)
