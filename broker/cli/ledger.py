"""``ledger``: what the clouds promised, and how many instances they evicted."""

from __future__ import annotations

from typing import Annotated

import typer

from broker.cli import formatting
from broker.cli.connection import connected
from broker.cli.console import JsonOption, make_table, number, show_one
from broker.cli.options import CloudFilter, OriginFilter
from broker.ledger.models import LedgerEntry, LedgerView

_VERDICTS = {"yes": "[green]yes[/green]", "broken": "[red]broken[/red]", "open": "open"}
#: Heading of a column that the entries may be broken down by, and the entry's attribute.
_DIMENSIONS = (
    ("cloud", "cloud"),
    ("from", "origin"),
    ("door", "door"),
    ("SLA", "sla"),
    ("table", "table_version"),
)


def ledger(
    cloud: CloudFilter = None,
    origin: OriginFilter = None,
    sla: Annotated[str | None, typer.Option(help="At this SLA only.")] = None,
    by: Annotated[
        str, typer.Option(help="Break down by some of cloud, door, origin, sla and table, with commas.")
    ] = "cloud,sla",
    as_json: JsonOption = False,
) -> None:
    """Show promised against realised evictions.

    The realised share is of the instances that have left; beside it is where the true one is with 95 %
    confidence, whatever becomes of those that run. A promise is broken when all of that interval is above
    the SLA: then the cloud is asked last. Peaks count evictions that are at most an hour apart as one. The
    door is how requests came: overflow of a full cloud, workload or user. Leases without a guarantee are not
    counted.

    Example: spotfed ledger --cloud A --by origin,sla
    """
    promise = None if sla is None else formatting.parse_sla(sla, field="--sla")
    with connected() as client:
        view = client.ledger.read(cloud=cloud, origin=origin, sla=promise, by=by.split(","))
    _show(view, as_json=as_json)


def _show(view: LedgerView, *, as_json: bool) -> None:
    dimensions = [
        (heading, name)
        for heading, name in _DIMENSIONS
        if any(getattr(entry, name) is not None for entry in view.entries)
    ]
    counts = ("promised", "admitted", "running", "completed", "evicted", "peaks")
    shares = ("realised", "between", "mean promised risk")
    table = make_table(
        "Promised against realised evictions",
        *(heading for heading, _ in dimensions),
        *map(number, (*counts, *shares)),
        "kept?",
    )
    for entry in view.entries:
        table.add_row(*(_cell(getattr(entry, name)) for _, name in dimensions), *_figures(entry))
    notes = [] if view.entries else ["nothing was promised yet"]
    notes += [
        f"{cloud.cloud}: {cloud.missing} events are not kept any more, and not counted here"
        for cloud in view.clouds
        if cloud.missing
    ]
    notes += [
        f"{cloud.cloud}: {cloud.misplaced} leases were ended, because their requests had got others after "
        "Redis was restored from an older copy"
        for cloud in view.clouds
        if cloud.misplaced
    ]
    if view.more:
        notes.append("there is more: narrow it with --cloud, --origin or --sla")
    show_one(view, table, *notes, as_json=as_json)


def _cell(value: str | float | None) -> str:
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
        str(entry.peaks),
        formatting.risk(entry.realised),
        f"{entry.at_least:.4f}–{entry.at_most:.4f}",
        formatting.risk(entry.mean_risk),
        _VERDICTS[entry.kept],
    )
