"""Read what ``aws ec2 describe-spot-price-history`` prints: JSON pages, newest record first.

A file holds one or several pages, one after the other. A page is an object with a list ``SpotPriceHistory``
and, unless it is the last, a ``NextToken``; or the list alone, as ``--query SpotPriceHistory`` leaves it.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from cloudsim.markets.formats.records import ACCEPTED, Market, PriceRecords, parse_times
from cloudsim.markets.prices import parse_prices
from cloudsim.model.errors import TraceError
from cloudsim.traces.formats.source import Source
from cloudsim.traces.report import QuarantinedLine

_NAMES = ("InstanceType", "ProductDescription", "AvailabilityZone")
_TEXTS = (*_NAMES, "Timestamp")
_SHOWN_CHARS = 40

#: Numbers stay text: their decimals are part of them.
_DECODER = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=str)
_BLANK = re.compile(r"\s*")
#: Texts, brackets, ends of lines, numbers and words; not what is between them (blanks, commas, colons).
_MARKS = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}\n]|[^\s\[\]{},:"]+')
#: On the stack of open brackets: a list of records.
_LIST = "records"


@dataclass
class Pages:
    """Pages read so far, from all files: a page that comes back means an endless download."""

    _tokens: dict[str, str] = field(default_factory=dict)
    _contents: dict[bytes, str] = field(default_factory=dict)
    #: False while no page has been the last one of its history, which has no token.
    has_last: bool = False

    def add(self, file: str, number: int, token: str | None, history: list[Any]) -> None:
        """Note a page.

        Raises
        ------
        TraceError
            When it repeats an earlier one; names both.
        """
        self.has_last |= not token
        here = f"page {number} of {file}"
        if token and (there := self._tokens.setdefault(token, here)) != here:
            raise self._repeated(file, f"page {number} has the NextToken {_shown(token)!r} of {there}")
        content = hashlib.sha256(json.dumps(history, sort_keys=True).encode()).digest()
        if history and (there := self._contents.setdefault(content, here)) != here:
            raise self._repeated(file, f"page {number} holds the same {len(history)} records as {there}")

    @property
    def is_unfinished(self) -> bool:
        """True if every page names a following one: then the download was not finished."""
        return bool(self._tokens) and not self.has_last

    @staticmethod
    def _repeated(file: str, what: str) -> TraceError:
        return TraceError(f"{what}: fetch the history again, each page once", file=file, field="NextToken")


def parse(source: Source, pages: Pages) -> PriceRecords:
    """Read all pages of a file.

    Quarantined are records that lack a name, a time or a price, invalid times, and prices that are neither a
    number nor unknown.

    Raises
    ------
    TraceError
        When it is not JSON, holds no pages of prices, or repeats a page.
    """
    text = "\n".join(source.lines)
    try:
        return _records(source, text, _raw_records(source.file, text, pages))
    except RecursionError:
        raise TraceError(f"is nested too deeply; {ACCEPTED}", file=source.file) from None


def _raw_records(file: str, text: str, pages: Pages) -> list[Any]:
    """Return the records of all pages, as they stand there."""
    records: list[Any] = []
    for number, page in enumerate(_documents(file, text), start=1):
        history = page.get("SpotPriceHistory") if isinstance(page, dict) else page
        token = page.get("NextToken") if isinstance(page, dict) else None
        if not isinstance(history, list) or not (token is None or isinstance(token, str)):
            raise TraceError(f"page {number} is no SpotPriceHistory with a NextToken; {ACCEPTED}", file=file)
        pages.add(file, number, token, history)
        records += history
    return records


def _documents(file: str, text: str) -> list[Any]:
    documents = []
    end = 0
    while (at := _next(text, end)) < len(text):
        try:
            document, end = _DECODER.raw_decode(text, at)
        except json.JSONDecodeError as error:
            raise TraceError(f"is not JSON ({error.msg}); {ACCEPTED}", file=file, line=error.lineno) from None
        documents.append(document)
    return documents


def _next(text: str, at: int) -> int:
    """Return where the next character that is not blank stands."""
    blank = _BLANK.match(text, at)
    assert blank is not None
    return blank.end()


def _records(source: Source, text: str, raw: list[Any]) -> PriceRecords:
    faults = [_fault(record) for record in raw]
    whole = [at for at, fault in enumerate(faults) if fault is None]
    at_s = parse_times([raw[at]["Timestamp"] for at in whole])
    texts = [_price_text(raw[at]["SpotPrice"]) for at in whole]
    price, bad = parse_prices(texts)
    for row in np.flatnonzero(bad):
        faults[whole[row]] = "SpotPrice is neither a number nor unknown"
    for row in np.flatnonzero(np.isnan(at_s)):
        faults[whole[row]] = "Timestamp is not an ISO 8601 time"
    keep = ~bad & ~np.isnan(at_s)
    kept = [whole[row] for row in np.flatnonzero(keep)]
    lines = cache(lambda: _lines(text))  # takes as long as all the rest, and is seldom needed
    distinct: dict[tuple[str, ...], Market] = {}
    return PriceRecords(
        source.file,
        "json",
        records=len(raw),
        quarantined=tuple(
            QuarantinedLine.of(lines()[at], json.dumps(raw[at]), fault)
            for at, fault in enumerate(faults)
            if fault is not None
        ),
        market=[
            distinct.setdefault(names, Market(*names))
            for names in (tuple(raw[at][name] for name in _NAMES) for at in kept)
        ],
        at_s=at_s[keep],
        price=price[keep],
        text=[texts[row] for row in np.flatnonzero(keep)],
        place=lambda record: (lines()[kept[record]], json.dumps(raw[kept[record]])),
        repaired=source.repaired,
    )


def _fault(record: Any) -> str | None:
    """Return why a record cannot be used before its numbers are looked at; None if it can."""
    if not isinstance(record, dict):
        return "is not an object"
    for name in _TEXTS:
        value = record.get(name)
        if not isinstance(value, str) or not value or not value.isprintable():
            return f"{name} is missing, empty or not printable"
    if "SpotPrice" not in record:
        return "SpotPrice is missing"
    return None


def _price_text(price: Any) -> str:
    """Return a price as it was written; anything but text and null is no price."""
    return price if isinstance(price, str) else "" if price is None else repr(price)


def _lines(text: str) -> list[int]:
    """Return the line of each entry of the lists of records, in order."""
    lines: list[int] = []
    stack: list[str] = []
    line, key = 1, ""
    for mark in _MARKS.finditer(text):
        what = mark.group()
        if what == "\n":
            line += 1
            continue
        if what in "]}":
            stack.pop()
            continue
        if stack in (["{", _LIST], [_LIST]):
            lines.append(line)
        if what == "[" and (not stack or (stack == ["{"] and json.loads(key) == "SpotPriceHistory")):
            stack.append(_LIST)
        elif what in "[{":
            stack.append(what)
        key = what
    return lines


def _shown(token: str) -> str:
    return token if len(token) <= _SHOWN_CHARS else token[:_SHOWN_CHARS] + "…"
