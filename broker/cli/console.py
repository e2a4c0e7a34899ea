"""What every command shares: where it prints, how it fails, how it shows progress."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

#: Tables that go into a file or a pipe are not cut to the 80 columns of a terminal that is not there.
_PIPE_COLUMNS = 160


class ExitCode(IntEnum):
    """What the exit code of every command means; see docs/reference/exit-codes.md."""

    DONE = 0
    FAILED = 1
    BAD_INPUT = 2
    REFUSED = 3
    UNREACHABLE = 4
    ON_DEMAND = 5


#: Errors by name, so that nothing is imported for them. The most special class of an error decides.
CODES = {
    "cloudsim.model.errors.InputError": ExitCode.BAD_INPUT,
    "cloudsim.model.errors.CloudsimError": ExitCode.FAILED,
    "broker.settings.SettingsError": ExitCode.BAD_INPUT,
    "broker.storage.embedded_server.RedisServerError": ExitCode.FAILED,
    "broker.journal.journal.JournalError": ExitCode.FAILED,
    "broker.local.federation.LocalError": ExitCode.FAILED,
    "broker.fleet.state_file.FleetError": ExitCode.FAILED,
    "broker.client.errors.UnavailableError": ExitCode.UNREACHABLE,
    "broker.client.errors.InputRefusedError": ExitCode.BAD_INPUT,
    "broker.client.errors.UnauthorizedError": ExitCode.BAD_INPUT,
    "broker.client.errors.NotFoundError": ExitCode.BAD_INPUT,
    "broker.client.errors.ClientError": ExitCode.FAILED,
}


class CommandError(Exception):
    """A command cannot do what it was asked; the message says why and what to do next."""

    def __init__(self, message: str, code: ExitCode = ExitCode.FAILED):
        super().__init__(message)
        self.code = code


JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text for people.")]


def console(*, stderr: bool = False) -> Console:
    """Where text for people goes. Colours only on a terminal, and never with NO_COLOR set."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(
        stderr=stderr, width=None if stream.isatty() else _PIPE_COLUMNS, highlight=False, emoji=False
    )


def print_json(value: Any, *, lines: bool = False) -> None:
    """One JSON value on standard output, indented; or on a line of its own, at once, for streams of them."""
    typer.echo(json.dumps(value, indent=None if lines else 2, ensure_ascii=False, allow_nan=False))
    if lines:
        sys.stdout.flush()


def coloured(word: str, colour: str | None) -> str:
    """The word as markup for ``console``. What others said goes beside it through ``rich.markup.escape``."""
    return f"[{colour}]{word}[/{colour}]" if colour else word


def warn(message: str) -> None:
    """A line on standard error that does not stop the command."""
    typer.echo(f"spotfed: {message}", err=True)


def next_step(text: str) -> None:
    """What a person would do next, on terminals alone: not in what programs read."""
    if sys.stdout.isatty():
        console().print(f"Next: {text}", style="dim", soft_wrap=True, markup=False)


def command_name() -> str:
    """What a person types for this command here: ``spotfed`` if a shell finds it, else where it is."""
    import shutil

    return "spotfed" if shutil.which("spotfed") else sys.argv[0]


def show_error(error: BaseException) -> None:
    """The message of an error on standard error."""
    warn(str(error) or type(error).__name__)


def exit_code_of(error: BaseException) -> int | None:
    """The exit code that an error stands for; None for a bug of ours."""
    if isinstance(error, CommandError):
        return error.code
    names = (f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__)
    return next((CODES[name] for name in names if name in CODES), None)


@contextmanager
def progress(what: str, total: float) -> Iterator[Callable[[float], None]]:
    """A progress bar on standard error, if that is a terminal. Yields what is to be told how far it got."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda reached: bar.update(task, completed=min(reached, total))


def can_draw() -> bool:
    """Whether the package for pictures is installed."""
    from importlib.util import find_spec

    return find_spec("matplotlib") is not None


def check_picture(path: Path, *, field: str) -> None:
    """Raises SpecError naming ``field`` unless a picture can be saved there; ask before it is computed."""
    from cloudsim.model.errors import SpecError

    if not can_draw():
        raise CommandError("pictures need matplotlib: pip install 'spotfed[plots]'")

    if path.suffix.lower() not in {".png", ".svg", ".pdf"}:
        raise SpecError(f"{path.name!r} does not end in .png, .svg or .pdf", field=field)
    if not path.absolute().parent.is_dir():
        raise SpecError(f"there is no directory {path.absolute().parent}", field=field)
