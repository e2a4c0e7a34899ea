"""P4 Figure 1: price and volatility of markets, here those recorded in 2013, 2015 and 2021."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cloudsim.experiments.drawing import LINES, Figure, panels
from cloudsim.experiments.experiment import Case, Claim, Experiment, Picture, Row, Verdict, where
from cloudsim.experiments.jobs.runs import DAY_S, MARKETS_2015, PRICES_OD_2015, series_2015
from cloudsim.markets.formats import read
from cloudsim.markets.on_demand import read_price_list
from cloudsim.markets.prices import PriceSeries
from cloudsim.markets.revocation import PriceHistory

#: Year → the files of its markets under the data directory.
MARKETS = {
    2013: ("spot-prices-2013/spot_prices_2012-12-31_2013-01-15.csv.gz",),
    2015: (MARKETS_2015,),
    2021: ("spot-prices-2021/spot_prices_a-l.csv.gz", "spot-prices-2021/spot_prices_m-z.csv.gz"),
}


def _with_on_demand(data: Path, year: int) -> list[tuple[PriceSeries, float]]:
    """Return the markets of a year with their on-demand prices: the list of 2015, as far as it has them."""
    if year == 2015:
        return [(series, series.on_demand_usd_per_hour or np.nan) for series in series_2015(data)]
    listed = read_price_list(data / PRICES_OD_2015).usd_per_hour
    return [
        (series, listed[series.zone[:-1], series.instance_type])
        for file in MARKETS[year]
        for series in read(data / file)[0]
        if series.product == "Linux/UNIX" and (series.zone[:-1], series.instance_type) in listed
    ]


def measure(data: Path, *, year: int) -> list[Row]:
    """Return a row for each market of a year.

    Columns: year; market; price: mean over the on-demand price while it is not above that;
    revocations_per_day at a bid of the on-demand price; price_rank and volatility_rank, 1 for the least.
    """
    rows: list[Row] = []
    for series, on_demand in _with_on_demand(data, year):
        history = PriceHistory.of(series, 1.0 / on_demand)
        price, length_s = history.price[:-1], np.diff(history.at_s)
        runs = price <= 1.0
        if not runs.any():
            continue
        rises = (price[1:] > 1.0) & runs[:-1]
        rows.append(
            {
                "year": year,
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
    rows = _of_2015(rows)
    cheapest = min(rows, key=lambda row: row["price_rank"])
    rank = f"{cheapest['volatility_rank']} of {len(rows)}"
    figures = f"{cheapest['market']} is the cheapest and {rank} in volatility"
    return Verdict(cheapest["volatility_rank"] > 1, figures)


def _ten_times_less(rows: Sequence[Row]) -> Verdict:
    """Judge the markets of every year that are revoked at all."""
    least = {
        year: min(row["price"] for row in volatile)
        for year in MARKETS
        if (volatile := [row for row in where(rows, year=year) if row["revocations_per_day"] > 0])
    }
    figures = ", ".join(f"{price:.3f} of on-demand in {year}" for year, price in least.items())
    return Verdict(min(least.values()) <= 0.1, f"at the least {figures}")


def _sentences(rows: Sequence[Row]) -> list[str]:
    texts = [
        f"{row['market']}: {row['revocations_per_day']:.2f} revocations a day at the on-demand price, "
        f"mean price {row['price']:.3f} of it."
        for row in sorted(_of_2015(rows), key=lambda row: -row["revocations_per_day"])
    ]
    for year in MARKETS:
        own = where(rows, year=year)
        if own:
            volatile = [row for row in own if row["revocations_per_day"] > 0]
            texts.append(
                f"{year}: {len(volatile)} of {len(own)} markets are revoked at the on-demand price of 2015; "
                f"the cheapest market costs {min(row['price'] for row in own):.3f} of it."
            )
    return texts


def _of_2015(rows: Sequence[Row]) -> list[Row]:
    return where(rows, year=2015)


def _draw(rows: Sequence[Row]) -> Figure:
    rows = _of_2015(rows)
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
    cases=lambda quick: [
        Case(f"markets of {year}", measure, {"year": year}, (*files, PRICES_OD_2015))
        for year, files in MARKETS.items()
        if year == 2015 or not quick
    ],
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
