"""Prints one thing or a list, as text for people or as JSON, and progress on standard error."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from pydantic import BaseModel
from rich.console import Console, RenderableType
from rich.table import Column, Table
from rich.text import Text

from broker.cli.errors import CommandError
from cloudsim.model.errors import SpecError

Item = TypeVar("Item")

#: Tables that go into a file or a pipe are not cut to the 80 columns of a terminal that is not there.
_PIPE_COLUMNS = 160

_STYLES = ("bold", "dim", "red", "green", "yellow", "bold green")
#: What Rich would take for markup, but is no style that we use; with a backslash it is text already.
_NO_STYLE = re.compile(rf"(?<!\\)\[(?!/?(?:{'|'.join(_STYLES)})\])(?=[a-z#/@])")

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text for people.")]


class _Console(Console):
    """Takes the styles of this command line for markup, and all else in brackets for text: `spotfed[plots]`.

    Rich would leave it out.
    """

    def render_str(self, text: str, **options: Any) -> Text:
        """Return text as it is to be shown."""
        if options.get("markup") is not False:
            text = _NO_STYLE.sub(r"\\\g<0>", text)
        return super().render_str(text, **options)


def console(*, stderr: bool = False) -> Console:
    """Return the console that text for people goes to.

    It colours only on a terminal, and never with NO_COLOR set.
    """
    stream = sys.stderr if stderr else sys.stdout
    return _Console(
        stderr=stderr, width=None if stream.isatty() else _PIPE_COLUMNS, highlight=False, emoji=False
    )


def show_one(value: Any, *text: RenderableType, as_json: bool) -> None:
    """Print one thing: as JSON, or its text for people, one line or table after the other.

    Parameters
    ----------
    value
        The thing itself, as ``print_json`` takes it.
    text
        Lines with markup, or anything else that Rich prints. Lines are not wrapped.
    """
    if as_json:
        print_json(value)
    else:
        print_text(*text)


def show_list(
    name: str,
    items: Iterable[Item],
    *columns: str | Column,
    row: Callable[[Item], Iterable[RenderableType]],
    as_json: bool,
    title: str | None = None,
    none: str | None = None,
    more: Mapping[str, Any] | None = None,
) -> None:
    """Print a list: as a table for people, or as a JSON object.

    Parameters
    ----------
    name
        The key of the list in the JSON object.
    columns
        Headings of the table; see ``number`` for columns of numbers.
    row
        The cells of an item, as text with markup or anything else that Rich prints.
    none
        Printed for people instead of a table without rows.
    more
        Further keys of the JSON object.
    """
    known = list(items)
    if as_json:
        print_json({name: known, **(more or {})})
    elif not known and none is not None:
        print_text(none)
    else:
        table = make_table(title, *columns)
        for item in known:
            table.add_row(*row(item))
        console().print(table)


def make_table(title: str | None, *columns: str | Column) -> Table:
    """Return an empty table with its title on the left."""
    return Table(*columns, title=title, title_justify="left")


def number(heading: str) -> Column:
    """Return a column of numbers, which stand on the right."""
    return Column(heading, justify="right")


def print_text(*text: RenderableType) -> None:
    """Print lines of text, which are not wrapped, and tables."""
    out = console()
    for line in text:
        out.print(line, soft_wrap=isinstance(line, str))


def print_json(value: Any, *, lines: bool = False) -> None:
    """Print a JSON value that may hold pydantic models and dataclasses.

    It is indented; with ``lines`` it stands on a line of its own and is flushed at once, for streams. What
    the output cannot encode is escaped.
    """
    is_unicode = sys.stdout.encoding.lower().startswith("utf")
    text = json.dumps(
        value, indent=None if lines else 2, ensure_ascii=not is_unicode, allow_nan=False, default=_json_types
    )
    typer.echo(text)
    if lines:
        sys.stdout.flush()


def _json_types(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    raise TypeError(f"{type(value).__name__} has no JSON form")


def coloured(word: str, colour: str | None) -> str:
    """Return a word as markup for ``console``. Text that others wrote must be escaped beside it."""
    return f"[{colour}]{word}[/{colour}]" if colour else word


def next_step(text: str) -> None:
    """Print what a person would do next; only on a terminal, never into what programs read."""
    if sys.stdout.isatty():
        console().print(f"Next: {text}", style="dim", soft_wrap=True, markup=False)


def command_name() -> str:
    """Return what a person types for this command: ``spotfed`` if a shell finds it, else its path."""
    return "spotfed" if shutil.which("spotfed") else sys.argv[0]


@contextmanager
def progress(what: str, total: float) -> Iterator[Callable[[float], None]]:
    """Show a progress bar on standard error, if that is a terminal.

    Yields a function that takes how much of ``total`` is done.
    """
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    # Long for commands that show none.
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda reached: bar.update(task, completed=min(reached, total))


def can_draw() -> bool:
    """Return whether matplotlib, which draws pictures, is installed."""
    return find_spec("matplotlib") is not None


def check_picture(path: Path, *, field: str) -> None:
    """Check that a picture can be saved at a path, before anything is computed for it.

    Raises
    ------
    SpecError
        When the ending is unknown or the directory is missing; it names ``field``.
    CommandError
        When matplotlib is not installed.
    """
    if not can_draw():
        raise CommandError("pictures need matplotlib: pip install 'spotfed[plots]'")
    if path.suffix.lower() not in {".png", ".svg", ".pdf"}:
        raise SpecError(f"{path.name!r} does not end in .png, .svg or .pdf", field=field)
    if not path.absolute().parent.is_dir():
        raise SpecError(f"there is no directory {path.absolute().parent}", field=field)
