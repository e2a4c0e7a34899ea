"""Exit codes, and which error ends a command with which of them."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from enum import IntEnum
from pathlib import Path

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


#: Errors that name no path, and that no command could have prevented.
_MACHINE_IS_FULL = {
    *(errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO),
    *(errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN),
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


def explain_os_error(error: OSError) -> Exception:
    """Return what an error of the system means for the user, or the error itself if it may be a bug.

    A path that a setting names, and a working directory that is gone, are bad input; other paths, and a disk
    or machine without room, are failures.
    """
    from broker.settings import SettingsError, find_path_setting  # pydantic, without which --help starts

    if isinstance(error.filename, str | bytes | os.PathLike):
        path, setting = Path(os.fsdecode(error.filename)), None
        with suppress(SettingsError):
            setting = find_path_setting(path)
        why = os.strerror(errno.ENOTDIR) if error.errno == errno.EEXIST else error.strerror
        if setting is None:
            return CommandError(f"{path}: {why}")
        return CommandError(f"{setting}: cannot use {path}: {why}", ExitCode.BAD_INPUT)
    if error.errno in _MACHINE_IS_FULL:
        return CommandError(str(error.strerror))
    try:
        Path.cwd()
    except FileNotFoundError:
        return CommandError("the working directory is gone: change to another one", ExitCode.BAD_INPUT)
    return error


def warn(message: str) -> None:
    """Print a line on standard error that does not stop the command, even if it cannot be written."""
    with suppress(OSError):
        typer.echo(f"spotfed: {message}", err=True)


def show_error(error: BaseException) -> None:
    """Print the message of an error on standard error."""
    warn(str(error) or type(error).__name__)
