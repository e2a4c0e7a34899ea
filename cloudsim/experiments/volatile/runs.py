"""The pools of P3 and the rows of each, shared by the experiments on volatile resources.

Column ``row`` names the kind of a row: ``intervals``, one for each policy and each of its pools, has the
lengths of intervals; ``value``, one for each policy and value function, the value to users under each model.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cloudsim.disclosure.targeting import LINEAR, POLYNOMIAL, Value
from cloudsim.experiments.experiment import Row, where
from cloudsim.experiments.jobs.runs import series_2015
from cloudsim.markets.formats import read
from cloudsim.markets.prices import PriceSeries
from cloudsim.model.lengths import LengthHistogram
from cloudsim.volatile.availability import (
    STUDY_SAMPLES,
    Availability,
    ExcludedSeries,
    PriceStatistics,
    Unknown,
    Window,
    first_window,
    infer_availability,
    last_window,
    whole_window,
)
from cloudsim.volatile.managers import Renewal, RevocationPolicy
from cloudsim.volatile.study import InformationModel, StudyOutcome, run_study

#: Files under the data directory.
MARKETS_2021 = ("spot-prices-2021/spot_prices_a-l.csv.gz", "spot-prices-2021/spot_prices_m-z.csv.gz")

#: Largest share of their samples that two windows of a market have in common to be two pools; else only the
#: first counts (docs/design/volatile-resources.md "Acceptance": of d2.8xlarge the first 90 days only).
_MOST_SHARED = 0.25

INTERVALS, VALUE = "intervals", "value"
MINUTE_S = 60.0


@dataclass(frozen=True)
class Pool:
    """An instance pool of the study. window: the part of its market's history that it is."""

    source: str
    window: str
    availability: Availability
    prices: PriceStatistics | None = None

    @property
    def name(self) -> str:
        """Name of its market."""
        return self.availability.name


def pools_2015(data: Path) -> tuple[list[Pool], list[ExcludedSeries]]:
    """Return the first and the last 90 days of each market of 2015, and the markets left out.

    The last price is carried forward over gaps of the recording, as in the paper.
    """
    return _pools(
        "2015", ((market, name, part) for market in series_2015(data) for name, part in _windows(market))
    )


def pools_2021(file: Path) -> tuple[list[Pool], list[ExcludedSeries]]:
    """Return the markets in a file of 2021, each as long as it was recorded, and those left out."""
    series, _ = read(file)
    return _pools("2021", ((market, "whole", whole_window(market)) for market in series))


def _windows(series: PriceSeries) -> Sequence[tuple[str, Window | ExcludedSeries]]:
    begin, end = first_window(series), last_window(series)
    if isinstance(begin, ExcludedSeries) or isinstance(end, ExcludedSeries):
        return [("first", begin)]
    shared = STUDY_SAMPLES - (end.starts_at_s - begin.starts_at_s) / begin.step_s
    return [("first", begin)] + ([("last", end)] if shared <= _MOST_SHARED * STUDY_SAMPLES else [])


def _pools(
    source: str, parts: Iterable[tuple[PriceSeries, str, Window | ExcludedSeries]]
) -> tuple[list[Pool], list[ExcludedSeries]]:
    pools: list[Pool] = []
    excluded: list[ExcludedSeries] = []
    for series, name, window in parts:
        if isinstance(window, ExcludedSeries):
            excluded.append(window)
            continue
        made = infer_availability(series, window, unknown=Unknown.CARRY)
        if isinstance(made, ExcludedSeries):
            excluded.append(made)
        else:
            pools.append(Pool(source, name, made, PriceStatistics.of(series, window)))
    return pools, excluded


def pool_rows(
    pool: Pool,
    *,
    split: float | None = None,
    renewal: Renewal = Renewal.SLOT,
    values: Sequence[Value] = (LINEAR, POLYNOMIAL),
) -> list[Row]:
    """Return all rows of a pool.

    Common columns: source, pool, window, split, renewal, volatility, periodicity.

    ``intervals``: policy, band (of LIFO-pools, else None), intervals, mean_minutes, median_minutes,
    std_minutes, unit_hours; ``value``: policy, value_function, and for each model value_, of_oracle_,
    success_ and per_unit_hour_ with its name, and targets_minutes_, a list with one for each band.

    split: share of the trace that informs users, who are judged on the rest; None: the whole trace informs
    and judges, as in the paper. The random policy draws from a generator of the pool's name, so that a pool
    gives the same rows anywhere.
    """
    generator = np.random.default_rng(zlib.crc32(f"{pool.source} {pool.name} {pool.window}".encode()))
    informing, judging = pool.availability.split(split) if split else (None, pool.availability)
    informed_by = None if informing is None else informing.units
    made = run_study(judging.units, generator, informed_by=informed_by, renewal=renewal, values=values)
    common: Row = {
        "source": pool.source,
        "pool": pool.name,
        "window": pool.window,
        "split": split,
        "renewal": renewal.value,
        "volatility": pool.availability.volatility,
        "periodicity": pool.availability.periodicity,
    }
    rows = [
        {**common, "row": INTERVALS, "policy": policy.value, "band": band, **length_columns(lengths)}
        for policy, bands in made.lengths.items()
        for band, lengths in (enumerate(bands) if len(bands) > 1 else [(None, bands[0])])
    ]
    by_model: dict[tuple[RevocationPolicy, str], Row] = {}
    for outcome in made.outcomes:
        row = by_model.setdefault(
            (outcome.policy, outcome.value_name),
            {**common, "row": VALUE, "policy": outcome.policy.value, "value_function": outcome.value_name},
        )
        row.update(_outcome(outcome))
    return rows + list(by_model.values())


def length_columns(lengths: LengthHistogram) -> dict[str, Any]:
    """Return the columns about a distribution of lengths."""
    return {
        "intervals": lengths.count,
        "mean_minutes": lengths.mean_s / MINUTE_S,
        "median_minutes": lengths.median_s / MINUTE_S,
        "std_minutes": lengths.std_s / MINUTE_S,
        "unit_hours": lengths.total_s / 3600,
    }


def _outcome(outcome: StudyOutcome) -> dict[str, Any]:
    model = outcome.model.value
    columns: dict[str, Any] = {
        f"value_{model}": outcome.value,
        f"of_oracle_{model}": outcome.of_oracle,
        f"success_{model}": outcome.success_rate,
        f"per_unit_hour_{model}": outcome.per_unit_hour,
    }
    if outcome.model is not InformationModel.ORACLE:
        columns[f"targets_minutes_{model}"] = [target and target / MINUTE_S for target in outcome.targets_s]
    return columns


POLICIES = tuple(policy.value for policy in RevocationPolicy)
#: Models that a cloud can disclose; the Oracle is the measure of them all.
MODELS = tuple(model.value for model in InformationModel if model is not InformationModel.ORACLE)

MODEL_NAMES = {"mttr": "MTTR", "p10": "10pctile", "p90": "90pctile", "full": "full", "oracle": "Oracle"}
POLICY_NAMES = {"random": "Random", "fifo": "FIFO", "lifo": "LIFO", "lifo-pools": "LIFO-pools"}


def names(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """Return each pool and window once, in order."""
    return list(dict.fromkeys((row["pool"], row["window"]) for row in rows))


def over_pools(
    rows: Sequence[Row],
    value_function: str = LINEAR.name,
    summary: Callable[[Sequence[float]], float] = lambda shares: float(np.mean(shares)),
) -> dict[str, dict[str, float]]:
    """Return policy → model → share of the Oracle's value over all pools: their mean or another summary."""
    shares: dict[str, dict[str, float]] = {}
    for policy in POLICIES:
        own = where(rows, row=VALUE, policy=policy, value_function=value_function)
        shares[policy] = {
            model: summary([row[f"of_oracle_{model}"] for row in own]) if own else 0.0 for model in MODELS
        }
    return shares
