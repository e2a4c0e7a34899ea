"""How long an owner's tables take, and how long its streams are, told to operators (``broker.measures``)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, cast

import redis

from broker.journal import Journal
from broker.measures import Measures

EVERY_S = 10.0


class OwnerStatsPublisher:
    """Of one owner, with the journal of its cloud; None: nobody is told. That Redis is away holds up nobody
    here: the next look tells it."""

    def __init__(self, journal: Journal | None, monotonic: Callable[[], float]):
        self._journal, self._monotonic = journal, monotonic
        self._measures = Measures()
        self._began_s = 0.0
        self._due_s = float("-inf")

    def table_begun(self) -> None:
        """A new table is asked for."""
        self._began_s = self._monotonic()

    def table_made(self) -> None:
        """It is there."""
        took_s, known = self._monotonic() - self._began_s, self._measures
        self._measures = replace(
            known, tables=known.tables + 1, tables_s=known.tables_s + took_s, last_table_s=took_s
        )
        self._due_s = float("-inf")  # the next look tells it

    def look(self, batches: int) -> None:
        """Every moment: tells all of it now and then. ``batches``: those that are waited for."""
        journal, now_s = self._journal, self._monotonic()
        if journal is None or now_s < self._due_s:
            return
        keys, cloud, client = journal.keys, journal.cloud, journal.redis
        with suppress(redis.RedisError):
            pipe = client.pipeline(transaction=False)
            pipe.xlen(keys.journal(cloud))
            pipe.xlen(keys.dead(cloud))
            length, dead = pipe.execute()
            self._measures = replace(
                self._measures, journal_entries=length, dead_letters=dead, batches=batches
            )
            client.hset(keys.measures(cloud), mapping=cast("dict[Any, Any]", self._measures.written()))
            self._due_s = now_s + EVERY_S
