"""The connection to the federation's Redis server that commands use which look at the queue itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from broker.cli.errors import CommandError, ExitCode
from broker.local.state_files import find_redis_url
from broker.settings import public_address, settings
from broker.storage.keys import RedisKeys

if TYPE_CHECKING:
    import redis

#: How long a command waits for a server that does not answer.
DEADLINE_S = 5.0


@contextmanager
def connected_redis() -> Iterator[tuple[redis.Redis, RedisKeys]]:
    """Connect to SPOTFED_REDIS_URL, or to the embedded server that runs on this machine.

    Raises
    ------
    CommandError
        When there is no server, or the server fails.
    """
    import redis  # as heavy as all else that commands load, which most of them do without

    from broker.storage.connections import connect

    config = settings()
    url = find_redis_url(config)
    if url is None:
        raise CommandError(
            "no federation runs on this machine: set SPOTFED_REDIS_URL to its Redis server",
            ExitCode.UNREACHABLE,
        )
    try:
        with connect(url, socket_timeout=DEADLINE_S, socket_connect_timeout=DEADLINE_S) as client:
            yield client, RedisKeys(config.key_prefix)
    except redis.RedisError as error:
        raise CommandError(
            f"{public_address(url)} failed: {error}; see `spotfed doctor`", ExitCode.UNREACHABLE
        ) from error
