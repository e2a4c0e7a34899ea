"""Connections to the primary that Redis Sentinel names, for an address like ``redis+sentinel://H1,H2/NAME/0``.

The Sentinels are asked whenever a connection is made. So whatever closes a connection when a server is demoted
or dies (`broker.storage.connections.DemotedError`, the system's keepalive) also finds the one that was promoted.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

import redis
import redis.asyncio.sentinel
import redis.sentinel
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

from broker.settings import is_sentinel, list_hosts
from broker.storage.tls import redis_tls

PORT = 26379
#: How long one Sentinel may take to answer, before the next one is asked.
ANSWER_TIMEOUT_S = 1.0

#: A host that is gone closes no connections: its silence ends those that wait for it, pub/sub among them.
KEEPALIVE: dict[int, int] = {
    getattr(socket, name): value
    for name, value in {
        "TCP_KEEPIDLE": 2,
        "TCP_KEEPINTVL": 1,
        "TCP_KEEPCNT": 3,
        "TCP_USER_TIMEOUT": 5_000,  # ms
    }.items()
    if hasattr(socket, name)
}


@dataclass(frozen=True)
class SentinelAddress:
    """A parsed address of Sentinels.

    Attributes
    ----------
    hosts
        Hosts and ports of the Sentinels.
    service
        Name of the primary in the Sentinels' configuration.
    db
        Number of the database.
    login
        ``username`` and ``password`` for the servers, where the address has them.
    sentinel_login
        The same for the Sentinels themselves.
    tls
        Options of TLS for both; empty without TLS.
    """

    hosts: tuple[tuple[str, int], ...]
    service: str
    db: int
    login: Mapping[str, str]
    sentinel_login: Mapping[str, str]
    tls: Mapping[str, Any]

    @classmethod
    def parse(cls, url: str) -> SentinelAddress:
        """Parse an address that the settings have accepted."""
        parts = urlsplit(url)
        hosts = [urlsplit(f"//{host}") for host in list_hosts(url)]
        name, _, number = parts.path.strip("/").partition("/")
        login, _, _ = parts.netloc.rpartition("@")
        username, _, password = login.partition(":")
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        return cls(
            hosts=tuple((host.hostname or "", host.port or PORT) for host in hosts),
            service=unquote(name),
            db=int(number or 0),
            login=_present(username=unquote(username), password=unquote(password)),
            sentinel_login=_present(
                username=query.get("sentinel_username", ""), password=query.get("sentinel_password", "")
            ),
            tls=redis_tls(url),
        )

    @property
    def sentinel_options(self) -> dict[str, Any]:
        """Options of a client of one of the Sentinels."""
        return {
            "socket_timeout": ANSWER_TIMEOUT_S,
            "socket_connect_timeout": ANSWER_TIMEOUT_S,
            **({"ssl": True} if self.tls else {}),
            **self.tls,
            **self.sentinel_login,
        }

    def sentinel(self) -> redis.sentinel.Sentinel:
        """Return redis-py's client of all Sentinels."""
        options = self.sentinel_options | {"retry": Retry(NoBackoff(), 0)}
        return redis.sentinel.Sentinel(self.hosts, sentinel_kwargs=options)

    def pool(self, **options: Any) -> redis.sentinel.SentinelConnectionPool:
        """Return a pool of connections to the primary."""
        return redis.sentinel.SentinelConnectionPool(
            self.service, self.sentinel(), **self._server_options(options)
        )

    def async_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of an asyncio pool of connections to the primary."""
        sentinel = redis.asyncio.sentinel.Sentinel(
            self.hosts, sentinel_kwargs=self.sentinel_options | {"retry": AsyncRetry(NoBackoff(), 0)}
        )
        return {"service_name": self.service, "sentinel_manager": sentinel, **self._server_options(options)}

    def _server_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        fixed = {"db": self.db, "socket_keepalive": True, "socket_keepalive_options": KEEPALIVE}
        return fixed | ({"ssl": True} if self.tls else {}) | dict(self.tls) | dict(self.login) | dict(options)

    def celery_url(self) -> str:
        """Return the address as Celery has it: one URL for each Sentinel, with the login for the servers."""
        username, password = (quote(self.login.get(key, ""), safe="") for key in ("username", "password"))
        login = f"{username}:{password}@" if self.login else ""
        hosts = [f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.hosts]
        return ";".join(f"sentinel://{login}{host}/{self.db}" for host in hosts)

    def celery_options(self) -> dict[str, Any]:
        """Return the options of Celery's transport."""
        return {
            "master_name": self.service,
            "sentinel_kwargs": self.sentinel_options | {"retry": Retry(NoBackoff(), 0)},
            "socket_keepalive_options": KEEPALIVE,
        }


def server_url(url: str) -> str:
    """Return the address of the server that takes writes now: ``url`` itself unless it names Sentinels.

    Raises
    ------
    redis.RedisError
        When no Sentinel names a primary.
    """
    if not is_sentinel(url):
        return url
    address = SentinelAddress.parse(url)
    with address.sentinel() as sentinel:
        host, port = sentinel.discover_master(address.service)
    login, at, _ = urlsplit(url).netloc.rpartition("@")
    host = f"[{host}]" if ":" in host else host
    return f"{'rediss' if address.tls else 'redis'}://{login}{at}{host}:{port}/{address.db}"


def _present(**values: str) -> dict[str, str]:
    return {name: value for name, value in values.items() if value}
