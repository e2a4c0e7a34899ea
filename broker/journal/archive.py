"""The archive of a cloud's journal: files that hold all of it, beside Redis, which keeps only its end.

``<directory>/<epoch>-<number>.jsonl`` is the segment that begins with that entry (twenty digits each, so
that names sort); full ones are compressed (``.jsonl.gz``). A line is an entry: its id, its hash and, byte for
byte, its event. The file ``snapshot`` beside them is the owner's latest snapshot.

The owner appends what it has committed at once, without waiting for the disk; ``sync``, called every
``SYNC_S`` seconds, waits. So a process that is killed loses nothing that it appended, and a machine that
loses its power
loses at most the commits of the last ``SYNC_S`` seconds and of the time that the disk took to write. The next
owner adds what is missing from the journal.
"""

from __future__ import annotations

import gzip
import os
import threading
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import IO, cast

from broker.journal.hash_chain import BEGINNING, ChainedEntry, parse_entry_id
from broker.storage.private_files import make_private_directory, sync_directory, write_private_file

SYNC_S = 0.05
SEGMENT_ENTRIES = 10_000
_OPEN, _FULL = ".jsonl", ".jsonl.gz"
_HEAD, _HASH, _EVENT = b'{"id":"', b'","h":"', b'","e":'


class ArchiveError(Exception):
    """A file of the archive is not what was written to it."""


def archive_directory(state_dir: Path, key_prefix: str, cloud: str) -> Path:
    """Return the directory of the archive of one cloud of a federation on this machine."""
    return archives_directory(state_dir, key_prefix) / cloud


def archives_directory(state_dir: Path, key_prefix: str) -> Path:
    """Return the directory of the archives of all clouds of a federation."""
    return state_dir / "archive" / directory_name(key_prefix)


def directory_name(key_prefix: str) -> str:
    """Return a federation's name for files: its key prefix with underscores for other characters."""
    return "".join(letter if letter.isalnum() else "_" for letter in key_prefix)


class Archive:
    """The archive of one cloud.

    Only its owner writes it; ``append`` and ``sync`` may be called by two threads. Reading needs no ``open``.
    ``last`` is the last entry that was appended or found.
    """

    def __init__(self, directory: Path, segment_entries: int = SEGMENT_ENTRIES):
        self.directory = directory
        self.last: ChainedEntry | None = None
        self._segment_entries = segment_entries
        self._lock = threading.Lock()
        self._open = False
        self._file: int | None = None
        self._path = directory
        self._count = 0  # entries in the open segment
        self._unsynced: list[int] = []  # files with bytes that may not be on the disk
        self._full: list[Path] = []
        self._names: set[str] = set()  # of the files that must be there, without what tells their form

    # -- writing -----------------------------------------------------------------------------------------

    def open(self) -> None:
        """Find the last entry and take entries from now on.

        What is appended goes into new segments: a crash may have cut off the last line of the latest one, and
        an owner that was overtaken may still append to it what it committed just before.

        Raises
        ------
        OSError
            When a file cannot be read.
        ArchiveError
            When a file is damaged.
        """
        with self._lock:
            self._close()
            make_private_directory(self.directory)
            for path in self.directory.iterdir():
                with suppress(PermissionError):  # another user's
                    path.chmod(0o600)  # earlier versions left some open to others
            self._full = [path for path in self.segments() if path.name.endswith(_OPEN)]
            for path in [*self._full]:
                if next(_read_segment(path), None) is None:
                    path.unlink()
                    self._full.remove(path)
            self.last = self.newest()
            self._names = self._present()
            self._open = True

    def append(self, entries: Sequence[ChainedEntry]) -> None:
        """Add entries; they are on the disk after the next ``sync``.

        Raises
        ------
        OSError
            When they cannot be written; ``open`` then begins anew.
        """
        with self._lock:
            for start in range(0, len(entries), self._segment_entries):
                self._append(entries[start : start + self._segment_entries])

    def _append(self, entries: Sequence[ChainedEntry]) -> None:
        if self._file is None or self._count >= self._segment_entries:
            self._begin_segment(entries[0])
        assert self._file is not None
        lines = b"".join(map(_format_line, entries))
        while lines:
            lines = lines[os.write(self._file, lines) :]
        if self._file not in self._unsynced:
            self._unsynced.append(self._file)
        self._count += len(entries)
        self.last = entries[-1]

    def _begin_segment(self, first: ChainedEntry) -> None:
        if self._file is not None:
            self._full.append(self._path)
            if self._file not in self._unsynced:
                self._unsynced.append(self._file)  # it is closed there
        self._path = self._segment_path(first)
        self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o600)
        self._count = 0
        self._names.add(_name(self._path))

    def _segment_path(self, first: ChainedEntry) -> Path:
        epoch, number = first.place
        return self.directory / f"{epoch:020d}-{number:020d}{_OPEN}"

    def sync(self) -> ChainedEntry | None:
        """Wait until what was appended is on the disk, and compress full segments.

        Returns
        -------
        Entry or None
            The last entry that is on the disk.

        Raises
        ------
        OSError
            When a file cannot be written.
        """
        with self._lock:
            last, unsynced, full = self.last, self._unsynced, self._full
            self._unsynced, self._full = [], []
            current = self._file
        for file in unsynced:
            os.fsync(file)
            if file != current:
                os.close(file)
        if unsynced:
            sync_directory(self.directory)
        for path in full:
            _compress(path)
        return last

    @property
    def is_open(self) -> bool:
        """True if it takes entries: it was opened and not abandoned since."""
        return self._open

    def abandon(self) -> None:
        """Take no entries before it is opened again; for use after an error."""
        with self._lock:
            self._close()

    def close(self) -> None:
        """Sync, and close the files.

        Raises
        ------
        OSError
            When a file cannot be written.
        """
        self.sync()
        with self._lock:
            self._close()

    def _close(self) -> None:
        for file in {*self._unsynced, *([] if self._file is None else [self._file])}:
            os.close(file)
        self._file, self._unsynced, self._open = None, [], False

    # -- what is gone ------------------------------------------------------------------------------------

    def lost(self) -> list[str]:
        """Return the names of the files that were there and are gone, oldest segment first, snapshot last."""
        with self._lock:
            return sorted(self._names - self._present())

    def _present(self) -> set[str]:
        paths = [*self.directory.glob(f"*{_OPEN}*"), *self.directory.glob("snapshot")]
        return {_name(path) for path in paths}

    def rebuild(self, lost: Sequence[str], journal: Iterable[ChainedEntry]) -> None:
        """Write segments again that are gone, as far as the entries of the journal reach back.

        Raises
        ------
        OSError
            When a file cannot be written.
        """
        present = {name for name in self._present() if name != "snapshot"}
        begins = sorted((parse_entry_id(name), name) for name in {*present, *lost} - {"snapshot"})
        segments: dict[str, list[ChainedEntry]] = {}
        for entry in journal:
            place = bisect_right(begins, (entry.place, "~")) - 1
            if place >= 0 and begins[place][1] not in present:
                segments.setdefault(begins[place][1], []).append(entry)
        for entries in segments.values():
            path = self._segment_path(entries[0])
            write_private_file(path, b"".join(map(_format_line, entries)))
            with self._lock:
                self._names.add(_name(path))
                self._full.append(path)

    def merge(self, other: Archive) -> int:
        """Fill the gaps before the last entry from another archive of the same journal.

        The entries go into segments of their own, beside which the owner may go on writing.

        Returns
        -------
        int
            The number of entries that were added.

        Raises
        ------
        OSError
            When a file cannot be read or written.
        ArchiveError
            When a file is damaged, or both have an entry that is not the same: nothing is added.
        """
        mine, missing = self.entries(), list[ChainedEntry]()
        begins: list[int] = []  # places in the list where a segment begins
        entry, is_apart = next(mine, None), True
        for theirs in other.entries():
            while entry is not None and entry.place < theirs.place:
                entry, is_apart = next(mine, None), True
            if entry is None:
                break  # the owner may append what follows to its open segment
            if entry.place == theirs.place:
                if entry != theirs:
                    raise ArchiveError(f"entry {entry.id} is another one in {other.directory}")
                continue
            if is_apart or len(missing) - begins[-1] >= self._segment_entries:
                begins.append(len(missing))
                is_apart = False
            missing.append(theirs)
        for begin, end in pairwise([*begins, len(missing)]):
            lines = b"".join(map(_format_line, missing[begin:end]))
            write_private_file(self._segment_path(missing[begin]), lines)
        return len(missing)

    # -- the snapshot ------------------------------------------------------------------------------------

    def write_snapshot(self, snapshot: bytes) -> None:
        """Replace the snapshot, and return when the new one is on the disk.

        Raises
        ------
        OSError
            When it cannot be written.
        """
        write_private_file(self.directory / "snapshot", snapshot)
        self._names.add("snapshot")

    def snapshot(self) -> bytes | None:
        """Return the latest snapshot, or None if there is none."""
        try:
            return (self.directory / "snapshot").read_bytes()
        except FileNotFoundError:
            return None

    # -- reading -----------------------------------------------------------------------------------------

    def segments(self) -> list[Path]:
        """Return the files, oldest first.

        Where a crash left both forms of a segment, the compressed one is not whole and is left out.
        """
        plain = {_name(path): path for path in self.directory.glob(f"*{_OPEN}")}
        # After the plain ones: the owner may compress one meanwhile.
        segments = {_name(path): path for path in self.directory.glob(f"*{_FULL}")} | plain
        return [segments[name] for name in sorted(segments)]

    def entries(self, after: tuple[int, int] = (0, 0)) -> Iterator[ChainedEntry]:
        """Yield the entries after a place (exclusive), in order.

        Raises
        ------
        OSError
            When a file cannot be read.
        ArchiveError
            When a file is damaged.
        """
        segments = self.segments()
        begins = [parse_entry_id(_name(path)) for path in segments]
        for path, next_begin in zip(segments, [*begins[1:], None][: len(segments)], strict=True):
            if next_begin is not None and next_begin <= after:
                continue
            for entry in _read_segment(path):
                if entry.place > after:  # else two owners appended it
                    after = entry.place
                    yield entry

    def newest(self) -> ChainedEntry | None:
        """Return the last entry, or None if there is none.

        Raises
        ------
        OSError
            When a file cannot be read.
        ArchiveError
            When a file is damaged.
        """
        return next(self.backwards(), None)

    def get(self, entry_id: str) -> ChainedEntry | None:
        """Return the entry with an id, or None if it is not there.

        Raises
        ------
        OSError
            When a file cannot be read.
        ArchiveError
            When a file is damaged.
        """
        epoch, number = parse_entry_id(entry_id)
        entry = next(self.entries((epoch, number - 1)), None)
        return entry if entry is not None and entry.id == entry_id else None

    def backwards(self) -> Iterator[ChainedEntry]:
        """Yield all entries, newest first.

        Raises
        ------
        OSError
            When a file cannot be read.
        ArchiveError
            When a file is damaged.
        """
        before: tuple[int, int] | None = None
        for path in reversed(self.segments()):
            for entry in reversed(list(_read_segment(path))):
                if before is None or entry.place < before:
                    before = entry.place
                    yield entry


def _name(path: Path) -> str:
    return path.name.partition(".")[0]


def _packed(path: Path) -> Path:
    """Return the path of a segment's compressed form."""
    return path.with_name(path.name.removesuffix(_OPEN) + _FULL)


def _format_line(entry: ChainedEntry) -> bytes:
    return b"".join((_HEAD, entry.id.encode(), _HASH, entry.hash.encode(), _EVENT, entry.body, b"}\n"))


def _read_segment(path: Path) -> Iterator[ChainedEntry]:
    """Yield a segment's entries; a last line without its end was cut off, or is being written."""
    with _open_segment(path) as file:
        try:
            for number, line in enumerate(file, 1):
                if line.endswith(b"\n"):
                    yield _parse_line(line, f"{path}:{number}")
        except (EOFError, gzip.BadGzipFile) as error:
            raise ArchiveError(f"{path}: {error}") from error


def _open_segment(path: Path) -> IO[bytes]:
    """Open a segment for reading, also if its owner has compressed it since it was listed."""
    if not path.name.endswith(_FULL):
        with suppress(FileNotFoundError):
            return path.open("rb")
        path = _packed(path)
    return cast("IO[bytes]", gzip.open(path, "rb"))


def _parse_line(line: bytes, where: str) -> ChainedEntry:
    head, event, body = line.partition(_EVENT)
    entry, _, hashed = head.removeprefix(_HEAD).partition(_HASH)
    if not (head.startswith(_HEAD) and event and body.endswith(b"}\n")):
        raise ArchiveError(f"{where}: not an entry")
    try:
        parse_entry_id(entry.decode("ascii"))
        return ChainedEntry(entry.decode("ascii"), hashed.decode("ascii") or BEGINNING, body[:-2])
    except ValueError as error:
        raise ArchiveError(f"{where}: not an entry") from error


def _compress(path: Path) -> None:
    """Replace a file by its compressed form; a crash in between leaves both, and the file counts."""
    write_private_file(_packed(path), gzip.compress(path.read_bytes(), compresslevel=1))
    path.unlink()
    sync_directory(path.parent)
