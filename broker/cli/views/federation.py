"""A federation's report as tables for people; ``federate`` and ``demo`` end with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.cli import formatting

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def show_report(out: Console, report: dict[str, Any], slas: dict[str, float | None]) -> None:
    """Prints clouds and origins of a report. ``slas`` is what each origin asked for (None: no guarantee)."""
    out.print(_clouds(report["clouds"]))
    out.print(_origins(report["origins"], slas))
    total = report["total"]
    out.print(
        f"{total['requests']} spot requests: {total['admitted']} admitted, {total['completed']} completed, "
        f"{total['evicted']} evicted; {report['seconds']:.1f} s ({report['mode']})."
    )


def _clouds(clouds: dict[str, Any]) -> Table:
    table = _table(
        "Clouds",
        "cloud",
        "nodes",
        "on-demand",
        "admitted",
        "spot admitted",
        "completed",
        "evicted",
        "refusals",
    )
    for name, cloud in clouds.items():
        own, spot = cloud["on_demand"], cloud["spot"]
        table.add_row(
            name,
            cloud["nodes"],
            str(own["requests"]),
            formatting.share(own["admitted"], own["requests"]),
            *(str(spot[key]) for key in ("admitted", "completed", "evicted")),
            _refusals(cloud["refusals"]),
        )
    return table


def _origins(origins: dict[str, Any], slas: dict[str, float | None]) -> Table:
    table = _table(
        "Origins: whose requests went out as spot, and whether the promise was kept",
        "origin", "requests", "admitted", "evicted", "evicted / admitted", "95 % interval", "SLA", "promise",
    )  # fmt: skip
    for name, origin in origins.items():
        admitted, evicted = origin["admitted"], origin["evicted"]
        low, high = origin["evicted_low"], origin["evicted_high"]
        table.add_row(
            name,
            str(origin["requests"]),
            formatting.share(admitted, origin["requests"]),
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


def _refusals(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {reason.replace('_', ' ')}" for reason, count in counts.items()) or "none"


def _table(title: str, first: str, *columns: str) -> Table:
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    table.add_column(first)
    for column in columns:
        table.add_column(column, justify="left" if column in {"nodes", "refusals", "promise"} else "right")
    return table
