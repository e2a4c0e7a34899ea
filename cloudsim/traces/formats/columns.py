"""Read CSV with a header by column: fast for hundreds of thousands of rows, and exact about bad lines.

Cells are separated by commas; or, if the header has none, by semicolons or tabs, as spreadsheets write them,
or by bars, as Slurm does. Then decimals may have a comma.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from cloudsim.model.arrays import BoolArray, FloatArray
from cloudsim.model.errors import TraceError
from cloudsim.traces.formats.source import Source
from cloudsim.traces.report import QuarantinedLine
from cloudsim.traces.trace import MAX_CORES

#: Separators of cells, the preferred one first, and their names.
_DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}


@dataclass(frozen=True)
class Columns:
    """Well-formed rows of a CSV file, as text by column, and the lines that are malformed."""

    source: Source
    #: Line number of each row, from 1.
    line: list[int]
    cells: dict[str, list[str]]
    malformed: tuple[QuarantinedLine, ...]
    delimiter: str = ","

    @property
    def repaired(self) -> tuple[str, ...]:
        """Repairs that were needed to read the cells, a sentence each."""
        name = _DELIMITERS[self.delimiter]
        return () if self.delimiter in ",|" else (f"cells are separated by {name}, not by commas.",)

    def decimals(self, column: str) -> list[str]:
        """Return a column of numbers as text with decimal points.

        In a column with decimal commas, points become invalid: whether 1.234 is more than a thousand there is
        not known.
        """
        cells = self.cells[column]
        if self.delimiter == "," or not any("," in cell for cell in cells):
            return cells
        return [cell.replace(".", "?").replace(",", ".") for cell in cells]

    def numbers(self, column: str) -> FloatArray:
        """Return a column as float64[rows]; NaN for anything that is not a number."""
        cells = self.decimals(column)
        if "_" not in "".join(cells):  # Python's float reads 1_000; no trace format does
            try:
                return np.fromiter(map(float, cells), np.float64, len(cells))
            except ValueError:
                pass
        return np.fromiter(map(_number, cells), np.float64, len(cells))

    def sift(self, faults: Iterable[tuple[BoolArray, str]]) -> tuple[BoolArray, tuple[QuarantinedLine, ...]]:
        """Return a mask of the rows to keep, and all quarantined lines by number.

        Parameters
        ----------
        faults
            Masks of bad rows, each with its reason; a row has the first fault that applies.
        """
        keep = np.ones(len(self.line), dtype=np.bool_)
        bad = list(self.malformed)
        for fault, reason in faults:
            for row in np.flatnonzero(fault & keep):
                line = self.line[row]
                bad.append(QuarantinedLine.of(line, self.source.lines[line - 1], reason))
            keep &= ~fault
        return keep, tuple(sorted(bad, key=lambda q: q.line))


def read_header(source: Source) -> list[str]:
    """Return the column names of the first line."""
    first = source.lines[0]
    return [cell.strip() for cell in _split(first, _delimiter(first)) or ()]


def read_columns(source: Source, required: Sequence[str]) -> Columns:
    """Split a CSV file into columns; blank lines are skipped.

    Raises
    ------
    TraceError
        When the header lacks a required column, or names one twice.
    """
    names = read_header(source)
    missing = [name for name in required if name not in names]
    if missing or len(set(names)) < len(names):
        wrong = f"lacks {','.join(missing)}" if missing else "names a column twice"
        raise TraceError(f"the header {wrong}; needed are {','.join(required)}", file=source.file, line=1)
    line: list[int] = []
    texts: list[str] = []
    malformed: list[QuarantinedLine] = []
    width, quoted, delimiter = len(names), False, _delimiter(source.lines[0])
    for at, text in enumerate(source.lines[1:], start=2):
        if not text or text.isspace():
            continue
        if '"' in text:
            quoted = True
            cells = len(_split(text, delimiter) or ())
        else:
            cells = text.count(delimiter) + 1
        if cells != width:
            reason = f"not {width} {_DELIMITERS[delimiter].removesuffix('s')}-separated cells"
            malformed.append(QuarantinedLine.of(at, text, reason))
            continue
        line.append(at)
        texts.append(text)
    # One flat list, cut by stride: a list a row is three times as slow, most of it in the garbage collector.
    if quoted:
        flat = [cell for text in texts for cell in _split(text, delimiter) or ()]
    else:
        flat = delimiter.join(texts).split(delimiter) if texts else []
    cells_of = {name: flat[i::width] for i, name in enumerate(names)}
    return Columns(source, line, cells_of, tuple(malformed), delimiter)


def bad_ids(cells: Sequence[str]) -> BoolArray:
    """Mark ids that are empty or not printable."""
    if all(cells) and "".join(cells).isprintable():
        return np.zeros(len(cells), dtype=np.bool_)
    return np.fromiter((not cell or not cell.isprintable() for cell in cells), np.bool_, len(cells))


def bad_cores(cores: FloatArray) -> BoolArray:
    """Mark counts of cores that are not whole numbers from 1 to ``MAX_CORES``."""
    with np.errstate(invalid="ignore"):
        good: BoolArray = (cores == np.floor(cores)) & (cores >= 1) & (cores <= MAX_CORES)
    return ~good


def _number(text: str) -> float:
    try:
        return float("nan") if "_" in text else float(text)
    except ValueError:
        return float("nan")


def _delimiter(first: str) -> str:
    return next((delimiter for delimiter in _DELIMITERS if delimiter in first), ",")


def _split(text: str, delimiter: str) -> list[str] | None:
    """Return the cells of one line, None if its quotes are broken.

    Lines are split one by one, so that a bad quote does not swallow the rest of the file.
    """
    if '"' not in text:
        return text.split(delimiter)
    try:
        return next(csv.reader([text], delimiter=delimiter, strict=True))
    except csv.Error:
        return None
