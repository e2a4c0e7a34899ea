"""``ledger``: what the clouds promised, and what came of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from broker.cli import formatting
from broker.cli.connection import connected
from broker.cli.console import JsonOption, console, print_json
from broker.cli.federation import CloudOption, OriginOption

if TYPE_CHECKING:
    from broker.ledger.models import LedgerEntry, LedgerView

_VERDICTS = {"yes": "[green]yes[/green]", "broken": "[red]broken[/red]", "open": "open"}


def ledger(
    cloud: CloudOption = None,
    origin: OriginOption = None,
    sla: Annotated[str | None, typer.Option(help="At this SLA only.")] = None,
    by: Annotated[
        str, typer.Option(help="Break down by some of cloud, origin, sla and table, with commas.")
    ] = "cloud,sla",
    as_json: JsonOption = False,
) -> None:
    """Show promised against realised evictions.

    The realised share is of the instances that have left; beside it is where the true one is with 95 %
    confidence, whatever becomes of those that run. A promise is broken when all of that interval is above
    the SLA: then the cloud is asked last. Leases without a guarantee are not counted.

    Example: spotfed ledger --cloud A --by origin,sla
    """
    promise = None if sla is None else formatting.parse_sla(sla, field="--sla")
    with connected() as client:
        found = client.ledger.read(cloud=cloud, origin=origin, sla=promise, by=by.split(","))
    if as_json:
        print_json(found.model_dump(mode="json"))
    else:
        _show(found)


def _show(found: LedgerView) -> None:
    from rich.table import Table

    named = [
        (heading, name)
        for heading, name in (
            ("cloud", "cloud"),
            ("from", "origin"),
            ("SLA", "sla"),
            ("table", "table_version"),
        )
        if any(getattr(entry, name) is not None for entry in found.entries)
    ]
    table = Table(title="Promised against realised evictions", title_justify="left")
    for heading, _ in named:
        table.add_column(heading)
    for heading in ("promised", "admitted", "running", "completed", "evicted"):
        table.add_column(heading, justify="right")
    for heading in ("realised", "between", "mean promised risk"):
        table.add_column(heading, justify="right")
    table.add_column("kept?")
    for entry in found.entries:
        table.add_row(*(_named(getattr(entry, name)) for _, name in named), *_figures(entry))
    out = console()
    out.print(table)
    if not found.entries:
        out.print("nothing was promised yet")
    for one in found.clouds:
        if one.missing:
            out.print(f"{one.cloud}: {one.missing} events are not kept any more, and not counted here")
    if found.more:
        out.print("there is more: narrow it with --cloud, --origin or --sla")


def _named(value: str | float | None) -> str:
    if value is None:
        return "–"
    return value if isinstance(value, str) else formatting.sla(value)


def _figures(entry: LedgerEntry) -> tuple[str, ...]:
    return (
        f"{entry.promised:.4g}",
        str(entry.admitted),
        str(entry.running),
        str(entry.completed),
        str(entry.evicted),
        formatting.risk(entry.realised),
        f"{entry.at_least:.4f}–{entry.at_most:.4f}",
        formatting.risk(entry.mean_risk),
        _VERDICTS[entry.kept],
    )
