"""``clouds`` and ``cloud``: the members' clouds, making room on their nodes, and changing these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import RenderableType

from broker.cli import formatting
from broker.cli.cloud_check import check
from broker.cli.connection import connected
from broker.cli.console import JsonOption, make_table, next_step, number, print_text, show_list, show_one
from broker.cli.node_change import apply
from broker.contract import Advert, DrainReport
from broker.schemas.clouds import CloudView

cloud = typer.Typer(
    no_args_is_help=True, help="Check a real cloud, empty nodes, open them again, and change them."
)
cloud.command()(apply)
cloud.command()(check)

CloudArgument = Annotated[str, typer.Argument(metavar="CLOUD", help="Id of the cloud.")]
NodeOption = Annotated[
    list[int] | None,
    typer.Option(
        min=0, help="This node only, counted from 0; may be repeated.", show_default="the whole cloud"
    ),
]


def clouds(as_json: JsonOption = False) -> None:
    """Show the members of the federation: room, load and how old their tables are.

    Example: spotfed clouds
    """
    with connected() as client:
        views = client.clouds.list()
    loads = ("free cores", "on-demand", "spot", "spot leases", "admitted", "evicted", "table made")
    show_list(
        "clouds",
        views,
        *("cloud", "nodes", "state"),
        *map(number, ("cloud time", *loads)),
        row=_cloud_row,
        as_json=as_json,
        title="Clouds",
    )
    if not as_json:
        print_text(*(f"{view.info.id} {broken.detail}" for view in views for broken in view.broken_promises))
        next_step("spotfed quote --cores 1 --lifetime 2h --sla 0.05")


@cloud.command()
def drain(
    cloud_id: CloudArgument,
    node: NodeOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show who would leave; nothing happens.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Close nodes for new instances and make their spot instances leave, youngest first.

    They leave at once, or when the grace ends that the cloud gives. On-demand instances stay until their
    users stop them.

    Example: spotfed cloud drain north --node 3 --dry-run
    """
    with connected() as client:
        report = client.clouds.drain(cloud_id, node, dry_run=dry_run)
    show_one(report, *_report_text(report), as_json=as_json)
    if not as_json:
        where = f"{cloud_id}{''.join(f' --node {index}' for index in node or ())}"
        next_step(
            f"spotfed cloud drain {where}" if dry_run else f"when it is done: spotfed cloud reopen {where}"
        )


@cloud.command()
def reopen(
    cloud_id: CloudArgument,
    node: NodeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let nodes take new instances again. Instances that were told to leave must still leave.

    Example: spotfed cloud reopen north --node 3
    """
    with connected() as client:
        client.clouds.reopen(cloud_id, node)
    show_one(
        {"cloud": cloud_id, "opened": node}, f"opened {_nodes_text(node)} of {cloud_id}", as_json=as_json
    )


def _cloud_row(view: CloudView) -> tuple[str, ...]:
    info, advert = view.info, view.advert
    if advert is None:
        return (info.id, info.nodes, _state_text(view))
    made_s = advert.table_made_at_s
    return (
        info.id,
        info.nodes,
        _state_text(view),
        formatting.duration(advert.at_s),
        *_load_cells(advert, info.cores),
        "none yet" if made_s is None else f"{formatting.duration(advert.at_s - made_s)} ago",
    )


def _state_text(view: CloudView) -> str:
    state = "[green]reachable[/green]" if view.reachable else "[red]unreachable[/red]"
    if view.advert is not None and view.advert.closed_nodes:
        count = view.advert.closed_nodes
        state += f", [yellow]{count} {'node' if count == 1 else 'nodes'} closed[/yellow]"
    if view.broken_promises:
        slas = ", ".join(formatting.sla(broken.sla) for broken in view.broken_promises)
        state += f", [yellow]asked last at SLA {slas}[/yellow]"
    return state


def _load_cells(advert: Advert, cores: int) -> tuple[str, ...]:
    """Return free cores and what runs; dashes where the cloud does not disclose them."""
    if advert.disclosure != "full":
        return ("some" if advert.free_cores else "none", *"–––––")
    counts = (advert.on_demand_cores, advert.spot_cores, advert.spot_leases, advert.admitted, advert.evicted)
    return (f"{advert.free_cores} of {cores}", *map(str, counts))


def _nodes_text(indices: Sequence[int] | None) -> str:
    if indices is None:
        return "all nodes"
    return f"{'node' if len(set(indices)) == 1 else 'nodes'} {formatting.sizes(sorted(set(indices)))}"


def _report_text(report: DrainReport) -> list[RenderableType]:
    done = "would then be closed" if report.dry_run else "closed"
    text: list[RenderableType] = [
        f"{report.cloud}: {_nodes_text(report.closed_nodes)} {done} for new instances"
    ]
    if report.leaving:
        title = "Would have to leave" if report.dry_run else "Leaving"
        table = make_table(title, "lease", "from", *map(number, ("cores", "node", "leaves", "was to end")))
        for leaving in report.leaving:
            wait_s = leaving.evict_at_s - report.at_s
            table.add_row(
                leaving.lease,
                leaving.origin,
                str(leaving.cores),
                str(leaving.node),
                f"in {formatting.duration(wait_s)}" if wait_s > 0 else "at once",
                f"in {formatting.duration(leaving.ends_at_s - report.at_s)}",
            )
        text.append(table)
    else:
        text.append("no spot instance runs there")
    if report.staying:
        names = ", ".join(
            f"{staying.instance} ({_nodes_text([node for node, _ in staying.parts] or [staying.node])})"
            for staying in report.staying
        )
        text.append(f"on-demand, until their users stop them: {names}")
    return text
