"""``spotfed trace record``: the own load of a cloud, from its journal, as a trace."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from broker.cli.connection import queue
from broker.cli.console import CommandError, ExitCode, JsonOption, console, print_json
from broker.cli.journal import entries_of

SCHEMA = "spotfed.trace-record/1"
#: --follow replaces the file at most so often.
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

    Who still runs ends with the latest event, marked as right-censored. Requests that were turned away are
    counted and not written; room that the cloud keeps free is nobody's load. The file is replaced as a whole.
    Needs the queue itself, as `spotfed journal` does.

    Example: spotfed trace record --cloud A --output A.csv
    """
    from broker.cli.trace.commands import ending_of, whole
    from broker.contract import Event, read_message
    from broker.journal.trace_export import OwnLoad
    from cloudsim.traces.formats import write

    ending = ending_of(output, "--output")
    load, place, first = OwnLoad(), (0, 0), True
    try:
        while True:
            with queue() as (client, keys):
                before = place
                for entry in entries_of(client, keys, cloud, place):
                    load.note(read_message(Event, entry.body))
                    if first and entry.place[1] != 1:
                        raise CommandError(
                            f"cloud {cloud}: what was before {entry.id} is neither in the journal nor in an "
                            "archive on this machine: record where its owner runs",
                            ExitCode.FAILED,
                        )
                    place, first = entry.place, False
            if place != before or not output.exists():
                trace = load.trace(cloud)
                with whole(output, ending) as part:
                    write(trace, part)
                _tell(
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
        return  # the file is whole


def _tell(result: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(result)
        return
    console().print(
        f"{result['rows']:,} instances of {result['cloud']} are in {result['output']}; {result['running']:,} "
        f"of them still run, {result['turned_away']:,} requests were turned away and are not in it.",
        soft_wrap=True, markup=False,
    )  # fmt: skip
