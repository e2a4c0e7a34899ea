"""Watches whether Redis stays as safe as it was when the processes started on it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, NoReturn, cast

import redis

from broker.doctor.redis import DANGERS, Danger, find_dangers
from broker.settings import Settings
from broker.storage.outages import retry_through_outages
from broker.storage.replication import replicas_awaited

log = logging.getLogger(__name__)

LOOK_S = 2.0


class QueueWatch:
    """Looks at Redis every ``LOOK_S`` seconds, logs what becomes unsafe, and what is safe again."""

    def __init__(self, client: redis.Redis, settings: Settings):
        """Look at nothing yet. ``client`` may block its thread."""
        self._client, self._url = client, str(settings.redis_url)
        self._replicas = replicas_awaited(settings)
        self._was_persistent = False
        self._dangers: Mapping[str, Danger] = {}

    @property
    def present(self) -> dict[str, bool]:
        """Tells of each danger, by its name, whether it is there."""
        return {name: name in self._dangers for name in DANGERS}

    @property
    def loss(self) -> str | None:
        """Says what would lose writes that are answered; None if nothing would."""
        return next((danger.text for danger in self._dangers.values() if danger.loses_writes), None)

    async def run(self) -> NoReturn:
        """Look until the task is cancelled, through outages of Redis."""
        while True:
            await retry_through_outages(self.look, "queue watch")
            await asyncio.sleep(LOOK_S)

    async def look(self) -> None:
        """Look once. Raises redis.RedisError."""
        info = cast("Mapping[str, Any]", await asyncio.to_thread(self._client.info))
        self._was_persistent = self._was_persistent or info.get("aof_enabled") == 1
        dangers = find_dangers(info, self._url, self._replicas, was_persistent=self._was_persistent)
        for name, danger in dangers.items():
            if name not in self._dangers:
                log.error("the queue is unsafe (%s): %s", name, danger.text)
        for name in self._dangers.keys() - dangers.keys():
            log.warning("the queue is safe again (%s)", name)
        self._dangers = dangers
