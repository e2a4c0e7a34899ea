"""The Celery application's configuration, and how to send its tasks by name. Importing connects to
nothing.

A Celery message is never the only copy of anything (RELIABILITY.md 1): ``ring`` only says that an inbox has
something to read, and a Monte-Carlo batch is sent again when its result does not come.
"""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from celery import Celery
from kombu import Connection, Exchange, Producer, Queue, transport
from kombu.utils.json import dumps

from broker.redis_server import celery_url
from broker.settings import Settings, SettingsError
from broker.tls import redis_tls

DRAIN = "spotfed.cloud.drain"
BATCH = "spotfed.montecarlo.batch"
ADVANCE = "spotfed.jobs.advance"
MONTECARLO = "montecarlo"
JOBS = "jobs"

#: A doorbell older than this says nothing that the poll has not found.
RING_EXPIRES_S = 30
#: A batch older than this has been sent again.
BATCH_EXPIRES_S = 600
#: A batch that runs longer is killed with its process.
BATCH_LIMIT_S = 600


def cloud_queue(cloud: str) -> str:
    """The queue of a cloud's owner."""
    return f"cloud.{cloud}"


def montecarlo_queue(worker: str) -> str:
    """The own queue of a Monte-Carlo worker, beside the shared one."""
    return f"{MONTECARLO}.{worker}"


def bell_queue(cloud: str) -> Queue:
    """Declare the queue of a cloud's doorbells, for their senders and for the owner.

    Doorbells are not acknowledged, which halves what each one writes: one that is lost with its worker is
    made up for by the next owner's opening.
    """
    name = cloud_queue(cloud)
    return Queue(name, Exchange(name), routing_key=name, no_ack=True)


def batch_queue(name: str) -> Queue:
    """Declare a queue of Monte-Carlo batches: the shared one, or a worker's own."""
    return Queue(name, Exchange(name), routing_key=name)


def job_queue() -> Queue:
    """What job managers are told to look after, as senders and managers declare it.

    It is not acknowledged either: what is lost is made up for by their sweeping.
    """
    return Queue(JOBS, Exchange(JOBS), routing_key=JOBS, no_ack=True)


def unacked_options(queue: str | None) -> dict[str, str]:
    """Where the transport of who serves a queue apart notes what is unacknowledged, or (None) that of all
    others.

    Owners and job managers share these with nobody: who may write there can put messages into others' queues.
    """
    apart = "" if queue is None else f".{queue}"
    return {f"{name}_key": name + apart for name in ("unacked", "unacked_index", "unacked_mutex")}


def make_app(settings: Settings, queue: str | None = None) -> Celery:
    """Make a Celery application for the Redis server at ``settings.redis_url``.

    ``queue``: the queue that it serves, as an owner or a job manager. Raises SettingsError when there is no
    address of Redis.
    """
    if settings.redis_url is None:
        raise SettingsError("SPOTFED_REDIS_URL: name the Redis server (`spotfed up` starts one of its own)")
    # Whatever the form of the address, the transport is ours, also where another one was looked up before.
    for scheme in ("redis", "rediss"):
        transport.TRANSPORT_ALIASES[scheme] = "broker.transport:Transport"
        transport._transport_cache.pop(scheme, None)
    app = Celery("spotfed", set_as_current=False)
    app.conf.update(
        broker_url=celery_url(settings.redis_url),
        broker_transport_options={
            "global_keyprefix": settings.key_prefix,
            "socket_timeout": 5,
            "socket_connect_timeout": 5,
            "socket_keepalive": True,
            "visibility_timeout": 3 * BATCH_LIMIT_S,
            "unacked_restore_interval": 2,
            "unacked_restore_throttle": 1,
            "priority_steps": [0],  # nothing here has a priority: one list a queue
            **unacked_options(queue),
        },
        broker_use_ssl=redis_tls(settings.redis_url, settings) or None,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        task_serializer="json",
        accept_content=["json"],
        task_ignore_result=True,
        task_store_errors_even_if_ignored=False,
        task_publish_retry=False,
        task_acks_late=True,
        task_default_queue=MONTECARLO,
        task_send_sent_event=False,
        worker_prefetch_multiplier=1,
        worker_soft_shutdown_timeout=10,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        worker_send_task_events=False,
        worker_enable_remote_control=False,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
    )
    return app


def ring(app: Celery, cloud: str) -> None:
    """Tells a cloud's owner to look into its inbox.

    Raises kombu.exceptions.OperationalError when the queue is away; the owner then finds out by itself.
    """
    _send(app, DRAIN, bell_queue(cloud), expires=RING_EXPIRES_S)


class Bells:
    """The doorbells of clouds as Celery would put them into their queues: for scripts that ring in the step
    in which they write what there is to read."""

    def __init__(self, app: Celery, prefix: str):
        """``prefix``: of all keys."""
        self._app, self._prefix = app, prefix
        self._forms: dict[str, tuple[str, str, str]] = {}  # a message by cloud, its task's id and its tag

    def __call__(self, cloud: str) -> tuple[str, str]:
        """The key of a cloud's queue, and a message for it."""
        if cloud not in self._forms:
            self._forms[cloud] = self._form(cloud)
        text, task, tag = self._forms[cloud]
        return self._prefix + cloud_queue(cloud), text.replace(task, str(uuid4())).replace(tag, str(uuid4()))

    def _form(self, cloud: str) -> tuple[str, str, str]:
        # All virtual transports of kombu put the same message into a queue; this one keeps it in memory.
        name = f"bell.{uuid4()}"
        with Connection("memory://") as connection, connection.channel() as channel:
            producer = Producer(channel)
            sent = self._app.send_task(DRAIN, producer=producer, queue=name, ignore_result=True)
            message = channel._get(name)
            channel.queue_delete(name)
        properties = message["properties"]
        properties["delivery_info"]["routing_key"] = cloud_queue(cloud)
        return dumps(message), sent.id, properties["delivery_tag"]


def send_batch(app: Celery, queue: str, message: dict[str, Any]) -> None:
    """Sends a Monte-Carlo batch to the shared queue or to one worker's own.

    Raises kombu.exceptions.OperationalError when the queue is away.
    """
    _send(app, BATCH, batch_queue(queue), args=[message], expires=BATCH_EXPIRES_S)


def ring_for_job(app: Celery, job: str) -> None:
    """Tells a job manager, whichever is free, to look after a job.

    Raises kombu.exceptions.OperationalError when the queue is away; they then find out by themselves.
    """
    _send(app, ADVANCE, job_queue(), args=[job], expires=RING_EXPIRES_S)


def _send(app: Celery, task: str, queue: Queue, **options: Any) -> None:
    app.send_task(task, ignore_result=True, queue=queue, **options)
