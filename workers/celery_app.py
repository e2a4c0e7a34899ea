"""Make the Celery application of a worker process, register its tasks and run it.

The packages that own the tasks register them: ``workers.owner``, ``workers.montecarlo`` and
``workers.job_manager``. Each of them is a process, started by ``python -m``.
"""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import structlog
from celery import Celery, signals
from celery.exceptions import SecurityWarning
from celery.worker import state
from kombu import Queue

from broker import failpoints
from broker.doctor.redis import require_safe
from broker.observability import logging
from broker.queue.celery_config import cloud_queue, make_app
from broker.settings import Settings
from broker.storage.connections import connect
from broker.storage.outages import until_answered

log = structlog.get_logger(__name__)


def end_when_told() -> None:
    """Let SIGTERM and SIGINT end this process with status 0 until it has begun to work and handles them."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)


def _end(*_: object) -> NoReturn:
    raise SystemExit(os.EX_OK)


def create_app(settings: Settings, cloud: str | None = None, *, queue: str | None = None) -> Celery:
    """Return the application, without tasks, and set up logging and failpoints.

    Parameters
    ----------
    cloud:
        The id of the cloud whose owner the application is for, if any.
    queue:
        See ``broker.queue.celery_config.make_app``.
    """
    logging.configure(settings)
    # Celery sets up no logging of its own where this signal has a receiver, even one that does nothing.
    signals.setup_logging.connect(_keep_our_logging, weak=False)
    failpoints.arm(settings.failpoint)
    return make_app(settings, queue if cloud is None else cloud_queue(cloud))


def _keep_our_logging(**_: object) -> None:
    pass


def _stop_after_task(*_: object) -> None:
    """Let a worker with a solo pool end once its task has ended, which is soon.

    The task runs in the thread that handles signals. Celery's cold shutdown would make it wait for itself,
    and then raise an error in its midst.
    """
    state.should_stop = os.EX_OK


def require_safe_queue(settings: Settings) -> None:
    """Wait until Redis answers, and log what a crash of it would lose.

    Raises
    ------
    UnsafeQueueError
        When it may drop keys, is part of a cluster, or TLS refuses it.
    """
    url = str(settings.redis_url)
    with connect(url) as client:
        until_answered(lambda: require_safe(client, url, log.warning))


def register_task(
    app: Celery, name: str, queues: Sequence[Queue], call: Callable[..., object], **options: Any
) -> None:
    """Register ``call`` as the task of that name, and declare the queues that its messages come through."""
    app.conf.task_queues = list(queues)

    @app.task(name=name, **options)
    def task(*arguments: Any) -> None:
        call(*arguments)


def run_worker(
    app: Celery,
    *,
    name: str,
    queues: Sequence[str],
    pool: str,
    when_ready: Callable[[], None],
) -> int:
    """Run a worker in this process until it is told to stop; return its exit status."""

    def ready(**_: object) -> None:
        if pool == "solo":
            signal.signal(signal.SIGTERM, _stop_after_task)
        when_ready()

    signals.worker_ready.connect(ready, weak=False)
    # Celery warns of running as root for fear of pickled messages; ours takes JSON only.
    warnings.filterwarnings("ignore", category=SecurityWarning)
    worker = app.Worker(
        hostname=name,
        queues=list(queues),
        pool=pool,
        concurrency=1,
        loglevel="WARNING",
        quiet=True,
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
        task_events=False,
    )
    worker.start()
    return int(worker.exitcode or 0)
