"""Keeps Celery workers alive while Redis restarts, by a variant of kombu's Redis transport.

kombu 5.7.0 puts unacknowledged messages back when a connection ends. If the connection was lost, that raises
in the middle of reconnecting ('NoneType' object has no attribute 'hostname') and the worker dies. This
transport leaves it undone: the messages are still in Redis, where the visibility timeout brings them back,
and no message is the only copy of anything. A message that cannot be read would end the worker too: it is
skipped.
"""

from __future__ import annotations

import logging
from contextlib import nullcontext, suppress
from typing import Any

from kombu.transport import redis
from redis.exceptions import NoPermissionError

from broker.queue.celery_config import CONTROL, CONTROL_REPLIES, EVENTS
from broker.storage.sentinel import Sentinels

log = logging.getLogger(__name__)


class QoS(redis.QoS):
    """Acknowledges messages and puts unacknowledged ones back."""

    def ack(self, delivery_tag: str) -> None:
        """Acknowledge a message; write nothing for one that was sent without (an owner's doorbell)."""
        if delivery_tag in self._delivered:
            super().ack(delivery_tag)

    def restore_unacked(self, client: Any = None) -> None:
        """Put delivered messages back, unless Redis cannot be reached."""
        try:
            super().restore_unacked(client)
        except (*redis.Transport.connection_errors, AttributeError):
            self._delivered.clear()

    def restore_visible(self, *arguments: Any, **options: Any) -> None:
        """Put messages back that nobody acknowledged in time.

        The lock around that is left to run out while nobody has loaded the script that gives it up.
        """
        with suppress(NoPermissionError):
            super().restore_visible(*arguments, **options)


class Channel(redis.Channel):
    """Reads messages, and skips those that are unreadable.

    Kombu keeps sets of the queues of each exchange. They are written only where they are read, for answers to
    remote control: messages go to a queue by its name, and remote control and events through channels of
    Redis. In the sets of these, queues of workers that were killed would stay.
    """

    QoS = QoS

    def _queue_bind(self, exchange: str, routing_key: str, pattern: str, queue: str) -> None:
        if self.typeof(exchange).type == "fanout":
            self._fanout_queues[queue] = (exchange, routing_key.replace("#", "*"))
        elif exchange == CONTROL_REPLIES:
            super()._queue_bind(exchange, routing_key, pattern, queue)

    def _delete(self, queue: str, *arguments: Any, **options: Any) -> None:
        if queue not in self._fanout_queues:
            super()._delete(queue, *arguments, **options)

    def _size(self, queue: str) -> int:
        # Kombu asks as it declares a queue, also where no list is behind it.
        is_channel = queue.endswith(f".{CONTROL}") or queue.startswith(f"{EVENTS}.")
        return 0 if is_channel else int(super()._size(queue))

    def _put_fanout(self, exchange: str, *arguments: Any, **options: Any) -> None:
        # An ACL file of the version before does not let workers publish events.
        with suppress(NoPermissionError) if exchange == EVENTS else nullcontext():
            super()._put_fanout(exchange, *arguments, **options)

    def _receive(self) -> Any:
        with suppress(NoPermissionError):  # nor hear remote control
            return super()._receive()

    def _brpop_read(self, **options: Any) -> Any:
        try:
            return super()._brpop_read(**options)
        except (ValueError, KeyError, TypeError) as error:
            # The text of the error may repeat the content of the message.
            log.warning("a Celery message cannot be read, it is passed over (%s)", type(error).__name__)
            return True


class SentinelChannel(Channel, redis.SentinelChannel):
    """Reads from the primary that Sentinels name."""

    def _sentinel_managed_pool(self, *arguments: Any, **options: Any) -> Any:
        pool = super()._sentinel_managed_pool(*arguments, **options)
        pool.proxy.sentinel_manager = Sentinels(pool.sentinel_manager.sentinels)
        return pool


class Transport(redis.Transport):
    """Opens channels to one server."""

    Channel = Channel


class SentinelTransport(redis.SentinelTransport):
    """Opens channels to the primary that Sentinels name."""

    Channel = SentinelChannel
