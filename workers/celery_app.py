"""The Celery application of the worker processes: its tasks, and how a worker is run.

A worker is started by ``python -m workers.owner``, ``workers.montecarlo`` or ``workers.job_manager``.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog

from broker import failpoints
from broker.doctor.redis import require_safe
from broker.observability import logging
from broker.settings import Settings
from broker.storage.connections import connect
from broker.storage.keys import RedisKeys
from workers.redis_retry import until_answered

if TYPE_CHECKING:
    from celery import Celery

    from workers.montecarlo.worker import MonteCarlo

log = structlog.get_logger(__name__)


def create(settings: Settings, cloud: str | None = None, *, queue: str | None = None) -> Celery:
    """Return the application, without tasks, and set logging up.

    cloud: id of the cloud whose owner the application is for, if any. queue: see ``make_app``.

    From here on SIGTERM means SIGQUIT to Celery: both end a worker after a task's moment of grace. Celery
    reads this from the environment when its worker is imported.
    """
    os.environ.setdefault("REMAP_SIGTERM", "SIGQUIT")  # noqa: TID251  (set, not read)
    from celery import signals

    from broker.queue.celery_config import cloud_queue, make_app

    logging.configure(settings)
    # Celery sets up no logging of its own where this signal has a receiver, even one that does nothing.
    signals.setup_logging.connect(_keep_our_logging, weak=False)
    failpoints.arm(settings.failpoint)
    return make_app(settings, queue if cloud is None else cloud_queue(cloud))


def _keep_our_logging(**_: object) -> None:
    pass


def require_safe_queue(settings: Settings) -> None:
    """Wait until Redis answers, and log what a crash of it would lose.

    Raises UnsafeQueueError when it may drop keys, or TLS refuses it.
    """
    url = str(settings.redis_url)
    with connect(url) as client:
        until_answered(lambda: require_safe(client, url, log.warning))


def serve_drains(app: Celery, cloud: str, drain: Callable[[], object]) -> None:
    """Register the task that is the doorbell of a cloud's owner."""
    from broker.queue.celery_config import DRAIN
    from broker.queue.send import bell_queue

    app.conf.task_queues = [bell_queue(cloud)]

    @app.task(name=DRAIN)
    def ring() -> None:
        drain()


def serve_batches(app: Celery, settings: Settings, name: str) -> None:
    """Register the task that runs Monte-Carlo batches, for the worker ``name``."""
    from broker.contract import Batch
    from broker.queue.celery_config import BATCH, BATCH_LIMIT_S, MONTECARLO, montecarlo_queue
    from broker.queue.send import batch_queue

    app.conf.task_queues = [batch_queue(queue) for queue in (MONTECARLO, montecarlo_queue(name))]
    child: list[MonteCarlo] = []  # made in the pool's child, whose connections it holds

    @app.task(name=BATCH, time_limit=BATCH_LIMIT_S)
    def batch(message: dict[str, Any]) -> None:
        if not child:
            child.append(_montecarlo(app, settings, name))
        child[0].run(Batch.model_validate(message, extra="ignore"))


def serve_jobs(app: Celery, look_after: Callable[[str], object]) -> None:
    """Register the task that is the doorbell of a job manager."""
    from broker.queue.celery_config import ADVANCE
    from broker.queue.send import job_queue

    app.conf.task_queues = [job_queue()]

    @app.task(name=ADVANCE)
    def advance(job: str) -> None:
        look_after(job)


def _montecarlo(app: Celery, settings: Settings, name: str) -> MonteCarlo:
    from broker.queue.send import ring
    from workers.montecarlo.worker import MonteCarlo

    client = connect(str(settings.redis_url))
    return MonteCarlo(name, client, RedisKeys(settings.key_prefix), partial(ring, app))


def run(
    app: Celery,
    *,
    name: str,
    queues: Sequence[str],
    pool: str,
    when_ready: Callable[[], None],
) -> int:
    """Run a worker in this process until it is told to stop; return its exit status."""
    from celery import signals
    from celery.exceptions import SecurityWarning

    def ready(**_: object) -> None:
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
