"""P1 Figures 2 and 3, P2 Figures 2 and 3: samples and quantiles of the lifetime by number of free slots.

The table of the synthetic set-up at the 9-day mark. Spot requests are admitted at SLA .25: the papers do not
say at which, but there 2 to 4 free slots are the most frequent, as in their Figure 2. As in the papers, each
number of free slots is a condition by itself; our tables pool the rare ones. They show 80,000 to 100,000
samples in all, and so do we.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cloudsim.cloud.cloud import Cloud
from cloudsim.cloud.spec import CloudSpec
from cloudsim.experiments.drawing import LINES, Axes, Figure, figure_of, legend_below, styled
from cloudsim.experiments.experiment import Case, Experiment, Picture, Row, where
from cloudsim.experiments.promise import beds, published_numbers
from cloudsim.experiments.runs import SPOT_DELAY_S
from cloudsim.federation.model import FederatedCloud, Federation, Workload
from cloudsim.history.event_log import PHASE_STOP, EventLog
from cloudsim.plots import INK
from cloudsim.prediction.lifetimes import LifetimeDistribution
from cloudsim.prediction.predictor import LocalPredictor
from cloudsim.prediction.samplers.replay import ReplaySampler, SamplerSpec
from cloudsim.prediction.samples import Samples
from cloudsim.scheduling.inventory import parse_nodes

SEEDS = range(5)
QUANTILES = (0.01, 0.05, 0.10, 0.25)
MOST_SLOTS = 32
_SLA = 0.25
_DAY_S = 86_400.0
_BIRTHS = 80_000
#: Fewest samples for a quantile.
_FEWEST = 30

#: Rank of the virtual instance: by its own age, or the youngest as long as it lives (P2 §2.4).
EXACT, ALWAYS_YOUNGEST = "exact", "always youngest"


def run(_data: Path | None, *, seed: int, days: float, births: int) -> list[Row]:
    """Measure the distributions after ``days``: a row for each rank, number of free slots and quantile."""
    rows: list[Row] = []
    for rank, samples in _samples(seed, days * _DAY_S, births).items():
        for slots in range(1, MOST_SLOTS + 1):
            own = np.flatnonzero(samples.free_slots == slots)
            lifetimes = LifetimeDistribution.from_samples(samples.duration_s[own], samples.evicted[own])
            rows += [
                {
                    "rank": rank,
                    "seed": seed,
                    "free_slots": slots,
                    "samples": len(own),
                    "evicted": int(samples.evicted[own].sum()),
                    "quantile": quantile,
                    "quantile_s": lifetimes.survives_s(quantile) if len(own) >= _FEWEST else None,
                }
                for quantile in QUANTILES
            ]
    return rows


def _samples(seed: int, at_s: float, births: int) -> dict[str, Samples]:
    """Sample one history by a refresh at ``at_s``, for each rank of the virtual instance.

    Births are drawn as the papers draw them, although with a single size all of them could be had exactly.
    """
    bed = beds.draw("synthetic", seed)
    spec = CloudSpec("cloud", parse_nodes(bed.nodes))
    federation = Federation(
        (FederatedCloud(spec, bed.nodes, bed.on_demand),),
        (Workload("spot", bed.spot, SPOT_DELAY_S, _SLA, (spec.id,)),),
    )
    cloud = Cloud(spec, bed.on_demand, federation.ends_s)
    predictor = LocalPredictor(SamplerSpec(spec.node_cores, seed=seed), (1,))
    history: list[EventLog] = []
    for now_s, request, _ in federation.requests():
        if now_s >= at_s:
            break
        cloud.advance(now_s)
        boundary_s = cloud.table_due_s(now_s)
        if boundary_s is not None:
            history.append(cloud.history.cut(boundary_s))
            cloud.table = predictor.table(history[-1], boundary_s)
        cloud.admit(request, now_s)
    cloud.advance(at_s, PHASE_STOP)
    history.append(cloud.history.cut(at_s))
    samples: dict[str, Samples] = {}
    for rank in (EXACT, ALWAYS_YOUNGEST):
        sampling = SamplerSpec(
            spec.node_cores, seed=seed, births=births, always_youngest=rank == ALWAYS_YOUNGEST
        )
        sampler = ReplaySampler(sampling, 1)
        sampler.feed(EventLog.concatenate(history), at_s)
        samples[rank] = sampler.samples()
    return samples


def _cases(quick: bool) -> list[Case]:
    days, births = (3, 5_000) if quick else (9, _BIRTHS)
    return [
        Case(f"seed {seed}", run, {"seed": seed, "days": days, "births": births})
        for seed in beds.seeds(SEEDS, quick, few=1)
    ]


def _sentences(rows: Sequence[Row]) -> list[str]:
    counts = _mean_by_slots(rows, EXACT, QUANTILES[0], "samples")
    frequent = sorted(counts, key=lambda slots: -counts[slots])[:3]
    most = ", ".join(f"{slots} ({counts[slots]:,.0f} samples)" for slots in sorted(frequent))
    texts = [f"The most frequent numbers of free slots are {most}; the papers: 2 to 4, about 10,000 each."]
    many = [slots for slots in counts if counts[slots] > 1000]
    some = [slots for slots in counts if counts[slots] > 200]
    texts.append(
        f"More than 1,000 samples up to {max(many, default=0)} free slots (the papers: up to 14), more than "
        f"200 up to {max(some, default=0)} (the papers: up to 20)."
    )
    for rank in (EXACT, ALWAYS_YOUNGEST):
        lives = {q: _mean_by_slots(rows, rank, q, "quantile_s").get(15) for q in (0.01, 0.05, 0.25)}
        if all(life is not None for life in lives.values()):
            texts.append(
                f"Rank {rank}: with 15 free slots the .01, .05 and .25 quantiles are "
                f"{', '.join(f'{life:,.0f}' for life in lives.values())} s "
                "(the papers: 900, 1,500 and 3,200 s)."
            )
    longer = [
        slots for slots, life in _mean_by_slots(rows, EXACT, 0.05, "quantile_s").items()
        if life > _mean_by_slots(rows, ALWAYS_YOUNGEST, 0.05, "quantile_s").get(slots, life)
    ]  # fmt: skip
    texts.append(
        "Youngest-job-first protects an instance as it ages: its exact rank gives a longer .05 quantile than "
        f"taking it for the youngest at {len(longer)} of {len(counts)} numbers of free slots."
    )
    return texts


def _mean_by_slots(rows: Sequence[Row], rank: str, quantile: float, column: str) -> dict[int, float]:
    """Return number of free slots → mean over the seeds that have a value."""
    by_slots: dict[int, list[float]] = {}
    for row in where(rows, rank=rank, quantile=quantile):
        if row[column] is not None:
            by_slots.setdefault(row["free_slots"], []).append(row[column])
    return {
        slots: published_numbers.interval(values)[0]
        for slots, values in sorted(by_slots.items())
        if any(values)
    }


def _draw(rows: Sequence[Row]) -> Figure:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    with styled():
        marks = {60: "1 min", 600: "10 min", 3600: "1 h", 6 * 3600: "6 h", 86400: "1 day"}
        figure = figure_of(9, 6.4)
        grid = figure.add_gridspec(2, 2, height_ratios=[1, 1.7])
        counts = figure.add_subplot(grid[0, :])
        _draw_counts(counts, rows)
        first = None
        for column, (rank, label) in enumerate(
            ((EXACT, "by its own age (ours)"), (ALWAYS_YOUNGEST, "youngest as long as it lives (P2 §2.4)"))
        ):
            axes = figure.add_subplot(grid[1, column], sharey=first)
            first = first or axes
            _draw_quantiles(axes, rows, rank)
            axes.set_title(f"Virtual instance {label}")
            axes.set_yscale("log")
            axes.yaxis.set_major_locator(FixedLocator(list(marks)))
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: marks.get(round(value), "")))
            axes.yaxis.set_minor_locator(NullLocator())
        assert first is not None
        first.set_ylabel("longest lifetime")
        legend_below(figure, first, columns=5)
    return figure


def _draw_counts(axes: Axes, rows: Sequence[Row]) -> None:
    from matplotlib.ticker import FuncFormatter

    counts = _mean_by_slots(rows, EXACT, QUANTILES[0], "samples")
    axes.bar(list(counts), list(counts.values()), 0.8, color=LINES[5][0])
    axes.set_ylabel("samples")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.set_xlim(0.3, MOST_SLOTS + 0.7)
    axes.set_xlabel("free slots")


def _draw_quantiles(axes: Axes, rows: Sequence[Row], rank: str) -> None:
    for number, quantile in enumerate(QUANTILES):
        colour, marker = LINES[number]
        lives = _mean_by_slots(rows, rank, quantile, "quantile_s")
        shown = {slots: max(life, 1.0) for slots, life in lives.items()}
        axes.plot(
            list(shown), list(shown.values()), color=colour, marker=marker, ms=3.5, lw=1, mec="white",
            mew=0.3, label=f"quantile {quantile:g}",
        )  # fmt: skip
    printed = [
        figure
        for figure in published_numbers.of_experiment(EXPERIMENT.name, published_numbers.LIFETIME_S)
        if figure.of["rank"] == rank
    ]
    axes.plot(
        [figure.of["free_slots"] for figure in printed], [figure.number for figure in printed], "_",
        color=INK, ms=14, mew=1.6, zorder=9, label="printed in the papers",
    )  # fmt: skip
    axes.set_xlim(0.3, MOST_SLOTS + 0.7)
    axes.set_xlabel("free slots")


EXPERIMENT = Experiment(
    name="figures-2-3",
    title="Conditional distributions: samples and quantiles by free slots",
    source="P1 Figures 2 and 3 (§III-B), P2 Figures 2 and 3 (§3.2)",
    cases=_cases,
    pictures=(
        Picture(
            "figures-2-3",
            "Above, samples by number of free single-core slots at the 9-day mark of the synthetic set-up "
            "(SLA .25); below, quantiles of the time until eviction, for the two readings of the virtual "
            "instance's rank. Means over the seeds; conditions with fewer than 30 samples are left out. "
            "Dashes are the values the papers print for 15 free slots.",
            _draw,
        ),
    ),
    sentences=_sentences,
)
