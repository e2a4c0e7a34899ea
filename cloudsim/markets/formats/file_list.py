"""Find the files of a history: files, directories of them, and lists that say what each file is about."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cloudsim.markets.formats.records import ACCEPTED
from cloudsim.model.errors import TraceError
from cloudsim.traces.formats.columns import read_columns, read_header
from cloudsim.traces.formats.source import Source, load_source

#: A list of files names these; it may name what the instance costs on demand.
LISTING = ("file", "instance_type", "availability_zone")
_ON_DEMAND = "ondemand_usd_per_hour"
_LISTING_FILE = "markets.csv"
_SUFFIXES = (".csv", ".csv.gz", ".json", ".json.gz")


@dataclass(frozen=True)
class ListedFile:
    """A file, and what is known about it beside its content; empty texts are not known."""

    source: Source
    instance_type: str = ""
    zone: str = ""
    on_demand_usd_per_hour: float | None = None

    @property
    def prices_of(self) -> tuple[str, str]:
        """Type and zone."""
        return self.instance_type, self.zone


def find_list_beside(path: Path) -> tuple[Path, str] | None:
    """Return the list of files beside a price history, and the market ``TYPE/ZONE`` that it names for it.

    None if the history is in no list.

    Raises
    ------
    TraceError
        When the list cannot be read.
    """
    listing = path.parent / _LISTING_FILE
    if path.is_dir() or path.name == _LISTING_FILE or not listing.is_file():
        return None
    columns = read_columns(load_source(listing, accepted=ACCEPTED), LISTING)
    for name, kind, zone in zip(*(columns.cells[c] for c in LISTING), strict=True):
        if name == path.name:
            return listing, f"{kind}/{zone}"
    return None


def expand_files(files: Iterable[str | os.PathLike[str] | Source]) -> tuple[list[ListedFile], list[str]]:
    """Return all files of a history in order, and the names of listed files that are missing.

    A directory stands for all its CSV and JSON files, or for those of its list if it has one.

    Raises
    ------
    TraceError
        When a file cannot be read, a directory holds none, a list has a bad row, or none of its files is
        there.
    """
    listed: list[ListedFile] = []
    missing: list[str] = []
    for file in files:
        for source in [file] if isinstance(file, Source) else _sources(Path(file)):
            if set(LISTING) <= set(read_header(source)):
                if source is file:
                    raise TraceError(
                        "is a list of files: give its path, they are beside it", file=source.file
                    )
                here, away = _listed(source)
                listed += here
                missing += away
            else:
                zone, _, instance_type = source.name.partition("_")
                named = zone and "." in instance_type  # as all types of EC2 have
                listed.append(ListedFile(source, instance_type, zone) if named else ListedFile(source))
    return listed, missing


def _sources(path: Path) -> list[Source]:
    if not path.is_dir():
        return [load_source(path, accepted=ACCEPTED)]
    if (path / _LISTING_FILE).is_file():
        return [load_source(path / _LISTING_FILE, accepted=ACCEPTED)]
    inside = sorted(
        file for file in path.iterdir() if file.is_file() and file.name.lower().endswith(_SUFFIXES)
    )
    if not inside:
        raise TraceError(f"is a directory without CSV or JSON files; {ACCEPTED}", file=str(path))
    return [load_source(file, accepted=ACCEPTED) for file in inside]


def _listed(source: Source) -> tuple[list[ListedFile], list[str]]:
    columns = read_columns(source, LISTING)
    if columns.malformed:
        bad = columns.malformed[0]
        raise TraceError(bad.reason, file=source.file, line=bad.line)
    rows = len(columns.line)
    on_demand = columns.numbers(_ON_DEMAND) if _ON_DEMAND in columns.cells else np.full(rows, np.nan)
    directory = Path(source.file).parent
    there = {file.name for file in directory.iterdir() if file.is_file()}
    listed: list[ListedFile] = []
    missing: list[str] = []
    for row, (name, kind, zone) in enumerate(zip(*(columns.cells[c] for c in LISTING), strict=True)):
        if not name or Path(name).name != name:
            raise TraceError(
                f"{name[:40]!r} is no file beside the list",
                file=source.file,
                line=columns.line[row],
                field="file",
            )
        if name not in there:
            missing.append(name)
            continue
        price = float(on_demand[row])
        known = 0 < price < np.inf
        listed.append(
            ListedFile(load_source(directory / name, accepted=ACCEPTED), kind, zone, price if known else None)
        )
    if not listed:
        raise TraceError("no file of the list is there", file=source.file)
    return listed, missing
