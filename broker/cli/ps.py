"""``ps``: the processes of the federation that ``spotfed up`` runs on this machine."""

from __future__ import annotations

import json
import os

from rich.table import Column

from broker.cli.console import JsonOption, make_table, show_one
from broker.cli.errors import CommandError, ExitCode
from broker.local.state_files import record_file
from broker.settings import settings


def ps(as_json: JsonOption = False) -> None:
    """Show the processes of the federation that `spotfed up` runs here.

    Example: spotfed ps
    """
    path = record_file(settings().state_dir)
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        message = f"no federation runs in {path.parent}: start one with `spotfed up`"
        raise CommandError(message, ExitCode.UNREACHABLE) from None
    if not _is_running(record["supervisor"]):
        message = f"the federation in {path.parent} was killed: start it again with `spotfed up`"
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


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
