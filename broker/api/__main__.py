"""``python -m broker.api [--host HOST] [--port PORT] [--workers N]``: serves the HTTP API."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import uvicorn

from broker.settings import SettingsError, load


def main(arguments: Sequence[str] | None = None) -> int:
    """Serves until it is told to stop. Returns the exit status: 78 for a malformed setting."""
    try:
        told = load()
    except SettingsError as error:
        print(f"broker.api: {error}", file=sys.stderr)  # noqa: T201
        return 78
    parser = argparse.ArgumentParser(prog="python -m broker.api", description="Serves spotfed's HTTP API.")
    parser.add_argument("--host", default=told.host, help="address to listen on (default: %(default)s)")
    parser.add_argument(
        "--port", type=int, default=told.port, help="port; 0: a free one (default: %(default)s)"
    )
    parser.add_argument("--workers", type=int, default=1, help="processes (default: %(default)s)")
    chosen = parser.parse_args(arguments)
    if told.redis_url is None:
        print("broker.api: set SPOTFED_REDIS_URL, or use `spotfed up`", file=sys.stderr)  # noqa: T201
        return 78
    uvicorn.run(
        "broker.api.app:create_app",
        factory=True,
        host=chosen.host,
        port=chosen.port,
        workers=chosen.workers,
        log_level=told.log_level.lower(),
        access_log=told.log_level == "DEBUG",
        timeout_graceful_shutdown=5,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
