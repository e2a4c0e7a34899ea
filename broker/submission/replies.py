"""Answers of owners, awaited by command id. One reader per process, on a connection of its own: it blocks."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable

import redis
import redis.asyncio
from pydantic import ValidationError

from broker.contract import Answer, replies
from broker.keys import Keys
from broker.records import read_stream

log = logging.getLogger(__name__)

BLOCK_MS = 2000
KEPT_S = 600  # how long the stream outlives this process
_HOUSEKEEPING_S = 30.0
_BATCH = 1000


class Replies:
    """The reply stream of this process. Owners append to ``keys.replies(name)``."""

    def __init__(self, client: redis.asyncio.Redis, keys: Keys, name: str):
        """``client`` is used by this reader alone."""
        self._client, self.name = client, name
        self._stream = keys.replies(name)
        self._waiting: dict[str, list[asyncio.Future[Answer]]] = {}
        self._last_id = "0-0"
        self._housekeeping_due_s = 0.0

    def expect(self, commands: Iterable[str]) -> dict[str, asyncio.Future[Answer]]:
        """One future a command id; call it before the command is sent, and ``forget`` afterwards."""
        loop = asyncio.get_running_loop()
        futures: dict[str, asyncio.Future[Answer]] = {}
        for command in commands:
            futures[command] = loop.create_future()
            self._waiting.setdefault(command, []).append(futures[command])
        return futures

    def forget(self, futures: dict[str, asyncio.Future[Answer]]) -> None:
        """Nobody waits for these any more."""
        for command, future in futures.items():
            waiting = self._waiting.get(command, [])
            if future in waiting:
                waiting.remove(future)
            if not waiting:
                self._waiting.pop(command, None)
            future.cancel()

    async def run(self) -> None:
        """Reads for ever; outlives outages of Redis."""
        while True:
            try:
                await self._housekeeping()
                entries = await read_stream(self._client, self._stream, self._last_id, _BATCH, BLOCK_MS)
                for entry_id, fields in entries:
                    self._deliver(fields)
                    self._last_id = entry_id
            except (redis.RedisError, OSError) as error:
                log.warning("reply stream: %s; trying again", error)
                # A server that lost its data may count from below: read again; what was delivered is ignored.
                self._last_id = "0-0"
                await asyncio.sleep(0.2)

    async def _housekeeping(self) -> None:
        now_s = time.monotonic()
        if now_s < self._housekeeping_due_s:
            return
        pipe = self._client.pipeline(transaction=False)
        pipe.xtrim(self._stream, minid=self._last_id)
        pipe.expire(self._stream, KEPT_S)
        await pipe.execute()
        self._housekeeping_due_s = now_s + _HOUSEKEEPING_S

    def _deliver(self, fields: dict[bytes, bytes]) -> None:
        try:
            read = replies.validate_json(fields[b"r"])
        except (ValidationError, KeyError) as error:
            # Not the error itself: it repeats what the entry holds.
            log.warning("an entry of the reply stream cannot be read (%s)", type(error).__name__)
            return
        for reply in read:
            for future in self._waiting.pop(reply.command, ()):
                if not future.done():
                    future.set_result(reply.answer)
