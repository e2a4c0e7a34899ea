"""Recognise what a file holds, by its content: a trace, prices, or a list of on-demand prices.

Only the first lines are looked at; whether the rest fits is for the readers to say.
"""

from __future__ import annotations

import gzip
import os
from enum import StrEnum
from io import BytesIO
from pathlib import Path

from cloudsim.markets import on_demand
from cloudsim.markets.formats.file_list import LISTING
from cloudsim.markets.formats.records import ACCEPTED as ACCEPTED_PRICES
from cloudsim.markets.formats.table import REQUIRED as PRICES
from cloudsim.model.errors import TraceError
from cloudsim.traces import formats
from cloudsim.traces.formats import arrow
from cloudsim.traces.formats.columns import read_header
from cloudsim.traces.formats.source import Source, decode_source, read_stream

#: Files that can be read, for errors.
KNOWN = (
    f"of traces {formats.ACCEPTED}; of prices {ACCEPTED_PRICES}; and lists of on-demand prices: CSV with "
    f"{','.join(on_demand.REQUIRED)}"
)

_HEAD_BYTES = 1 << 16
_GZIP_MAGIC = b"\x1f\x8b"


class FileKind(StrEnum):
    """Content of a file."""

    TRACE = "trace"
    PRICES = "prices"
    ON_DEMAND_PRICES = "on-demand prices"


def recognise_file(path: str | os.PathLike[str]) -> FileKind:
    """Return what a file holds.

    Raises
    ------
    TraceError
        When it cannot be read, or is in no known format; describes its first line.
    """
    file = os.fspath(path)
    data = _head(file)
    if arrow.is_parquet(data):
        return FileKind.TRACE
    source = decode_source(data, file, accepted=KNOWN)
    names = set(read_header(source))
    if any(set(columns) <= names for columns in formats.HEADERS.values()):
        return FileKind.TRACE
    if set(PRICES) <= names or set(LISTING) <= names:
        return FileKind.PRICES
    if set(on_demand.REQUIRED) <= names:
        return FileKind.ON_DEMAND_PRICES
    try:
        formats.recognise_format(source)
    except TraceError:
        if _first(source).startswith(("{", "[")):
            return FileKind.PRICES
        raise TraceError(
            f"is in no known format: {_looks_like(source)}; {KNOWN}", file=file, line=1
        ) from None
    return FileKind.TRACE


def _head(file: str) -> bytes:
    """Return the first bytes of a file, unpacked, without an incomplete last line."""
    try:
        stream = read_stream(file)
        with Path(file).open("rb") if stream is None else BytesIO(stream) as raw:
            packed = raw.read(2) == _GZIP_MAGIC
            raw.seek(0)
            if packed:
                with gzip.open(raw) as unpacked:
                    data = unpacked.read(_HEAD_BYTES)
            else:
                data = raw.read(_HEAD_BYTES)
    except FileNotFoundError:
        raise TraceError("there is no such file", file=file) from None
    except EOFError as error:
        raise TraceError(f"is a damaged gzip file ({error}); {KNOWN}", file=file) from None
    except (OSError, ValueError) as error:
        raise TraceError(f"cannot be read ({error}); {KNOWN}", file=file) from None
    return data.rpartition(b"\n")[0] + b"\n" if len(data) == _HEAD_BYTES and b"\n" in data else data


def _first(source: Source) -> str:
    return next((line for line in source.lines if line.strip()), "").lstrip()


def _looks_like(source: Source) -> str:
    """Describe the first line: what it lacks of the nearest CSV format, or how it begins."""
    names = set(read_header(source))
    required = {**formats.HEADERS, "prices": PRICES, "on-demand prices": on_demand.REQUIRED}
    near, columns = max(required.items(), key=lambda item: len(names & set(item[1])) / len(item[1]))
    if 2 * len(names & set(columns)) >= len(columns):
        missing = ",".join(name for name in columns if name not in names)
        return f"nearest to it is {near!r}, whose columns {missing} it lacks"
    return f"its first line is {_first(source)[:60]!r}"
