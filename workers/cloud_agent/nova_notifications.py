"""Listen to the versioned notifications of Nova, which it publishes through its cloud's RabbitMQ.

They only say that something has changed; what it is, the next listing tells. So a lost notification costs no
more than the pause until that listing, and a forged one makes the agent look once more.
"""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import structlog
from kombu import Connection, Consumer, Exchange, Queue, binding
from kombu.message import Message

from broker.settings import is_local
from cloudsim.model.errors import InputError

#: Nova's own names, unless its operator changed them.
EXCHANGE, TOPIC = "nova", "versioned_notifications"
#: What is worth a listing: a server that found no host or failed there, and one that takes or leaves room.
EVENTS = frozenset(
    (
        "compute_task.build_instances.error",
        "instance.create.error",
        "instance.create.start",
        "instance.delete.end",
    )
)
_AGAIN_S = 5.0
_LOOK_S = 1.0

log = structlog.get_logger(__name__)


def check_url(url: str) -> None:
    """Check the address of a RabbitMQ server.

    Raises
    ------
    InputError
        When it is none, or credentials would cross the network in clear.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("amqp", "amqps") or not parts.hostname:
        raise InputError(
            "write an address such as amqps://user:password@rabbit.example.org:5671/",
            field="SPOTFED_CLOUD_NOTIFICATIONS",
        )
    if parts.scheme == "amqp" and not is_local(url.replace("amqp", "http", 1)):
        raise InputError(
            "credentials would cross the network in clear: use amqps", field="SPOTFED_CLOUD_NOTIFICATIONS"
        )


def listen_to_nova(
    url: str, ca_file: Path | None, heard: Callable[..., None], stopping: threading.Event
) -> None:
    """Call ``heard`` for each notification that is worth a listing, until ``stopping`` is set.

    For a failed request it is called with ``is_refusal=True``.

    The queue is the listener's own and goes with its connection, so other readers of Nova's notifications
    lose none. After an outage ``heard`` is called once.

    Parameters
    ----------
    ca_file:
        The authority that signed the server's certificate; None for those of the system.
    """
    while not stopping.is_set():
        connection = Connection(url, ssl=_tls(url, ca_file), connect_timeout=_AGAIN_S, heartbeat=10)
        try:
            with connection:
                _listen(connection, heard, stopping)
        except (*connection.connection_errors, *connection.channel_errors, OSError) as error:
            log.info("not listening to Nova", why=str(error) or type(error).__name__)
            stopping.wait(_AGAIN_S)


def _listen(connection: Connection, heard: Callable[..., None], stopping: threading.Event) -> None:
    def receive(body: Any, message: Message) -> None:
        message.ack()
        event_type = _event_type(body)
        if event_type in EVENTS:
            heard(is_refusal=event_type.endswith(".error"))

    # Nova makes its exchange when it first publishes; its attributes are Nova's to choose.
    exchange = Exchange(EXCHANGE, type="topic", passive=True)
    bindings = [binding(exchange, f"{TOPIC}.{priority}") for priority in ("error", "info")]
    name = f"spotfed-{uuid4().hex}"
    queue = Queue(name, bindings=bindings, exclusive=True, auto_delete=True, durable=False)
    with Consumer(connection, queue, callbacks=[receive], accept=["json"], prefetch_count=100):
        log.info("listening to Nova")
        heard()
        while not stopping.is_set():
            with suppress(socket.timeout):
                connection.drain_events(timeout=_LOOK_S)
            connection.heartbeat_check()


def _event_type(body: Any) -> str | None:
    """Return the type of a notification, None if it is none; Nova writes JSON within JSON."""
    with suppress(ValueError, TypeError, LookupError, AttributeError):
        body = json.loads(body) if isinstance(body, str | bytes) else body
        event_type = json.loads(body["oslo.message"])["event_type"]
        return event_type if isinstance(event_type, str) else None
    return None


def _tls(url: str, ca_file: Path | None) -> dict[str, Any] | None:
    if urlsplit(url).scheme == "amqp":
        return None
    paths = ssl.get_default_verify_paths()
    return {
        "cert_reqs": ssl.CERT_REQUIRED,
        "ca_certs": str(ca_file or paths.cafile or paths.openssl_cafile),
        "server_hostname": urlsplit(url).hostname,
    }
