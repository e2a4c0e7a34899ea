"""A federation's report as tables for people; ``federate`` and ``demo`` end with it."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from broker.cli import formatting
from broker.cli.console import make_table, number


def show_report(out: Console, report: dict[str, Any], slas: dict[str, float | None]) -> None:
    """Print the clouds, the origins and the totals of a report.

    ``slas``: the SLA that each origin asked for; None: no guarantee.
    """
    out.print(_clouds_table(report["clouds"]))
    if report["origins"]:
        out.print(_origins_table(report["origins"], slas))
    total = report["total"]
    out.print(
        f"{total['requests']} spot requests: {total['admitted']} admitted, {total['completed']} completed, "
        f"{total['evicted']} evicted; {report['seconds']:.1f} s ({report['mode']})."
    )


def _clouds_table(clouds: dict[str, Any]) -> Table:
    numbers = ("on-demand", "admitted", "spot admitted", "completed", "evicted")
    table = make_table("Clouds", "cloud", "nodes", *map(number, numbers), "refusals")
    for name, cloud in clouds.items():
        own, spot = cloud["on_demand"], cloud["spot"]
        table.add_row(
            name,
            cloud["nodes"],
            str(own["requests"]),
            formatting.share(own["admitted"], own["requests"]),
            *(str(spot[key]) for key in ("admitted", "completed", "evicted")),
            _refusals_text(cloud["refusals"]),
        )
    return table


def _origins_table(origins: dict[str, Any], slas: dict[str, float | None]) -> Table:
    numbers = ("requests", "admitted", "work", "evicted", "evicted / admitted", "95 % interval", "SLA")
    title = "Origins: whose requests went out as spot, and whether the promise was kept"
    table = make_table(title, "origin", *map(number, numbers), "promise")
    for name, origin in origins.items():
        admitted, evicted = origin["admitted"], origin["evicted"]
        low, high = origin["evicted_low"], origin["evicted_high"]
        hours = origin["spot_core_hours"]
        table.add_row(
            name,
            str(origin["requests"]),
            formatting.share(admitted, origin["requests"]),
            formatting.share(hours["completed"], hours["requested"]),
            str(evicted),
            formatting.share(evicted, admitted),
            f"{low:.4f} – {high:.4f}" if admitted else "–",
            formatting.sla(slas.get(name)),
            _verdict(evicted, admitted, slas.get(name)),
        )
    return table


def _verdict(evicted: int, admitted: int, sla: float | None) -> str:
    if sla is None:
        return "none given"
    if not admitted:
        return "nothing admitted"
    return "[green]kept[/green]" if evicted <= sla * admitted else "[red]broken[/red]"


def _refusals_text(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {reason.replace('_', ' ')}" for reason, count in counts.items()) or "none"
