"""Wake an agent when a message that concerns it is published."""

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
    """Listen on the channels until ``stopping`` is set. After an outage of Redis, wake the agent at once.

    Parameters
    ----------
    connect:
        Returns a client whose connections wait for messages without limit.
    concerns:
        Returns True if a message is worth waking for.
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
    """Return a filter of messages for ``listen_for_wakeups``.

    It passes events of the cloud about leases among ``instances()``, and all messages of other channels.
    ``events`` is the channel of the cloud's events.
    """

    def concerns(message: Message) -> bool:
        if message["channel"] != events.encode():
            return True
        with suppress(ValueError, KeyError, TypeError):
            return json.loads(message["data"])["lease"]["id"] in instances()
        return False

    return concerns
