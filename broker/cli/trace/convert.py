"""``trace import`` and ``trace convert``: read a trace in one format and write it in another."""

from __future__ import annotations

import csv
import shlex
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from broker.cli.console import JsonOption, progress, show_one
from broker.cli.errors import CommandError, ExitCode, warn
from broker.cli.trace.options import (
    ColumnsOption,
    ErrorRateOption,
    FileArgument,
    TimeZoneOption,
    parse_columns,
)
from cloudsim.markets.recognition import FileKind, recognise_file
from cloudsim.model.errors import SpecError
from cloudsim.traces.formats import ACCEPTED, FORMATS, WRITERS, arrow, read, swf, write
from cloudsim.traces.formats.source import load_bytes, load_source
from cloudsim.traces.report import ImportReport

IMPORT_SCHEMA, CONVERT_SCHEMA = "spotfed.trace-import/1", "spotfed.trace-convert/1"


def import_(
    file: FileArgument,
    out: Annotated[Path, typer.Option(help="Where to: .parquet, .csv, .csv.gz, .swf or .swf.gz.")],
    strict: Annotated[bool, typer.Option("--strict", help="Take no file with a bad line.")] = False,
    max_error_rate: ErrorRateOption = 0.01,
    time_zone: TimeZoneOption = None,
    columns: ColumnsOption = None,
    anonymous: Annotated[
        bool, typer.Option("--anonymous", help="Number the instances, and quote no line that is set aside.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Read a trace in any known format and write it as our own table.

    Lines that cannot be taken go to OUT.rejected.csv with their number and the reason, so that nothing is
    lost silently; above --max-error-rate of them nothing is written.

    Example: spotfed trace import DS2-trace.txt --out DS2.parquet
    """
    hint = "without --strict they are set aside" if strict else None
    options = ReadOptions(max_error_rate, time_zone, parse_columns(columns), anonymous)
    result = _rewrite(file, out, options, hint, {"schema": IMPORT_SCHEMA}, field="--out")
    _show(result, as_json=as_json)


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

    CSV and Parquet keep everything, there and back; for SWF, a message lists what the format cannot hold.

    Example: spotfed trace convert DS2.parquet DS2.csv.gz
    """
    hint = f"spotfed trace import {shlex.quote(str(file))} --out {shlex.quote(str(out))} sets them aside"
    result = _rewrite(file, out, ReadOptions(), hint, {"schema": CONVERT_SCHEMA}, field="OUT")
    _show(result, as_json=as_json)


@dataclass(frozen=True)
class ReadOptions:
    """Options for reading a trace: see ``cloudsim.traces.formats.read``.

    anonymous: True to number the instances from 1, and to write no text of the file.
    """

    max_error_rate: float = 0.01
    time_zone: str | None = None
    columns: dict[str, str] | None = None
    anonymous: bool = False


def _rewrite(
    file: Path, out: Path, options: ReadOptions, hint: str | None, result: dict[str, Any], *, field: str
) -> dict[str, Any]:
    """Read a trace, write it to ``out``, and return ``result`` with what was read and written.

    Parameters
    ----------
    hint
        What to do about bad lines, for the error that a single one is; None: bad lines are set aside.
    field
        The option or argument that names ``out``.
    """
    ending = check_output(out, field)
    if out.exists() and file.exists() and out.samefile(file):
        raise SpecError(f"{out} is the file that is read", field=field)
    if options.columns is None and recognise_file(file) is not FileKind.TRACE:
        raise CommandError(
            f"{file}: holds prices, not a trace: spotfed prices {file} reads them as they are",
            ExitCode.BAD_INPUT,
        )
    began_s, cpu_began_s = time.perf_counter(), time.process_time()
    with progress(f"importing {file.name}", 2) as reached:
        trace, report = read(
            file,
            max_error_rate=options.max_error_rate,
            time_zone=options.time_zone,
            columns=options.columns,
        )
        if options.anonymous:
            trace = trace.numbered()
        read_s, read_cpu_s = time.perf_counter() - began_s, time.process_time() - cpu_began_s
        if hint is not None and (bad := report.quarantined):
            raise CommandError(
                f"{file}:{bad[0].line}: {len(bad)} lines are bad, this one: {bad[0].reason}; {hint}",
                ExitCode.BAD_INPUT,
            )
        reached(1)
        with replace_file(out, ending) as draft:
            write(trace, draft)
        rejected_path = out.with_name(f"{out.name[: -len(ending)]}.rejected.csv")
        rejected = _write_rejected(file, rejected_path, report, quote=not options.anonymous)
        reached(2)
    return {
        **result,
        "file": str(file),
        "format": report.format,
        "out": str(out),
        "records": report.records,
        "rows": len(trace),
        "quarantined": len(report.quarantined),
        "rejected": None if rejected is None else str(rejected),
        "skipped": dict(report.skipped),
        "lost": list(swf.list_losses(trace)) if ending in {".swf", ".swf.gz"} else [],
        "warnings": list(report.warnings),
        "read_s": round(read_s, 3),
        "read_cpu_s": round(read_cpu_s, 3),
        "rows_per_s": round(len(trace) / max(read_s, 1e-9)),
        "seconds": round(time.perf_counter() - began_s, 3),
    }


def check_output(out: Path, field: str, endings: Collection[str] = WRITERS) -> str:
    """Check that a table can be written to a path, before anything is read; return the path's ending.

    Raises
    ------
    SpecError
        When the ending is unknown or the directory is missing; it names ``field``.
    CommandError
        When the format needs a package that is not installed.
    """
    ending = max((known for known in endings if _ends_with(out, known)), key=len, default=None)
    if ending is None:
        raise SpecError(f"{out.name!r} does not end in one of {', '.join(endings)}", field=field)
    if ending == ".parquet" and not arrow.installed():
        raise CommandError(arrow.INSTALL)
    if not out.absolute().parent.is_dir():
        raise SpecError(f"there is no directory {out.absolute().parent}", field=field)
    return ending


def _ends_with(path: Path, ending: str) -> bool:
    return path.name.lower().endswith(ending) and len(path.name) > len(ending)


@contextmanager
def replace_file(out: Path, ending: str) -> Iterator[Path]:
    """Yield a file beside ``out`` that replaces it once it is written, so that no half file is left."""
    draft = out.with_name(f".{out.name}.part{ending}")
    try:
        yield draft
        draft.replace(out)
    finally:
        draft.unlink(missing_ok=True)


def _write_rejected(file: Path, path: Path, report: ImportReport, *, quote: bool) -> Path | None:
    """Write the quarantined lines with their numbers and reasons; an older file of that name is emptied."""
    if not report.quarantined and not path.exists():
        return None
    form = FORMATS.get(report.format)
    is_text = not arrow.is_parquet(load_bytes(file, accepted=ACCEPTED))
    has_lines = is_text and (report.format == "columns" or (form is not None and not form.marker))
    lines = load_source(file, accepted=ACCEPTED).lines if report.quarantined and has_lines else None
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(("line", "reason", "text"))
        for bad in report.quarantined:
            text = bad.text if lines is None else lines[bad.line - 1]
            writer.writerow((bad.line, bad.reason, text if quote else ""))
    return path if report.quarantined else None


def _show(result: dict[str, Any], *, as_json: bool) -> None:
    for warning in (*result["warnings"], *result["lost"]):
        warn(f"{result['file']}: {warning}")
    text = (
        f"{result['rows']:,} of {result['records']:,} records from {result['file']} ({result['format']}) are "
        f"in {result['out']}: read in {result['read_s']:.2f} s ({result['rows_per_s']:,} rows/s), all in "
        f"{result['seconds']:.2f} s."
    )
    notes = []
    if result["rejected"]:
        notes.append(f"{result['quarantined']} lines were set aside in {result['rejected']}.")
    show_one(result, *map(escape, (text, *notes)), as_json=as_json)
