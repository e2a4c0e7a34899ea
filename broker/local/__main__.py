"""Processes of the Procfile: ``queue``, and ``attach`` for all that need it.

``python -m broker.local attach -m broker.api --port 8000`` waits until the queue answers, says in
SPOTFED_REDIS_URL where it is, and becomes ``python -m broker.api --port 8000``. With the embedded server,
where all of the federation is on this machine, those who sign also get their keys
(``broker.signing.key_files``). A job manager gets the address of the API and the first API key, where it is
told no other.
"""

from __future__ import annotations

import os
import sys
from typing import Literal

from broker.local import queue
from broker.settings import SettingsError, settings
from broker.storage.embedded_server import RedisServerError

_USAGE_QUEUE = "python -m broker.local queue"


def main(arguments: list[str]) -> int:
    """Runs one of the two; returns an exit code."""
    try:
        match arguments:
            case ["queue"]:
                queue.serve(settings())
                return 0
            case ["attach", "-m", _, *_]:
                return _attach(arguments[1:])
            case _:
                print("usage: python -m broker.local queue | attach -m MODULE [OPTION ...]", file=sys.stderr)  # noqa: T201
                return 2
    except (RedisServerError, SettingsError) as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1


def _attach(arguments: list[str]) -> Literal[1]:
    url = queue.find(settings())
    if url is None:
        message = f"no queue after {queue.WAIT_S:g} s: start `{_USAGE_QUEUE}`, or set SPOTFED_REDIS_URL"
        print(message, file=sys.stderr)  # noqa: T201
        return 1
    known = {"SPOTFED_REDIS_URL": url, **_signing(arguments), **_calling(arguments)}
    environment = {**os.environ, **known}  # noqa: TID251  (handed on, not read)
    return os.execve(sys.executable, [sys.executable, *arguments], environment)  # noqa: S606  (a module of ours)


def _signing(arguments: list[str]) -> dict[str, str]:
    """What a process is told of its key, which is made if it is not there; nothing where it needs none."""
    from broker.signing.key_files import local_key_files
    from broker.signing.parties import BROKER, JOBS, cloud_party

    told = settings()
    if told.redis_url is not None or told.trust is not None or told.signing_key is not None:
        return {}
    match arguments:
        case ["-m", "broker.api", *_]:
            party = BROKER
        case ["-m", "workers.job_manager", *_]:
            party = JOBS
        case ["-m", "workers.owner" | "workers.node_agent", *options] if "--cloud" in options[:-1]:
            party = cloud_party(options[options.index("--cloud") + 1])
        case _:
            return {}
    files = local_key_files(told.state_dir)
    files.ensure([party])
    return files.environment(party)


def _calling(arguments: list[str]) -> dict[str, str]:
    """What a client of the API is told of it; nothing where it is none, or knows already."""
    told = settings()
    if arguments[:2] != ["-m", "workers.job_manager"]:
        return {}
    known = {}
    if "url" not in told.model_fields_set:
        scheme = "http" if told.tls_cert is None else "https"
        known["SPOTFED_URL"] = f"{scheme}://{told.host}:{told.port}"
    if told.api_key is None:
        known["SPOTFED_API_KEY"] = queue.key_file(told.state_dir).read_text(encoding="utf-8").strip()
    return known


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
