"""Read a trace file as lines of text, plain or gzip, whatever its name says."""

from __future__ import annotations

import gzip
import os
import sys
import zlib
from dataclasses import dataclass
from pathlib import Path
from zoneinfo import ZoneInfo

from cloudsim.model.errors import TraceError

_GZIP_MAGIC = b"\x1f\x8b"
BOM = b"\xef\xbb\xbf"
#: Stands for standard input where a path is due.
STANDARD_INPUT = "-"
#: A file is read twice, to recognise it and to read all of it. What a pipe gave is kept for the second time.
_streams: dict[str, bytes] = {}
_SUFFIXES = (".gz", ".csv", ".swf", ".txt", ".parquet")


@dataclass(frozen=True)
class Source:
    """Lines of a file without their ends, numbered from 1; ``name`` is the file's name without suffixes."""

    file: str
    name: str
    lines: list[str]
    #: Repairs that were needed to read the lines, a sentence each.
    repaired: tuple[str, ...] = ()
    #: The last line has no end: the writer may have been cut off.
    ends_open: bool = False
    #: Zone of times that name none; None: nobody named it.
    time_zone: ZoneInfo | None = None


def load_source(path: str | os.PathLike[str], *, accepted: str) -> Source:
    """Read a whole text file.

    Parameters
    ----------
    accepted
        Sentence on the accepted files, for errors.

    Raises
    ------
    TraceError
        When it is missing, a directory, unreadable, empty, damaged gzip, or binary.
    """
    return decode_source(load_bytes(path, accepted=accepted), os.fspath(path), accepted=accepted)


def load_bytes(path: str | os.PathLike[str], *, accepted: str) -> bytes:
    """Return the bytes of a file, unpacked if it is gzip.

    Raises
    ------
    TraceError
        When it is missing, a directory, unreadable, or damaged gzip.
    """
    file = os.fspath(path)
    try:
        data = read_stream(file)
        if data is None:
            data = Path(file).read_bytes()
    except FileNotFoundError:
        raise TraceError(f"there is no such file; {accepted}", file=file) from None
    except IsADirectoryError:
        raise TraceError(f"is a directory, not a file; {accepted}", file=file) from None
    except (OSError, ValueError) as error:
        raise TraceError(f"cannot be read ({error}); {accepted}", file=file) from None
    return _unpacked(data, file, accepted)


def read_stream(file: str) -> bytes | None:
    """Return all that standard input (``-``) or a pipe gave, None for a file that can be read again.

    Raises
    ------
    OSError
        When it cannot be read.
    """
    if file not in _streams:
        if file == STANDARD_INPUT:
            _streams[file] = sys.stdin.buffer.read()
        elif Path(file).is_fifo():
            _streams[file] = Path(file).read_bytes()
    return _streams.get(file)


def decode_source(data: bytes, file: str, *, accepted: str) -> Source:
    """Return the lines of a text file that is in memory already; ``file`` is its name in errors.

    Raises
    ------
    TraceError
        When it is empty, damaged gzip, or binary.
    """
    data = _unpacked(data, file, accepted)
    if not data.strip():
        raise TraceError(f"is empty; {accepted}", file=file)
    if b"\0" in data:
        raise TraceError(f"is binary, not text; {accepted}", file=file)
    repaired = list_repairs(data)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        # Headers of older logs name their machines and people in Latin-1; the records themselves are ASCII.
        text = data.decode("latin-1")
        repaired = (*repaired, "it is not UTF-8 and was read as Latin-1.")
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    # Not str.splitlines: it also splits at characters that may stand in an id.
    return Source(file, trace_name(file), text.split("\n"), repaired, not text.endswith("\n"))


def list_repairs(data: bytes) -> tuple[str, ...]:
    """Return the repairs that a reader of text makes, a sentence each."""
    faults = (
        (data.startswith(BOM), "a byte order mark was passed over."),
        (b"\r" in data, "lines end with carriage returns, as on other systems."),
    )
    return tuple(sentence for is_there, sentence in faults if is_there)


def _unpacked(data: bytes, file: str, accepted: str) -> bytes:
    if not data.startswith(_GZIP_MAGIC):
        return data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise TraceError(f"is a damaged gzip file ({error}); {accepted}", file=file) from None


def trace_name(file: str) -> str:
    """Return a file's name without its directory and the endings of formats."""
    name = Path(file).name
    for suffix in _SUFFIXES:
        if name.lower().endswith(suffix) and len(name) > len(suffix):
            name = name[: -len(suffix)]
    return name
