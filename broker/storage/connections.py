"""A Redis-compatible server of our own, where nobody installed one, and how we connect to any.

The server listens on a Unix socket only, writes every command to its append-only file before it answers, and
lives as long as the process that started it. Its data stay in the directory it was given.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit

import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

from broker.storage.hiredis_packer import packing
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
    """A client of the server at `url` that answers bytes and never sends a command twice.

    At `rediss://` the server must prove who it is (`broker.storage.tls`). Raises SettingsError when a file
    that the settings of TLS name cannot be used.

    Args:
        url: `redis://`, `rediss://` or `unix://`.
        options: of `redis.Redis.from_url`. A client that listens to pub/sub, or blocks for
            `SOCKET_TIMEOUT_S` or longer in one command, needs `socket_timeout=None`.
    """
    # Not redis.Redis(host, port): its default re-sends a command whose answer was lost.
    fixed = _OPTIONS | {"retry": Retry(NoBackoff(), 0)} | redis_tls(url)
    return redis.Redis.from_url(url, **(fixed | options))


def connect_async(url: str, **options: Any) -> redis.asyncio.Redis:
    """The same for asyncio; close it with `aclose()`."""
    fixed = _OPTIONS | {"retry": AsyncRetry(NoBackoff(), 0)} | redis_tls(url)
    return packing(redis.asyncio.Redis.from_url(url, **(fixed | options)))


def celery_url(redis_url: str) -> str:
    """The same server in Celery's words: `unix://PATH?db=0` becomes `redis+socket://PATH?virtual_host=0`."""
    parts = urlsplit(redis_url)
    if parts.scheme != "unix":
        return redis_url
    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    db = query.pop("db", "0")
    username = query.pop("username", unquote(parts.username or ""))
    password = query.pop("password", unquote(parts.password or ""))
    login = f"{quote(username, safe='')}:{quote(password, safe='')}@" if username or password else ""
    return f"redis+socket://{login}{parts.path}?{urlencode({'virtual_host': db} | query)}"
