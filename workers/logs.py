"""Logs of a worker process: one line of structured text an entry, on standard error."""

from __future__ import annotations

import logging
import sys

import structlog
from celery import signals


def configure(level: str) -> None:
    """Sets structlog up, and lets Celery speak only where something is wrong."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.format_exc_info,
            structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"]),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    quiet = max(logging.WARNING, logging.getLevelNamesMapping()[level])
    logging.basicConfig(
        stream=sys.stderr, level=quiet, format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    # A receiver, even an empty one, keeps Celery from setting up logging of its own.
    signals.setup_logging.connect(_leave_it, weak=False)


def _leave_it(**_: object) -> None:
    pass
