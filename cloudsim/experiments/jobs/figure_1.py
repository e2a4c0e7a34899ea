"""P4 Figure 1: price and volatility of markets, here those recorded in 2015."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cloudsim.experiments.drawing import LINES, Figure, panels
from cloudsim.experiments.experiment import Case, Claim, Experiment, Picture, Row, Verdict
from cloudsim.experiments.jobs.runs import DAY_S, MARKETS_2015, series_2015
from cloudsim.markets.revocation import PriceHistory


def measure(data: Path) -> list[Row]:
    """Return a row for each market.

    Columns: market; price: mean over the on-demand price while it is not above that; revocations_per_day at a
    bid of the on-demand price; price_rank and volatility_rank, 1 for the least.
    """
    rows: list[Row] = []
    for series in series_2015(data):
        assert series.on_demand_usd_per_hour is not None  # series_2015 has looked
        history = PriceHistory.of(series, 1.0 / series.on_demand_usd_per_hour)
        price, length_s = history.price[:-1], np.diff(history.at_s)
        runs = price <= 1.0
        rises = (price[1:] > 1.0) & runs[:-1]
        rows.append(
            {
                "market": series.name,
                "price": float((price * length_s)[runs].sum() / length_s[runs].sum()),
                "revocations_per_day": float(rises.sum() / (length_s[~np.isnan(price)].sum() / DAY_S)),
            }
        )
    for column, name in (("price", "price_rank"), ("revocations_per_day", "volatility_rank")):
        order = sorted(rows, key=lambda row: row[column])
        for rank, row in enumerate(order, start=1):
            row[name] = rank
    return rows


def _cheapest_is_not_calmest(rows: Sequence[Row]) -> Verdict:
    cheapest = min(rows, key=lambda row: row["price_rank"])
    rank = f"{cheapest['volatility_rank']} of {len(rows)}"
    figures = f"{cheapest['market']} is the cheapest and {rank} in volatility"
    return Verdict(cheapest["volatility_rank"] > 1, figures)


def _ten_times_less(rows: Sequence[Row]) -> Verdict:
    least = min(row["price"] for row in rows)
    return Verdict(least <= 0.1, f"at the least {least:.3f} of on-demand")


def _sentences(rows: Sequence[Row]) -> list[str]:
    return [
        f"{row['market']}: {row['revocations_per_day']:.2f} revocations a day at the on-demand price, "
        f"mean price {row['price']:.3f} of it."
        for row in sorted(rows, key=lambda row: -row["revocations_per_day"])
    ]


def _draw(rows: Sequence[Row]) -> Figure:
    with panels("Markets of 2015 by price and volatility", 1, 1, size=(6, 4.4)) as (figure, axes):
        axis = axes[0, 0]
        axis.plot(
            [row["volatility_rank"] for row in rows],
            [row["price_rank"] for row in rows],
            LINES[0][1], color=LINES[0][0], ms=6,
        )  # fmt: skip
        for row in rows:
            axis.annotate(
                row["market"], (row["volatility_rank"], row["price_rank"]), xytext=(4, 4),
                textcoords="offset points", fontsize=7,
            )  # fmt: skip
        axis.set(xlabel="rank in volatility (1: calmest)", ylabel="rank in price (1: cheapest)")
        axis.margins(x=0.15)
    return figure


EXPERIMENT = Experiment(
    name="jobs-figure-1",
    title="Spot markets: price against volatility",
    source="P4 §2.1, Figure 1",
    cases=lambda _quick: [Case("markets of 2015", measure, {}, (MARKETS_2015,))],
    pictures=(
        Picture(
            "jobs-figure-1",
            "Ranks of the markets of 2015 in price and in volatility, both relative to on-demand.",
            _draw,
        ),
    ),
    sentences=_sentences,
    claims=(
        Claim("Figure 1", "the lowest price is not the lowest volatility", _cheapest_is_not_calmest),
        Claim("Figure 1", "volatile markets are up to ten times cheaper than on-demand", _ten_times_less),
    ),
)
