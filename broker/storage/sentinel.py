"""Connects to the primary that Redis Sentinels name, for an address like ``redis+sentinel://H1,H2/NAME/0``.

The Sentinels are asked whenever a connection is made. So whatever closes a connection when a server dies or
is demoted (the system's keepalive, `broker.storage.connections.DemotedError`) also finds the next primary.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import parse_qs, quote, unquote, urlsplit

import redis
import redis.sentinel
from redis.backoff import NoBackoff
from redis.retry import Retry

from broker.settings import is_sentinel, list_hosts, split_address
from broker.storage.tls import redis_tls

PORT = 26379
#: How long one Sentinel may take to answer, before the next one is asked.
ANSWER_TIMEOUT_S = 1.0
#: How long a host may take to accept a connection: its kernel does that, however busy the host is.
SENTINEL_CONNECT_TIMEOUT_S, PRIMARY_CONNECT_TIMEOUT_S = 0.5, 2.0

#: How often a pool looks whether the primary is another one.
LOOK_S = 2.0
#: How long one that did not answer is left alone, if most answer.
SILENT_S = 5.0

#: A host that is gone closes no connections: its silence ends those that wait for it, pub/sub among them,
#: about when another server is promoted. The kernel of a host that is only busy acknowledges what it gets.
KEEPALIVE: dict[int, int] = {
    getattr(socket, name): value
    for name, value in {
        "TCP_KEEPIDLE": 1,
        "TCP_KEEPINTVL": 1,
        "TCP_KEEPCNT": 2,
        "TCP_USER_TIMEOUT": 3_000,  # ms
    }.items()
    if hasattr(socket, name)
}

#: Until when Sentinels that did not answer are left alone, by the addresses of all. A process waits once.
_silent_until_s: dict[tuple[tuple[str, int], ...], list[float]] = {}


class Sentinels:
    """Asks all Sentinels where the primary is, and believes the one that knows of the latest failover.

    redis-py's own class believes the first that answers. One that has not heard of a failover yet names the
    server that was demoted, which may be back by then, and takes writes until it is told.
    """

    def __init__(self, clients: Sequence[redis.Redis], silent_until_s: list[float] | None = None):
        """Ask nobody yet. ``silent_until_s``: until when each is left alone; others may share it."""
        self.clients = clients
        self._silent_until_s = [0.0] * len(clients) if silent_until_s is None else silent_until_s

    def ask(self, service: str) -> tuple[list[Mapping[str, Any]], list[str]]:
        """Return what Sentinels say of a primary, and the errors of those that do not answer.

        One that did not answer a moment ago is asked only if fewer than most of them answer.
        """
        states: list[Mapping[str, Any]] = []
        errors: list[str] = []
        now_s = time.monotonic()
        for number in sorted(
            range(len(self.clients)), key=lambda number: self._silent_until_s[number] > now_s
        ):
            if 2 * len(states) > len(self.clients) and self._silent_until_s[number] > now_s:
                break
            try:
                masters = cast("Mapping[str, Any]", self.clients[number].sentinel_masters())
            except redis.RedisError as error:
                errors.append(str(error))
                self._silent_until_s[number] = time.monotonic() + SILENT_S
            else:
                states += [masters[service]] if service in masters else []
        return states, errors

    def discover_master(self, service: str) -> tuple[str, int]:
        """Return host and port of a primary.

        Raises
        ------
        redis.sentinel.MasterNotFoundError
            When it is down, or no Sentinel that answers knows it.
        """
        states, errors = self.ask(service)
        latest = max(states, key=lambda state: int(state["config-epoch"]), default=None)
        if latest is None or not latest["is_master"] or latest["is_sdown"] or latest["is_odown"]:
            why = "it is down" if latest is not None else "; ".join(errors) or "none of them knows it"
            raise redis.sentinel.MasterNotFoundError(f"Sentinels name no primary {service!r}: {why}")
        return str(latest["ip"]), int(latest["port"])

    def close(self) -> None:
        """Close the connections to the Sentinels."""
        for client in self.clients:
            client.close()


class PrimaryPool(redis.sentinel.SentinelConnectionPool):
    """Looks every ``LOOK_S`` seconds whether Sentinels name another primary, and leaves the one that it knew.

    One that is cut off from them and from its replicas does not close its connections.
    """

    _look_s = 0.0

    def get_connection(self, *arguments: Any, **options: Any) -> Any:
        """Return a connection to the primary."""
        now_s = time.monotonic()
        if now_s >= self._look_s:
            self._look_s = now_s + LOOK_S
            with suppress(redis.RedisError):
                # It closes what leads elsewhere.
                self.get_master_address()  # type: ignore[no-untyped-call]
        return super().get_connection(*arguments, **options)


class _AsyncSentinels:
    """Asks Sentinels on a thread, for a pool of asyncio connections."""

    def __init__(self, sentinels: Sentinels):
        self._sentinels = sentinels

    async def discover_master(self, service: str) -> tuple[str, int]:
        return await asyncio.to_thread(self._sentinels.discover_master, service)


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
        parts = split_address(url)
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
        """Returns the options of a client of one of the Sentinels, which never asks twice."""
        return {
            "retry": Retry(NoBackoff(), 0),
            "socket_timeout": ANSWER_TIMEOUT_S,
            "socket_connect_timeout": SENTINEL_CONNECT_TIMEOUT_S,
            **({"ssl": True} if self.tls else {}),
            **self.tls,
            **self.sentinel_login,
        }

    def sentinels(self) -> Sentinels:
        """Return a client of all Sentinels."""
        clients = [redis.Redis(host, port, **self.sentinel_options) for host, port in self.hosts]
        return Sentinels(clients, _silent_until_s.setdefault(self.hosts, [0.0] * len(clients)))

    def pool(self, **options: Any) -> PrimaryPool:
        """Return a pool of connections to the primary."""
        server_options = self._server_options(options)
        return PrimaryPool(self.service, self.sentinels(), **server_options)  # type: ignore[no-untyped-call]

    def async_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of an asyncio pool of connections to the primary."""
        sentinels = _AsyncSentinels(self.sentinels())
        return {
            "service_name": self.service,
            "sentinel_manager": sentinels,
            **self._server_options(options),
        }

    def _server_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        fixed = {"db": self.db, "socket_keepalive": True, "socket_keepalive_options": KEEPALIVE}
        fixed |= ({"ssl": True} if self.tls else {}) | dict(self.tls) | dict(self.login) | dict(options)
        return fixed | {"socket_connect_timeout": PRIMARY_CONNECT_TIMEOUT_S}

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
            "sentinel_kwargs": self.sentinel_options,
            "socket_connect_timeout": PRIMARY_CONNECT_TIMEOUT_S,
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
    with closing(address.sentinels()) as sentinels:
        host, port = sentinels.discover_master(address.service)
    login, at, _ = split_address(url).netloc.rpartition("@")
    host = f"[{host}]" if ":" in host else host
    return f"{'rediss' if address.tls else 'redis'}://{login}{at}{host}:{port}/{address.db}"


def _present(**values: str) -> dict[str, str]:
    return {name: value for name, value in values.items() if value}
