"""The ``trace`` of a cloud or of a workload in a federation file: a file that is read, or numbers that one is
made from.

The own load of a public cloud follows from what its users see of it (``cloudsim.markets.taken``):

    trace = { prices = "spot-prices-2015", market = "c3.xlarge/us-east-1b", bid_usd_per_hour = 0.21 }
    trace = { preemptions = "preemptions-gcp-2019/preemptions.csv", market = "n1-highcpu-16/us-central1-c",
              days = 60, taken = "1h", seed = 1 }

``prices`` is a file or a directory of them; where a ``markets.csv`` beside a file lists it, all that it lists
is read, as what other markets said tells a silence from a gap. ``market`` ("TYPE/ZONE", and "/PRODUCT" unless
it is Linux/UNIX) may be left out where there is one; ``bid_usd_per_hour``, of an instance, is the on-demand
price that the list names where it is left out. Time 0 is the first known price. Of ``preemptions`` without a
``market`` the lifetimes of all count; ``days`` is how long the load is, ``taken`` how long nothing is free
after each preemption.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cloudsim.durations import parse_duration_s
from cloudsim.errors import SpecError
from cloudsim.federation_fields import only, positive, text
from cloudsim.markets import formats as price_files
from cloudsim.markets.formats.listing import list_beside
from cloudsim.markets.prices import PriceSeries
from cloudsim.markets.report import FileReport, SeriesReport, warnings
from cloudsim.markets.taken import preempted_load, priced_load
from cloudsim.prediction.lifetimes import LifetimeDistribution
from cloudsim.traces.formats import read
from cloudsim.traces.formats.preemptions import observed
from cloudsim.traces.formats.source import load
from cloudsim.traces.synthesis import lognormal_trace, production_like
from cloudsim.traces.trace import Trace

#: Of a cloud whose own load is not played: it is real.
NO_LOAD = Trace.checked(
    name="none", instance=[], start_s=np.zeros(0), stop_s=np.zeros(0), cores=np.zeros(0, dtype=np.int64)
)
_PRODUCTION = "production-"
_MOST_TOLD = 8

Told = Callable[[Path, str], None]  # a trace file, and a sentence about something odd in it


@dataclass(frozen=True)
class _Prices:
    """What price files hold, by market."""

    series: Mapping[str, PriceSeries]
    reports: Mapping[str, SeriesReport]
    files: tuple[FileReport, ...]

    @classmethod
    def of(cls, source: Path) -> _Prices:
        series, report = price_files.read(source)
        names = [one.market for one in series]
        return cls(
            dict(zip(names, series, strict=True)),
            dict(zip(names, report.series, strict=True)),
            report.files,
        )

    def warnings(self, market: str, file: Path) -> tuple[str, ...]:
        """About one market, and the file where it is one."""
        return warnings([one for one in self.files if one.file == str(file)], [self.reports[market]], (), ())


class Traces:
    """Reads and makes what a federation file names as traces, each once.

    Files are looked up in ``data_dir``, then in ``beside``.
    """

    def __init__(self, beside: Path, data_dir: Path | None, told: Told):
        self._beside = beside
        self._data_dir = data_dir
        self._told = told
        self._known: dict[str, Trace] = {}
        self._prices: dict[Path, _Prices] = {}

    def of(self, table: Mapping[str, Any], where: str, node_cores: Sequence[int] | None = None) -> Trace:
        """The field ``trace`` of a table. node_cores: of the cloud whose own load it is; None: it is a
        workload.

        Raises SpecError naming the field, and TraceError naming file and line of a trace.
        """
        where = f"{where}.trace"
        value = table.get("trace")
        public = isinstance(value, Mapping) and not {"prices", "preemptions"}.isdisjoint(value)
        key = repr((value, node_cores if public else None))
        if key not in self._known:
            if isinstance(value, str):
                self._known[key] = self._read(value, where)
            elif isinstance(value, Mapping):
                self._known[key] = self._made(value, where, node_cores)
            else:
                raise SpecError("name a trace file or a synthetic trace", field=where)
        return self._known[key]

    def _made(self, value: Mapping[str, Any], where: str, node_cores: Sequence[int] | None) -> Trace:
        for name, make in (("prices", self._priced), ("preemptions", self._preempted)):
            if name in value:
                if node_cores is None:
                    raise SpecError("is the own load of a cloud, and no workload", field=f"{where}.{name}")
                return make(value, where, node_cores)
        return _synthesise(value, where)

    def _read(self, name: str, where: str) -> Trace:
        file = self._find(name, where)
        trace, report = read(file)
        for warning in report.warnings:
            self._told(file, warning)
        return trace

    def _priced(self, value: Mapping[str, Any], where: str, node_cores: Sequence[int]) -> Trace:
        only(value, {"prices", "market", "bid_usd_per_hour"}, where)
        file = self._find(text(value, "prices", where), f"{where}.prices", directories=True)
        listed = list_beside(file)
        source, market = (file, None) if listed is None else listed
        if source not in self._prices:
            self._prices[source] = _Prices.of(source)
        prices = self._prices[source]
        if market is not None and value.get("market", market) != market:
            raise SpecError(f"the file holds {market}", field=f"{where}.market")
        chosen = _market({**value, "market": market} if market else value, prices.series, where)
        series = prices.series[chosen]
        for warning in prices.warnings(chosen, file):
            self._told(file, warning)
        bid = value.get("bid_usd_per_hour", series.on_demand_usd_per_hour)
        if bid is None:
            raise SpecError(
                "is missing, and no list names an on-demand price", field=f"{where}.bid_usd_per_hour"
            )
        return priced_load(series, positive(bid, f"{where}.bid_usd_per_hour"), node_cores)

    def _preempted(self, value: Mapping[str, Any], where: str, node_cores: Sequence[int]) -> Trace:
        only(value, {"preemptions", "market", "days", "taken", "seed"}, where)
        file = self._find(text(value, "preemptions", where), f"{where}.preemptions")
        found = observed(load(file))
        if found.quarantined:
            self._told(file, f"{found.quarantined} rows cannot be used.")
        chosen = slice(None) if "market" not in value else found.market == _market(value, found.market, where)
        taken_s = parse_duration_s(value.get("taken", "1h"), field=f"{where}.taken")
        if taken_s <= 0:
            raise SpecError("must be more than no time", field=f"{where}.taken")
        return preempted_load(
            _rng(value, where),
            LifetimeDistribution.from_samples(found.lifetime_s[chosen], found.preempted[chosen]),
            node_cores,
            days=positive(value.get("days", 60), f"{where}.days"),
            taken_s=taken_s,
            name=value.get("market", "preempted"),
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


def _market(value: Mapping[str, Any], markets: Iterable[str], where: str) -> str:
    """The one that is named, or the only one there is."""
    there = sorted(set(markets))
    if "market" not in value and len(there) == 1:
        return there[0]
    named = value.get("market")
    if not isinstance(named, str) or named not in there:
        told = ", ".join(there[:_MOST_TOLD]) + (", …" if len(there) > _MOST_TOLD else "")
        raise SpecError(f"{named!r} is none of: {told}", field=f"{where}.market")
    return named


def _rng(value: Mapping[str, Any], where: str) -> np.random.Generator:
    seed = value.get("seed", 0)
    if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
        raise SpecError(f"{seed!r} is not a whole number of 0 or more", field=f"{where}.seed")
    return np.random.default_rng(seed)


def _synthesise(value: Mapping[str, Any], where: str) -> Trace:
    kind = value.get("synthetic")
    rng = _rng(value, where)
    if kind == "table-1":
        only(value, {"synthetic", "seed", "hours"}, where)
        return lognormal_trace(rng, hours=positive(value.get("hours", 240), f"{where}.hours"), name="table-1")
    if isinstance(kind, str) and kind.removeprefix(_PRODUCTION) in ("A", "B", "C", "D"):
        only(value, {"synthetic", "seed", "days"}, where)
        days = positive(value["days"], f"{where}.days") if "days" in value else None
        return production_like(rng, kind.removeprefix(_PRODUCTION), days=days)
    raise SpecError(
        f"{kind!r} is not a synthetic trace; there are: table-1, production-A to production-D",
        field=f"{where}.synthetic",
    )
