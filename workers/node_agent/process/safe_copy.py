"""Walk, copy and remove directories whose owner may have set traps in them, or may still be changing them.

Everything is reached through open directories: no link is followed, and nothing above or outside is touched.
Nothing recurses, and few directories are open at a time, however deep they are nested.
"""

from __future__ import annotations

import errno
import os
import stat
import time
import uuid
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

#: The most directories that a walk remembers: those it is in, and those that it has yet to enter.
MOST_REMEMBERED = 100_000
#: Seconds after which a removal is given up.
REMOVAL_LIMIT_S = 10.0
_BLOCK = 1 << 20
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


class AbandonedCopyError(Exception):
    """The copy was abandoned before it was finished."""


class StepKind(Enum):
    """The steps of a walk: an entry that is no directory, the way into a directory, and out of it again."""

    ENTRY = auto()
    ENTER = auto()
    LEAVE = auto()


@dataclass(frozen=True, slots=True)
class WalkStep:
    """One step of a walk: of ``name`` in the directory that is open as ``parent`` until the next step."""

    kind: StepKind
    parent: int
    name: str
    status: os.stat_result


@dataclass(frozen=True, slots=True)
class _Level:
    """A directory that a walk is in, and the names of those in it that it has yet to enter."""

    name: str
    status: os.stat_result
    below: list[str]


class TreeWalk:
    """Walks through an open directory. What vanishes meanwhile is left out."""

    def __init__(self, top: int, of: int | None):
        """Prepare the walk. ``of``: the user whose directories are entered; None for anybody's."""
        self._top, self._of, self._remembered = top, of, 1

    def __iter__(self) -> Generator[WalkStep]:
        """Yield the steps.

        Raises
        ------
        OSError
            When a directory cannot be read or was moved meanwhile, or there are too many of them.
        """
        opened = [os.dup(self._top)]  # where the walk is; for a moment also the directory below or above
        levels = [_Level("", os.fstat(self._top), [])]
        try:
            yield from self._list(opened[0], levels[0].below)
            while True:
                if not levels[-1].below:
                    left = levels.pop()
                    if not levels:
                        return
                    self._remembered -= 1
                    opened.append(os.open("..", _DIRECTORY, dir_fd=opened[0]))
                    os.close(opened.pop(0))
                    if not os.path.samestat(os.fstat(opened[0]), levels[-1].status):
                        raise OSError(errno.ESTALE, "a directory was moved meanwhile")
                    yield WalkStep(StepKind.LEAVE, opened[0], left.name, left.status)
                    continue
                name = levels[-1].below.pop()
                self._remembered -= 1
                try:
                    opened.append(os.open(name, _DIRECTORY, dir_fd=opened[0]))
                except FileNotFoundError:
                    continue
                level = _Level(name, os.fstat(opened[1]), [])
                if self._of in {None, level.status.st_uid}:
                    yield WalkStep(StepKind.ENTER, opened[0], name, level.status)
                    yield from self._list(opened[1], level.below)
                    if level.below:
                        self._remembered += 1
                        levels.append(level)
                        os.close(opened.pop(0))
                        continue
                    yield WalkStep(StepKind.LEAVE, opened[0], name, level.status)
                os.close(opened.pop())
        finally:
            for descriptor in opened:
                os.close(descriptor)

    def _list(self, directory: int, below: list[str]) -> Iterator[WalkStep]:
        """Yield what is no directory, and note the names of directories in ``below``."""
        with os.scandir(directory) as entries:
            for entry in entries:
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                if not stat.S_ISDIR(status.st_mode):
                    yield WalkStep(StepKind.ENTRY, directory, entry.name, status)
                elif self._remembered >= MOST_REMEMBERED:
                    raise OSError(errno.EMFILE, f"it has more than {MOST_REMEMBERED:,} directories")
                else:
                    self._remembered += 1
                    below.append(entry.name)


def copy_tree(
    source: Path,
    target: Path,
    *,
    of: int | None = None,
    to: int | None = None,
    abandoned: Callable[[], bool] = lambda: False,
) -> int:
    """Copy what is in ``source`` into a new directory ``target``; return the bytes of the files.

    Only files, directories and links are copied, and only files of one user: not a hard link to another
    user's file. Holes in files remain holes.

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
    origin = os.open(source, _DIRECTORY)
    try:
        with (
            closing(_Copy(target, of, to, abandoned)) as copy,
            closing(iter(TreeWalk(origin, of))) as steps,
        ):
            for step in steps:
                copy.take(step)
            copy.finish()
            return copy.copied_bytes
    finally:
        os.close(origin)


class _Copy:
    """The copy that a walk makes; open is the directory in which the walk is."""

    def __init__(self, target: Path, of: int | None, to: int | None, abandoned: Callable[[], bool]):
        self._directory = os.open(target, _DIRECTORY)
        self._of, self._to, self._abandoned = of, to, abandoned
        self.copied_bytes = 0

    def close(self) -> None:
        """Close the directory that is open."""
        os.close(self._directory)

    def finish(self) -> None:
        """Hand over the directory of the whole copy."""
        self._give(self._directory, 0o700)

    def take(self, step: WalkStep) -> None:
        """Copy what the walk has come to.

        Raises
        ------
        AbandonedCopyError
            When the copy is to be given up.
        """
        self._check()
        if step.kind is StepKind.ENTER:
            os.mkdir(step.name, 0o700, dir_fd=self._directory)
            os.close(self._move(step.name))
        elif step.kind is StepKind.LEAVE:
            left = self._move("..")
            try:
                self._give(left, step.status.st_mode)
            finally:
                os.close(left)
        elif self._of in {None, step.status.st_uid}:
            with suppress(FileNotFoundError):
                self._copy_entry(step)

    def _check(self) -> None:
        if self._abandoned():
            raise AbandonedCopyError

    def _move(self, name: str) -> int:
        """Open a directory next to the open one; return the one that was open."""
        before = self._directory
        self._directory = os.open(name, _DIRECTORY, dir_fd=before)
        return before

    def _copy_entry(self, step: WalkStep) -> None:
        if stat.S_ISREG(step.status.st_mode):
            self._copy_file(step)
        elif stat.S_ISLNK(step.status.st_mode):
            target = os.readlink(step.name, dir_fd=step.parent)
            os.symlink(target, step.name, dir_fd=self._directory)
            if self._to is not None:
                os.chown(step.name, self._to, self._to, dir_fd=self._directory, follow_symlinks=False)

    def _copy_file(self, step: WalkStep) -> None:
        origin = os.open(step.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=step.parent)
        try:
            status = os.fstat(origin)  # the file that was opened, whatever has that name by now
            if not stat.S_ISREG(status.st_mode) or self._of not in {None, status.st_uid}:
                return
            destination = os.open(
                step.name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=self._directory
            )
            try:
                os.truncate(destination, status.st_size)
                self._copy_data(origin, destination, status.st_size)
                self._give(destination, status.st_mode)
                os.utime(destination, ns=(status.st_atime_ns, status.st_mtime_ns))
            finally:
                os.close(destination)
        finally:
            os.close(origin)

    def _copy_data(self, origin: int, destination: int, size: int) -> None:
        """Copy what the file had when it was opened, without its holes."""
        at = 0
        while at < size:
            try:
                at = os.lseek(origin, at, os.SEEK_DATA)
            except OSError as error:
                if error.errno != errno.ENXIO:
                    raise
                return  # nothing but a hole is left
            end = min(size, os.lseek(origin, at, os.SEEK_HOLE))
            os.lseek(destination, at, os.SEEK_SET)
            while at < end:
                copied = os.sendfile(destination, origin, at, min(end - at, _BLOCK))
                if not copied:
                    return
                at += copied
                self.copied_bytes += copied
                self._check()

    def _give(self, descriptor: int, mode: int) -> None:
        """Set owner and permissions, without those that give privileges, and write all to the disk."""
        if self._to is not None:
            os.fchown(descriptor, self._to, self._to)
        os.fchmod(descriptor, mode & 0o777)
        os.fsync(descriptor)


def remove_tree(path: Path, limit_s: float = REMOVAL_LIMIT_S) -> None:
    """Remove what has that name, if anything has, whatever is in it and whoever adds to it meanwhile.

    Root changes no permissions; another user only those of its own directories in there. What can be removed
    is, although something else cannot.

    Raises
    ------
    OSError
        When something is left; TimeoutError where that took too long.
    """
    until_s = time.monotonic() + limit_s
    parent = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(FileNotFoundError):
            if stat.S_ISDIR(os.stat(path.name, dir_fd=parent, follow_symlinks=False).st_mode):
                top = _open_unlocked(path.name, parent)
                try:
                    while not _remove_directory(path.name, parent):
                        _empty(top, until_s)
                finally:
                    os.close(top)
            else:
                os.unlink(path.name, dir_fd=parent)
    finally:
        os.close(parent)


def _empty(top: int, until_s: float) -> None:
    """Remove all that is in an open directory: directories in it give it their own until they are empty."""
    failures: dict[str, OSError] = {}
    found = True
    while found:
        _check_time(until_s)
        found = False
        with os.scandir(top) as entries:
            for entry in entries:
                if entry.name not in failures:
                    found = True
                    try:
                        _remove_entry(entry.name, top, until_s)
                    except FileNotFoundError:
                        pass
                    except TimeoutError:
                        raise
                    except OSError as error:
                        failures[entry.name] = error
    if failures:
        raise next(iter(failures.values()))


def _remove_entry(name: str, top: int, until_s: float) -> None:
    """Remove a file, or the files of a directory, whose directories move up; and it, if it is empty then."""
    _check_time(until_s)
    if _unlink(name, top):
        return
    directory = _open_unlocked(name, top)
    failure = None
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                _check_time(until_s)
                try:
                    if not _unlink(entry.name, directory):
                        os.close(_open_unlocked(entry.name, directory))
                        os.rename(entry.name, uuid.uuid4().hex, src_dir_fd=directory, dst_dir_fd=top)
                except OSError as error:
                    failure = failure or error
    finally:
        os.close(directory)
    if not _remove_directory(name, top) and failure:  # without one somebody adds to it: its turn comes again
        raise failure


def _check_time(until_s: float) -> None:
    if time.monotonic() > until_s:
        raise TimeoutError(errno.ETIMEDOUT, "it takes too long to remove all that is in it")


def _unlink(name: str, directory: int) -> bool:
    """Remove an entry, if it is still there; return False if it is a directory."""
    try:
        os.unlink(name, dir_fd=directory)
    except IsADirectoryError:
        return False
    except FileNotFoundError:
        pass
    return True


def _remove_directory(name: str, parent: int) -> bool:
    """Remove a directory; return False if something is in it."""
    try:
        os.rmdir(name, dir_fd=parent)
    except OSError as error:
        if error.errno != errno.ENOTEMPTY:
            raise
        return False
    return True


def _open_unlocked(name: str, parent: int) -> int:
    """Open a directory so that it can be emptied, also if its owner, this user, locked itself out."""
    if os.geteuid() != 0:  # root needs no permission
        place = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
        try:
            status = os.fstat(place)
            if status.st_uid == os.geteuid() and status.st_mode & 0o700 != 0o700:
                os.chmod(f"/proc/self/fd/{place}", 0o700)
        finally:
            os.close(place)
    return os.open(name, _DIRECTORY, dir_fd=parent)
