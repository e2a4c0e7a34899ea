"""P4 Figure 5: the number of replicas that most often completes a job when they share one bid."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import numpy as np

from cloudsim.experiments.drawing import LINES, Figure, legend_below, panels, share_axis
from cloudsim.experiments.experiment import Case, Claim, Experiment, Picture, Row, Verdict, distinct, where
from cloudsim.experiments.jobs.runs import DAY_S, MARKETS_2015, PRICES_OD_2015, series_2015, world_2015
from cloudsim.markets import bidding
from cloudsim.markets.revocation import HOUR_S, WINDOW_S

ZONES = ("us-east-1a", "us-east-1b")
DEGREES = (1, 2, 3, 4)
HOURS = (1.0, 2.0, 4.0, 8.0, 16.0, 24.0)
_WEEKS = 20


def measure(data: Path, *, zone: str, weeks: int) -> list[Row]:
    """Compute the odds of replicas in a zone; every replica bids the on-demand price over the degree.

    Columns: zone, degree, hours; completes: probability that one of ``degree`` replicas completes, mean over
    weeks and over all sets of markets of the zone; price: median price paid, over on-demand.
    """
    world = world_2015(data)
    inside = [number for number, series in enumerate(series_2015(data)) if series.zone == zone]
    begin_s = max(float(history.at_s[0]) for history in world.histories)
    known = [world.known(begin_s + WINDOW_S + week * 7 * DAY_S) for week in range(weeks)]
    rows: list[Row] = []
    for degree in DEGREES:
        bid = np.full(len(world.histories), bidding.bid_for_replica(world.on_demand, degree))
        sets = np.array(list(combinations(inside, degree)))
        for hours in HOURS:
            odds = [markets.odds(bid, hours * HOUR_S, 1) for markets in known]
            # Without a start in a week nothing would have run at this bid.
            revoked = np.nan_to_num(np.array([each.revoked for each in odds]), nan=1.0)
            completes = 1.0 - revoked[:, sets].prod(axis=2)
            price = np.nanmedian([each.price[inside] for each in odds]) / world.on_demand
            shares = {"completes": float(completes.mean()), "price": float(price)}
            rows.append({"zone": zone, "degree": degree, "hours": hours, **shares})
    return rows


def _completes(rows: Sequence[Row], zone: str, degree: int) -> list[float]:
    return [row["completes"] for row in where(rows, zone=zone, degree=degree)]


def _two_beat_one(rows: Sequence[Row]) -> Verdict:
    pairs = [
        (single, double)
        for zone in distinct(rows, "zone")
        for single, double in zip(_completes(rows, zone, 1), _completes(rows, zone, 2), strict=True)
    ]
    better = sum(double > single for single, double in pairs)
    return Verdict(better == len(pairs), f"{better} of {len(pairs)} lengths and zones")


def _more_is_worse(rows: Sequence[Row]) -> Verdict:
    pairs = [
        (two, more)
        for zone in distinct(rows, "zone")
        for degree in DEGREES[2:]
        for two, more in zip(_completes(rows, zone, 2), _completes(rows, zone, degree), strict=True)
    ]
    worse = sum(more < two for two, more in pairs)
    price = np.median([row["price"] for row in rows if row["degree"] == 1])
    return Verdict(
        worse == len(pairs),
        f"{worse} of {len(pairs)} lengths, degrees and zones; prices are {price:.2f} of on-demand, and the "
        "statement needs them between a third and a half",
    )


def _sentences(rows: Sequence[Row]) -> list[str]:
    return [
        f"{zone}, degree {degree}, at {', '.join(f'{hours:g}' for hours in HOURS)} h: completes "
        f"{', '.join(f'{share:.3f}' for share in _completes(rows, zone, degree))}."
        for zone in distinct(rows, "zone")
        for degree in DEGREES
    ]


def _draw(rows: Sequence[Row]) -> Figure:
    zones = distinct(rows, "zone")
    size = (1 + 4.2 * len(zones), 4)
    with panels("Replicas that share one bid", 1, len(zones), size=size, sharey=True) as (figure, axes):
        for axis, zone in zip(axes.flat, zones, strict=True):
            for degree, (colour, marker) in zip(DEGREES, LINES, strict=False):
                axis.plot(
                    HOURS, _completes(rows, zone, degree), color=colour, marker=marker, ms=4,
                    label=f"degree {degree}",
                )  # fmt: skip
            axis.set_title(zone, loc="left")
            axis.set_xlabel("running time, hours")
        share_axis(axes[0, 0], "probability that one replica completes")
        legend_below(figure, axes[0, 0])
    return figure


EXPERIMENT = Experiment(
    name="jobs-figure-5",
    title="Batch jobs: how many replicas",
    source="P4 §4.3, Figure 5",
    cases=lambda quick: [
        Case(zone, measure, {"zone": zone, "weeks": 3 if quick else _WEEKS}, (MARKETS_2015, PRICES_OD_2015))
        for zone in ZONES
    ],
    pictures=(
        Picture(
            "jobs-figure-5",
            "Probability that at least one replica completes, by the length of the job and the number of "
            "replicas, each bidding its part of the on-demand price.",
            _draw,
        ),
    ),
    sentences=_sentences,
    claims=(
        Claim("Figure 5", "two replicas complete more often than one", _two_beat_one),
        Claim("Figure 5", "more than two complete less often than two", _more_is_worse),
    ),
)
