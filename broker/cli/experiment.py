"""``experiment``: the papers' figures and tables, and our own questions, computed again."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Column

from broker.cli.console import JsonOption, console, make_table, number, print_json, progress, show_list
from broker.cli.errors import CommandError, ExitCode, warn
from broker.experiments import papers
from broker.experiments.report import number as format_number
from broker.experiments.report import write_report
from broker.experiments.runner import run
from broker.settings import settings
from cloudsim.experiments import registry
from cloudsim.experiments.experiment import Experiment

LIST, ALL, PAPERS = "list", "all", "papers"
LIST_SCHEMA, ALL_SCHEMA = "spotfed.experiment-list/1", "spotfed.experiments/1"
_INTERRUPTED = 130  # as shells have it: 128 + SIGINT


def experiment(
    name: Annotated[
        str,
        typer.Argument(
            help="Name of an experiment; [bold]list[/bold], [bold]all[/bold] or [bold]papers[/bold]."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Directory for rows, pictures and the report.")] = Path(
        "experiments"
    ),
    quick: Annotated[
        bool,
        typer.Option("--quick", help="A few small cases only, if need be on synthesised loads: seconds."),
    ] = False,
    processes: Annotated[
        int | None, typer.Option(min=1, help="Cases at once.", show_default="number of cores")
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option(
            help="With papers: a Markdown page whose marked tables are written anew.",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Compute an experiment again: rows, pictures, findings, and the papers' figures beside ours.

    Finished cases are kept: interrupted with Ctrl-C and started again, it goes on where it was.
    [bold]all[/bold] also writes index.html, one file with everything.
    [bold]papers[/bold] runs what the papers' printed numbers need, and writes papers.html: each number, ours
    beside it, and whether it holds.
    Recorded traces are looked for in SPOTFED_DATA.

    Example: spotfed experiment figure-1
    """
    if name == LIST:
        _list([registry.load(known) for known in registry.MODULES], as_json=as_json)
        return
    if page is not None and (name != PAPERS or quick):
        raise CommandError("--page belongs to spotfed experiment papers, without --quick", ExitCode.BAD_INPUT)
    if page is not None:
        papers.marked_parts(page.read_text(encoding="utf-8"))  # says now, not after all cases, if it has none
    chosen = (
        papers.experiments()
        if name == PAPERS
        else [registry.load(known) for known in (registry.MODULES if name == ALL else [name])]
    )
    try:
        results = [
            _run(
                each,
                out,
                quick=quick,
                processes=processes or os.cpu_count() or 1,
                silent=as_json or name == PAPERS,
                counted=not as_json,
            )
            for each in chosen
        ]
    except KeyboardInterrupt:
        warn(f"interrupted; finished cases are kept in {out}")
        raise typer.Exit(_INTERRUPTED) from None
    if name == ALL:
        report = write_report(results, out)
        console(stderr=as_json).print(f"report: {report}", soft_wrap=True, markup=False)
    if name == PAPERS:
        _compare(results, out, page, as_json=as_json)
    elif as_json:
        print_json({"schema": ALL_SCHEMA, "experiments": results} if name == ALL else results[0])
    if any(result["failed"] for result in results):
        raise typer.Exit(ExitCode.FAILED)
    if not any(result["rows"] for result in results):
        raise CommandError(
            "nothing could be run: the recorded traces are not there; name their directory in SPOTFED_DATA, "
            "or get them with spotfed data fetch",
            ExitCode.BAD_INPUT,
        )


def _list(known: Sequence[Experiment], *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "schema": LIST_SCHEMA,
                "experiments": [{"name": e.name, "title": e.title, "source": e.source} for e in known],
            }
        )
        return
    show_list(
        "experiments",
        known,
        *(Column("name", no_wrap=True), "title", "source"),
        row=lambda each: (each.name, each.title, each.source),
        as_json=False,
        title="spotfed experiment NAME",
    )


def _run(
    each: Experiment, out: Path, *, quick: bool, processes: int, silent: bool, counted: bool
) -> dict[str, Any]:
    """Run an experiment and show its result unless ``silent``; ``counted``: show how far it is."""
    total = len(each.cases(quick))
    with progress(each.name, total) if counted else nullcontext(lambda _: None) as reached:
        result = run(each, out, data=settings().data, quick=quick, processes=processes, progress=reached)
    for case, files in result["skipped"].items():
        sets = " ".join(dict.fromkeys(file.partition("/")[0] for file in files))
        absent = " and no ".join(files)
        warn(f"{each.name}: {case!r} is left out, there is no {absent}: spotfed data fetch {sets}")
    if stand_ins := result["manifest"]["stand_ins"]:
        sets = " ".join(dict.fromkeys(file.partition("/")[0] for file in stand_ins))
        warn(f"{each.name}: synthesised loads stand in for recorded data: spotfed data fetch {sets}")
    for case, error in result["failed"].items():
        warn(f"{each.name}: {case!r} failed: {error}")
    if not silent:
        _show(result, out / each.name)
    return result


def _compare(results: Sequence[dict[str, Any]], out: Path, page: Path | None, *, as_json: bool) -> None:
    """Put the papers' printed numbers beside the results, write the page, and show what holds."""
    try:
        report = papers.write_comparison({result["name"]: result for result in results}, out, page)
    except papers.MissingRowError as error:
        raise CommandError(str(error)) from error
    if as_json:
        print_json(report)
        return
    table = make_table("The papers' printed numbers", "paper", *map(number, report["counts"][0]["verdicts"]))
    for line in report["counts"]:
        table.add_row(line["paper"], *map(str, line["verdicts"].values()))
    screen = console()
    screen.print(table)
    screen.print(
        f"{report['computed']} printed numbers computed; every one, with ours: {out / papers.PAGE}",
        soft_wrap=True, markup=False,
    )  # fmt: skip


def _show(result: dict[str, Any], folder: Path) -> None:
    screen = console()
    screen.print(f"[bold]{result['name']}[/bold]: {result['title']} ({result['source']})", soft_wrap=True)
    for finding in result["findings"]:
        screen.print(f" • {finding}", soft_wrap=True, markup=False)
    if result["failed"] or result["skipped"]:
        screen.print(" Not everything could be done: there are no findings and no pictures.")
    if result["papers"]:
        numbers = ("published", "ours", "± 95 %", "runs")
        table = make_table("Published and ours", "source", "quantity", "of", *map(number, numbers))
        for row in result["papers"]:
            table.add_row(
                row["source"], row["quantity"], row["of"], row["published"], format_number(row["ours"]),
                format_number(row["ours_plus_minus"]) if row["runs"] > 1 else "", str(row["runs"]),
            )  # fmt: skip
        screen.print(table)
    manifest = result["manifest"]
    screen.print(
        f"{manifest['cases']} cases ({manifest['cases_kept_from_before']} kept from before) in "
        f"{manifest['wall_seconds']:.1f} s; rows and pictures in {folder}",
        soft_wrap=True, markup=False,
    )  # fmt: skip
