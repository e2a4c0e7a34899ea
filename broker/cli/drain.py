"""``cloud drain``, ``cloud reopen`` and ``acknowledge``: making room, and leaving when told to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from broker.cli import formatting
from broker.cli.connection import connected
from broker.cli.console import CommandError, ExitCode, JsonOption, console, next_step, print_json

if TYPE_CHECKING:
    from broker.contract import DrainReport, Lease

cloud = typer.Typer(no_args_is_help=True, help="Empty a cloud or some of its nodes, and open them again.")

CloudArgument = Annotated[str, typer.Argument(metavar="CLOUD", help="Id of the cloud.")]
NodeOption = Annotated[
    list[int] | None,
    typer.Option(
        min=0, help="This node only, counted from 0; may be repeated.", show_default="the whole cloud"
    ),
]


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
    if as_json:
        print_json(report.model_dump(mode="json"))
    else:
        _show(report)
        where = f"{cloud_id}{''.join(f' --node {one}' for one in node or ())}"
        next_step(
            f"spotfed cloud drain {where}" if dry_run else f"when it is done: spotfed cloud reopen {where}"
        )


@cloud.command()
def reopen(
    cloud_id: CloudArgument,
    node: NodeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let nodes take new instances again. Who was told to leave must leave all the same.

    Example: spotfed cloud reopen north --node 3
    """
    with connected() as client:
        client.clouds.reopen(cloud_id, node)
    if as_json:
        print_json({"cloud": cloud_id, "opened": node})
    else:
        console().print(f"opened {_nodes(node)} of {cloud_id}")


def acknowledge(
    lease: Annotated[str, typer.Argument(help="Id of the lease.")], as_json: JsonOption = False
) -> None:
    """Leave before the notice ends: whoever waits for the room of this spot instance can start at once.

    Exit code 3 when it was not told to leave; then it stays as it is.

    Example: spotfed acknowledge 4f1c9a.1
    """
    from broker.client import NOT_NOTICED, ProblemAnswer

    with connected() as client:
        try:
            ended = client.leases.acknowledge(lease)
        except ProblemAnswer as answer:
            if answer.problem.type != NOT_NOTICED:
                raise
            raise CommandError(
                f"{lease} was not told to leave; spotfed release gives it back", ExitCode.REFUSED
            ) from answer
    if as_json:
        print_json({"lease": ended.model_dump(mode="json")})
    else:
        console().print(_left(ended))


def _left(lease: Lease) -> str:
    if lease.state != "evicted" or lease.ended_at_s is None:
        return f"{lease.id} had already ended: {lease.state}"
    early_s = (lease.evict_at_s or lease.ended_at_s) - lease.ended_at_s
    early = f", {formatting.duration(early_s)} before it had to" if early_s > 0 else ""
    return f"{lease.id} on {lease.cloud} has left{early}"


def _nodes(numbers: list[int] | tuple[int, ...] | None) -> str:
    if numbers is None:
        return "all nodes"
    return f"{'node' if len(set(numbers)) == 1 else 'nodes'} {formatting.sizes(sorted(set(numbers)))}"


def _show(report: DrainReport) -> None:
    from rich.table import Table

    out = console()
    done = "would then be closed" if report.dry_run else "closed"
    out.print(f"{report.cloud}: {_nodes(report.closed_nodes)} {done} for new instances")
    if report.leaving:
        title = "Would have to leave" if report.dry_run else "Leaving"
        table = Table(title=title, title_justify="left")
        for name in ("lease", "from"):
            table.add_column(name)
        for name in ("cores", "node", "leaves", "was to end"):
            table.add_column(name, justify="right")
        for one in report.leaving:
            wait_s = one.evict_at_s - report.at_s
            table.add_row(
                one.lease,
                one.origin,
                str(one.cores),
                str(one.node),
                f"in {formatting.duration(wait_s)}" if wait_s > 0 else "at once",
                f"in {formatting.duration(one.ends_at_s - report.at_s)}",
            )
        out.print(table)
    else:
        out.print("no spot instance runs there")
    if report.staying:
        names = ", ".join(f"{one.instance} (node {one.node})" for one in report.staying)
        out.print(f"on-demand, until their users stop them: {names}")
