"""Kombu's Redis transport, but a worker survives that Redis restarts while it holds a message.

kombu 5.7.0 puts unacknowledged messages back when a connection ends. If the connection was lost, that raises
in the middle of reconnecting ('NoneType' object has no attribute 'hostname') and the worker dies. Here it is
left undone: the messages are still in Redis, where the visibility timeout brings them back, and no message of
ours is the only copy of anything. A message that cannot be read would end the worker too: it is passed over.
"""

from __future__ import annotations

import logging
from typing import Any

from kombu.transport import redis

log = logging.getLogger(__name__)


class QoS(redis.QoS):
    """Acknowledgements."""

    def ack(self, delivery_tag: str) -> None:
        """Writes nothing for a message that was delivered for good (an owner's doorbell)."""
        if delivery_tag in self._delivered:
            super().ack(delivery_tag)

    def restore_unacked(self, client: Any = None) -> None:
        """Puts delivered messages back, unless Redis cannot be reached."""
        try:
            super().restore_unacked(client)
        except (*redis.Transport.connection_errors, AttributeError):
            self._delivered.clear()


class Channel(redis.Channel):
    """A channel with these acknowledgements."""

    QoS = QoS

    def _brpop_read(self, **options: Any) -> Any:
        try:
            return super()._brpop_read(**options)
        except (ValueError, KeyError, TypeError) as error:
            # Not the error itself: it may repeat what the message holds.
            log.warning("a Celery message cannot be read, it is passed over (%s)", type(error).__name__)
            return True


class Transport(redis.Transport):
    """A transport with these channels."""

    Channel = Channel
