"""Writes files that only their user may read, and judges who may read those that hold secrets."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

_OTHERS_READ, _OTHERS_WRITE = stat.S_IRWXO | stat.S_IWGRP | stat.S_IXGRP, stat.S_IWGRP | stat.S_IWOTH


def write_private_file(path: Path, content: str | bytes) -> None:
    """Replace a file at once, with mode 0600: whatever happens, the new content or the old is on the disk.

    Raises OSError.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    sync_directory(path.parent)


def append_to_private_file(path: Path) -> BinaryIO:
    """Open a file to append to it; one that is missing is made with mode 0600. Raises OSError."""
    return open(path, "ab", opener=lambda name, flags: os.open(name, flags, 0o600))


def make_private_directory(path: Path) -> None:
    """Make a directory and those above it that are missing, each with mode 0700. Raises OSError."""
    for directory in reversed([path, *path.parents]):
        if not directory.exists():
            directory.mkdir(mode=0o700, exist_ok=True)


def sync_directory(directory: Path) -> None:
    """Wait until files that were created, renamed or removed in a directory are so on the disk."""
    opened = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def find_reader(path: Path, *, group: bool = False) -> str | None:
    """Return what is wrong with the mode of a file that holds a secret, and what to do; None if nothing is.

    A group may read what root owns and gives to this user by that group, as secrets of Kubernetes; with
    ``group`` any group may, as it is usual for keys of TLS. Raises OSError.
    """
    status = path.stat()
    allowed = group or (status.st_uid == 0 and os.geteuid() != 0)
    if status.st_mode & (_OTHERS_READ if allowed else stat.S_IRWXG | stat.S_IRWXO):
        return f"{path} is secret, and others may read or change it: chmod 600 {path}"
    return None


def find_writer(path: Path) -> str | None:
    """Return what is wrong with a file that only its owner may change, and what to do; None if nothing is.

    Raises OSError.
    """
    if path.stat().st_mode & _OTHERS_WRITE:
        return f"{path} says who is trusted, and others may change it: chmod go-w {path}"
    return None
