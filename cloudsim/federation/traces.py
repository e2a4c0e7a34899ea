"""Make the traces that a federation file names: a file that is read, or numbers that one is made from.

The own load of a public cloud follows from what its users see of it (``cloudsim.markets.preempted_load``):

    trace = { prices = "spot-prices-2015", market = "c3.xlarge/us-east-1b", bid_usd_per_hour = 0.21 }
    trace = { preemptions = "preemptions-gcp-2019/preemptions.csv", market = "n1-highcpu-16/us-central1-c",
              days = 60, taken = "1h", seed = 1 }

``prices`` is a file or a directory of them. If a ``markets.csv`` beside a file lists it, all files of the
list are read, because other markets' records tell a silence from a gap. ``market`` ("TYPE/ZONE", and
"/PRODUCT" unless it is Linux/UNIX) may be left out if there is only one. ``bid_usd_per_hour``, for an
instance, is by default the on-demand price in the list. Time 0 is the first known price. Without a
``market``, the lifetimes of all ``preemptions`` count; ``days`` is the length of the load, and ``taken`` how
long nothing is free after each preemption.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cloudsim.federation.file_schema import PreemptionTrace, PriceTrace, SyntheticTrace, TraceSource
from cloudsim.markets import formats as price_files
from cloudsim.markets.formats.file_list import find_list_beside
from cloudsim.markets.preempted_load import preempted_load, priced_load
from cloudsim.markets.prices import PriceSeries
from cloudsim.markets.report import FileReport, SeriesReport, list_warnings
from cloudsim.model.errors import SpecError
from cloudsim.prediction.lifetimes import LifetimeDistribution
from cloudsim.traces.formats import read
from cloudsim.traces.formats.preemptions import REQUIRED, read_lifetimes
from cloudsim.traces.formats.source import load_source
from cloudsim.traces.synthesis import lognormal_trace, production_like
from cloudsim.traces.trace import Trace

#: Load of a real cloud, whose own users are not played.
NO_LOAD = Trace.checked(
    name="none", instance=[], start_s=np.zeros(0), stop_s=np.zeros(0), cores=np.zeros(0, dtype=np.int64)
)
_MOST_TOLD = 8

#: Called with a trace file, and a sentence about something odd in it.
WarningHandler = Callable[[Path, str], None]


@dataclass(frozen=True)
class _Prices:
    """Contents of price files, by market."""

    series: Mapping[str, PriceSeries]
    reports: Mapping[str, SeriesReport]
    files: tuple[FileReport, ...]
    is_unfinished: bool

    @classmethod
    def of(cls, source: Path) -> _Prices:
        series, report = price_files.read(source)
        names = [market_series.market for market_series in series]
        return cls(
            dict(zip(names, series, strict=True)),
            dict(zip(names, report.series, strict=True)),
            report.files,
            report.is_unfinished,
        )

    def warnings(self, market: str, file: Path) -> tuple[str, ...]:
        """Return the warnings about one market, and about the file if it is one."""
        files = [report for report in self.files if report.file == str(file)]
        return list_warnings(files, [self.reports[market]], (), (), self.is_unfinished)


class Traces:
    """Reads and makes what a federation file names as traces, each once.

    Parameters
    ----------
    beside
        Directory of the federation file.
    data_dir
        Directory in which files are looked up first; then in ``beside``.
    on_warning
        Called with a trace file and a sentence for anything odd in it.
    """

    def __init__(self, beside: Path, data_dir: Path | None, on_warning: WarningHandler):
        self._beside = beside
        self._data_dir = data_dir
        self._on_warning = on_warning
        self._known: dict[tuple[TraceSource, tuple[int, ...] | None], Trace] = {}
        self._prices: dict[Path, _Prices] = {}

    def of(self, source: TraceSource, where: str, node_cores: Sequence[int] | None = None) -> Trace:
        """Return the trace that a field ``trace`` describes.

        Parameters
        ----------
        where
            Name of the field in errors.
        node_cores
            Cores of each node of the cloud whose own load it is; only the load of a public cloud needs them.

        Raises
        ------
        SpecError
            When the field is wrong; names it.
        TraceError
            When a trace is wrong; names its file and line.
        """
        public = isinstance(source, PriceTrace | PreemptionTrace)
        key = (source, tuple(node_cores) if public and node_cores is not None else None)
        if key not in self._known:
            self._known[key] = self._make(source, where, node_cores or ())
        return self._known[key]

    def awaits_prices(self, source: TraceSource) -> bool:
        """Return True, and warn, if these are prices that the agent of a real cloud has still to fetch."""
        if not isinstance(source, PriceTrace):
            return False
        places = [place / source.prices for place in (self._data_dir, self._beside) if place is not None]
        if any(place.is_file() or (place.is_dir() and any(place.iterdir())) for place in places):
            return False
        self._on_warning(places[-1], "There are no prices yet; the cloud's agent fetches them.")
        return True

    def _make(self, source: TraceSource, where: str, node_cores: Sequence[int]) -> Trace:
        match source:
            case str():
                return self._read(source, where)
            case PriceTrace():
                return self._priced(source, where, node_cores)
            case PreemptionTrace():
                return self._preempted(source, where, node_cores)
            case SyntheticTrace():
                return _synthesise(source)

    def _read(self, name: str, where: str) -> Trace:
        file = self._find(name, where)
        trace, report = read(file)
        for warning in report.warnings:
            self._on_warning(file, warning)
        return trace

    def _priced(self, table: PriceTrace, where: str, node_cores: Sequence[int]) -> Trace:
        file = self._find(table.prices, f"{where}.prices", directories=True)
        listed = find_list_beside(file)
        source, market = (file, None) if listed is None else listed
        if source not in self._prices:
            self._prices[source] = _Prices.of(source)
        prices = self._prices[source]
        if market is not None and table.market not in {None, market}:
            raise SpecError(f"the file holds {market}", field=f"{where}.market")
        chosen = _market(market or table.market, prices.series, where)
        series = prices.series[chosen]
        for warning in prices.warnings(chosen, file):
            self._on_warning(file, warning)
        bid = series.on_demand_usd_per_hour if table.bid_usd_per_hour is None else table.bid_usd_per_hour
        if bid is None:
            raise SpecError(
                "is missing, and no list names an on-demand price", field=f"{where}.bid_usd_per_hour"
            )
        return priced_load(series, bid, node_cores)

    def _preempted(self, table: PreemptionTrace, where: str, node_cores: Sequence[int]) -> Trace:
        file = self._find(table.preemptions, f"{where}.preemptions")
        lifetimes = read_lifetimes(load_source(file, accepted=f"accepted is CSV with {','.join(REQUIRED)}"))
        if lifetimes.quarantined:
            self._on_warning(file, f"{lifetimes.quarantined} rows cannot be used.")
        chosen = slice(None)
        if table.market is not None:
            chosen = lifetimes.market == _market(table.market, lifetimes.market, where)
        return preempted_load(
            np.random.default_rng(table.seed),
            LifetimeDistribution.from_samples(lifetimes.lifetime_s[chosen], lifetimes.preempted[chosen]),
            node_cores,
            days=table.days,
            taken_s=table.taken_s,
            name=table.market or "preempted",
        )

    def _find(self, name: str, where: str, *, directories: bool = False) -> Path:
        places = [self._beside / name]
        if self._data_dir is not None:
            places.insert(0, self._data_dir / name)
        for place in places:
            if place.is_file() or (directories and place.is_dir()):
                return place
        looked = " or ".join(str(place) for place in places)
        raise SpecError(f"no such trace: {looked}. Set SPOTFED_DATA to the data directory", field=where)


def _market(named: str | None, markets: Iterable[str], where: str) -> str:
    """Return the market that is named, or the only one there is."""
    there = sorted(set(markets))
    if named is None and len(there) == 1:
        return there[0]
    if named is None or named not in there:
        listed = ", ".join(there[:_MOST_TOLD]) + (", …" if len(there) > _MOST_TOLD else "")
        problem = "name one of" if named is None else f"{named!r} is none of"
        raise SpecError(f"{problem}: {listed}", field=f"{where}.market")
    return named


def _synthesise(table: SyntheticTrace) -> Trace:
    rng = np.random.default_rng(table.seed)
    if table.synthetic == "table-1":
        return lognormal_trace(rng, hours=240 if table.hours is None else table.hours, name=table.synthetic)
    return production_like(rng, table.synthetic.removeprefix("production-"), days=table.days)
