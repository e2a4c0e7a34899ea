"""``ps``: the processes of the federation that ``spotfed up`` runs on this machine."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Any

from rich.table import Column

from broker.cli.console import JsonOption, make_table, show_one
from broker.cli.errors import CommandError, ExitCode
from broker.cli.redis_connection import connected_redis
from broker.local.process_record import is_supervised, read_record
from broker.settings import settings


def ps(as_json: JsonOption = False) -> None:
    """Show the processes of the federation that `spotfed up` runs here.

    Where others use its Redis server too, it names the clouds that another host owns: a process here is their
    standby.

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
    _add_awaited_clouds(record["processes"])
    columns = [
        Column(heading, justify="right" if heading in {"pid", "restarts"} else "left", overflow="fold")
        for heading in ("process", "pid", "restarts", "log")
    ]
    table = make_table(f"Federation at {record['url']}", *columns)
    for process in record["processes"]:
        pid = process["pid"]
        state = "starting" if pid is None else str(pid)
        awaited = process["standby_for"]
        name = process["name"] + (f" (standby for {', '.join(awaited)})" if awaited else "")
        table.add_row(name, state, str(process["restarts"]), process["log"])
    show_one(record, table, as_json=as_json)


def _add_awaited_clouds(processes: list[dict[str, Any]]) -> None:
    """Add to each process the clouds that others own, which they cannot on the server that ``up`` starts."""
    for process in processes:
        process["standby_for"] = []
    if settings().redis_url is None:
        return
    from broker.observability.standbys import list_standbys  # with Redis' library, which is heavy

    host = socket.gethostname()
    # The processes are here, whatever becomes of the queue.
    with suppress(CommandError), connected_redis() as (client, keys):
        for process in processes:
            for cloud in process.get("clouds", ()):
                views = list_standbys(client, keys, cloud)
                if (host, process["pid"]) in [(view.host, view.pid) for view in views]:
                    process["standby_for"].append(cloud)
