"""``python -m broker.api [--host HOST] [--port PORT] [--workers N]``: serves the HTTP API."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

import redis
import uvicorn

from broker.doctor.redis import UnsafeQueueError, require_safe
from broker.observability import logging, spans
from broker.settings import SettingsError, load
from broker.storage.connections import connect
from broker.storage.keys import RedisKeys
from broker.storage.negotiation import ContractError, FederationVersion
from broker.storage.tls import server_options


def main(arguments: Sequence[str] | None = None) -> int:
    """Serves until it is told to stop. Returns the exit status: 78 for a malformed setting, a certificate
    that cannot be used, a Redis server that may drop keys or that TLS refuses, or a federation that speaks a
    later version of the contract."""
    try:
        told = load()
    except SettingsError as error:
        _say(str(error))
        return os.EX_CONFIG
    parser = argparse.ArgumentParser(prog="python -m broker.api", description="Serves spotfed's HTTP API.")
    parser.add_argument("--host", default=told.host, help="address to listen on (default: %(default)s)")
    parser.add_argument(
        "--port", type=int, default=told.port, help="port; 0: a free one (default: %(default)s)"
    )
    parser.add_argument("--workers", type=int, default=1, help="processes (default: %(default)s)")
    chosen = parser.parse_args(arguments)
    if told.redis_url is None:
        _say("set SPOTFED_REDIS_URL, or use `spotfed up`")
        return os.EX_CONFIG
    try:
        secured = server_options(told)
        spans.require(told)
        with connect(told.redis_url) as client:
            require_safe(client, told.redis_url, _say)
            FederationVersion(client, RedisKeys(told.key_prefix)).refresh()
    except (SettingsError, UnsafeQueueError, ContractError) as error:
        _say(str(error))
        return os.EX_CONFIG
    except redis.RedisError as error:
        # It answers /healthz, and 503 to the rest. Nothing is admitted until owners run, who look again.
        _say(f"Redis does not answer, so whether it may drop keys is not known: {error}")
    logging.configure(told)
    uvicorn.run(
        "broker.api.app:create_process_app",
        factory=True,
        host=chosen.host,
        port=chosen.port,
        workers=chosen.workers,
        log_config=None,  # ours, of all loggers
        access_log=False,  # so are the lines about calls
        timeout_graceful_shutdown=5,
        **secured,
    )
    return 0


def _say(message: str) -> None:
    print(f"broker.api: {message}", file=sys.stderr)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
