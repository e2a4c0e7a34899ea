"""Reads the append-only file of an embedded Redis server, and cuts off an end that the server cannot read.

After a power failure a file may end in zeros, or in half a command. What was answered is in front of that.
"""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

_FOLDER = "appendonlydir"
_LONGEST_LINE = 64  # of a length or a time stamp
_COMMAND = re.compile(rb"\*[1-9][0-9]*\r\n\$[1-9][0-9]*\r\n[A-Za-z]")


class AppendOnlyFileError(Exception):
    """The append-only file cannot be repaired; the message says why and what to do."""


@dataclass(frozen=True)
class RepairedFile:
    """An append-only file, and what was cut off its end.

    Attributes
    ----------
    file
        The file.
    cut_bytes
        Bytes that were cut off; 0 if nothing had to be.
    copy
        Copy of the whole file as it was; None if nothing was cut off.
    """

    file: Path
    cut_bytes: int = 0
    copy: Path | None = None


def repair_end(directory: Path) -> RepairedFile:
    """Cut off the end of the append-only file in a directory that no server uses, after copying the file.

    Raises
    ------
    AppendOnlyFileError
        When there is no file, or commands follow the damage.
    OSError
        When the file cannot be read, copied or written.
    """
    path = _latest_file(directory)
    size = path.stat().st_size
    with path.open("rb") as file:
        kept = find_end(file)
        if kept == size:
            return RepairedFile(path)
        file.seek(kept + 1)  # behind the beginning of the command that is damaged
        if _COMMAND.search(file.read()):
            raise AppendOnlyFileError(
                f"{path} is damaged at byte {kept}, and commands follow that would be lost with the damage: "
                "restore a copy of the directory, or move it away; owners then continue from their archives"
            )
    copy = directory / f"{path.name}.damaged-{datetime.now(UTC):%Y%m%dT%H%M%S}"
    shutil.copy2(path, copy)
    with copy.open("rb+") as copied:
        os.fsync(copied.fileno())
    with path.open("rb+") as damaged:
        damaged.truncate(kept)
        os.fsync(damaged.fileno())
    return RepairedFile(path, size - kept, copy)


def find_end(file: BinaryIO) -> int:
    """Return the number of bytes of complete commands, and of complete transactions, from the beginning."""
    end, is_open = 0, False
    while (name := _read_command(file)) is not None:
        if name == b"MULTI":
            is_open = True
        elif name == b"EXEC":
            is_open = False
        if not is_open:
            end = file.tell()
    return end


def _read_command(file: BinaryIO) -> bytes | None:
    """Read a command, or a line with a time; return its name, or None at the end of what can be read."""
    line = file.readline(_LONGEST_LINE)
    if line.startswith(b"#") and line.endswith(b"\r\n"):
        return b""
    count = _number(line, b"*")
    if not count:
        return None
    name = None
    for _ in range(count):
        length = _number(file.readline(_LONGEST_LINE), b"$")
        if length is None:
            return None
        word = file.read(length + 2)
        if len(word) != length + 2 or not word.endswith(b"\r\n"):
            return None
        name = word[:-2].upper() if name is None else name
    return name


def _number(line: bytes, sign: bytes) -> int | None:
    digits = line[1:-2]
    return int(digits) if line[:1] == sign and line.endswith(b"\r\n") and digits.isdigit() else None


def _latest_file(directory: Path) -> Path:
    """Return the file that a server appended to last. Raises AppendOnlyFileError."""
    folder = directory / _FOLDER
    try:
        manifest = (folder / "appendonly.aof.manifest").read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        raise AppendOnlyFileError(f"{directory} holds no queue") from None
    names = re.findall(r"^file (\S+) seq \d+ type i", manifest, re.MULTILINE)
    if not names:
        raise AppendOnlyFileError(f"{folder / 'appendonly.aof.manifest'} names no file that was appended to")
    return folder / str(names[-1])
