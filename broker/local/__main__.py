"""Processes of the Procfile: ``queue``, and ``attach`` for all that need it.

``python -m broker.local attach -m broker.api --port 8000`` waits until the queue answers, sets
SPOTFED_REDIS_URL to its address, and becomes ``python -m broker.api --port 8000``. With the embedded server,
where all of the federation is on this machine, processes that sign also get their keys
(``broker.signing.key_files``). A job manager gets the address of the API and the first API key, unless the
settings name others.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import redis

from broker.local import queue
from broker.local.process_list import api_url
from broker.local.state_files import key_file
from broker.settings import SettingsError, settings
from broker.signing.key_files import local_key_files
from broker.signing.parties import BROKER, JOBS, cloud_party
from broker.storage.embedded_server import RedisServerError

_USAGE = "usage: python -m broker.local queue | attach -m MODULE [OPTION ...]"


def main(arguments: list[str]) -> int:
    """Run the queue, or become the module that is attached to it; return an exit code."""
    try:
        match arguments:
            case ["queue"]:
                queue.serve(settings())
                return 0
            case ["attach", "-m", _, *_]:
                return _attach(arguments[1:])
            case _:
                print(_USAGE, file=sys.stderr)  # noqa: T201
                return 2
    except (RedisServerError, SettingsError, redis.RedisError, OSError) as error:
        print(f"broker.local: {error}", file=sys.stderr)  # noqa: T201
        return 1


def _attach(arguments: list[str]) -> Literal[1]:
    url = queue.wait_until_ready(settings())
    if url is None:
        start = "start `python -m broker.local queue`, or set SPOTFED_REDIS_URL"
        print(f"no queue after {queue.WAIT_S:g} s: {start}", file=sys.stderr)  # noqa: T201
        return 1
    variables = {"SPOTFED_REDIS_URL": url, **signing_variables(arguments), **client_variables(arguments)}
    environment = {**os.environ, **variables}  # noqa: TID251  (handed on, not read)
    return os.execve(sys.executable, [sys.executable, *arguments], environment)  # noqa: S606  (a module of ours)


def signing_variables(arguments: Sequence[str]) -> dict[str, str]:
    """Return the variables that name the key of a process; the key is made if it is missing.

    Empty for processes that do not sign, and where the settings name keys or a Redis server of their own.
    """
    config = settings()
    if config.redis_url is not None or config.trust is not None or config.signing_key is not None:
        return {}
    match arguments:
        case ["-m", "broker.api", *_]:
            parties = [BROKER]
        case ["-m", "workers.job_manager", *_]:
            parties = [JOBS]
        case ["-m", "workers.owner" | "workers.node_agent", *options] if "--cloud" in options[:-1]:
            named = (value for option, value in pairwise(options) if option == "--cloud")
            parties = [cloud_party(cloud) for cloud in named]
        case _:
            return {}
    files = local_key_files(config.state_dir)
    files.ensure(parties)
    return files.environment(*parties)


def client_variables(arguments: Sequence[str]) -> dict[str, str]:
    """Return the variables with the API's address and key that a job manager needs and does not have yet."""
    config = settings()
    if [*arguments[:2]] != ["-m", "workers.job_manager"]:
        return {}
    variables = {}
    if "url" not in config.model_fields_set:
        variables["SPOTFED_URL"] = api_url(config.host, config.port, tls=config.tls_cert is not None)
    if config.api_key is None:
        variables["SPOTFED_API_KEY"] = key_file(config.state_dir).read_text(encoding="utf-8").strip()
    return variables


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
