"""Make the Celery application of a worker process, register its tasks and run it.

The packages that own the tasks register them: ``workers.owner``, ``workers.montecarlo`` and
``workers.job_manager``. Each of them is a process, started by ``python -m``.

All of them answer Celery's remote control, as far as ``COMMANDS`` goes. Who may send it is said in
SECURITY.md ("Remote control").
"""

from __future__ import annotations

import os
import signal
import socket
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, cast
from uuid import uuid4

import structlog
from celery import Celery, signals
from celery.app.events import Events
from celery.apps.worker import Worker
from celery.concurrency import solo
from celery.events.dispatcher import EventDispatcher
from celery.exceptions import SecurityWarning
from celery.worker import control, state
from celery.worker.consumer import Consumer
from celery.worker.control import Panel
from kombu import Queue
from kombu.utils.url import maybe_sanitize_url

from broker import failpoints
from broker.doctor.redis import require_safe
from broker.observability import logging
from broker.queue.celery_config import cloud_queue, make_app
from broker.settings import Settings
from broker.storage.connections import connect
from broker.storage.outages import until_answered

#: Remote control that workers answer to. Celery's other commands would hand a worker the queue of another
#: party, show its memory, or change the limits of tasks.
_INSPECT = (
    "ping stats active reserved scheduled revoked registered active_queues query_task clock conf report"
)
_CONTROL = "enable_events disable_events heartbeat shutdown revoke terminate pool_grow pool_shrink autoscale"
COMMANDS = frozenset(f"{_INSPECT} {_CONTROL}".split())

log = structlog.get_logger(__name__)


def _show_stats(state: Any, **_: object) -> dict[str, Any]:
    """Return Celery's statistics, without the password that is in the address of a Unix socket."""
    stats = control.stats(state)
    stats["broker"]["hostname"] = maybe_sanitize_url(stats["broker"]["hostname"])
    return cast("dict[str, Any]", stats)


class SoloPool(solo.TaskPool):
    """Runs tasks one after another in the worker's own thread, and stays like that."""

    def grow(self, _count: int = 1) -> NoReturn:
        """Refuse to run tasks side by side."""
        raise ValueError("this worker is solo by construction: what it decides, it decides one after another")

    shrink = grow


class EventSender(EventDispatcher):
    """Publishes each event once: a worker does not wait with its heartbeat for a Redis that is away."""

    def send(self, type: str, **fields: Any) -> None:  # noqa: A002  (Celery's name)
        """Publish an event, or keep it for the next connection."""
        super().send(type, **(fields | {"retry": False}))


class WorkerEvents(Events):
    """Makes Celery use ``EventSender`` for the events of workers."""

    dispatcher_cls = EventSender


class NamedWorker(Worker):
    """A Celery worker with a name of its own, however many are started with one name.

    It neither mingles nor gossips: workers have nothing to tell one another.
    """

    def __init__(self, app: Celery | None = None, hostname: str | None = None, **options: Any):
        name, _, host = (hostname or "celery").partition("@")
        options |= {"without_mingle": True, "without_gossip": True}
        # Celery warns of running as root for fear of pickled messages; ours takes JSON only.
        warnings.filterwarnings("ignore", category=SecurityWarning)
        super().__init__(app, f"{name}-{uuid4().hex[:8]}@{host or socket.gethostname()}", **options)


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
    for command in Panel.data.keys() - COMMANDS:
        del Panel.data[command]
    Panel.data["stats"] = _show_stats
    app = make_app(settings, queue if cloud is None else cloud_queue(cloud))
    app.events_cls = WorkerEvents
    app.Worker = app.subclass_with_self(NamedWorker)
    return app


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

    @app.task(name=name, shared=False, **options)
    def task(*arguments: Any) -> None:
        call(*arguments)


def run_worker(
    app: Celery,
    *,
    name: str,
    queues: Sequence[str],
    pool: str,
    when_ready: Callable[[Callable[[str], None]], None] = lambda _consume: None,
) -> int:
    """Run a worker in this process until it is told to stop; return its exit status.

    ``pool`` is "prefork", with one process, or "solo". Celery gives ``name`` letters that no other has.
    ``when_ready`` gets a function by which any thread makes the worker take messages from one queue more.
    """

    def ready(sender: Consumer, **_: object) -> None:
        def consume(queue: str) -> None:
            app.amqp.queues.select_add(app.amqp.queues[queue])  # for each connection from the next one on
            sender.call_soon(sender.add_task_queue, queue)

        if pool == "solo":
            signal.signal(signal.SIGTERM, _stop_after_task)
        when_ready(consume)

    signals.worker_ready.connect(ready, weak=False)
    worker = app.Worker(
        hostname=name,
        queues=list(queues),
        pool=SoloPool if pool == "solo" else pool,
        concurrency=1,
        loglevel="WARNING",
        quiet=True,
    )
    worker.start()
    return int(worker.exitcode or 0)
