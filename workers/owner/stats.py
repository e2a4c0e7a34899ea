"""Statistics of an owner for its operators: the times of its tables and the lengths of its streams.

``broker.observability.owner_stats`` stores them, and an API process serves them as metrics.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, cast

import redis

from broker.journal.journal import Journal
from broker.observability.owner_stats import OwnerStats

EVERY_S = 10.0


class OwnerStatsPublisher:
    """Publishes the statistics of one owner, unless there is no journal.

    An owner never waits for Redis here: while it is away, nothing is published.
    """

    def __init__(self, journal: Journal | None, monotonic: Callable[[], float]):
        self._journal, self._monotonic = journal, monotonic
        self._measures = OwnerStats()
        self._began_s = 0.0
        self._table_due_s: float | None = None
        self._due_s = float("-inf")

    def note_table_due(self, late_s: float) -> None:
        """Note that a table has been due for that many seconds."""
        if self._table_due_s is None:
            self._table_due_s = self._monotonic() - late_s

    def note_table_begin(self) -> None:
        """Note that a refresh has begun; its table is due now, if it was not before."""
        self.note_table_due(0.0)
        self._began_s = self._monotonic()

    def note_table_end(self) -> None:
        """Note that the new table is there."""
        took_s, measures = self._monotonic() - self._began_s, self._measures
        self._table_due_s = None
        self._measures = replace(
            measures, tables=measures.tables + 1, tables_s=measures.tables_s + took_s, last_table_s=took_s
        )
        self._due_s = float("-inf")

    def note_archive(self, *, is_whole: bool) -> None:
        """Note whether the archive has all entries, after it was mended."""
        self._measures = replace(self._measures, archive_gaps=int(not is_whole))
        self._due_s = float("-inf")

    def publish(self, batches: int) -> None:
        """Publish all statistics, at most once in ``EVERY_S``.

        ``batches`` is the number of batches that a refresh waits for.
        """
        journal, now_s = self._journal, self._monotonic()
        if journal is None or now_s < self._due_s:
            return
        keys, cloud, client = journal.keys, journal.cloud, journal.redis
        with suppress(redis.RedisError):
            pipe = client.pipeline(transaction=False)
            pipe.xlen(keys.journal(cloud))
            pipe.xlen(keys.dead_letters(cloud))
            journal_entries, dead_letters = pipe.execute()
            self._measures = replace(
                self._measures,
                journal_entries=journal_entries,
                dead_letters=dead_letters,
                batches=batches,
                table_due_age_s=0.0 if self._table_due_s is None else now_s - self._table_due_s,
            )
            client.hset(keys.owner_stats(cloud), mapping=cast("dict[Any, Any]", self._measures.to_fields()))
            self._due_s = now_s + EVERY_S
