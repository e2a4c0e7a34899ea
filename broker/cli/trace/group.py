"""The group of commands ``spotfed trace``."""

from __future__ import annotations

import typer

from broker.cli.trace.convert import convert, import_
from broker.cli.trace.inspect import inspect
from broker.cli.trace.plot import plot
from broker.cli.trace.record import record

trace = typer.Typer(
    no_args_is_help=True,
    help="Report what a recorded file holds and how good it is, convert it to our own table, draw it. "
    "Needs no federation, except for `record`.",
)
trace.command()(record)
trace.command()(inspect)
trace.command("import")(import_)
trace.command()(convert)
trace.command()(plot)
