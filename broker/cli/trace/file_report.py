"""Reports on recorded files for ``trace inspect``: figures, checks of quality, and what to do next."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cloudsim.experiments import registry
from cloudsim.markets import formats as price_formats
from cloudsim.markets import on_demand
from cloudsim.markets import quality as price_quality
from cloudsim.markets.recognition import FileKind, recognise_file
from cloudsim.model.errors import TraceError
from cloudsim.traces import formats, quality, statistics
from cloudsim.traces.formats.source import trace_name
from cloudsim.traces.quality import QualityCheck
from cloudsim.traces.report import ImportReport
from cloudsim.traces.trace import Trace

_MARKETS = "markets.csv"
#: Endings of documents that stand beside data.
_DOCUMENTS = (".md", ".rst", ".html", ".pdf")
_DOCUMENT_NAMES = ("license", "readme", "copying", "notice")


def expand_paths(paths: Iterable[Path]) -> tuple[list[Path], list[Path]]:
    """Return the files to inspect, and the documents beside them that are left out.

    Directories are searched with their subdirectories; one that holds only prices counts as one history.

    Raises
    ------
    TraceError
        When a directory has no data.
    """
    files: list[Path] = []
    documents: list[Path] = []
    for path in paths:
        if not path.is_dir():
            files.append(path)
            continue
        inside: list[Path] = []
        for entry in sorted(path.iterdir()):
            if entry.name.startswith("."):
                continue
            (documents if entry.is_file() and _is_document(entry) else inside).append(entry)
        if not inside:
            raise TraceError("is a directory without data", file=str(path))
        if _is_history(inside):
            files.append(path)
        else:
            more_files, more_documents = expand_paths(inside)
            files += more_files
            documents += more_documents
    return files, documents


def _is_document(path: Path) -> bool:
    name = path.name.lower()
    return name.endswith(_DOCUMENTS) or name.startswith(_DOCUMENT_NAMES)


def _is_history(files: list[Path]) -> bool:
    if not all(file.is_file() for file in files):
        return False
    try:
        return all(recognise_file(file) is FileKind.PRICES for file in files)
    except TraceError:
        return False


def report_file(path: Path, *, capacity_cores: int | None, max_error_rate: float) -> dict[str, Any]:
    """Report on a file, or on a directory that is a price history, as JSON types.

    Raises
    ------
    TraceError
        When it cannot be read, or more than ``max_error_rate`` of its lines are bad.
    """
    kind = FileKind.PRICES if path.is_dir() else recognise_file(path)
    if kind is FileKind.PRICES:
        return {"path": str(path), "kind": kind.value, **_report_prices(path, max_error_rate)}
    if kind is FileKind.ON_DEMAND_PRICES:
        return {"path": str(path), "kind": kind.value, **_report_price_list(path, max_error_rate)}
    trace, report = formats.read(path, max_error_rate=max_error_rate, capacity_cores=capacity_cores)
    return {"path": str(path), "kind": kind.value, **report_trace(path, trace, report)}


def report_trace(path: Path, trace: Trace, report: ImportReport) -> dict[str, Any]:
    """Report the figures of a trace, its checks, and the commands that use it."""
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


def _report_prices(path: Path, max_error_rate: float) -> dict[str, Any]:
    rule = price_formats.GapRule()
    _, report = price_formats.read(path, gaps=rule, max_error_rate=max_error_rate)
    known = [each for each in report.series if each.min_usd_per_hour is not None]
    highest = max(known, key=lambda each: each.max_usd_per_hour or 0.0, default=None)
    file = shlex.quote(str(path))
    return {
        "format": "+".join(sorted({each.format for each in report.files})),
        "figures": {
            "files": len(report.files),
            "records": sum(each.records for each in report.files),
            "markets": len(report.series),
            "instance_types": len({each.instance_type for each in report.series}),
            "zones": len({each.zone for each in report.series}),
            "products": sorted({each.product for each in report.series}),
            "starts_at": _iso(min(each.starts_s for each in report.series)),
            "ends_at": _iso(max(each.ends_s for each in report.series)),
            "time_zone": "UTC where a time names none",
            "records_per_market": [
                min(each.records for each in report.series),
                max(each.records for each in report.series),
            ],
            "min_usd_per_hour": min(
                (each.min_usd_per_hour for each in known if each.min_usd_per_hour), default=None
            ),
            "max_usd_per_hour": highest.max_usd_per_hour if highest else None,
            "max_in": " ".join(filter(None, (highest.instance_type, highest.zone))) if highest else None,
            "on_demand_prices_known": sum(each.on_demand_usd_per_hour is not None for each in report.series),
        },
        "quality": _checks(price_quality.check_prices(report, rule)),
        "next": [
            f"spotfed prices {file}",
            f"spotfed trace plot {file} --picture {shlex.quote(f'{_stem(path)}.png')}",
            *_experiments(path),
        ],
    }


def _report_price_list(path: Path, max_error_rate: float) -> dict[str, Any]:
    price_list = on_demand.read_price_list(path, max_error_rate=max_error_rate)
    prices = price_list.usd_per_hour
    cheapest, dearest = min(prices, key=lambda key: prices[key]), max(prices, key=lambda key: prices[key])
    return {
        "format": "csv",
        "figures": {
            "records": price_list.records,
            "prices": len(prices),
            "regions": len({region for region, _ in prices}),
            "instance_types": len({kind for _, kind in prices}),
            "min_usd_per_hour": prices[cheapest],
            "min_in": " ".join(cheapest),
            "max_usd_per_hour": prices[dearest],
            "max_in": " ".join(dearest),
        },
        "quality": _checks(price_quality.check_price_list(price_list)),
        "next": _experiments(path),
    }


def _checks(checks: tuple[QualityCheck, ...]) -> list[dict[str, Any]]:
    return [
        {"check": check.name, "found": check.found, "says": check.says, "rule": check.rule}
        for check in checks
    ]


def _trace_commands(path: Path, report: ImportReport, largest: int) -> list[str]:
    """Return commands that can be run as they are.

    Studies assume the smallest cloud of equal nodes that holds the peak of the trace.
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
    """Return the commands of experiments that read this file, known by its directory and name."""
    own = path.absolute()
    names = {f"{own.parent.name}/{own.name}", f"{own.name}/{_MARKETS}"}
    if (own.parent / _MARKETS).is_file():
        names.add(f"{own.parent.name}/{_MARKETS}")
    if own.is_dir():
        names |= {f"{own.name}/{entry.name}" for entry in own.iterdir()}
    return [
        f"spotfed experiment {name}"
        for name in registry.MODULES
        if any(names & set(case.needs) for case in registry.load(name).cases(False))
    ]


def _stem(path: Path) -> str:
    return trace_name(str(path.absolute()))


def _iso(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat().replace("+00:00", "Z")
