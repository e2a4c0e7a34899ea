"""Prepares standard output and standard error for what they cannot encode, and for what they refuse."""

from __future__ import annotations

import io
import os
import re
import sys
from contextlib import suppress
from typing import Any, TextIO

from broker.cli.errors import ExitCode, warn

#: What is shown once, and belongs into no message: API keys and the secrets of webhooks.
_SECRET = re.compile(r"\b(sf|whsec)_\S+")
_LONGEST = 500  # characters of lost output that a message repeats


class OutputFile(io.FileIO):
    """The file behind an output stream; remembers the first error of writing, and what it lost.

    Attributes
    ----------
    failure
        The first error; None while there was none.
    lost
        Bytes of the first write that failed.
    """

    failure: OSError | None = None
    lost = b""

    def write(self, data: Any, /) -> int:
        """Write bytes. Raises OSError."""
        try:
            return super().write(data)
        except OSError as error:
            if self.failure is None:
                self.failure, self.lost = error, bytes(data)
            raise


def prepare_streams() -> None:
    """Let the streams replace what they cannot encode, and fail, not vanish, where they are closed.

    A closed one gets a file that takes nothing; else its number would be that of the next file or connection.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream: TextIO | None = getattr(sys, name)
        if stream is None:
            _point(number, os.O_RDONLY if number else os.O_WRONLY)
        if number and stream is getattr(sys, f"__{name}__"):  # else a test or a library has its own
            setattr(sys, name, _open_output(number, stream))


def finish_output(code: int) -> int:
    """Write what is left; return the exit code, which is FAILED if standard output was not written whole.

    What was lost is told on standard error, if it is short. A reader that has left needs no message.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    file = _file(sys.stdout)
    if file is not None and file.failure is not None and not isinstance(file.failure, BrokenPipeError):
        code = code or ExitCode.FAILED
        warn(f"standard output cannot be written: {file.failure.strerror}{_lost_text(file.lost)}")
    for stream in (sys.stdout, sys.stderr):
        file = _file(stream)
        if file is not None and file.failure is not None:
            _point(file.fileno(), os.O_WRONLY)  # Python flushes once more, and would complain
    return code


def has_failed() -> bool:
    """Return True if writing to standard output or standard error has failed."""
    files = [_file(stream) for stream in (sys.stdout, sys.stderr)]
    return any(file is not None and file.failure is not None for file in files)


def _open_output(number: int, stream: TextIO | None) -> TextIO:
    errors = "backslashreplace" if number == 2 else "replace"
    if stream is not None and stream.errors not in {"strict", "surrogateescape"}:
        errors = stream.errors or errors  # as PYTHONIOENCODING says
    return io.TextIOWrapper(
        io.BufferedWriter(OutputFile(number, "w", closefd=False)),
        encoding="utf-8" if stream is None else stream.encoding,
        errors=errors,
        line_buffering=number == 2 or os.isatty(number),
    )


def _file(stream: Any) -> OutputFile | None:
    file = getattr(getattr(stream, "buffer", None), "raw", None)
    return file if isinstance(file, OutputFile) else None


def _point(number: int, flags: int) -> None:
    """Make a descriptor one of the null device, whether or not it was open."""
    null = os.open(os.devnull, flags)
    if null != number:
        os.dup2(null, number)
        os.close(null)


def _lost_text(lost: bytes) -> str:
    """Return what a message says of lost output: a line or a JSON value, without secrets."""
    text = lost.decode(errors="replace").strip()
    if "\n" in text and not text.startswith("{"):
        return ""
    line = _SECRET.sub(r"\1_***", " ".join(text.split()))
    return f"; lost: {line[:_LONGEST]}{'…' * (len(line) > _LONGEST)}" if line else ""
