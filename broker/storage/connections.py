"""Opens connections to Redis, with the timeouts, TLS and retries that all of spotfed uses."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit

import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

from broker.storage.hiredis_packer import use_hiredis_packer
from broker.storage.tls import redis_tls

SOCKET_TIMEOUT_S = 5.0

HEALTH_CHECK_INTERVAL_S = 15

_OPTIONS: dict[str, Any] = {
    "decode_responses": False,
    "health_check_interval": HEALTH_CHECK_INTERVAL_S,
    "socket_connect_timeout": SOCKET_TIMEOUT_S,
    "socket_timeout": SOCKET_TIMEOUT_S,
}


def connect(url: str, **options: Any) -> redis.Redis:
    """Return a client of the server at ``url`` that answers bytes and never sends a command twice.

    A server at ``rediss://`` must prove its identity (``broker.storage.tls``).

    Parameters
    ----------
    url
        ``redis://``, ``rediss://`` or ``unix://``.
    options
        Options of ``redis.Redis.from_url``. A client that listens to pub/sub, or blocks for
        ``SOCKET_TIMEOUT_S`` or longer in one command, needs ``socket_timeout=None``.

    Raises
    ------
    SettingsError
        When a file that the TLS settings name cannot be used.
    """
    # By default redis-py sends a command again when its answer was lost.
    fixed = _OPTIONS | {"retry": Retry(NoBackoff(), 0)} | redis_tls(url)
    return redis.Redis.from_url(url, **(fixed | options))


def connect_async(url: str, **options: Any) -> redis.asyncio.Redis:
    """Return an asyncio client like that of ``connect``; close it with ``aclose()``."""
    fixed = _OPTIONS | {"retry": AsyncRetry(NoBackoff(), 0)} | redis_tls(url)
    return use_hiredis_packer(redis.asyncio.Redis.from_url(url, **(fixed | options)))


def is_busy(error: Exception) -> bool:
    """Return whether a server refused a command because it runs a script that does not end."""
    return isinstance(error, redis.ResponseError) and str(error).startswith("BUSY ")


def celery_url(redis_url: str) -> str:
    """Return the address in the form of Celery: ``redis+socket://PATH?virtual_host=0`` for a Unix socket."""
    parts = urlsplit(redis_url)
    if parts.scheme != "unix":
        return redis_url
    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    db = query.pop("db", "0")
    username = query.pop("username", unquote(parts.username or ""))
    password = query.pop("password", unquote(parts.password or ""))
    login = f"{quote(username, safe='')}:{quote(password, safe='')}@" if username or password else ""
    return f"redis+socket://{login}{parts.path}?{urlencode({'virtual_host': db} | query)}"
