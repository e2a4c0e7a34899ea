"""What the experiments about volatile resources share: the pools, and the rows that one pool gives.

Two kinds of rows, told apart by ``row``: ``intervals``, one for each policy and pool of it, says how long
intervals are; ``value``, one for each policy and value function, what users get under each model.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cloudsim.disclosure.targeting import LINEAR, POLYNOMIAL, Value
from cloudsim.experiments.experiment import Row
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
MARKETS_2015 = "spot-prices-2015/markets.csv"
MARKETS_2021 = ("spot-prices-2021/spot_prices_a-l.csv.gz", "spot-prices-2021/spot_prices_m-z.csv.gz")

#: Two windows of a market that share more than this of their samples are hardly two pools: then the first
#: counts (VOLATILE.md "Acceptance": of d2.8xlarge the first 90 days only).
_MOST_SHARED = 0.25

INTERVALS, VALUE = "intervals", "value"
MINUTE_S = 60.0


@dataclass(frozen=True)
class Pool:
    """An instance pool of the study. window: which part of its market's history it is."""

    source: str
    window: str
    availability: Availability
    prices: PriceStatistics | None = None

    @property
    def name(self) -> str:
        """That of its market."""
        return self.availability.name


def pools_2015(data: Path) -> tuple[list[Pool], list[ExcludedSeries]]:
    """The first and the last 90 days of each market that was handed out, the last price carried forward over
    the gaps of the recording as the paper does."""
    series, _ = read((data / MARKETS_2015).parent)
    return _pools("2015", ((one, name, part) for one in series for name, part in _windows(one)))


def pools_2021(file: Path) -> tuple[list[Pool], list[ExcludedSeries]]:
    """The markets in one of the files of 2021, each as long as it was recorded."""
    series, _ = read(file)
    return _pools("2021", ((one, "whole", whole_window(one)) for one in series))


def _windows(series: PriceSeries) -> Sequence[tuple[str, Window | ExcludedSeries]]:
    begin, end = first_window(series), last_window(series)
    if isinstance(begin, ExcludedSeries) or isinstance(end, ExcludedSeries):
        return [("first", begin)]
    shared = STUDY_SAMPLES - (end.starts_at_s - begin.starts_at_s) / begin.step_s
    return [("first", begin)] + ([("last", end)] if shared <= _MOST_SHARED * STUDY_SAMPLES else [])


def _pools(
    source: str, parts: Iterable[tuple[PriceSeries, str, Window | ExcludedSeries]]
) -> tuple[list[Pool], list[ExcludedSeries]]:
    found: list[Pool] = []
    excluded: list[ExcludedSeries] = []
    for series, name, window in parts:
        if isinstance(window, ExcludedSeries):
            excluded.append(window)
            continue
        made = infer_availability(series, window, unknown=Unknown.CARRY)
        if isinstance(made, ExcludedSeries):
            excluded.append(made)
        else:
            found.append(Pool(source, name, made, PriceStatistics.of(series, window)))
    return found, excluded


def pool_rows(
    pool: Pool,
    *,
    split: float | None = None,
    renewal: Renewal = Renewal.SLOT,
    values: Sequence[Value] = (LINEAR, POLYNOMIAL),
) -> list[Row]:
    """All rows of a pool. Columns of all: source, pool, window, split, renewal, volatility, periodicity.

    ``intervals``: policy, band (of LIFO-pools, else None), intervals, mean_minutes, median_minutes,
    std_minutes, unit_hours; ``value``: policy, value_function, and for each model value_, of_oracle_,
    success_ and per_unit_hour_ with its name, and targets_minutes_, a list with one for each band.

    split: the share of the trace that users are told of, the rest being that on which they are judged; None:
    they are told of what they are judged on, as in the paper. The random policy draws from a generator of the
    pool's name, so that a pool gives the same rows anywhere.
    """
    generator = np.random.default_rng(zlib.crc32(f"{pool.source} {pool.name} {pool.window}".encode()))
    told, judged = pool.availability.split(split) if split else (None, pool.availability)
    made = run_study(
        judged.units,
        generator,
        informed_by=None if told is None else told.units,
        renewal=renewal,
        values=values,
    )
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
        {**common, "row": INTERVALS, "policy": policy.value, "band": band, **length_columns(one)}
        for policy, bands in made.lengths.items()
        for band, one in (enumerate(bands) if len(bands) > 1 else [(None, bands[0])])
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
    """Columns about a distribution of lengths."""
    return {
        "intervals": lengths.count,
        "mean_minutes": lengths.mean_s / MINUTE_S,
        "median_minutes": lengths.median_s / MINUTE_S,
        "std_minutes": lengths.std_s / MINUTE_S,
        "unit_hours": lengths.total_s / 3600,
    }


def _outcome(outcome: StudyOutcome) -> dict[str, Any]:
    model = outcome.model.value
    told = outcome.model is not InformationModel.ORACLE
    return {
        f"value_{model}": outcome.value,
        f"of_oracle_{model}": outcome.of_oracle,
        f"success_{model}": outcome.success_rate,
        f"per_unit_hour_{model}": outcome.per_unit_hour,
        **(
            {f"targets_minutes_{model}": [one and one / MINUTE_S for one in outcome.targets_s]}
            if told
            else {}
        ),
    }


# -- reading rows --------------------------------------------------------------------------------------------

POLICIES = tuple(policy.value for policy in RevocationPolicy)
#: What a cloud can tell; the Oracle is what it is measured against.
MODELS = tuple(model.value for model in InformationModel if model is not InformationModel.ORACLE)

MODEL_NAMES = {"mttr": "MTTR", "p10": "10pctile", "p90": "90pctile", "full": "full", "oracle": "Oracle"}
POLICY_NAMES = {"random": "Random", "fifo": "FIFO", "lifo": "LIFO", "lifo-pools": "LIFO-pools"}


def of(rows: Iterable[Row], **columns: Any) -> list[Row]:
    """The rows with these values in these columns."""
    return [row for row in rows if all(row.get(name) == value for name, value in columns.items())]


def names(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """Each pool and window once, in order."""
    return list(dict.fromkeys((row["pool"], row["window"]) for row in rows))


def over_pools(
    rows: Sequence[Row],
    value_function: str = LINEAR.name,
    summary: Callable[[Sequence[float]], float] = lambda shares: float(np.mean(shares)),
) -> dict[str, dict[str, float]]:
    """Share of the Oracle's value under each policy and model, over all pools."""
    return {
        policy: {
            model: summary([row[f"of_oracle_{model}"] for row in chosen]) if chosen else 0.0
            for model in MODELS
        }
        for policy in POLICIES
        for chosen in [of(rows, row=VALUE, policy=policy, value_function=value_function)]
    }
