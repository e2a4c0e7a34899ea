"""Rank the clouds that quoted for a request."""

from __future__ import annotations

from collections.abc import Iterable

from cloudsim.model.instances import Quote


def rank_quotes(quotes: Iterable[tuple[int, Quote]]) -> list[Quote]:
    """Order quotes by free slots, fewest first, then by cloud order; ``quotes`` holds (cloud order, quote).

    The tightest fit leaves the large gaps to requests that need them. Names play no part, so renaming a cloud
    changes nothing.
    """
    return [quote for _, quote in sorted(quotes, key=lambda pair: (pair[1].free_slots, pair[0]))]
