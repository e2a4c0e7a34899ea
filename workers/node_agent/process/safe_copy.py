"""Copies of directories whose owner may not be trusted with what the copier may read.

No link is followed, nothing but files, directories and links is copied, and of files only those of the user
whose they are said to be: who can make a hard link to another's file does not get it copied.
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
    """The copy was not finished."""


def copy_tree(
    source: Path,
    target: Path,
    *,
    of: int | None = None,
    to: int | None = None,
    abandoned: Callable[[], bool] = lambda: False,
) -> int:
    """Copies what is in ``source`` into ``target``, which is made; returns how many bytes the files have.

    of: the user whose files are copied; None: anybody's. to: the user and group that own the copy.
    Raises Abandoned and OSError.
    """
    target.mkdir(mode=0o700)
    from_ = os.open(source, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    into = os.open(target, os.O_RDONLY | os.O_DIRECTORY)
    try:
        copied = _Copy(of, to, abandoned).directory(from_, into)
        if to is not None:
            os.fchown(into, to, to)
        return copied
    finally:
        os.close(from_)
        os.close(into)


def remove_tree(path: Path) -> None:
    """Removes a directory and all in it, also what its owner made unreadable."""

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
        total = 0
        for name in os.listdir(source):
            if self._abandoned():
                raise AbandonedCopyError
            with suppress(FileNotFoundError):
                total += self._entry(name, source, target)
        return total

    def _entry(self, name: str, source: int, target: int) -> int:
        found = os.stat(name, dir_fd=source, follow_symlinks=False)
        if self._of is not None and found.st_uid != self._of:
            return 0
        if stat.S_ISDIR(found.st_mode):
            return self._below(name, source, target, found.st_mode)
        if stat.S_ISLNK(found.st_mode):
            os.symlink(os.readlink(name, dir_fd=source), name, dir_fd=target)
            if self._to is not None:
                os.chown(name, self._to, self._to, dir_fd=target, follow_symlinks=False)
        elif stat.S_ISREG(found.st_mode):
            return self._file(name, source, target)
        return 0

    def _below(self, name: str, source: int, target: int, mode: int) -> int:
        from_ = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=source)
        try:
            os.mkdir(name, 0o700, dir_fd=target)
            into = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=target)
            try:
                copied = self.directory(from_, into)
                self._give(into, mode)
                return copied
            finally:
                os.close(into)
        finally:
            os.close(from_)

    def _file(self, name: str, source: int, target: int) -> int:
        from_ = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=source)
        try:
            found = os.fstat(from_)  # of what was opened, whatever has that name by now
            if not stat.S_ISREG(found.st_mode) or self._of not in {None, found.st_uid}:
                return 0
            into = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=target)
            try:
                copied = 0
                while block := os.sendfile(into, from_, None, _BLOCK):
                    copied += block
                    if self._abandoned():
                        raise AbandonedCopyError
                self._give(into, found.st_mode)
                os.utime(into, ns=(found.st_atime_ns, found.st_mtime_ns))
                return copied
            finally:
                os.close(into)
        finally:
            os.close(from_)

    def _give(self, descriptor: int, mode: int) -> None:
        """Its owner, its permissions without those that give privileges, and on to the disk."""
        if self._to is not None:
            os.fchown(descriptor, self._to, self._to)
        os.fchmod(descriptor, mode & 0o777)
        os.fsync(descriptor)
