"""Opens connections to Redis, with the timeouts, TLS and retries that all of spotfed uses."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit

import redis
import redis.asyncio
import redis.asyncio.sentinel
from redis._parsers import BaseParser
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

from broker.settings import is_sentinel
from broker.storage.lean_client import make_lean_client
from broker.storage.sentinel import LOOK_S, SentinelAddress
from broker.storage.tls import redis_tls

SOCKET_TIMEOUT_S = 5.0

HEALTH_CHECK_INTERVAL_S = 15

_OPTIONS: dict[str, Any] = {
    "decode_responses": False,
    "health_check_interval": HEALTH_CHECK_INTERVAL_S,
    "socket_connect_timeout": SOCKET_TIMEOUT_S,
    "socket_timeout": SOCKET_TIMEOUT_S,
}


class DemotedError(redis.ConnectionError):
    """The server takes no writes, as a replica or for want of one: connect anew, to find the one that does.

    It is an error of the connection, and not of a command, so that everything that outlives a lost connection
    (redis-py, kombu, our own retries) closes this one and asks again on a new one.
    """

    count = 0

    def __init__(self, *arguments: Any, **options: Any):
        """Count it: a `WaitingPool` trusts no connection that was made before the latest one."""
        type(self).count += 1
        super().__init__(*arguments, **options)


# A server that becomes a replica refuses writes (READONLY) and ends blocking reads (UNBLOCKED). One with
# min-replicas-to-write that is cut off from its replicas refuses writes too (NOREPLICAS).
BaseParser.EXCEPTION_CLASSES |= dict.fromkeys(("READONLY", "UNBLOCKED", "NOREPLICAS"), DemotedError)

_SCRIPT_ERROR = re.compile(r"ERR Error running script .*?: -(?=[A-Z]+ )")
_parse_error: Callable[[str], Exception] = BaseParser.parse_error


def _parse_script_error(answer: str) -> Exception:
    """Return the error of an answer; Redis 6.2 words those that a script meets as errors of the script."""
    return _parse_error(_SCRIPT_ERROR.sub("", answer, count=1))


BaseParser.parse_error = staticmethod(_parse_script_error)  # type: ignore[method-assign]


class WaitingPool(redis.asyncio.ConnectionPool):
    """Lets callers wait for a connection, first come first served, where all are in use.

    redis-py's own pool that waits serves latecomers first now and then, and costs each command more.
    """

    def __init__(self, timeout: float, **options: Any):
        """``timeout``: how long a caller waits, in seconds."""
        super().__init__(**options)
        self.timeout = timeout
        self._free = asyncio.Semaphore(self.max_connections)

    async def get_connection(self, *_: Any, **__: Any) -> AbstractConnection:
        """Return a connection that is ready.

        Raises
        ------
        redis.MaxConnectionsError
            When none becomes free in time; the message says how many there are.
        """
        try:
            async with asyncio.timeout(self.timeout if self._free.locked() else None):
                await self._free.acquire()
        except TimeoutError:
            message = (
                f"all {self.max_connections} connections to Redis have been in use for {self.timeout:g} s"
            )
            raise redis.MaxConnectionsError(message) from None
        connection: AbstractConnection = self.get_available_connection()  # type: ignore[no-untyped-call]
        try:
            await self.ensure_connection(connection)
        except BaseException:
            await self.release(connection)
            raise
        return connection

    async def release(self, connection: AbstractConnection) -> None:
        """Take a connection back, and let the next one who waits have it."""
        self._in_use_connections.remove(connection)
        try:
            if connection.should_reconnect():  # type: ignore[no-untyped-call]
                await connection.disconnect()
        finally:
            self._available_connections.append(connection)
            self._free.release()

    async def ensure_connection(self, connection: Any) -> None:
        """Connect, and anew where the connection has ended, or a server was demoted since it was made."""
        writer = connection._writer
        has_ended = writer is not None and writer.transport.is_closing()
        if has_ended or getattr(connection, "demotions", DemotedError.count) != DemotedError.count:
            await connection.disconnect()
        connection.demotions = DemotedError.count
        await super().ensure_connection(connection)


class WaitingSentinelPool(WaitingPool, redis.asyncio.sentinel.SentinelConnectionPool):
    """A ``WaitingPool`` of connections to the primary of Sentinels, which looks as ``PrimaryPool`` does."""

    _look_s = 0.0

    async def ensure_connection(self, connection: Any) -> None:
        """Connect, and anew where the connection leads to another server."""
        now_s = time.monotonic()
        if now_s >= self._look_s:
            self._look_s = now_s + LOOK_S
            with suppress(redis.RedisError):
                await self.get_master_address()  # type: ignore[no-untyped-call]
        if self.master_address not in {None, (connection.host, connection.port)}:
            await connection.disconnect()
        await super().ensure_connection(connection)


def connect(url: str, **options: Any) -> redis.Redis:
    """Return a client of the server at ``url`` that answers bytes and never sends a command twice.

    A server at ``rediss://`` must prove its identity (``broker.storage.tls``). Where the address names
    Sentinels, each new connection goes to the primary that they name then (``broker.storage.sentinel``).

    Parameters
    ----------
    url
        ``redis://``, ``rediss://``, ``unix://``, ``redis+sentinel://`` or ``rediss+sentinel://``.
    options
        Options of ``redis.Redis.from_url``. A client that listens to pub/sub, or blocks for
        ``SOCKET_TIMEOUT_S`` or longer in one command, needs ``socket_timeout=None``.

    Raises
    ------
    SettingsError
        When a file that the TLS settings name cannot be used.
    """
    # By default redis-py sends a command again when its answer was lost.
    fixed = _OPTIONS | {"retry": Retry(NoBackoff(), 0)}
    if is_sentinel(url):
        return redis.Redis.from_pool(SentinelAddress.parse(url).pool(**(fixed | options)))
    fixed |= redis_tls(url)
    return redis.Redis.from_url(url, **(fixed | options))


def connect_async(url: str, **options: Any) -> redis.asyncio.Redis:
    """Return an asyncio client like that of ``connect``; close it with ``aclose()``.

    It has at most ``max_connections``, and whoever finds all in use waits ``timeout`` seconds for one.
    """
    fixed = _OPTIONS | {"retry": AsyncRetry(NoBackoff(), 0), "timeout": SOCKET_TIMEOUT_S}
    if is_sentinel(url):
        pool: WaitingPool = WaitingSentinelPool(**SentinelAddress.parse(url).async_options(fixed | options))
    else:
        pool = WaitingPool.from_url(url, **(fixed | redis_tls(url) | options))
    return make_lean_client(pool)


def is_refusal(error: Exception) -> bool:
    """Return whether a server answered with an error: it is there, and did not do what it was asked."""
    return isinstance(error, redis.ResponseError | redis.AuthenticationError)


def is_busy(error: Exception) -> bool:
    """Return whether a server refused a command because it runs a script that does not end."""
    return isinstance(error, redis.ResponseError) and str(error).startswith("BUSY ")


def celery_url(redis_url: str) -> str:
    """Return the address in the form of Celery: ``redis+socket://PATH?virtual_host=0`` for a Unix socket."""
    if is_sentinel(redis_url):
        return SentinelAddress.parse(redis_url).celery_url()
    parts = urlsplit(redis_url)
    if parts.scheme != "unix":
        return redis_url
    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    db = query.pop("db", "0")
    username = query.pop("username", unquote(parts.username or ""))
    password = query.pop("password", unquote(parts.password or ""))
    login = f"{quote(username, safe='')}:{quote(password, safe='')}@" if username or password else ""
    return f"redis+socket://{login}{parts.path}?{urlencode({'virtual_host': db} | query)}"
