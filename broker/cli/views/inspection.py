"""How ``spotfed trace inspect`` shows a file to people."""

from __future__ import annotations

from typing import Any

from broker.cli import formatting
from broker.cli.console import console
from broker.cli.trace.inspection import FORMATS

_SIZES_SHOWN = 12


def show(told: dict[str, Any]) -> None:
    """One file: what it is, its figures, what is wrong with it, and what to do next."""
    from rich.table import Table
    from rich.text import Text

    screen = console()
    lines = {"trace": _trace, "prices": _prices, "on-demand prices": _price_list}[told["kind"]](told)
    title = f"{told['path']}: {lines.pop('is')}"
    view = Table(title=Text(title), title_justify="left", show_header=False, box=None, padding=(0, 2, 0, 1))
    view.add_column(no_wrap=True, style="bold")
    view.add_column(overflow="fold")
    for name, text in lines.items():
        view.add_row(name, Text(text))
    screen.print(view)
    _show_quality(told["quality"])
    if told["next"]:
        screen.print("Next:", style="bold")
        for command in told["next"]:
            screen.print(f"  {command}", soft_wrap=True, markup=False)
    screen.print()


def _show_quality(checks: list[dict[str, Any]]) -> None:
    from rich.table import Table
    from rich.text import Text

    screen = console()
    told = [one for one in checks if one["found"] != 0 or one["says"]]
    if told:
        view = Table(title="Quality", title_justify="left")
        view.add_column("check", no_wrap=True)
        view.add_column("found", justify="right")
        view.add_column("what it is", overflow="fold")
        for one in told:
            rule = f" Rule: {one['rule']}." if one["rule"] else ""
            says = f"{one['says']}." if one["says"] and not one["says"].endswith(".") else one["says"]
            view.add_row(
                one["check"],
                "?" if one["found"] is None else str(one["found"]),
                Text(f"{says}{rule}".strip()),
            )
        screen.print(view)
    if clean := [one["check"] for one in checks if one not in told]:
        screen.print(f"Nothing of: {', '.join(clean)}.", soft_wrap=True, markup=False)


def _trace(told: dict[str, Any]) -> dict[str, str]:
    of = told["figures"]
    lives, arrivals = of["lifetimes"], of["arrivals"]
    quantiles = ", ".join(
        f"{float(q) * 100:g} % {formatting.duration(seconds)}" for q, seconds in lives["quantiles_s"].items()
    )
    sizes = [f"{one['cores']} × {one['instances']:,}" for one in of["sizes"]]
    more = f", and {len(sizes) - _SIZES_SHOWN} sizes more" if len(sizes) > _SIZES_SHOWN else ""
    capacity = f", of {of['capacity_cores']:,}" if of["capacity_cores"] is not None else ""
    mean = "" if lives["mean_s"] is None else f"mean {formatting.duration(lives['mean_s'])}; "
    burst = "" if arrivals["variation"] is None else f", variation {arrivals['variation']:.1f}"
    return {
        "is": f"a trace, {FORMATS[told['format']]}",
        "time": _time(of),
        "instances": f"{of['instances']:,} of {of['records']:,} records, {of['core_hours']:,.0f} core-hours",
        "sizes (cores × instances)": ", ".join(sizes[:_SIZES_SHOWN]) + more,
        "cores in use": f"mean {of['mean_cores']:,.1f}, peak {of['peak_cores']:,}{capacity}, "
        f"first at {_day(of['peak_at_s'])}",
        "lifetimes": f"{mean}{quantiles} (of {lives['counted']:,} seen whole)"
        if lives["counted"]
        else "none was seen whole",
        "arrivals": f"{arrivals['per_day']:,.1f} a day, a start every {_gap(arrivals['mean_gap_s'])}"
        f"{burst}; most in an hour: {arrivals['most_an_hour']:,} from {_day(arrivals['busiest_hour_s'])}",
    }


def _time(of: dict[str, Any]) -> str:
    first_to_last = f"from {of['first_start_s']:,.0f} s to {of['last_stop_s']:,.0f} s"
    span = f"{formatting.duration(of['span_s'])}, {first_to_last}"
    if of["begins_at"] is None:
        return f"{span} of the trace; the file names no date: hours of the day are not known"
    zone = f"; the machine's clock was {of['time_zone']}" if of["time_zone"] else ""
    return f"{span} since {of['begins_at']}{zone}"


def _gap(seconds: float | None) -> str:
    return f"{seconds:.3g} s" if seconds is not None and seconds < 60 else formatting.duration(seconds)


def _day(at_s: float) -> str:
    return f"day {at_s / 86400:.1f}"


def _prices(told: dict[str, Any]) -> dict[str, str]:
    of = told["figures"]
    fewest, most = of["records_per_market"]
    low, high = of["min_usd_per_hour"], of["max_usd_per_hour"]
    prices = (
        "none is known" if high is None else f"{low:.7g} to {high:.7g} US dollars an hour ({of['max_in']})"
    )
    return {
        "is": f"spot prices, {told['format'].upper()}",
        "time": f"{of['starts_at']} to {of['ends_at']}, {of['time_zone']}",
        "records": f"{of['records']:,} in {of['files']:,} files, {fewest:,} to {most:,} a market",
        "markets": f"{of['markets']:,}: {of['instance_types']:,} types in {of['zones']:,} zones; "
        f"{', '.join(of['products'])}",
        "prices": prices,
        "on-demand prices": f"known of {of['on_demand_prices_known']:,} markets",
    }


def _price_list(told: dict[str, Any]) -> dict[str, str]:
    of = told["figures"]
    return {
        "is": "a list of on-demand prices, CSV",
        "records": f"{of['records']:,}, {of['prices']:,} prices",
        "markets": f"{of['instance_types']:,} types in {of['regions']:,} regions",
        "prices": f"{of['min_usd_per_hour']:.7g} ({of['min_in']}) to {of['max_usd_per_hour']:.7g} "
        f"({of['max_in']}) US dollars an hour",
        "time": "the file names none",
    }
