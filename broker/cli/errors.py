"""Exit codes, and which error ends a command with which of them."""

from __future__ import annotations

from contextlib import suppress
from enum import IntEnum

import typer


class ExitCode(IntEnum):
    """Exit codes of commands; docs/reference/exit-codes.md explains them."""

    DONE = 0
    FAILED = 1
    BAD_INPUT = 2
    REFUSED = 3
    UNREACHABLE = 4
    ON_DEMAND = 5


#: Exit code of an error, by the dotted name of its class, so that no module is imported for an error that did
#: not happen. The most special class of an error decides.
EXIT_CODES = {
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
    """A command cannot do what was asked; the message says why and what to do next."""

    def __init__(self, message: str, code: ExitCode = ExitCode.FAILED):
        super().__init__(message)
        self.code = code


def exit_code_of(error: BaseException) -> int | None:
    """Return the exit code that an error stands for; None for a bug of ours."""
    if isinstance(error, CommandError):
        return error.code
    names = (f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__)
    return next((EXIT_CODES[name] for name in names if name in EXIT_CODES), None)


def warn(message: str) -> None:
    """Print a line on standard error that does not stop the command, even if it cannot be written."""
    with suppress(OSError):
        typer.echo(f"spotfed: {message}", err=True)


def show_error(error: BaseException) -> None:
    """Print the message of an error on standard error."""
    warn(str(error) or type(error).__name__)
