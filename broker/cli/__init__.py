"""The command line of spotfed.

Importing this package imports none of the heavy modules (numpy, pandas, numba, FastAPI, Celery, Redis): each
command imports what it needs when it runs, so that ``spotfed --help`` answers at once. A test holds this.

Exit codes: 0 done, 1 failed, 2 wrong usage or bad input, 3 refused, 4 not reachable.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from broker.cli import (
    acl,
    api_key,
    config,
    dead_letters,
    demo,
    doctor,
    drain,
    experiment,
    federate,
    federation,
    fleet,
    instance,
    job,
    journal,
    ledger,
    member,
    prices,
    replay,
    signing_key,
    submit,
    table,
    target,
    up,
    webhook,
)
from broker.cli.console import exit_code_of, show_error
from broker.cli.trace import commands

app = typer.Typer(
    name="spotfed",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="A federation broker for private clouds: spot instances on idle cores, with a promised lifetime.",
    epilog="New here? Run [bold]spotfed demo[/bold], then [bold]spotfed up[/bold] in one terminal and "
    "[bold]spotfed clouds[/bold] in another.",
    context_settings={"help_option_names": ["-h", "--help"]},
)

_PLAY, _USE, _STUDY = "Try it and run it", "Use a running federation", "Study traces"
app.command(rich_help_panel=_PLAY)(demo.demo)
app.command(rich_help_panel=_PLAY)(up.up)
app.command(rich_help_panel=_PLAY)(up.ps)
app.command(rich_help_panel=_PLAY)(doctor.doctor)
app.command(rich_help_panel=_USE)(federation.clouds)
app.command(rich_help_panel=_USE)(target.target)
app.command(rich_help_panel=_USE)(submit.quote)
app.command(rich_help_panel=_USE)(submit.submit)
app.command(rich_help_panel=_USE)(federation.leases)
app.command(rich_help_panel=_USE)(instance.instance)
app.command(rich_help_panel=_USE)(federation.extend)
app.command(rich_help_panel=_USE)(federation.release)
app.command(rich_help_panel=_USE)(drain.acknowledge)
app.command(rich_help_panel=_USE)(federation.events)
app.command(rich_help_panel=_USE)(ledger.ledger)
app.add_typer(job.job, name="job", rich_help_panel=_USE)
app.add_typer(fleet.fleet, name="fleet", rich_help_panel=_USE)
app.add_typer(drain.cloud, name="cloud", rich_help_panel=_USE)
app.add_typer(member.member, name="member", rich_help_panel=_USE)
app.add_typer(api_key.key, name="key", rich_help_panel=_USE)
app.add_typer(config.config, name="config", rich_help_panel=_PLAY)
app.add_typer(acl.acl, name="acl", rich_help_panel=_PLAY)
app.add_typer(webhook.webhook, name="webhook", rich_help_panel=_USE)
app.add_typer(journal.journal, name="journal", rich_help_panel=_USE)
app.add_typer(dead_letters.dlq, name="dlq", rich_help_panel=_USE)
app.add_typer(signing_key.trust, name="trust", rich_help_panel=_PLAY)
app.command(rich_help_panel=_STUDY)(replay.replay)
app.command(rich_help_panel=_STUDY)(table.table)
app.command(rich_help_panel=_STUDY)(federate.federate)
app.command(rich_help_panel=_STUDY)(prices.prices)
app.add_typer(commands.trace, name="trace", rich_help_panel=_STUDY)
app.command(rich_help_panel=_STUDY)(experiment.experiment)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"spotfed {version('spotfed')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options of spotfed itself."""


def main() -> None:
    """Runs the command line and ends the process with its exit code."""
    try:
        app(prog_name="spotfed")
    except Exception as error:
        code = exit_code_of(error)
        if code is None:
            raise  # a bug: its traceback is the most useful thing to show
        show_error(error)
        sys.exit(code)
