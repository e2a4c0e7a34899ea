"""Configures the Celery application and names its queues and tasks. Importing it connects to nothing."""

from __future__ import annotations

from celery import Celery
from kombu import transport

from broker.settings import Settings, SettingsError, is_sentinel
from broker.storage.connections import celery_url
from broker.storage.sentinel import SentinelAddress
from broker.storage.tls import redis_tls

DRAIN = "spotfed.cloud.drain"

BATCH = "spotfed.montecarlo.batch"

ADVANCE = "spotfed.jobs.advance"

MONTECARLO = "montecarlo"

JOBS = "jobs"

#: Begins the names of the channels of remote control and of events, after the key prefix.
FANOUT_PREFIX = "/celery."
#: Exchanges of remote control, of the answers to it, and of events; and channels of the first and the last.
CONTROL = "celery.pidbox"
CONTROL_REPLIES = f"reply.{CONTROL}"
EVENTS = "celeryev"
CONTROL_CHANNEL = f"{FANOUT_PREFIX}{CONTROL}"
EVENT_CHANNELS = f"{FANOUT_PREFIX}{EVENTS}/*"

#: A batch that runs longer is killed with its process.
BATCH_LIMIT_S = 600


def cloud_queue(cloud: str) -> str:
    """Return the name of the queue of a cloud's owner."""
    return f"cloud.{cloud}"


def montecarlo_queue(worker: str) -> str:
    """Return the name of the queue of one Monte-Carlo worker, beside the shared one."""
    return f"{MONTECARLO}.{worker}"


def unacked_options(queue: str | None) -> dict[str, str]:
    """Return the options that name the transport's keys for unacknowledged messages.

    ``queue`` is that of an owner or a job manager, which share these keys with nobody: a process that may
    write there could put messages into the queues of others. None is for all other processes.
    """
    apart = "" if queue is None else f".{queue}"
    return {f"{name}_key": name + apart for name in ("unacked", "unacked_index", "unacked_mutex")}


def make_app(settings: Settings, queue: str | None = None) -> Celery:
    """Make a Celery application for the Redis server at ``settings.redis_url``.

    ``queue`` is the queue that it serves, for an owner or a job manager.

    Raises
    ------
    SettingsError
        When no address of Redis is set.
    """
    if settings.redis_url is None:
        raise SettingsError("SPOTFED_REDIS_URL: name the Redis server (`spotfed up` starts one of its own)")
    # Use spotfed's transport for every form of address, even if kombu has looked up its own before.
    ours = "broker.queue.celery_transport"
    for scheme, name in {
        "redis": "Transport",
        "rediss": "Transport",
        "sentinel": "SentinelTransport",
    }.items():
        transport.TRANSPORT_ALIASES[scheme] = f"{ours}:{name}"
        transport._transport_cache.pop(scheme, None)
    url = settings.redis_url
    app = Celery("spotfed", set_as_current=False)
    app.conf.update(
        broker_url=celery_url(url),
        broker_transport_options={
            "global_keyprefix": settings.key_prefix,
            "socket_timeout": 5,
            "socket_connect_timeout": 5,
            "socket_keepalive": True,
            "visibility_timeout": 3 * BATCH_LIMIT_S,
            "unacked_restore_interval": 2,
            "unacked_restore_throttle": 1,
            "priority_steps": [0],  # nothing here has a priority: one list a queue
            "fanout_prefix": FANOUT_PREFIX,
            **unacked_options(queue),
            **(SentinelAddress.parse(url).celery_options() if is_sentinel(url) else {}),
        },
        broker_use_ssl=redis_tls(url, settings) or None,
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
        worker_enable_remote_control=settings.remote_control,
        # Kombu keeps lists that expire by scripts of its own, which workers may not load.
        control_queue_expires=None,
        control_queue_ttl=None,
        event_queue_expires=None,
        event_queue_ttl=None,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
    )
    return app
