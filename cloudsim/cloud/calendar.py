"""The calendar of one cloud: everything that will happen in its time by itself.

Ends of instances, evictions that were announced, arrivals of its own load and the care of its headroom are
entries of one heap, in the order in which they happen.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

from cloudsim.model.changes import Change


class Rank(IntEnum):
    """Orders the entries that share a time and a phase."""

    END = 0  # an instance completes, or leaves because its notice is over
    RETRY = 1  # a request of the own load that was refused comes again
    ARRIVAL = 2  # the next request of the own load
    HEADROOM = 3  # blocks of headroom are placed, after the starts of their instant


class CalendarEntry(NamedTuple):
    """One thing that will happen. Entries compare by time, phase, rank and number, in this order.

    at_s: seconds of the cloud's time. phase: the place within that instant (``PHASE_STOP`` and so on).
    number: orders entries of one rank: the number of an instance, or the row of an arrival. name: a calendar
    holds one entry of each name. action: called with the entry when its time has come; returns the changes.
    """

    at_s: float
    phase: int
    rank: Rank
    number: int
    name: str
    action: Callable[[CalendarEntry], list[Change]]


class Calendar:
    """The entries of a calendar by name, and the earliest of them."""

    def __init__(self) -> None:
        self._heap: list[CalendarEntry] = []
        self._entries: dict[
            str, CalendarEntry
        ] = {}  # those that count; others in the heap were moved or cancelled

    def schedule(self, entry: CalendarEntry) -> None:
        """Add an entry in place of the one with its name, if there is one."""
        self._entries[entry.name] = entry
        heapq.heappush(self._heap, entry)

    def cancel(self, name: str) -> None:
        """Remove the entry of that name, if there is one."""
        self._entries.pop(name, None)

    def first(self) -> CalendarEntry | None:
        """Return the earliest entry; None when the calendar is empty."""
        while self._heap:
            entry = self._heap[0]
            if self._entries.get(entry.name) is entry:
                return entry
            heapq.heappop(self._heap)
        return None

    def first_end(self) -> CalendarEntry | None:
        """Return the earliest end of an instance, looking at all entries; None when there is none."""
        return min((entry for entry in self._entries.values() if entry.rank is Rank.END), default=None)

    def run(self, entry: CalendarEntry) -> list[Change]:
        """Remove the entry and do what it stands for. Returns the changes."""
        self.cancel(entry.name)
        return entry.action(entry)
