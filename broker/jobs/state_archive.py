"""Packs a directory into an archive (tar) that is handed over in parts, and unpacks it.

An archive holds directories, files and links, and nothing else. It may come from a machine that is not to be
trusted: links are made last, when nothing is written any more, so that nothing is written through one.
"""

from __future__ import annotations

import os
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path, PurePosixPath
from typing import IO

#: Bytes of a part. An S3 store takes 5 GB at a time.
PART_BYTES = 256 * 2**20
_BLOCK = 1 << 20


class StateArchiveError(Exception):
    """The archive is broken, or holds what it must not."""


def pack(
    directory: Path, scratch: Path, send: Callable[[IO[bytes]], None], part_bytes: int = PART_BYTES
) -> None:
    """Pack what is in a directory, and hand the parts of the archive to ``send`` in their order.

    ``scratch``: where each part is kept until it was sent.
    """
    with (
        tempfile.TemporaryFile(dir=scratch) as file,
        _PartWriter(file, send, part_bytes) as writer,
        tarfile.open(mode="w|", fileobj=writer, format=tarfile.PAX_FORMAT) as archive,  # type: ignore[call-overload]
    ):
        for path in _walk(directory):
            archive.inodes = {}  # a file with two names is packed twice
            information = archive.gettarinfo(path, str(path.relative_to(directory)))
            if information.isreg():
                with path.open("rb") as content:
                    archive.addfile(information, content)
            elif information.isdir() or information.issym():
                archive.addfile(information)


def unpack(parts: Iterable[IO[bytes]], target: Path) -> None:
    """Unpack an archive, whose parts are read one after the other, into a new directory.

    Raises
    ------
    StateArchiveError
        When it is broken, or holds what it must not.
    """
    target.mkdir(mode=0o700)
    links: dict[Path, str] = {}
    modes: list[tuple[Path, int]] = []
    try:
        with (
            closing(_PartReader(parts)) as reader,
            tarfile.open(mode="r|", fileobj=reader) as archive,  # type: ignore[call-overload]
        ):
            for member in archive:
                path = _place(target, member.name)
                if member.issym():
                    links[path] = member.linkname
                elif member.isdir():
                    path.mkdir(mode=0o700)
                    modes.append((path, member.mode & 0o777))
                elif member.isreg():
                    content = archive.extractfile(member)
                    assert content is not None
                    with path.open("xb") as file:
                        shutil.copyfileobj(content, file, _BLOCK)
                    path.chmod(member.mode & 0o777 | 0o600)
                    os.utime(path, (member.mtime, member.mtime))
                else:
                    raise StateArchiveError(f"{member.name!r} is neither a file nor a directory nor a link")
        for path, text in links.items():
            if links.keys() & set(path.parents):
                raise StateArchiveError(f"{path.name!r} is below a link")
            path.symlink_to(text)
        for path, mode in reversed(modes):
            path.chmod(mode | 0o700)
    except (tarfile.TarError, OSError, ValueError) as error:
        raise StateArchiveError(f"it cannot be unpacked: {error}") from error


def _walk(directory: Path) -> Iterator[Path]:
    """Yield all that is in a directory, what is in a directory after the directory."""
    pending = [directory]
    while pending:
        for path in sorted(pending.pop().iterdir()):
            yield path
            if path.is_dir() and not path.is_symlink():
                pending.append(path)


def _place(target: Path, name: str) -> Path:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise StateArchiveError(f"{name!r} is outside its directory")
    return target / path


class _PartWriter:
    """A file without a beginning, which is cut into parts."""

    def __init__(self, file: IO[bytes], send: Callable[[IO[bytes]], None], part_bytes: int):
        self._file, self._send, self._part_bytes, self._left = file, send, part_bytes, part_bytes

    def __enter__(self) -> _PartWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is None and self._left < self._part_bytes:
            self._flush()

    def write(self, data: bytes) -> int:
        rest = memoryview(data)
        while rest:
            taken = rest[: self._left]
            self._file.write(taken)
            self._left -= len(taken)
            rest = rest[len(taken) :]
            if not self._left:
                self._flush()
        return len(data)

    def _flush(self) -> None:
        self._file.seek(0)
        self._send(self._file)
        self._file.seek(0)
        self._file.truncate()
        self._left = self._part_bytes


class _PartReader:
    """Parts, read as one file."""

    def __init__(self, parts: Iterable[IO[bytes]]):
        self._parts = iter(parts)
        self._part: IO[bytes] | None = None

    def close(self) -> None:
        if self._part is not None:
            self._part.close()

    def read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            if self._part is None:
                self._part = next(self._parts, None)
                if self._part is None:
                    break
            more = self._part.read(size - len(data))
            if not more:
                self._part.close()
                self._part = None
            data += more
        return data
