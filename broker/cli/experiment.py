"""``spotfed experiment``: the papers' figures and tables, and our own questions, computed again."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from broker.cli.console import CommandError, ExitCode, JsonOption, console, print_json, progress, warn

if TYPE_CHECKING:
    from cloudsim.experiments.experiment import Experiment

LIST, ALL = "list", "all"
LIST_SCHEMA, ALL_SCHEMA = "spotfed.experiment-list/1", "spotfed.experiments/1"
_INTERRUPTED = 130  # as shells have it: 128 + SIGINT


def experiment(
    name: Annotated[
        str, typer.Argument(help="Name of an experiment; [bold]list[/bold] or [bold]all[/bold].")
    ],
    out: Annotated[Path, typer.Option(help="Directory for rows, pictures and the report.")] = Path(
        "experiments"
    ),
    quick: Annotated[bool, typer.Option("--quick", help="A few small cases only: seconds.")] = False,
    processes: Annotated[
        int | None, typer.Option(min=1, help="Cases at once.", show_default="number of cores")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Compute an experiment again: rows, pictures, findings, and the papers' figures beside ours.

    Finished cases are kept: interrupted with Ctrl-C and started again, it goes on where it was.
    [bold]all[/bold] also writes index.html, one file with everything.
    Recorded traces are looked for in SPOTFED_DATA.

    Example: spotfed experiment figure-1
    """
    from cloudsim.experiments import registry

    if name == LIST:
        _list([registry.load(known) for known in registry.MODULES], as_json=as_json)
        return
    chosen = [registry.load(known) for known in (registry.MODULES if name == ALL else [name])]
    try:
        results = [
            _run(one, out, quick=quick, processes=processes or os.cpu_count() or 1, as_json=as_json)
            for one in chosen
        ]
    except KeyboardInterrupt:
        warn(f"interrupted; finished cases are kept in {out}")
        raise typer.Exit(_INTERRUPTED) from None
    if name == ALL:
        from broker.experiments.report import write_report

        report = write_report(results, out)
        console(stderr=as_json).print(f"report: {report}", soft_wrap=True, markup=False)
    if as_json:
        print_json({"schema": ALL_SCHEMA, "experiments": results} if name == ALL else results[0])
    if any(result["failed"] for result in results):
        raise typer.Exit(ExitCode.FAILED)
    if not any(result["rows"] for result in results):
        raise CommandError(
            "nothing could be run: the recorded traces are not there; name their directory in SPOTFED_DATA",
            ExitCode.BAD_INPUT,
        )


def _list(known: list[Experiment], *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "schema": LIST_SCHEMA,
                "experiments": [{"name": e.name, "title": e.title, "source": e.source} for e in known],
            }
        )
        return
    from rich.table import Table

    table = Table(title="spotfed experiment NAME", title_justify="left")
    for column in ("name", "title", "source"):
        table.add_column(column, no_wrap=column == "name")
    for one in known:
        table.add_row(one.name, one.title, one.source)
    console().print(table)


def _run(one: Experiment, out: Path, *, quick: bool, processes: int, as_json: bool) -> dict[str, Any]:
    from broker.experiments.runner import run
    from broker.settings import settings

    total = len(one.cases(quick))
    with nullcontext(lambda _: None) if as_json else progress(one.name, total) as reached:
        result = run(one, out, data=settings().data, quick=quick, processes=processes, progress=reached)
    for case, files in result["skipped"].items():
        warn(f"{one.name}: {case!r} is left out, there is no {' and no '.join(files)}")
    for case, error in result["failed"].items():
        warn(f"{one.name}: {case!r} failed: {error}")
    if not as_json:
        _show(result, out / one.name)
    return result


def _show(result: dict[str, Any], folder: Path) -> None:
    from rich.table import Table

    from broker.experiments.report import number

    screen = console()
    screen.print(f"[bold]{result['name']}[/bold]: {result['title']} ({result['source']})", soft_wrap=True)
    for finding in result["findings"]:
        screen.print(f" • {finding}", soft_wrap=True, markup=False)
    if result["failed"] or result["skipped"]:
        screen.print(" Not everything could be done: there are no findings and no pictures.")
    if result["papers"]:
        table = Table("source", "quantity", "of", title="Published and ours", title_justify="left")
        for column in ("published", "ours", "± 95 %", "runs"):
            table.add_column(column, justify="right")
        for row in result["papers"]:
            table.add_row(
                row["source"], row["quantity"], row["of"], row["published"], number(row["ours"]),
                number(row["ours_plus_minus"]) if row["runs"] > 1 else "", str(row["runs"]),
            )  # fmt: skip
        screen.print(table)
    told = result["manifest"]
    screen.print(
        f"{told['cases']} cases ({told['cases_kept_from_before']} kept from before) in "
        f"{told['wall_seconds']:.1f} s; rows and pictures in {folder}",
        soft_wrap=True, markup=False,
    )  # fmt: skip
