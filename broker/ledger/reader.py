"""Keeps the ledgers of all clouds up to date in one process, by reading their streams of public events."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, cast

import redis.asyncio

from broker.contract import BrokenPromise
from broker.ledger.ledger import CloudLedger
from broker.storage.keys import RedisKeys
from broker.storage.outages import retry_through_outages
from broker.storage.streams import try_parse_event

log = logging.getLogger(__name__)

_EVERY_S = 0.5
_PAGE = 200  # events that are folded before other tasks of the process may run


class LedgerReader:
    """Reads ledgers: they are at most half a second behind, and up to date after ``refresh``.

    ledgers: by cloud.
    """

    def __init__(self, client: redis.asyncio.Redis, keys: RedisKeys):
        self._client, self._keys = client, keys
        self._reading = asyncio.Lock()
        self._last: dict[str, bytes] = {}  # by cloud, the text of the last event read
        self.ledgers: dict[str, CloudLedger] = {}

    def broken(self, cloud: str, now_s: float) -> Mapping[float, BrokenPromise]:
        """Return by SLA the promises that a cloud does not keep, as far as its events have been read."""
        ledger = self.ledgers.get(cloud)
        return {} if ledger is None else ledger.broken(now_s)

    async def run(self) -> None:
        """Refresh the ledgers until the task is cancelled, through outages of Redis."""
        while True:
            await retry_through_outages(self.refresh, "ledger")
            await asyncio.sleep(_EVERY_S)

    async def refresh(self) -> None:
        """Read all events that there are. Raises redis.RedisError."""
        async with self._reading:
            joined: Any = await cast("Any", self._client.hkeys(self._keys.clouds))
            behind = sorted({*self.ledgers, *(cloud.decode() for cloud in joined)})
            while behind:
                behind = await self._read(behind)

    async def _read(self, clouds: list[str]) -> list[str]:
        """Fold the next page of events of each cloud. Return the clouds that have more."""
        ledgers = [self.ledgers.setdefault(cloud, CloudLedger(cloud)) for cloud in clouds]
        async with self._client.pipeline(transaction=False) as pipeline:
            for ledger in ledgers:
                # Begin with the last event read, to see that it is still there.
                first = f"0-{max(1, ledger.sequence)}"
                pipeline.xrange(self._keys.events(ledger.cloud), first, "+", _PAGE)
            pages = await pipeline.execute()
        more: list[str] = []
        for ledger, page in zip(ledgers, pages, strict=True):
            events = [
                (int(entry.decode().partition("-")[2]), fields.get(b"e", b"")) for entry, fields in page
            ]
            if self._continues(ledger, events):
                for sequence, text in events:
                    _fold(ledger, sequence, text)
                    self._last[ledger.cloud] = text
            else:
                log.warning(
                    "cloud %s: event %d is another one now; its ledger is read again",
                    ledger.cloud,
                    ledger.sequence,
                )
                self.ledgers[ledger.cloud] = CloudLedger(ledger.cloud)
                more.append(ledger.cloud)
                continue
            if len(page) == _PAGE:
                more.append(ledger.cloud)
            await asyncio.sleep(0)
        return more

    def _continues(self, ledger: CloudLedger, events: list[tuple[int, bytes]]) -> bool:
        """Return whether the events follow those read before.

        They do not if Redis lost its last events, whether or not other events have their numbers now.
        """
        if not ledger.sequence:
            return True
        if not events:
            return False
        sequence, text = events[0]
        return sequence > ledger.sequence or text == self._last[ledger.cloud]


def _fold(ledger: CloudLedger, sequence: int, text: bytes) -> None:
    if sequence <= ledger.sequence:
        return
    event = try_parse_event(text)
    if event is None or event.lease is None or event.sequence != sequence:
        ledger.pass_over(sequence)
    else:
        ledger.note(event)
