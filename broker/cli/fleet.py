"""``fleet``: keep a number of spot instances running that pull work."""

from __future__ import annotations

import os
import secrets
import signal
import time
from typing import Annotated

import typer
from pydantic import TypeAdapter, ValidationError

from broker.cli.connection import connected
from broker.cli.console import JsonOption, console, print_json, print_text, show_one
from broker.cli.errors import CommandError, ExitCode, warn
from broker.cli.launch_options import (
    ArgumentOption,
    EnvironmentOption,
    ImageOption,
    InstanceTypeOption,
    KeyOption,
    LaunchOptions,
    NetworkOption,
    SecurityGroupOption,
    TagOption,
    UserDataOption,
)
from broker.cli.request_options import (
    CloudOption,
    CoresOption,
    LabelOption,
    NeedsOptions,
    OriginOption,
    ResourceOption,
    build_request,
)
from broker.cli.stop_signal import stop_signal
from broker.cli.views.fleet import event_line, leases_table, open_screen, summary_lines
from broker.contract import SpotRequest
from broker.fleet import snapshot
from broker.fleet.commands import Commands
from broker.fleet.controller import FleetController, FleetSpec
from broker.fleet.events import FleetEvent, FleetEventKind
from broker.fleet.state_file import FleetBusyError, FleetFile, FleetName
from broker.settings import settings
from cloudsim.model.durations import parse_duration_s

fleet = typer.Typer(
    no_args_is_help=True, help="Keep a number of spot instances running that pull work, whatever is evicted."
)

_MOST = 1000
#: How long a controller that was told to end may take to give everything back.
_END_LIMIT_S = 90.0

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the fleet.", show_default=False)]


@fleet.command()
def keep(
    instances: Annotated[int, typer.Option(min=1, max=_MOST, help="Number of instances to keep.")],
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
    image: ImageOption = None,
    instance_type: InstanceTypeOption = None,
    key: KeyOption = None,
    user_data: UserDataOption = None,
    network: NetworkOption = None,
    security_group: SecurityGroupOption = None,
    tag: TagOption = None,
    argument: ArgumentOption = None,
    environment: EnvironmentOption = None,
    name: Annotated[
        str | None,
        typer.Option(
            help="Name of the fleet. Kept again under it, the fleet goes on with the leases it has.",
            show_default="any",
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
        str, typer.Option(help="How long a cloud is not asked after it has evicted an instance.")
    ] = "60s",
    poll: Annotated[str, typer.Option(help="Time between two rounds.")] = "2s",
    keep_leases: Annotated[
        bool,
        typer.Option("--keep-leases", help="Leave the leases at the end to the next fleet of this name."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Keep a number of spot instances, replace those that end, and give all back at the end.

    Commands find SPOTFED_LEASE, SPOTFED_CLOUD, SPOTFED_NODE, SPOTFED_CORES, SPOTFED_ENDS_AT and SPOTFED_FLEET
    in their environment, --on-end also SPOTFED_END. With --json there is a line for each event, and a last
    one with the totals.

    Example: spotfed fleet keep --instances 20 --cores 2 --name night --on-start ./worker.sh

    Example: spotfed fleet keep --instances 4 --cores 2 --image debian-12 --user-data worker.sh
    """
    launch = LaunchOptions(
        image, instance_type, key, user_data, network, security_group, tag, argument, environment
    ).launch()
    request = build_request(cores, lifetime, sla, origin, cloud, NeedsOptions(resource, label))
    spec = FleetSpec(
        _check_name(name or f"f{secrets.token_hex(4)}"),
        instances,
        request.model_copy(update={"launch": launch}),
        parse_duration_s(cool_down, field="--cool-down"),
        max(0.1, parse_duration_s(poll, field="--poll")),
    )
    if spec.request.lifetime_s is None and spec.request.sla is None:
        raise CommandError("--sla: a lifetime of none goes with an SLA", ExitCode.BAD_INPUT)
    if keep_leases and name is None:
        raise CommandError(
            "--keep-leases goes with --name, by which they are found again", ExitCode.BAD_INPUT
        )
    limit_s = None if duration is None else parse_duration_s(duration, field="--for")
    _keep(spec, Commands(on_start, on_end), limit_s, keep_leases=keep_leases, as_json=as_json)


@fleet.command()
def status(
    name: NameArgument,
    origin: OriginOption = "user",
    as_json: JsonOption = False,
) -> None:
    """Show the leases of a fleet, and whether it is kept on this machine.

    Example: spotfed fleet status night
    """
    pid, unanswered = None, 0
    try:
        with _fleet_file(name).lock() as saved:
            unanswered = len(saved.asked)
    except FleetBusyError as busy:
        pid = busy.pid
    except OSError:
        pass  # where nothing can be written, nothing is kept
    with connected() as client:
        market = snapshot.read_snapshot(client)
        leases = [*snapshot.running_leases(client, name, origin, market).values()]
    show_one(
        {"name": name, "keeper": pid, "asked": unanswered, "leases": leases},
        leases_table(f"Fleet {name}", leases, market),
        f"kept by process {pid} on this machine" if pid else "not kept on this machine",
        as_json=as_json,
    )


@fleet.command()
def end(name: NameArgument, origin: OriginOption = "user", as_json: JsonOption = False) -> None:
    """End a fleet: stop the process that keeps it on this machine, and give all its leases back.

    Example: spotfed fleet end night
    """
    file = _fleet_file(name)
    _stop_controller(file, name)
    spec = FleetSpec(name, 0, SpotRequest(origin=origin, cores=1, lifetime_s=0.0))
    returned: list[str] = []

    def report(event: FleetEvent) -> None:
        if event.kind is FleetEventKind.RETURNED and event.lease is not None:
            returned.append(event.lease)
        if not as_json and event.kind is not FleetEventKind.FOUND:
            print_text(event_line(event))

    with file.lock() as saved, connected() as client:
        left = FleetController(client, spec, file, saved, Commands(None, None), report).give_back()
    show_one(
        {"name": name, "returned": returned, "left": left},
        f"{len(returned)} given back" + (f", {len(left)} left" if left else ""),
        as_json=as_json,
    )
    _check_given_back(left, name)


def _keep(
    spec: FleetSpec, commands: Commands, limit_s: float | None, *, keep_leases: bool, as_json: bool
) -> None:
    file = _fleet_file(spec.name)
    left: list[str] = []
    with stop_signal() as stopped, file.lock() as saved, connected() as client:
        with open_screen(spec, as_json=as_json) as screen:
            controller = FleetController(client, spec, file, saved, commands, screen.add_event)
            if not as_json:
                warn(f"fleet {spec.name}: {spec.instances} instances; Ctrl-C gives them back")
            try:
                controller.keep(stopped, limit_s, lambda: screen.update(controller))
            finally:
                if keep_leases:
                    controller.close()
                else:
                    left = controller.give_back()
                screen.update(controller)
        if as_json:
            print_json({"name": spec.name, "left": left, **controller.totals.as_dict()}, lines=True)
        else:
            for line in summary_lines(spec, controller.totals):
                console().print(line)
    _check_given_back(left, spec.name)


def _check_given_back(left: list[str], name: str) -> None:
    """Raise CommandError when some leases could not be given back."""
    if left:
        raise CommandError(
            f"not given back: {', '.join(left[:5])}{' …' if len(left) > 5 else ''}: "
            f"run `spotfed fleet end {name}` when the broker answers again",
            ExitCode.UNREACHABLE,
        )


def _stop_controller(file: FleetFile, name: str) -> None:
    """Stop the process that keeps a fleet on this machine, and wait until it has ended."""
    is_told, gives_up_s = False, time.monotonic() + _END_LIMIT_S
    while True:
        try:
            with file.lock():
                return
        except FleetBusyError as busy:
            if time.monotonic() > gives_up_s:
                raise
            if not is_told and busy.pid is not None:
                warn(f"process {busy.pid} keeps {name}: stopping it")
                os.kill(busy.pid, signal.SIGTERM)
                is_told = True
        time.sleep(0.1)


def _fleet_file(name: str) -> FleetFile:
    return FleetFile(settings().state_dir, _check_name(name))


def _check_name(name: str) -> str:
    try:
        return TypeAdapter(FleetName).validate_python(name)
    except ValidationError:
        raise CommandError(
            f"{name!r} is no name of a fleet: at most 40 letters, digits, _ and -", ExitCode.BAD_INPUT
        ) from None
