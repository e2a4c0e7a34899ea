"""Rank the clouds that quoted for a request."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar


class _Fit(Protocol):
    @property
    def free_slots(self) -> int: ...


_AnyQuote = TypeVar("_AnyQuote", bound=_Fit)


def rank_quotes(quotes: Iterable[tuple[int, _AnyQuote]]) -> list[_AnyQuote]:
    """Order quotes by free slots, fewest first, then by cloud order; ``quotes`` holds (cloud order, quote).

    The tightest fit leaves the large gaps to requests that need them. Names play no part, so renaming a cloud
    changes nothing.
    """
    return [quote for _, quote in sorted(quotes, key=lambda pair: (pair[1].free_slots, pair[0]))]
