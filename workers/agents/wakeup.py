"""Wakes an agent when something is published that concerns it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import redis
import structlog

_AGAIN_S = 0.5
_LOOK_S = 1.0

log = structlog.get_logger(__name__)

Message = dict[str, Any]


def listen_for_wakeups(
    connect: Callable[[], redis.Redis],
    channels: Iterable[str],
    wake: Callable[[], None],
    stopping: threading.Event,
    concerns: Callable[[Message], bool] = lambda _: True,
) -> None:
    """Until told to stop; outlives outages of Redis, after which it wakes the agent at once.

    connect: a client whose connections wait for messages as long as it takes. concerns: whether a message is
    worth waking for.
    """
    while not stopping.is_set():
        try:
            with connect() as client, client.pubsub(ignore_subscribe_messages=True) as messages:
                messages.subscribe(*channels)
                wake()
                while not stopping.is_set():
                    message = messages.get_message(timeout=_LOOK_S)
                    if message is not None and concerns(message):
                        wake()
        except redis.RedisError as error:
            log.info("not listening", why=str(error))
            stopping.wait(_AGAIN_S)


def instance_filter(events: str, instances: Callable[[], frozenset[str]]) -> Callable[[Message], bool]:
    """Of the events of a cloud, on the channel ``events``, those about leases among ``instances``; and all
    that is told on other channels."""

    def concerns(message: Message) -> bool:
        if message["channel"] != events.encode():
            return True
        with suppress(ValueError, KeyError, TypeError):
            return json.loads(message["data"])["lease"]["id"] in instances()
        return False

    return concerns
