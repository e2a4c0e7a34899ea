"""Holds the settings, addresses and connections of the installation that checks look at."""

from __future__ import annotations

from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, cast

import redis

from broker.contract import CloudInfo
from broker.settings import Settings, SettingsError
from broker.storage.keys import RedisKeys

if TYPE_CHECKING:
    import httpx

    from broker.doctor.redis import RedisServer

#: How long one answer of Redis or of the API may take.
ANSWER_TIMEOUT_S = 3.0

_Value = TypeVar("_Value")


class SkipCheckError(Exception):
    """A check cannot run because something that it needs is missing, which another check has reported."""


class NoAnswerError(Exception):
    """A server answered before and no longer does; the message says why."""


class Prerequisite(Generic[_Value]):
    """An attribute that one check sets and others need; reading it while unset raises SkipCheckError."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = f"_{name}"

    def __get__(self, installation: Installation, owner: type) -> _Value:
        if self._name not in vars(installation):
            raise SkipCheckError(self._name)
        return cast("_Value", vars(installation)[self._name])

    def __set__(self, installation: Installation, value: _Value) -> None:
        vars(installation)[self._name] = value

    def __delete__(self, installation: Installation) -> None:
        vars(installation).pop(self._name, None)


class Installation:
    """Holds what is known of an installation, and connections to it. Leaving its context closes them.

    Parameters
    ----------
    settings
        Settings, or the error that reading them raised; None for checks that need none.
    redis_url
        SPOTFED_REDIS_URL, else the embedded server that runs on this machine; None if there is neither.
    api_url, api_key
        Address of the HTTP API and the key for it; None if unknown.
    api_key_file
        File in which ``spotfed up`` keeps the first API key.
    supervised
        Whether the supervisor of the federation that ``spotfed up`` started here still runs; None if it
        started none, or stopped it.
    """

    settings = Prerequisite[Settings]()
    #: Set by check_redis.
    redis_server: Prerequisite[RedisServer] = Prerequisite()
    #: Set by check_clouds: all clouds by name, sorted; None for one that this version cannot read.
    clouds = Prerequisite[dict[str, CloudInfo | None]]()
    #: Set by check_api.
    api_client: Prerequisite[httpx.Client] = Prerequisite()

    def __init__(
        self,
        settings: Settings | SettingsError | None = None,
        *,
        redis_url: str | None = None,
        api_url: str | None = None,
        api_key: str | None = None,
        api_key_file: Path | None = None,
        supervised: bool | None = None,
    ):
        self.settings_error = settings if isinstance(settings, SettingsError) else None
        if isinstance(settings, Settings):
            self.settings = settings
        self.redis_url, self.api_url, self.api_key = redis_url, api_url, api_key
        self.api_key_file, self.supervised = api_key_file, supervised
        self.connections = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        self.connections.close()

    @property
    def keys(self) -> RedisKeys:
        """Names of the federation's Redis keys."""
        return RedisKeys(self.settings.key_prefix)

    @property
    def redis_client(self) -> redis.Redis:
        """Connection to Redis."""
        return self.redis_server.client

    @property
    def readable_clouds(self) -> list[CloudInfo]:
        """Clouds whose records this version can read."""
        return [cloud for cloud in self.clouds.values() if cloud is not None]

    @cached_property
    def montecarlo_workers(self) -> int:
        """The number of Monte-Carlo workers that run."""
        return sum(1 for _ in self.redis_client.scan_iter(self.keys.sampler("*"), count=10_000))

    def redis_time_s(self) -> float:
        """Return the time of the Redis server in seconds since 1970. Raises redis.RedisError."""
        seconds, microseconds = self.redis_client.time()
        return seconds + microseconds / 1e6
