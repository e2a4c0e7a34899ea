"""Reports of what a reader found in files of prices: nothing is lost without being named here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from cloudsim.markets.prices import PriceSeries
from cloudsim.traces.report import QuarantinedLine


@dataclass(frozen=True)
class FileReport:
    """Report on one file: ``records`` = those in the series + ``repeated`` + ``quarantined``."""

    file: str
    format: str
    records: int
    #: Records that were there already, word for word; dropped.
    repeated: int
    quarantined: tuple[QuarantinedLine, ...]
    #: What was mended to get at the records, a sentence each.
    repaired: tuple[str, ...] = ()
    #: The last line has no end.
    ends_open: bool = False


@dataclass(frozen=True)
class SeriesReport:
    """Report on one market.

    Prices are US dollars an hour, over its records with a known price; None if there is none.
    """

    instance_type: str
    product: str
    zone: str
    records: int
    #: Records without a price.
    unknown: int
    #: Records that were there already and were dropped.
    repeated: int
    #: First record, and until when the last one held, unix seconds.
    starts_s: float
    ends_s: float
    #: From when until when nothing was recorded, unix seconds.
    gaps_s: tuple[tuple[float, float], ...]
    min_usd_per_hour: float | None
    median_usd_per_hour: float | None
    max_usd_per_hour: float | None
    on_demand_usd_per_hour: float | None

    @classmethod
    def of(cls, series: PriceSeries, repeated: int) -> SeriesReport:
        """Make the report of a series."""
        price = series.price_usd_per_hour
        known = price[~np.isnan(price)]
        low, median, high = np.quantile(known, (0, 0.5, 1)).tolist() if len(known) else (None, None, None)
        return cls(
            series.instance_type,
            series.product,
            series.zone,
            records=len(series),
            unknown=len(series) - len(known),
            repeated=repeated,
            starts_s=series.starts_s,
            ends_s=series.ends_s,
            gaps_s=tuple((start_s, end_s) for start_s, end_s in series.gaps_s.tolist()),
            min_usd_per_hour=low,
            median_usd_per_hour=median,
            max_usd_per_hour=high,
            on_demand_usd_per_hour=series.on_demand_usd_per_hour,
        )


@dataclass(frozen=True)
class PriceReport:
    """Report on how files became ``PriceSeries``."""

    files: tuple[FileReport, ...]
    series: tuple[SeriesReport, ...]
    #: Files of a list that are not there.
    missing: tuple[str, ...]
    #: When all markets together were silent for too long, unix seconds.
    silences_s: tuple[tuple[float, float], ...]
    #: Every page names a following one: the download was not finished.
    is_unfinished: bool
    #: One sentence for each kind of finding, with its count.
    warnings: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON types."""
        report: dict[str, Any] = _json_types(asdict(self))
        return report


#: A finding about prices of which every page names a following one.
UNFINISHED = "every page has a NextToken: there is more of this history that was not fetched"


def list_warnings(
    files: Sequence[FileReport],
    series: Sequence[SeriesReport],
    silences_s: Sequence[tuple[float, float]],
    missing: Sequence[str],
    is_unfinished: bool,
) -> tuple[str, ...]:
    """Return one sentence for each kind of finding."""
    sentences = []
    if is_unfinished:
        sentences.append(f"{UNFINISHED}.")
    if missing:
        sentences.append(f"{len(missing)} files of the list are not there, first {missing[0]}.")
    bad = [(file.file, line) for file in files for line in file.quarantined]
    if bad:
        file, first = bad[0]
        sentences.append(f"{len(bad)} records were quarantined, first {file}:{first.line}: {first.reason}.")
    if repeated := sum(file.repeated for file in files):
        sentences.append(f"{repeated} records were there already and were dropped.")
    if unknown := sum(market.unknown for market in series):
        sentences.append(f"{unknown} records say no price: it is unknown until the next one, not free.")
    if silences_s:
        longest = max(end_s - start_s for start_s, end_s in silences_s)
        sentences.append(
            f"{len(silences_s)} times all markets were silent, the longest {longest / 3600:.1f} h: "
            "prices are unknown then."
        )
    if gaps := [end_s - start_s for market in series for start_s, end_s in market.gaps_s]:
        markets = sum(bool(market.gaps_s) for market in series)
        sentences.append(
            f"{len(gaps)} gaps in {markets} markets, the longest {max(gaps) / 3600:.1f} h: "
            "prices are unknown in them."
        )
    return tuple(sentences)


def _json_types(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _json_types(item) for key, item in value.items()}
    return [_json_types(item) for item in value] if isinstance(value, tuple | list) else value
