"""Which of several clouds that quoted is asked first."""

from __future__ import annotations

from collections.abc import Iterable

from cloudsim.model.instances import Quote


def rank_quotes(quotes: Iterable[tuple[int, Quote]]) -> list[Quote]:
    """Quotes with the fewest free slots first, then in cloud order; ``quotes`` holds (cloud order, quote).

    The tightest fit leaves the large gaps to those who need them. Names play no part, so that renaming a
    cloud changes nothing.
    """
    return [quote for _, quote in sorted(quotes, key=lambda pair: (pair[1].free_slots, pair[0]))]
