"""``fleet``: keep so many spot instances that pull work."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Annotated

import typer

from broker.cli.connection import connected
from broker.cli.console import CommandError, ExitCode, JsonOption, console, print_json, warn
from broker.cli.submit import (
    CloudOption,
    CoresOption,
    LabelOption,
    NeedsOptions,
    OriginOption,
    ResourceOption,
    request_of,
)
from broker.cli.up import until_told

if TYPE_CHECKING:
    from broker.fleet.controller import FleetController, FleetSpec
    from broker.fleet.events import FleetEvent
    from broker.fleet.state_file import FleetFile

fleet = typer.Typer(
    no_args_is_help=True, help="Keep so many spot instances that pull work, whatever is evicted."
)

_MOST = 1000
#: A keeper that is told to end has so long to give everything back.
_ENDING_S = 90.0

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Of the fleet.", show_default=False)]


@fleet.command()
def keep(
    instances: Annotated[int, typer.Option(min=1, max=_MOST, help="So many.")],
    cores: CoresOption = 1,
    lifetime: Annotated[
        str,
        typer.Option(
            help="For how long each is asked, and extended at a time: 40m, 6h; none: renewed while it can be."
        ),
    ] = "6h",
    sla: Annotated[
        str,
        typer.Option(help="Largest acceptable probability of eviction before that; 'none': no guarantee."),
    ] = "0.1",
    origin: OriginOption = "user",
    cloud: CloudOption = None,
    resource: ResourceOption = None,
    label: LabelOption = None,
    name: Annotated[
        str | None,
        typer.Option(
            help="Kept again under this name, it goes on with the leases it has.", show_default="any"
        ),
    ] = None,
    on_start: Annotated[
        str | None, typer.Option(metavar="COMMAND", help="Run here for each instance, while it lives.")
    ] = None,
    on_end: Annotated[
        str | None, typer.Option(metavar="COMMAND", help="Run here when an instance has ended.")
    ] = None,
    duration: Annotated[
        str | None, typer.Option("--for", help="Give all back after 30m, 8h.", show_default="Ctrl-C")
    ] = None,
    cool_down: Annotated[
        str, typer.Option(help="A cloud that has evicted one is not asked for so long.")
    ] = "60s",
    poll: Annotated[str, typer.Option(help="How often it looks.")] = "2s",
    keep_leases: Annotated[
        bool, typer.Option("--keep-leases", help="In the end leave the leases to the next one of this name.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Keep so many spot instances, replace those that end, and give all back in the end.

    Commands find SPOTFED_LEASE, SPOTFED_CLOUD, SPOTFED_NODE, SPOTFED_CORES, SPOTFED_ENDS_AT and SPOTFED_FLEET
    in their environment, --on-end also SPOTFED_END. With --json there is a line for each thing that happens,
    and a last one with the sums.

    Example: spotfed fleet keep --instances 20 --cores 2 --name night --on-start ./worker.sh
    """
    from broker.fleet.controller import FleetSpec
    from cloudsim.model.durations import parse_duration_s

    needs = NeedsOptions(resource, label, None, None, None)
    wish = FleetSpec(
        _checked(name or f"f{secrets.token_hex(4)}"),
        instances,
        request_of(cores, lifetime, sla, origin, cloud, needs),
        parse_duration_s(cool_down, field="--cool-down"),
        max(0.1, parse_duration_s(poll, field="--poll")),
    )
    if wish.request.lifetime_s is None and wish.request.sla is None:
        raise CommandError("--sla: a lifetime of none goes with an SLA", ExitCode.BAD_INPUT)
    if keep_leases and name is None:
        raise CommandError(
            "--keep-leases goes with --name, by which they are found again", ExitCode.BAD_INPUT
        )
    limit_s = None if duration is None else parse_duration_s(duration, field="--for")
    _keep(wish, on_start, on_end, limit_s, keep_leases=keep_leases, as_json=as_json)


@fleet.command()
def status(
    name: NameArgument,
    origin: OriginOption = "user",
    as_json: JsonOption = False,
) -> None:
    """Show the leases of a fleet, and whether it is kept on this machine.

    Example: spotfed fleet status night
    """
    from broker.cli.views.fleet import leases_table
    from broker.fleet import snapshot
    from broker.fleet.state_file import FleetBusyError

    _checked(name)
    pid, asked = None, 0
    try:
        with _file(name).alone() as kept:
            asked = len(kept.asked)
    except FleetBusyError as busy:
        pid = busy.pid
    with connected() as client:
        seen = snapshot.read_market(client)
        leases = snapshot.running(client, name, origin, seen)
    if as_json:
        told = [lease.model_dump(mode="json") for lease in leases.values()]
        print_json({"name": name, "keeper": pid, "asked": asked, "leases": told})
        return
    out = console()
    out.print(leases_table(f"Fleet {name}", list(leases.values()), seen))
    out.print(f"kept by process {pid} on this machine" if pid else "nobody keeps it on this machine")


@fleet.command()
def end(name: NameArgument, origin: OriginOption = "user", as_json: JsonOption = False) -> None:
    """End a fleet: its keeper on this machine is told to, and what there is left is given back.

    Example: spotfed fleet end night
    """
    from broker.cli.views.fleet import happening_line
    from broker.contract import SpotRequest
    from broker.fleet.commands import Commands
    from broker.fleet.controller import FleetController, FleetSpec
    from broker.fleet.events import FleetEventKind

    file = _file(_checked(name))
    _end_keeper(file, name)
    wish = FleetSpec(name, 0, SpotRequest(origin=origin, cores=1, lifetime_s=0.0))
    returned: list[str] = []

    def tell(what: FleetEvent) -> None:
        if what.kind is FleetEventKind.RETURNED and what.lease is not None:
            returned.append(what.lease)
        if not as_json and what.kind is not FleetEventKind.FOUND:
            console().print(happening_line(what), soft_wrap=True)

    with file.alone() as kept, connected() as client:
        left = FleetController(client, wish, file, kept, Commands(None, None), tell).give_back()
    if as_json:
        print_json({"name": name, "returned": returned, "left": left})
    else:
        console().print(f"{len(returned)} given back" + (f", {len(left)} left" if left else ""))
    _exit_if(left, name)


# -- how -----------------------------------------------------------------------------------------------------


def _keep(
    wish: FleetSpec,
    on_start: str | None,
    on_end: str | None,
    limit_s: float | None,
    *,
    keep_leases: bool,
    as_json: bool,
) -> None:
    from broker.cli.views.fleet import screen
    from broker.fleet.commands import Commands
    from broker.fleet.controller import FleetController

    file = _file(wish.name)
    left: list[str] = []
    with until_told() as over, file.alone() as kept, connected() as client:
        with screen(wish, as_json=as_json) as shown:
            keeper = FleetController(client, wish, file, kept, Commands(on_start, on_end), shown.tell)
            if not as_json:
                warn(f"fleet {wish.name}: {wish.instances} instances; Ctrl-C gives them back")
            try:
                keeper.keep(over, limit_s, lambda: shown.show(keeper))
            finally:
                if keep_leases:
                    keeper.close()
                else:
                    left = keeper.give_back()
                shown.show(keeper)
        if as_json:
            print_json({"name": wish.name, "left": left, **keeper.tally.as_dict()}, lines=True)
        else:
            _summary(keeper)
    _exit_if(left, wish.name)


def _summary(keeper: FleetController) -> None:
    from broker.cli.views.fleet import summary_lines

    for line in summary_lines(keeper.wish, keeper.tally):
        console().print(line)


def _exit_if(left: list[str], name: str) -> None:
    if left:
        raise CommandError(
            f"not given back: {', '.join(left[:5])}{' …' if len(left) > 5 else ''}: "
            f"run `spotfed fleet end {name}` when the broker answers again",
            ExitCode.UNREACHABLE,
        )


def _end_keeper(file: FleetFile, name: str) -> None:
    """Returns when none keeps it on this machine."""
    import os
    import signal
    import time

    from broker.fleet.state_file import FleetBusyError

    told, gives_up_s = False, time.monotonic() + _ENDING_S
    while True:
        try:
            with file.alone():
                return
        except FleetBusyError as busy:
            if time.monotonic() > gives_up_s:
                raise
            if not told and busy.pid is not None:
                warn(f"process {busy.pid} keeps {name}: it is told to end")
                os.kill(busy.pid, signal.SIGTERM)
                told = True
        time.sleep(0.1)


def _file(name: str) -> FleetFile:
    from broker.fleet.state_file import FleetFile
    from broker.settings import settings

    return FleetFile(settings().state_dir, name)


def _checked(name: str) -> str:
    from pydantic import TypeAdapter, ValidationError

    from broker.fleet.state_file import FleetName

    try:
        return TypeAdapter(FleetName).validate_python(name)
    except ValidationError:
        raise CommandError(
            f"{name!r} is no name of a fleet: at most 40 letters, digits, _ and -", ExitCode.BAD_INPUT
        ) from None
