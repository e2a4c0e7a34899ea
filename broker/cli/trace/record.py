"""``trace record``: write the own load of a cloud, from its journal, as a trace."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from broker.cli.console import JsonOption, show_one
from broker.cli.errors import CommandError, ExitCode
from broker.cli.journal import read_entries
from broker.cli.redis_connection import connected_redis
from broker.cli.trace.convert import check_output, replace_file
from broker.contract import Event, read_message
from broker.journal.trace_export import OwnLoad
from cloudsim.traces.formats import write

SCHEMA = "spotfed.trace-record/1"
#: Time between two replacements of the file with --follow.
_FOLLOW_S = 10.0


def record(
    cloud: Annotated[str, typer.Option(help="Id of the cloud.")],
    output: Annotated[
        Path, typer.Option(help="Where to: .csv, .csv.gz, .parquet, .swf or .swf.gz.", show_default=False)
    ],
    follow: Annotated[bool, typer.Option("--follow", help="Keep the file current until stopped.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Write what a cloud's own users ran, from its journal and archive, as a trace.

    Instances that still run end with the latest event, marked as right-censored. Requests that were turned
    away are counted and not written; room that the cloud keeps free is no load. The file is replaced as a
    whole. Needs the queue itself, as `spotfed journal` does.

    Example: spotfed trace record --cloud A --output A.csv
    """
    ending = check_output(output, "--output")
    load, place, is_first = OwnLoad(), (0, 0), True
    try:
        while True:
            with connected_redis() as (client, keys):
                before = place
                for entry in read_entries(client, keys, cloud, place):
                    load.note(read_message(Event, entry.body))
                    if is_first and entry.place[1] != 1:
                        raise CommandError(
                            f"cloud {cloud}: what was before {entry.id} is neither in the journal nor in an "
                            "archive on this machine: record where its owner runs",
                            ExitCode.FAILED,
                        )
                    place, is_first = entry.place, False
            if place != before or not output.exists():
                trace = load.trace(cloud)
                with replace_file(output, ending) as draft:
                    write(trace, draft)
                _show(
                    {
                        "schema": SCHEMA,
                        "cloud": cloud,
                        "output": str(output),
                        "rows": len(trace),
                        "running": load.running,
                        "turned_away": load.turned_away,
                    },
                    as_json=as_json,
                )
            if not follow:
                return
            time.sleep(_FOLLOW_S)
    except KeyboardInterrupt:
        return  # the file is complete


def _show(result: dict[str, Any], *, as_json: bool) -> None:
    text = (
        f"{result['rows']:,} instances of {result['cloud']} are in {result['output']}; {result['running']:,} "
        f"of them still run, {result['turned_away']:,} requests were turned away and are not in it."
    )
    show_one(result, escape(text), as_json=as_json)
