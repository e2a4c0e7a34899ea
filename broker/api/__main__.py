"""Serves the HTTP API: ``python -m broker.api [--host HOST] [--port PORT] [--workers N]``."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from typing import NoReturn

import redis
import uvicorn

from broker.api.http_protocol import LimitedHttpProtocol
from broker.api.services.request_metrics import shared_metrics
from broker.doctor.redis import UnsafeQueueError, require_safe
from broker.observability import logging, spans
from broker.settings import SettingsError, load
from broker.storage.connections import connect
from broker.storage.keys import RedisKeys
from broker.storage.negotiation import ContractError, FederationVersion
from broker.storage.tls import server_options


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until the process is told to stop, and return the exit status.

    The status is 78 for a malformed setting, a certificate that cannot be used, a Redis server that may drop
    keys, is part of a cluster or is refused by TLS, and a federation that speaks a later version of the
    contract.
    """
    try:
        settings = load()
    except SettingsError as error:
        _print_error(str(error))
        return os.EX_CONFIG
    parser = argparse.ArgumentParser(prog="python -m broker.api", description="Serves spotfed's HTTP API.")
    parser.add_argument("--host", default=settings.host, help="address to listen on (default: %(default)s)")
    parser.add_argument(
        "--port", type=int, default=settings.port, help="port; 0: a free one (default: %(default)s)"
    )
    parser.add_argument(
        "--workers", type=int, default=settings.api_processes, help="processes (default: %(default)s)"
    )
    options = parser.parse_args(arguments)
    if settings.redis_url is None:
        _print_error("set SPOTFED_REDIS_URL, or use `spotfed up`")
        return os.EX_CONFIG
    try:
        tls_options = server_options(settings)
        spans.require(settings)
        with connect(settings.redis_url) as client:
            require_safe(client, settings.redis_url, _print_error)
            FederationVersion(client, RedisKeys(settings.key_prefix)).refresh()
    except (SettingsError, UnsafeQueueError, ContractError) as error:
        _print_error(str(error))
        return os.EX_CONFIG
    except redis.RedisError as error:
        # The API answers /healthz, and 503 to all else. It admits nothing until owners run, which check
        # again.
        _print_error(f"whether Redis may drop keys is not known yet: {error}")
    logging.configure(settings)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)
    with shared_metrics() if options.workers > 1 else nullcontext():
        uvicorn.run(
            "broker.api.app:create_process_app",
            factory=True,
            http=LimitedHttpProtocol,
            host=options.host,
            port=options.port,
            workers=options.workers,
            log_config=None,  # logging.configure covers all loggers
            access_log=False,  # the middleware logs calls
            timeout_graceful_shutdown=5,
            **tls_options,
        )
    return 0


def _end(*_: object) -> NoReturn:
    """End the process with status 0: uvicorn raises a signal again once calls under way are answered."""
    raise SystemExit(0)


def _print_error(message: str) -> None:
    print(f"broker.api: {message}", file=sys.stderr)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
