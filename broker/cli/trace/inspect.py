"""``trace inspect``: what a file is, what it holds, how good it is, and which command uses it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from broker.cli.console import JsonOption, print_json, progress
from broker.cli.errors import ExitCode, show_error
from broker.cli.trace.file_report import expand_paths, report_file
from broker.cli.trace.options import ErrorRateOption, NodesOption, parse_capacity
from broker.cli.views.file_report import show_file_report
from cloudsim.model.errors import TraceError

SCHEMA = "spotfed.trace-inspect/1"


def inspect(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Recorded files, plain or gzip, or directories.")
    ],
    nodes: NodesOption = None,
    max_error_rate: ErrorRateOption = 0.01,
    as_json: JsonOption = False,
) -> None:
    """Report what a file is, what it holds, how good it is, and which command uses it.

    Recognised by their content are traces (Eucalyptus, SWF, Azure, preemptible VMs, our own CSV and Parquet),
    spot prices (JSON of EC2, CSV) and lists of on-demand prices. Exit code 2 for a file that is none of them.

    Example: spotfed trace inspect DS2-trace.txt --nodes 7x12
    """
    capacity = parse_capacity(nodes)
    paths, documents = expand_paths(files)
    reports: list[dict[str, Any]] = []
    unreadable: list[dict[str, str]] = []
    with progress("reading", len(paths)) as reached:
        for count, path in enumerate(paths, start=1):
            try:
                reports.append(report_file(path, capacity_cores=capacity, max_error_rate=max_error_rate))
            except TraceError as error:
                show_error(error)
                unreadable.append({"path": str(path), "error": str(error)})
            reached(count)
    if as_json and reports:
        print_json(
            {
                "schema": SCHEMA,
                "inspected": reports,
                "unreadable": unreadable,
                "left_aside": [str(path) for path in documents],
            }
        )
    elif not as_json:
        for report in reports:
            show_file_report(report)
    if unreadable:
        raise typer.Exit(ExitCode.BAD_INPUT)
