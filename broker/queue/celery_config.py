"""The Celery application's configuration, and how to send its tasks by name. Importing connects to
nothing.

A Celery message is never the only copy of anything (RELIABILITY.md 1): ``ring`` only says that an inbox has
something to read, and a Monte-Carlo batch is sent again when its result does not come.
"""

from __future__ import annotations

from celery import Celery
from kombu import transport

from broker.settings import Settings, SettingsError
from broker.storage.connections import celery_url
from broker.storage.tls import redis_tls

DRAIN = "spotfed.cloud.drain"

BATCH = "spotfed.montecarlo.batch"

ADVANCE = "spotfed.jobs.advance"

MONTECARLO = "montecarlo"

JOBS = "jobs"

#: A batch that runs longer is killed with its process.
BATCH_LIMIT_S = 600


def cloud_queue(cloud: str) -> str:
    """The queue of a cloud's owner."""
    return f"cloud.{cloud}"


def montecarlo_queue(worker: str) -> str:
    """The own queue of a Monte-Carlo worker, beside the shared one."""
    return f"{MONTECARLO}.{worker}"


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
        transport.TRANSPORT_ALIASES[scheme] = "broker.queue.celery_transport:Transport"
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
