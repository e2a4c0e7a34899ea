"""Named line-ups: which filters, weighers and eviction order a cloud plays with."""

from __future__ import annotations

from dataclasses import dataclass

from cloudsim.errors import SpecError
from cloudsim.scheduling.eviction import Order, youngest_first
from cloudsim.scheduling.filters import Filter, has_room
from cloudsim.scheduling.weighers import Weigher


@dataclass(frozen=True)
class LineUp:
    """What the pipeline runs. Each weigher goes with its factor."""

    name: str
    filters: tuple[Filter, ...]
    weighers: tuple[tuple[Weigher, float], ...]
    eviction_order: Order


YOUNGEST_JOB_FIRST = LineUp("youngest-job-first", (has_room,), (), youngest_first)

_BY_NAME = {lineup.name: lineup for lineup in (YOUNGEST_JOB_FIRST,)}


def lineup(name: str) -> LineUp:
    """The line-up of that name. Raises SpecError listing those that exist."""
    try:
        return _BY_NAME[name]
    except KeyError:
        known = ", ".join(sorted(_BY_NAME))
        raise SpecError(f"no line-up is called {name!r}; there are: {known}", field="lineup") from None
