"""``ps``: the processes of the federation that ``spotfed up`` runs on this machine."""

from __future__ import annotations

from rich.table import Column

from broker.cli.console import JsonOption, make_table, show_one
from broker.cli.errors import CommandError, ExitCode
from broker.local.process_record import is_supervised, read_record
from broker.settings import settings


def ps(as_json: JsonOption = False) -> None:
    """Show the processes of the federation that `spotfed up` runs here.

    Example: spotfed ps
    """
    directory = settings().state_dir
    record = read_record(directory)
    if record is None:
        message = f"no federation runs in {directory}: start one with `spotfed up`"
        raise CommandError(message, ExitCode.UNREACHABLE)
    if not is_supervised(record):
        message = (
            f"the supervisor of the federation in {directory} (process {record['supervisor']}) is gone, and "
            "what ends is not started again: start it with `spotfed up`"
        )
        raise CommandError(message, ExitCode.UNREACHABLE)
    columns = [
        Column(heading, justify="right" if heading in {"pid", "restarts"} else "left", overflow="fold")
        for heading in ("process", "pid", "restarts", "log")
    ]
    table = make_table(f"Federation at {record['url']}", *columns)
    for process in record["processes"]:
        pid = process["pid"]
        state = "starting" if pid is None else str(pid)
        table.add_row(process["name"], state, str(process["restarts"]), process["log"])
    show_one(record, table, as_json=as_json)
