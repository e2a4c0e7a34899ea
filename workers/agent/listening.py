"""Wakes the agent when work of its cloud changes, or a lease on which there is work."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import redis
import structlog

from broker.keys import Keys
from workers.agent.loop import Agent

_AGAIN_S = 0.5
_LOOK_S = 1.0

log = structlog.get_logger(__name__)


def listen(
    connect: Callable[[], redis.Redis], keys: Keys, cloud: str, agent: Agent, stopping: threading.Event
) -> None:
    """Until told to stop; outlives outages of Redis, after which the agent looks at once.

    connect: a client whose connections wait for messages as long as it takes.
    """
    while not stopping.is_set():
        try:
            with connect() as client, client.pubsub(ignore_subscribe_messages=True) as messages:
                messages.subscribe(keys.work_channel(cloud), keys.channel(cloud))
                agent.wake()
                while not stopping.is_set():
                    message = messages.get_message(timeout=_LOOK_S)
                    if message is not None and _concerns(message, keys.channel(cloud), agent.instances):
                        agent.wake()
        except redis.RedisError as error:
            log.info("not listening", why=str(error))
            stopping.wait(_AGAIN_S)


def _concerns(message: dict[str, Any], events: str, instances: frozenset[str]) -> bool:
    if message["channel"] != events.encode():
        return True
    with suppress(ValueError, KeyError, TypeError):
        return json.loads(message["data"])["lease"]["id"] in instances
    return False
