"""A trace file as lines of text, plain or gzip, whatever its name says."""

from __future__ import annotations

import gzip
import os
import zlib
from dataclasses import dataclass
from pathlib import Path

from cloudsim.errors import TraceError

ACCEPTED = (
    "accepted are, plain or gzip: Eucalyptus START/STOP lines, Standard Workload Format (SWF), "
    "CSV with vm,start_s,duration_s,cores, and CSV with instance,start_s,stop_s,cores"
)

_GZIP_MAGIC = b"\x1f\x8b"
_SUFFIXES = (".gz", ".csv", ".swf", ".txt")


@dataclass(frozen=True)
class Source:
    """A file's lines without their ends, numbered from 1. ``name`` is the file's, without suffixes."""

    file: str
    name: str
    lines: list[str]


def load(path: str | os.PathLike[str], *, accepted: str = ACCEPTED) -> Source:
    """Read a whole text file. ``accepted`` tells who gave another what is expected instead.

    Raises:
        TraceError: missing, a directory, unreadable, empty, damaged gzip, or binary.
    """
    file = os.fspath(path)
    try:
        data = Path(file).read_bytes()
    except FileNotFoundError:
        raise TraceError(f"there is no such file; {accepted}", file=file) from None
    except IsADirectoryError:
        raise TraceError(f"is a directory, not a file; {accepted}", file=file) from None
    except (OSError, ValueError) as error:
        raise TraceError(f"cannot be read ({error}); {accepted}", file=file) from None
    return decode(data, file, accepted=accepted)


def decode(data: bytes, file: str, *, accepted: str = ACCEPTED) -> Source:
    """The lines of a text file that is in memory already; ``file`` is how errors name it.

    Raises:
        TraceError: empty, damaged gzip, or binary.
    """
    if data.startswith(_GZIP_MAGIC):
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise TraceError(f"is a damaged gzip file ({error}); {accepted}", file=file) from None
    if not data.strip():
        raise TraceError(f"is empty; {accepted}", file=file)
    if b"\0" in data:
        raise TraceError(f"is binary, not text; {accepted}", file=file)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        # Headers of older logs name their machines and people in Latin-1; the records themselves are ASCII.
        text = data.decode("latin-1")
    # Not str.splitlines: it also splits at characters that may stand in an id.
    return Source(file, _name(file), text.replace("\r\n", "\n").replace("\r", "\n").split("\n"))


def _name(file: str) -> str:
    name = Path(file).name
    for suffix in _SUFFIXES:
        if name.lower().endswith(suffix) and len(name) > len(suffix):
            name = name[: -len(suffix)]
    return name
