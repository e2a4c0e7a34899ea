"""The client of the federation that the commands talk to, and the queue itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from broker.cli.console import CommandError, ExitCode

if TYPE_CHECKING:
    import redis

    from broker.client import Client
    from broker.settings import Settings
    from broker.storage.keys import RedisKeys

#: A person waits for so long for a broker, or a queue, that does not answer.
DEADLINE_S = 5.0

_HINT = "is a federation running? Start one with `spotfed up`, or set SPOTFED_URL"
_KEY_HINT = "set SPOTFED_API_KEY; `spotfed up` writes a first key to {path}"


@contextmanager
def connected(deadline_s: float | None = None) -> Iterator[Client]:
    """A client of SPOTFED_URL with SPOTFED_API_KEY, else of what ``spotfed up`` runs on this machine.

    ``deadline_s``: how long it waits for a broker that is away; None: as long as a person does.
    """
    from broker.client import Client, UnauthorizedError, UnavailableError, UntrustedError
    from broker.local.queue import key_file
    from broker.settings import settings

    told = settings()
    try:
        with Client(url(told), api_key(told), deadline_s=deadline_s or DEADLINE_S) as client:
            yield client
    except UntrustedError:
        raise  # it says all that helps
    except UnavailableError as error:
        raise CommandError(f"{error}; {_HINT}", ExitCode.UNREACHABLE) from error
    except UnauthorizedError as error:
        hint = _KEY_HINT.format(path=key_file(told.state_dir))
        raise CommandError(f"{error}; {hint}", ExitCode.BAD_INPUT) from error


def url(told: Settings) -> str:
    """SPOTFED_URL, else where ``spotfed up`` serves on this machine, else the default."""
    from broker.local.federation import record_file

    if "url" not in told.model_fields_set:
        try:
            return str(json.loads(record_file(told.state_dir).read_text(encoding="utf-8"))["url"])
        except (OSError, ValueError, KeyError):
            pass  # nothing runs here: the default address is as good as any
    return told.url


def api_key(told: Settings) -> str | None:
    """SPOTFED_API_KEY, else the first key that is kept on this machine, if any."""
    from broker.local.queue import key_file

    if told.api_key is not None:
        return told.api_key.get_secret_value()
    try:
        return key_file(told.state_dir).read_text(encoding="utf-8").strip()
    except OSError:
        return None


@contextmanager
def queue() -> Iterator[tuple[redis.Redis, RedisKeys]]:
    """SPOTFED_REDIS_URL, else the embedded server that runs on this machine."""
    import redis

    from broker.local.queue import address_file
    from broker.settings import public_address, settings
    from broker.storage.connections import connect
    from broker.storage.keys import RedisKeys

    told = settings()
    url = told.redis_url
    if url is None:
        try:
            url = address_file(told.state_dir).read_text(encoding="utf-8")
        except OSError:
            raise CommandError(
                "no federation runs on this machine: set SPOTFED_REDIS_URL to its Redis server",
                ExitCode.UNREACHABLE,
            ) from None
    try:
        with connect(url, socket_timeout=DEADLINE_S, socket_connect_timeout=DEADLINE_S) as client:
            yield client, RedisKeys(told.key_prefix)
    except redis.RedisError as error:
        raise CommandError(
            f"{public_address(url)} does not do it: {error}; see `spotfed doctor`", ExitCode.UNREACHABLE
        ) from error
