"""Logs of a worker process: those of ``broker.observability.logging``, and no more of Celery than what is
wrong."""

from __future__ import annotations

from celery import signals

from broker.observability import logging
from broker.settings import Settings


def configure(told: Settings) -> None:
    """Sets them up, and keeps Celery from setting up its own."""
    logging.configure(told)
    # A receiver, even an empty one, is enough for that.
    signals.setup_logging.connect(_leave_it, weak=False)


def _leave_it(**_: object) -> None:
    pass
