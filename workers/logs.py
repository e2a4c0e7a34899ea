"""Logs of a worker process: those of ``broker.logs``, and no more of Celery than what is wrong."""

from __future__ import annotations

from celery import signals

from broker import logs
from broker.settings import Settings


def configure(told: Settings) -> None:
    """Sets them up, and keeps Celery from setting up its own."""
    logs.configure(told)
    # A receiver, even an empty one, is enough for that.
    signals.setup_logging.connect(_leave_it, weak=False)


def _leave_it(**_: object) -> None:
    pass
