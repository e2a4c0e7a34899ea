"""What ``spotfed trace inspect`` says of files: figures, the checks of their quality, and what to do next."""

from __future__ import annotations

import math
import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cloudsim.traces.quality import QualityCheck
    from cloudsim.traces.report import ImportReport
    from cloudsim.traces.trace import Trace

#: Format of a trace -> its name for people.
FORMATS = {
    "eucalyptus": "Eucalyptus START/STOP log",
    "swf": "batch log in the Standard Workload Format",
    "azure": "Azure 2017 CSV",
    "preemptions": "observed lifetimes of preemptible VMs",
    "table": "CSV of our own",
    "parquet": "Parquet of our own",
}

_MARKETS = "markets.csv"
#: Files beside data that say what it is.
_DOCUMENTS = (".md", ".rst", ".html", ".pdf")
_DOCUMENT_NAMES = ("license", "readme", "copying", "notice")


def expand(paths: Iterable[Path]) -> tuple[list[Path], list[Path]]:
    """What is inspected in turn, and the documents beside it that are left aside.

    A directory is gone through with those in it; one that holds prices only is a history of its own.

    Raises TraceError for a directory without data.
    """
    from cloudsim.model.errors import TraceError

    found: list[Path] = []
    aside: list[Path] = []
    for path in paths:
        if not path.is_dir():
            found.append(path)
            continue
        inside: list[Path] = []
        for one in sorted(path.iterdir()):
            if one.name.startswith("."):
                continue
            (aside if one.is_file() and _is_document(one) else inside).append(one)
        if not inside:
            raise TraceError("is a directory without data", file=str(path))
        if _is_history(inside):
            found.append(path)
        else:
            within, documents = expand(inside)
            found += within
            aside += documents
    return found, aside


def _is_document(path: Path) -> bool:
    name = path.name.lower()
    return name.endswith(_DOCUMENTS) or name.startswith(_DOCUMENT_NAMES)


def _is_history(files: list[Path]) -> bool:
    from cloudsim.markets.recognition import FileKind, recognise_file
    from cloudsim.model.errors import TraceError

    if not all(one.is_file() for one in files):
        return False
    try:
        return all(recognise_file(one) is FileKind.PRICES for one in files)
    except TraceError:
        return False


def inspect_one(path: Path, *, capacity_cores: int | None, max_error_rate: float) -> dict[str, Any]:
    """All that is said of a file, or of a directory that is a price history, as JSON types.

    Raises TraceError where it cannot be read.
    """
    from cloudsim.markets.recognition import FileKind, recognise_file

    kind = FileKind.PRICES if path.is_dir() else recognise_file(path)
    if kind is FileKind.PRICES:
        return {"path": str(path), "kind": kind.value, **_of_prices(path, max_error_rate)}
    if kind is FileKind.ON_DEMAND_PRICES:
        return {"path": str(path), "kind": kind.value, **_of_price_list(path, max_error_rate)}
    from cloudsim.traces.formats import read

    trace, report = read(path, max_error_rate=max_error_rate, capacity_cores=capacity_cores)
    return {"path": str(path), "kind": kind.value, **of_trace(path, trace, report)}


def of_trace(path: Path, trace: Trace, report: ImportReport) -> dict[str, Any]:
    """A trace: its figures, its checks and the commands that use it."""
    from cloudsim.traces import quality, statistics

    summary = statistics.summarise(trace, drop_outs=report.drop_outs)
    arrivals = statistics.Arrivals.of(trace)
    whole = trace.lifetime_s[statistics.seen_whole(trace, summary.drop_outs)]
    begins_at_s = report.begins_at_s
    return {
        "format": report.format,
        "figures": {
            "records": report.records,
            "instances": summary.instances,
            "begins_at": None if begins_at_s is None else _iso(begins_at_s),
            "time_zone": report.time_zone or None,
            "first_start_s": summary.first_start_s,
            "last_stop_s": summary.last_stop_s,
            "span_s": summary.span_s,
            "mean_cores": summary.mean_cores,
            "peak_cores": summary.peak_cores,
            "peak_at_s": statistics.peak_at_s(trace),
            "capacity_cores": report.capacity_cores,
            "core_hours": summary.core_seconds / 3600.0,
            "sizes": [{"cores": cores, "instances": count} for cores, count in summary.sizes],
            "lifetimes": {
                "counted": summary.lifetimes_counted,
                "left_out": summary.instances - summary.lifetimes_counted,
                "mean_s": float(whole.mean()) if len(whole) else None,
                "quantiles_s": {f"{q:g}": seconds for q, seconds in summary.lifetime_quantiles_s},
            },
            "arrivals": {
                "per_day": arrivals.per_day,
                "mean_gap_s": arrivals.mean_gap_s,
                "variation": arrivals.variation,
                "busiest_hour_s": arrivals.busiest_hour_s,
                "most_an_hour": arrivals.most_an_hour,
            },
        },
        "quality": _checks(quality.check_trace(trace, report)),
        "next": [*_trace_commands(path, report, summary.sizes[-1][0]), *_experiments(path)],
    }


def _of_prices(path: Path, max_error_rate: float) -> dict[str, Any]:
    from cloudsim.markets import quality
    from cloudsim.markets.formats import GapRule, read

    rule = GapRule()
    _, report = read(path, gaps=rule, max_error_rate=max_error_rate)
    known = [one for one in report.series if one.min_usd_per_hour is not None]
    highest = max(known, key=lambda one: one.max_usd_per_hour or 0.0, default=None)
    file = shlex.quote(str(path))
    return {
        "format": "+".join(sorted({one.format for one in report.files})),
        "figures": {
            "files": len(report.files),
            "records": sum(one.records for one in report.files),
            "markets": len(report.series),
            "instance_types": len({one.instance_type for one in report.series}),
            "zones": len({one.zone for one in report.series}),
            "products": sorted({one.product for one in report.series}),
            "starts_at": _iso(min(one.starts_s for one in report.series)),
            "ends_at": _iso(max(one.ends_s for one in report.series)),
            "time_zone": "UTC where a time names none",
            "records_per_market": [
                min(one.records for one in report.series),
                max(one.records for one in report.series),
            ],
            "min_usd_per_hour": min(
                (one.min_usd_per_hour for one in known if one.min_usd_per_hour), default=None
            ),
            "max_usd_per_hour": highest.max_usd_per_hour if highest else None,
            "max_in": " ".join(filter(None, (highest.instance_type, highest.zone))) if highest else None,
            "on_demand_prices_known": sum(one.on_demand_usd_per_hour is not None for one in report.series),
        },
        "quality": _checks(quality.check_prices(report, rule)),
        "next": [
            f"spotfed prices {file}",
            f"spotfed trace plot {file} --picture {shlex.quote(f'{_stem(path)}.png')}",
            *_experiments(path),
        ],
    }


def _of_price_list(path: Path, max_error_rate: float) -> dict[str, Any]:
    from cloudsim.markets import on_demand, quality

    found = on_demand.read_price_list(path, max_error_rate=max_error_rate)
    prices = found.usd_per_hour
    cheapest, dearest = min(prices, key=lambda one: prices[one]), max(prices, key=lambda one: prices[one])
    return {
        "format": "csv",
        "figures": {
            "records": found.records,
            "prices": len(prices),
            "regions": len({region for region, _ in prices}),
            "instance_types": len({kind for _, kind in prices}),
            "min_usd_per_hour": prices[cheapest],
            "min_in": " ".join(cheapest),
            "max_usd_per_hour": prices[dearest],
            "max_in": " ".join(dearest),
        },
        "quality": _checks(quality.check_price_list(found)),
        "next": _experiments(path),
    }


def _checks(checks: tuple[QualityCheck, ...]) -> list[dict[str, Any]]:
    return [{"check": one.name, "found": one.found, "says": one.says, "rule": one.rule} for one in checks]


def _trace_commands(path: Path, report: ImportReport, largest: int) -> list[str]:
    """Commands that run as they stand: studies of a cloud's load on the smallest cloud of like nodes that
    holds its peak.
    """
    file, stem = shlex.quote(str(path)), _stem(path)
    nodes = f"{math.ceil(report.peak_cores / largest)}x{largest}"
    studies = [
        f"spotfed replay --on-demand {file} --spot {file} --nodes {nodes}",
        f"spotfed table --trace {file} --nodes {nodes}",
    ]
    return [
        *(studies if report.continuous else ()),
        f"spotfed trace plot {file} --picture {shlex.quote(f'{stem}.png')}",
        f"spotfed trace import {file} --out {shlex.quote(f'{stem}.parquet')}",
    ]


def _experiments(path: Path) -> list[str]:
    """The experiments that read this very file, told by its directory and name."""
    from cloudsim.experiments import registry

    own = path.absolute()
    names = {f"{own.parent.name}/{own.name}", f"{own.name}/{_MARKETS}"}
    if (own.parent / _MARKETS).is_file():
        names.add(f"{own.parent.name}/{_MARKETS}")
    if own.is_dir():
        names |= {f"{own.name}/{one.name}" for one in own.iterdir()}
    return [
        f"spotfed experiment {name}"
        for name in registry.MODULES
        if any(names & set(case.needs) for case in registry.load(name).cases(False))
    ]


def _stem(path: Path) -> str:
    from cloudsim.traces.formats.source import trace_name

    return trace_name(str(path.absolute()))


def _iso(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat().replace("+00:00", "Z")
