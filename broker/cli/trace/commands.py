"""``spotfed trace``: what is in a file that somebody recorded, and getting it into the one table."""

from __future__ import annotations

import csv
import shlex
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from broker.cli.console import (
    CommandError,
    ExitCode,
    JsonOption,
    check_picture,
    console,
    print_json,
    progress,
    show_error,
    warn,
)
from broker.cli.simulation_options import NODES_HELP
from broker.cli.trace.record import record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cloudsim.traces.report import ImportReport

INSPECT_SCHEMA, IMPORT_SCHEMA = "spotfed.trace-inspect/1", "spotfed.trace-import/1"
CONVERT_SCHEMA, PLOT_SCHEMA = "spotfed.trace-convert/1", "spotfed.trace-plot/1"

trace = typer.Typer(
    no_args_is_help=True,
    help="Say what is in a recorded file and how good it is, get it into the one table, draw it. Needs no "
    "federation, but for `record`.",
)

trace.command()(record)

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="A recorded file, plain or gzip.")]
NodesOption = Annotated[str | None, typer.Option(help=f"{NODES_HELP} Its cores are the capacity.")]
ErrorRateOption = Annotated[
    float, typer.Option(min=0, max=1, help="Share of a file's lines that may be bad.")
]


@trace.command()
def inspect(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Recorded files, plain or gzip, or directories.")
    ],
    nodes: NodesOption = None,
    max_error_rate: ErrorRateOption = 0.01,
    as_json: JsonOption = False,
) -> None:
    """Say what a file is, what is in it, how good it is, and which command uses it.

    Recognised by their content are traces (Eucalyptus, SWF, Azure, preemptible VMs, our own CSV and Parquet),
    spot prices (JSON of EC2, CSV) and lists of on-demand prices. What is not, ends with exit code 2.

    Example: spotfed trace inspect DS2-trace.txt --nodes 7x12
    """
    from broker.cli.trace.inspection import expand, inspect_one
    from broker.cli.views.inspection import show
    from cloudsim.model.errors import TraceError

    capacity = _capacity(nodes)
    paths, aside = expand(files)
    told: list[dict[str, Any]] = []
    unreadable: list[dict[str, str]] = []
    with progress("reading", len(paths)) as reached:
        for count, path in enumerate(paths, start=1):
            try:
                told.append(inspect_one(path, capacity_cores=capacity, max_error_rate=max_error_rate))
            except TraceError as error:
                show_error(error)
                unreadable.append({"path": str(path), "error": str(error)})
            reached(count)
    if as_json and told:
        print_json(
            {
                "schema": INSPECT_SCHEMA,
                "inspected": told,
                "unreadable": unreadable,
                "left_aside": [str(path) for path in aside],
            }
        )
    elif not as_json:
        for one in told:
            show(one)
    if unreadable:
        raise typer.Exit(ExitCode.BAD_INPUT)


@trace.command("import")
def import_(
    file: FileArgument,
    out: Annotated[Path, typer.Option(help="Where to: .parquet, .csv, .csv.gz, .swf or .swf.gz.")],
    strict: Annotated[bool, typer.Option("--strict", help="Take no file with a bad line.")] = False,
    max_error_rate: ErrorRateOption = 0.01,
    as_json: JsonOption = False,
) -> None:
    """Read a trace in any known format and write it as the one table.

    Lines that cannot be taken go to OUT.rejected.csv with their number and the reason, so that nothing is
    lost silently; above --max-error-rate of them nothing is written.

    Example: spotfed trace import DS2-trace.txt --out DS2.parquet
    """
    hint = "without --strict they are set aside" if strict else None
    _tell(_import(file, out, max_error_rate, hint, IMPORT_SCHEMA), as_json=as_json)


@trace.command()
def convert(
    file: FileArgument,
    out: Annotated[
        Path,
        typer.Argument(
            metavar="OUT",
            help="Where to, in the format of its ending: .csv, .csv.gz, .parquet, .swf or .swf.gz.",
        ),
    ],
    as_json: JsonOption = False,
) -> None:
    """Write a trace in another format, all of it: a file with a bad line is for `spotfed trace import`.

    CSV and Parquet keep everything, there and back; what SWF cannot hold is said.

    Example: spotfed trace convert DS2.parquet DS2.csv.gz
    """
    hint = f"spotfed trace import {shlex.quote(str(file))} --out {shlex.quote(str(out))} sets them aside"
    _tell(_import(file, out, 0.01, hint, CONVERT_SCHEMA), as_json=as_json)


@trace.command()
def plot(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A trace, or prices (also a directory).")],
    picture: Annotated[Path, typer.Option(help="Where to: .png, .svg or .pdf by its ending.")],
    nodes: NodesOption = None,
    market: Annotated[
        list[str] | None,
        typer.Option(
            help='Of prices, a market such as "m1.large us-east-1a"; may be repeated.',
            show_default="those with most records",
        ),
    ] = None,
    max_error_rate: ErrorRateOption = 0.01,
    as_json: JsonOption = False,
) -> None:
    """Draw a trace (cores in use, arrivals, lifetimes) or prices over time, with their gaps.

    Example: spotfed trace plot DS2-trace.txt --picture DS2.png
    """
    from broker.cli.trace.plot import draw

    check_picture(picture, field="--picture")
    result = draw(file, picture, _capacity(nodes), market or [], max_error_rate)
    if as_json:
        print_json({"schema": PLOT_SCHEMA, **result})
    else:
        console(stderr=True).print(f"saved {picture}: {result['shows']}", soft_wrap=True, markup=False)


def _capacity(nodes: str | None) -> int | None:
    from cloudsim.cloud.inventory import parse_nodes

    return None if nodes is None else sum(parse_nodes(nodes, field="--nodes"))


def _import(file: Path, out: Path, max_error_rate: float, hint: str | None, schema: str) -> dict[str, Any]:
    """Reads and writes. With a ``hint`` what to do about bad lines, a single one is an error."""
    from cloudsim.markets.recognition import FileKind, recognise_file
    from cloudsim.model.errors import SpecError
    from cloudsim.traces.formats import read, swf, write

    field = "--out" if schema == IMPORT_SCHEMA else "OUT"
    ending = ending_of(out, field)
    if out.exists() and file.exists() and out.samefile(file):
        raise SpecError(f"{out} is the file that is read", field=field)
    if recognise_file(file) is not FileKind.TRACE:
        raise CommandError(
            f"{file}: holds prices, not a trace: spotfed prices {file} reads them as they are",
            ExitCode.BAD_INPUT,
        )
    began = time.perf_counter(), time.process_time()
    with progress(f"importing {file.name}", 2) as reached:
        found, report = read(file, max_error_rate=max_error_rate)
        seconds, cpu_s = time.perf_counter() - began[0], time.process_time() - began[1]
        if hint is not None and (bad := report.quarantined):
            raise CommandError(
                f"{file}:{bad[0].line}: {len(bad)} lines are bad, this one: {bad[0].reason}; {hint}",
                ExitCode.BAD_INPUT,
            )
        reached(1)
        with whole(out, ending) as part:
            write(found, part)
        rejected = _write_rejected(file, out.with_name(f"{out.name[: -len(ending)]}.rejected.csv"), report)
        reached(2)
    return {
        "schema": schema,
        "file": str(file),
        "format": report.format,
        "out": str(out),
        "records": report.records,
        "rows": len(found),
        "quarantined": len(report.quarantined),
        "rejected": None if rejected is None else str(rejected),
        "skipped": dict(report.skipped),
        "lost": list(swf.list_losses(found)) if ending in {".swf", ".swf.gz"} else [],
        "warnings": list(report.warnings),
        "read_s": round(seconds, 3),
        "read_cpu_s": round(cpu_s, 3),
        "rows_per_s": round(len(found) / max(seconds, 1e-9)),
        "seconds": round(time.perf_counter() - began[0], 3),
    }


def ending_of(out: Path, field: str) -> str:
    """The ending that says in which format a trace is written there; asked before anything is read.

    Raises SpecError naming ``field``, and CommandError where the format needs what is not installed.
    """
    from cloudsim.model.errors import SpecError
    from cloudsim.traces.formats import WRITERS, arrow

    ending = next((one for one in sorted(WRITERS, key=len, reverse=True) if _ends(out, one)), None)
    if ending is None:
        raise SpecError(f"{out.name!r} does not end in one of {', '.join(WRITERS)}", field=field)
    if ending == ".parquet" and not arrow.installed():
        raise CommandError(arrow.INSTALL)
    if not out.absolute().parent.is_dir():
        raise SpecError(f"there is no directory {out.absolute().parent}", field=field)
    return ending


def _ends(path: Path, ending: str) -> bool:
    return path.name.lower().endswith(ending) and len(path.name) > len(ending)


@contextmanager
def whole(out: Path, ending: str) -> Iterator[Path]:
    """Yields a file beside ``out`` that takes its place when it is written: no half a file is left behind."""
    part = out.with_name(f".{out.name}.part{ending}")
    try:
        yield part
        part.replace(out)
    finally:
        part.unlink(missing_ok=True)


def _write_rejected(file: Path, path: Path, report: ImportReport) -> Path | None:
    """The quarantined lines, whole, with their numbers and reasons; an older file of that name is emptied."""
    if not report.quarantined and not path.exists():
        return None
    from cloudsim.traces.formats.source import load_source

    lines = load_source(file).lines if report.quarantined and report.format != "parquet" else None
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(("line", "reason", "text"))
        for bad in report.quarantined:
            writer.writerow((bad.line, bad.reason, bad.text if lines is None else lines[bad.line - 1]))
    return path if report.quarantined else None


def _tell(result: dict[str, Any], *, as_json: bool) -> None:
    for warning in (*result["warnings"], *result["lost"]):
        warn(f"{result['file']}: {warning}")
    if as_json:
        print_json(result)
        return
    screen = console()
    screen.print(
        f"{result['rows']:,} of {result['records']:,} records from {result['file']} ({result['format']}) are "
        f"in {result['out']}: read in {result['read_s']:.2f} s ({result['rows_per_s']:,} rows/s), all in "
        f"{result['seconds']:.2f} s.",
        soft_wrap=True, markup=False,
    )  # fmt: skip
    if result["rejected"]:
        screen.print(
            f"{result['quarantined']} lines were set aside in {result['rejected']}.",
            soft_wrap=True,
            markup=False,
        )
