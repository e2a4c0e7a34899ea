"""Copy directories whose owner may not be trusted with what the copier can read.

No link is followed. Only files, directories and links are copied, and only files of the user to whom the
directory belongs: a hard link to another user's file is not copied.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

_BLOCK = 1 << 20


class AbandonedCopyError(Exception):
    """The copy was abandoned before it was finished."""


def copy_tree(
    source: Path,
    target: Path,
    *,
    of: int | None = None,
    to: int | None = None,
    abandoned: Callable[[], bool] = lambda: False,
) -> int:
    """Copy what is in ``source`` into a new directory ``target``; return the bytes of the files.

    Parameters
    ----------
    of:
        The user whose files are copied; None for anybody's.
    to:
        The user and group that own the copy.
    abandoned:
        Returns True when the copy is to be given up.

    Raises
    ------
    AbandonedCopyError
        When ``abandoned`` returned True.
    OSError
        When something cannot be read or written.
    """
    target.mkdir(mode=0o700)
    origin = os.open(source, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    destination = os.open(target, os.O_RDONLY | os.O_DIRECTORY)
    try:
        copied = _Copy(of, to, abandoned).directory(origin, destination)
        if to is not None:
            os.fchown(destination, to, to)
        return copied
    finally:
        os.close(origin)
        os.close(destination)


def remove_tree(path: Path) -> None:
    """Remove a directory and all that is in it, including what its owner made unreadable."""

    def open_up(_remove: object, failed: str, _error: object) -> None:
        with suppress(OSError):
            os.chmod(os.path.dirname(failed), 0o700)
            if stat.S_ISDIR(os.lstat(failed).st_mode):
                os.chmod(failed, 0o700)

    for _ in range(2):
        shutil.rmtree(path, onerror=open_up)
        if not path.exists():
            return


class _Copy:
    def __init__(self, of: int | None, to: int | None, abandoned: Callable[[], bool]):
        self._of, self._to, self._abandoned = of, to, abandoned

    def directory(self, source: int, target: int) -> int:
        """Copy the entries of an open directory into another; return the bytes of the files."""
        total = 0
        for name in os.listdir(source):
            if self._abandoned():
                raise AbandonedCopyError
            with suppress(FileNotFoundError):
                total += self._entry(name, source, target)
        return total

    def _entry(self, name: str, source: int, target: int) -> int:
        status = os.stat(name, dir_fd=source, follow_symlinks=False)
        if self._of is not None and status.st_uid != self._of:
            return 0
        if stat.S_ISDIR(status.st_mode):
            return self._below(name, source, target, status.st_mode)
        if stat.S_ISLNK(status.st_mode):
            os.symlink(os.readlink(name, dir_fd=source), name, dir_fd=target)
            if self._to is not None:
                os.chown(name, self._to, self._to, dir_fd=target, follow_symlinks=False)
        elif stat.S_ISREG(status.st_mode):
            return self._file(name, source, target)
        return 0

    def _below(self, name: str, source: int, target: int, mode: int) -> int:
        origin = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=source)
        try:
            os.mkdir(name, 0o700, dir_fd=target)
            destination = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=target)
            try:
                copied = self.directory(origin, destination)
                self._give(destination, mode)
                return copied
            finally:
                os.close(destination)
        finally:
            os.close(origin)

    def _file(self, name: str, source: int, target: int) -> int:
        origin = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=source)
        try:
            status = os.fstat(origin)  # the file that was opened, whatever has that name by now
            if not stat.S_ISREG(status.st_mode) or self._of not in {None, status.st_uid}:
                return 0
            destination = os.open(
                name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=target
            )
            try:
                copied = 0
                while block := os.sendfile(destination, origin, None, _BLOCK):
                    copied += block
                    if self._abandoned():
                        raise AbandonedCopyError
                self._give(destination, status.st_mode)
                os.utime(destination, ns=(status.st_atime_ns, status.st_mtime_ns))
                return copied
            finally:
                os.close(destination)
        finally:
            os.close(origin)

    def _give(self, descriptor: int, mode: int) -> None:
        """Set owner and permissions, without those that give privileges, and write all to the disk."""
        if self._to is not None:
            os.fchown(descriptor, self._to, self._to)
        os.fchmod(descriptor, mode & 0o777)
        os.fsync(descriptor)
