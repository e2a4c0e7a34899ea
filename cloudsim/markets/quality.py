"""Check how good recorded prices are: one line for each known kind of fault, whether it was found or not."""

from __future__ import annotations

from cloudsim.markets.gaps import GapRule
from cloudsim.markets.on_demand import PriceList
from cloudsim.markets.report import UNFINISHED, FileReport, PriceReport
from cloudsim.traces.quality import QUOTED_LINES, QualityCheck, check_file
from cloudsim.traces.report import QuarantinedLine

_HOUR_S = 3600.0


def check_prices(report: PriceReport, rule: GapRule) -> tuple[QualityCheck, ...]:
    """Run all checks of a price history, in a fixed order."""
    open_ends = [file.file for file in report.files if file.ends_open]
    repaired = tuple(sorted({sentence for file in report.files for sentence in file.repaired}))
    repeated = sum(file.repeated for file in report.files)
    mended, cut = check_file(bool(open_ends), repaired)
    return (
        mended,
        QualityCheck(cut.name, len(open_ends), cut.says, cut.rule),
        _quarantined(report.files),
        QualityCheck(
            "repeated records",
            repeated,
            "dropped: of one market and time the first counts" if repeated else "",
        ),
        _unknown(report),
        _gaps(report, rule),
        _silences(report, rule),
        _not_there(report),
        _unfinished(report),
    )


def check_price_list(prices: PriceList) -> tuple[QualityCheck, ...]:
    """Run all checks of a list of on-demand prices."""
    lines = prices.quarantined
    return (
        *check_file(prices.ends_open, prices.repaired),
        _lines("quarantined", [(prices.file, q) for q in lines]),
    )


def _not_there(report: PriceReport) -> QualityCheck:
    says = report.missing
    return QualityCheck("not there", len(says), f"files of the list, first {says[0]}" if says else "")


def _unfinished(report: PriceReport) -> QualityCheck:
    return QualityCheck("unfinished", int(report.is_unfinished), UNFINISHED if report.is_unfinished else "")


def _quarantined(files: tuple[FileReport, ...]) -> QualityCheck:
    return _lines("quarantined", [(file.file, line) for file in files for line in file.quarantined])


def _lines(name: str, bad: list[tuple[str, QuarantinedLine]]) -> QualityCheck:
    named = [f"{file}:{line.line}: {line.reason}" for file, line in bad[:QUOTED_LINES]]
    if len(bad) > QUOTED_LINES:
        named.append(f"and {len(bad) - QUOTED_LINES} more")
    return QualityCheck(name, len(bad), "; ".join(named))


def _unknown(report: PriceReport) -> QualityCheck:
    count = sum(market.unknown for market in report.series)
    return QualityCheck(
        "no price", count, "unknown until the next record, not free" if count else "", "0, null or NaN"
    )


def _gaps(report: PriceReport, rule: GapRule) -> QualityCheck:
    gaps = [(end_s - start_s, market) for market in report.series for start_s, end_s in market.gaps_s]
    says = ""
    if gaps:
        longest_s, market = max(gaps, key=lambda gap: gap[0])
        silent = len({(gap.instance_type, gap.zone, gap.product) for _, gap in gaps})
        where = " ".join(filter(None, (market.instance_type, market.zone)))
        says = (
            f"in {silent} of {len(report.series)} markets; the longest {longest_s / _HOUR_S:.1f} h ({where})"
        )
    limit = "no limit" if rule.max_gap_s is None else f"above {rule.max_gap_s / _HOUR_S:g} h"
    return QualityCheck("gaps", len(gaps), says, f"a market is silent, {limit}: its price is unknown then")


def _silences(report: PriceReport, rule: GapRule) -> QualityCheck:
    if rule.max_silence_s is None or len(report.series) < rule.markets_at_least:
        return QualityCheck(
            "all silent",
            None,
            f"of {len(report.series)} markets a common silence says nothing",
            f"needs {rule.markets_at_least} markets",
        )
    lengths = [end_s - start_s for start_s, end_s in report.silences_s]
    says = f"the longest {max(lengths) / _HOUR_S:.1f} h" if lengths else ""
    return QualityCheck(
        "all silent", len(lengths), says, f"all markets are silent above {rule.max_silence_s / _HOUR_S:g} h"
    )
