"""The group of commands ``spotfed data``: recorded data sets that experiments read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from broker.cli.console import JsonOption, coloured, number, progress, show_list
from broker.cli.errors import CommandError, ExitCode, warn
from broker.experiments.downloads import DownloadError, FileState, download, file_state, open_client
from broker.settings import default_data_dir
from cloudsim.experiments.data_sets import DATA_SETS, DataSet

SCHEMA = "spotfed.data/1"

data = typer.Typer(
    no_args_is_help=True,
    help="List, fetch and verify the recorded data sets that experiments read. Needs no federation.",
)

NamesArgument = Annotated[
    list[str] | None, typer.Argument(metavar="[NAME]...", help="Data sets; all if none is named.")
]
DirectoryOption = Annotated[
    Path | None,
    typer.Option(
        "--directory",
        help="Where they are: SPOTFED_DATA, or the data directory of this user.",
        show_default=False,
    ),
]
_COLOURS = {"whole": "green", "partly": "yellow", "missing": None, "other": "red"}


@data.command("list")
def list_(
    names: NamesArgument = None, directory: DirectoryOption = None, as_json: JsonOption = False
) -> None:
    """List data sets with publisher, licence and size, and whether they are here.

    Example: spotfed data list
    """
    place = directory or default_data_dir()
    show_list(
        "data_sets",
        [_view(each, place) for each in _chosen(names)],
        *("name", "what", "state"),
        number("MB"),
        *("publisher", "licence"),
        row=_row,
        as_json=as_json,
        title=escape(str(place)),
        more={"schema": SCHEMA, "directory": str(place)},
    )


@data.command()
def fetch(
    names: NamesArgument = None, directory: DirectoryOption = None, as_json: JsonOption = False
) -> None:
    """Fetch data sets from their publishers; what is here and whole is left as it is.

    Some data sets are published in another form only. They are named, with what has to be done.

    Example: spotfed data fetch swf eucalyptus
    """
    place = directory or default_data_dir()
    chosen = _chosen(names)
    files = [file for each in chosen for file in each.files if file.address]
    missing = [file for file in files if file_state(place, file) is not FileState.WHOLE]
    done, is_failed = 0, False
    with open_client() as client, progress("fetching", sum(file.size for file in missing)) as reached:

        def received(size: int) -> None:
            nonlocal done
            done += size
            reached(done)

        for file in missing:
            try:
                download(client, place, file, received)
            except DownloadError as error:
                is_failed = True
                warn(f"{file.path}: {error}")
    for each in chosen:
        if each.conversion and any(file_state(place, file) is not FileState.WHOLE for file in each.files):
            is_failed = is_failed or bool(names)
            warn(f"{each.name} is not published in this form. From {each.source}: {each.conversion}.")
    if place != default_data_dir():
        warn(f"experiments look elsewhere: set SPOTFED_DATA={place}")
    _report(chosen, place, as_json=as_json)
    if is_failed:
        raise typer.Exit(ExitCode.FAILED)


@data.command()
def verify(
    names: NamesArgument = None, directory: DirectoryOption = None, as_json: JsonOption = False
) -> None:
    """Compare the files of data sets with what was published. Exit code 1 if one is missing or differs.

    Example: spotfed data verify
    """
    place = directory or default_data_dir()
    if not _report(_chosen(names), place, as_json=as_json):
        raise typer.Exit(ExitCode.FAILED)


def _chosen(names: list[str] | None) -> list[DataSet]:
    known = {each.name: each for each in DATA_SETS}
    for name in names or ():
        if name not in known:
            raise CommandError(
                f"no data set is called {name!r}; there are: {', '.join(known)}", ExitCode.BAD_INPUT
            )
    return [known[name] for name in names] if names else list(DATA_SETS)


def _report(chosen: list[DataSet], place: Path, *, as_json: bool) -> bool:
    """Show the state of each file, and return whether all are whole."""
    files = [
        {"path": file.path, "state": file_state(place, file).value} for each in chosen for file in each.files
    ]
    show_list(
        "files",
        files,
        *("file", "state"),
        row=lambda file: (file["path"], coloured(file["state"], _COLOURS[file["state"]])),
        as_json=as_json,
        title=escape(str(place)),
        more={"schema": SCHEMA, "directory": str(place)},
    )
    return all(file["state"] == FileState.WHOLE for file in files)


def _view(each: DataSet, place: Path) -> dict[str, Any]:
    states = [file_state(place, file) for file in each.files]
    if FileState.OTHER in states:
        state = "other"
    elif FileState.MISSING not in states:
        state = "whole"
    else:
        state = "partly" if FileState.WHOLE in states else "missing"
    return {
        "name": each.name,
        "title": each.title,
        "state": state,
        "bytes": each.size,
        "source": each.source,
        "licence": each.licence,
        "conversion": each.conversion or None,
        "addresses": [file.address for file in each.files if file.address],
    }


def _row(view: dict[str, Any]) -> tuple[str, ...]:
    return (
        view["name"],
        view["title"],
        coloured(view["state"], _COLOURS[view["state"]]),
        f"{view['bytes'] / 1e6:.1f}",
        view["source"],
        view["licence"],
    )
