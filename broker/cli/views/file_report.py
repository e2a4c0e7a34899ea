"""Shows the report of ``trace inspect`` on a file."""

from __future__ import annotations

from typing import Any

from rich.table import Column, Table
from rich.text import Text

from broker.cli import formatting
from broker.cli.console import console, make_table, number
from cloudsim.traces.formats import TITLES

_SIZES_SHOWN = 12


def show_file_report(report: dict[str, Any]) -> None:
    """Print what a file is, its figures, what is wrong with it, and what to do next."""
    screen = console()
    lines = _LINES[report["kind"]](report)
    title = f"{report['path']}: {lines.pop('is')}"
    view = Table(title=Text(title), title_justify="left", show_header=False, box=None, padding=(0, 2, 0, 1))
    view.add_column(no_wrap=True, style="bold")
    view.add_column(overflow="fold")
    for name, text in lines.items():
        view.add_row(name, Text(text))
    screen.print(view)
    _show_quality(report["quality"])
    if report["next"]:
        screen.print("Next:", style="bold")
        for command in report["next"]:
            screen.print(f"  {command}", soft_wrap=True, markup=False)
    screen.print()


def _show_quality(checks: list[dict[str, Any]]) -> None:
    screen = console()
    positive = [check for check in checks if check["found"] != 0 or check["says"]]
    if positive:
        columns = (Column("check", no_wrap=True), number("found"), Column("what it is", overflow="fold"))
        view = make_table("Quality", *columns)
        for check in positive:
            rule = f" Rule: {check['rule']}." if check["rule"] else ""
            says = f"{check['says']}." if check["says"] and not check["says"].endswith(".") else check["says"]
            view.add_row(
                check["check"],
                "?" if check["found"] is None else str(check["found"]),
                Text(f"{says}{rule}".strip()),
            )
        screen.print(view)
    if clean := [check["check"] for check in checks if check not in positive]:
        screen.print(f"Nothing of: {', '.join(clean)}.", soft_wrap=True, markup=False)


def _trace_lines(report: dict[str, Any]) -> dict[str, str]:
    of = report["figures"]
    lives, arrivals = of["lifetimes"], of["arrivals"]
    quantiles = ", ".join(
        f"{float(q) * 100:g} % {formatting.duration(seconds)}" for q, seconds in lives["quantiles_s"].items()
    )
    sizes = [f"{size['cores']} × {size['instances']:,}" for size in of["sizes"]]
    more = f", and {len(sizes) - _SIZES_SHOWN} sizes more" if len(sizes) > _SIZES_SHOWN else ""
    capacity = f", of {of['capacity_cores']:,}" if of["capacity_cores"] is not None else ""
    mean = "" if lives["mean_s"] is None else f"mean {formatting.duration(lives['mean_s'])}; "
    burst = "" if arrivals["variation"] is None else f", variation {arrivals['variation']:.1f}"
    return {
        "is": f"a trace, {TITLES[report['format']]}",
        "time": _time_text(of),
        "instances": f"{of['instances']:,} of {of['records']:,} records, {of['core_hours']:,.0f} core-hours",
        "sizes (cores × instances)": ", ".join(sizes[:_SIZES_SHOWN]) + more,
        "cores in use": f"mean {of['mean_cores']:,.1f}, peak {of['peak_cores']:,}{capacity}, "
        f"first at {_day_text(of['peak_at_s'])}",
        "lifetimes": f"{mean}{quantiles} (of {lives['counted']:,} seen whole)"
        if lives["counted"]
        else "none was seen whole",
        "arrivals": f"{arrivals['per_day']:,.1f} a day, a start every {_gap_text(arrivals['mean_gap_s'])}"
        f"{burst}; most in an hour: {arrivals['most_an_hour']:,} "
        f"from {_day_text(arrivals['busiest_hour_s'])}",
    }


def _time_text(of: dict[str, Any]) -> str:
    first_to_last = f"from {of['first_start_s']:,.0f} s to {of['last_stop_s']:,.0f} s"
    span = f"{formatting.duration(of['span_s'])}, {first_to_last}"
    if of["begins_at"] is None:
        return f"{span} of the trace; the file names no date: hours of the day are not known"
    zone = f"; the machine's clock was {of['time_zone']}" if of["time_zone"] else ""
    return f"{span} since {of['begins_at']}{zone}"


def _gap_text(seconds: float | None) -> str:
    return f"{seconds:.3g} s" if seconds is not None and seconds < 60 else formatting.duration(seconds)


def _day_text(at_s: float) -> str:
    return f"day {at_s / 86400:.1f}"


def _prices_lines(report: dict[str, Any]) -> dict[str, str]:
    of = report["figures"]
    fewest, most = of["records_per_market"]
    low, high = of["min_usd_per_hour"], of["max_usd_per_hour"]
    prices = (
        "none is known" if high is None else f"{low:.7g} to {high:.7g} US dollars an hour ({of['max_in']})"
    )
    return {
        "is": f"spot prices, {report['format'].upper()}",
        "time": f"{of['starts_at']} to {of['ends_at']}, {of['time_zone']}",
        "records": f"{of['records']:,} in {of['files']:,} files, {fewest:,} to {most:,} a market",
        "markets": f"{of['markets']:,}: {of['instance_types']:,} types in {of['zones']:,} zones; "
        f"{', '.join(of['products'])}",
        "prices": prices,
        "on-demand prices": f"known of {of['on_demand_prices_known']:,} markets",
    }


def _price_list_lines(report: dict[str, Any]) -> dict[str, str]:
    of = report["figures"]
    return {
        "is": "a list of on-demand prices, CSV",
        "records": f"{of['records']:,}, {of['prices']:,} prices",
        "markets": f"{of['instance_types']:,} types in {of['regions']:,} regions",
        "prices": f"{of['min_usd_per_hour']:.7g} ({of['min_in']}) to {of['max_usd_per_hour']:.7g} "
        f"({of['max_in']}) US dollars an hour",
        "time": "the file names none",
    }


#: Functions that put the report of each kind of file into words.
_LINES = {"trace": _trace_lines, "prices": _prices_lines, "on-demand prices": _price_list_lines}
