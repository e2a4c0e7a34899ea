"""The list of all commands, and the group that imports a command's module only when the command is named."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from broker.cli.errors import ExitCode, exit_code_of, explain_os_error, show_error
from broker.cli.output import finish_output, has_failed, prepare_streams
from broker.cli.stop_signal import end_on_signal
from cloudsim.model.errors import InputError

_RUN, _USE, _STUDY = "Try it and run it", "Use a running federation", "Study traces"


class CommandEntry(NamedTuple):
    """One line of ``spotfed --help``, and where the command is: ``module:name`` below ``broker.cli``.

    The name is that of a function, or of a ``typer.Typer`` for a group of commands.
    """

    name: str
    target: str
    panel: str
    summary: str


COMMANDS = (
    CommandEntry(
        "demo", "demo:demo", _RUN, "Run a live federation on this machine, show what it does, and stop it."
    ),
    CommandEntry("up", "up:up", _RUN, "Keep a federation of simulated clouds running until Ctrl-C."),
    CommandEntry("ps", "ps:ps", _RUN, "Show the processes of the federation that `spotfed up` runs here."),
    CommandEntry(
        "doctor",
        "doctor:doctor",
        _RUN,
        "Check the installation, and say what to do about each problem.",
    ),
    CommandEntry(
        "config",
        "config:config",
        _RUN,
        "Show settings, and the schema of federation files.",
    ),
    CommandEntry("acl", "acl:acl", _RUN, "Separate the clouds that share a Redis server."),
    CommandEntry("trust", "signing_key:trust", _RUN, "Make and exchange the keys that sign messages."),
    CommandEntry(
        "clouds",
        "cloud:clouds",
        _USE,
        "Show the members of the federation: room, load, age of tables.",
    ),
    CommandEntry(
        "target", "target:target", _USE, "Choose the lifetime to ask for, from what the clouds disclose."
    ),
    CommandEntry("quote", "quote:quote", _USE, "Ask what the clouds would promise now, without any effect."),
    CommandEntry("submit", "submit:submit", _USE, "Ask the federation for spot instances."),
    CommandEntry("leases", "lease:leases", _USE, "Show spot leases, those that have not ended first."),
    CommandEntry("instance", "lease:instance", _USE, "Show the instance of a spot lease on a real cloud."),
    CommandEntry("extend", "lease:extend", _USE, "Ask for a later end of a spot lease."),
    CommandEntry("release", "lease:release", _USE, "Give a spot instance back before its time."),
    CommandEntry("acknowledge", "lease:acknowledge", _USE, "Leave before the notice of an eviction ends."),
    CommandEntry("events", "events:events", _USE, "Show what happened to spot leases, and what happens now."),
    CommandEntry("ledger", "ledger:ledger", _USE, "Compare promised with realised evictions."),
    CommandEntry("job", "job:job", _USE, "Run commands as batch jobs: on spot where that is cheaper."),
    CommandEntry("fleet", "fleet:fleet", _USE, "Keep a number of spot instances running."),
    CommandEntry("cloud", "cloud:cloud", _USE, "Empty nodes of a cloud, open them again, and change them."),
    CommandEntry("member", "member:member", _USE, "Manage the members of the federation and their caps."),
    CommandEntry("key", "api_key:key", _USE, "Make, list, rotate and revoke API keys."),
    CommandEntry("webhook", "webhook:webhook", _USE, "Post events to a URL, signed and at least once."),
    CommandEntry("journal", "journal:journal", _USE, "Show and verify the journals of the clouds."),
    CommandEntry("dlq", "dead_letters:dlq", _USE, "Show, resend or drop commands that a cloud set aside."),
    CommandEntry(
        "replay", "replay:replay", _STUDY, "Replay a cloud's own load with a spot workload: who is evicted?"
    ),
    CommandEntry(
        "table",
        "table:table",
        _STUDY,
        "Make a cloud's quantile table: how long does spot survive?",
    ),
    CommandEntry("federate", "federate:federate", _STUDY, "Run a federation file, in this process or live."),
    CommandEntry("prices", "prices:prices", _STUDY, "Report what a history of EC2 spot prices holds."),
    CommandEntry("trace", "trace.group:trace", _STUDY, "Inspect, import, convert, plot and record traces."),
    CommandEntry("data", "data:data", _STUDY, "List, fetch and verify the data sets of experiments."),
    CommandEntry(
        "experiment", "experiment:experiment", _STUDY, "Compute the figures and tables of the papers."
    ),
)


class LazyGroup(TyperGroup):
    """The group of all commands; imports the module of a command when the command is named.

    The overview of ``spotfed --help`` and shell completion are made from ``COMMANDS`` alone.
    """

    def __init__(self, **attributes: Any):
        super().__init__(**attributes)
        self._entries = {entry.name: entry for entry in COMMANDS}
        self._shows_overview = False
        for entry in COMMANDS:
            self.add_command(TyperCommand(entry.name, short_help=entry.summary, rich_help_panel=entry.panel))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command with its options; within an overview, only its name and its line of help."""
        if self._shows_overview or cmd_name not in self._entries:
            return super().get_command(ctx, cmd_name)
        if cmd_name == "up":
            with end_on_signal():  # its modules take a second to import
                return load_command(self._entries[cmd_name])
        return load_command(self._entries[cmd_name])

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the overview of all commands without importing their modules."""
        with self._overview():
            super().format_help(ctx, formatter)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Complete the name of a command without importing the modules of all commands."""
        with self._overview():
            return super().shell_complete(ctx, incomplete)

    @contextmanager
    def _overview(self) -> Iterator[None]:
        self._shows_overview = True
        try:
            yield
        finally:
            self._shows_overview = False


def load_command(entry: CommandEntry) -> Any:
    """Import the module of a command and return the command as Typer builds it."""
    module, _, name = entry.target.partition(":")
    gc.disable()  # modules stay: to look through them, again at the end, is a quarter of a short command
    target = getattr(import_module(f"broker.cli.{module}"), name)
    gc.freeze()
    gc.enable()
    if isinstance(target, typer.Typer):
        command: Any = typer.main.get_group(target)
    else:
        single = typer.Typer(add_completion=False)
        single.command(entry.name)(target)
        command = typer.main.get_command(single)
    command.name, command.short_help = entry.name, entry.summary
    _name_options(command)
    return command


def _name_options(command: Any) -> None:
    """Let the input errors of a command name its options as they are typed, not its function's parameters."""
    for inner in getattr(command, "commands", {}).values():
        _name_options(inner)
    options = {option.name: option.opts[0] for option in command.params if option.param_type_name == "option"}
    run = command.callback

    @wraps(run)
    def run_named(*arguments: Any, **values: Any) -> Any:
        try:
            return run(*arguments, **values)
        except InputError as error:
            if error.file is not None or error.field not in options:
                raise
            raise type(error)(error.message, field=options[error.field]) from error

    command.callback = run and run_named


app = typer.Typer(
    name="spotfed",
    cls=LazyGroup,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="A federation broker for private clouds: spot instances on idle cores, with a promised lifetime.",
    epilog="New here? Run [bold]spotfed demo[/bold], then [bold]spotfed up[/bold] in one terminal and "
    "[bold]spotfed clouds[/bold] in another.",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(is_given: bool) -> None:
    if is_given:
        typer.echo(f"spotfed {version('spotfed')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Read the options that belong to no command."""


def main() -> None:
    """Run the command line and end the process with its exit code."""
    prepare_streams()
    sys.exit(finish_output(_run()))


def _run() -> int:
    """Run the command line; return its exit code."""
    try:
        app(prog_name="spotfed")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except Exception as error:
        if has_failed():
            return exit_code_of(error) or ExitCode.FAILED
        known = explain_os_error(error) if isinstance(error, OSError) else error
        code = exit_code_of(known)
        if code is None:
            raise  # a bug: its traceback is the most useful thing to show
        show_error(known)
        return code
    return ExitCode.DONE
