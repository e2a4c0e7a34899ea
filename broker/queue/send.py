"""Sends tasks by name: doorbells for owners and job managers, and Monte-Carlo batches."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from celery import Celery
from kombu import Connection, Exchange, Queue, serialization
from kombu.utils.json import dumps

from broker.queue.celery_config import ADVANCE, BATCH, DRAIN, JOBS, cloud_queue

#: By the age of this the owner has polled its inbox, so an older doorbell is useless.
RING_EXPIRES_S = 30

#: A batch older than this has been sent again.
BATCH_EXPIRES_S = 600


def bell_queue(cloud: str) -> Queue:
    """Declare the queue of a cloud's doorbells, for their senders and for the owner.

    Doorbells are not acknowledged, which halves what each one writes. The next owner looks into its inbox
    when it starts, so one that is lost with its worker does no harm.
    """
    name = cloud_queue(cloud)
    return Queue(name, Exchange(name), routing_key=name, no_ack=True)


def batch_queue(name: str) -> Queue:
    """Declare a queue of Monte-Carlo batches: the shared one, or a worker's own."""
    return Queue(name, Exchange(name), routing_key=name)


def job_queue() -> Queue:
    """Declare the queue of job managers, for senders and managers.

    Its messages are not acknowledged either: job managers find a lost one by looking for due jobs.
    """
    return Queue(JOBS, Exchange(JOBS), routing_key=JOBS, no_ack=True)


def ring(app: Celery, cloud: str) -> None:
    """Tell a cloud's owner to look into its inbox.

    Raises
    ------
    kombu.exceptions.OperationalError
        When Redis is away; the owner then finds out by itself.
    """
    _send(app, DRAIN, bell_queue(cloud), expires=RING_EXPIRES_S)


class Wakeups:
    """Makes doorbell messages as Celery would put them into the queues of clouds.

    Scripts push them in the same step in which they write what there is to read.
    """

    def __init__(self, app: Celery, prefix: str):
        """``prefix`` is that of all keys."""
        self._app, self._prefix = app, prefix
        self._forms: dict[str, tuple[str, str, str]] = {}  # message, task id and delivery tag, by cloud

    def __call__(self, cloud: str) -> tuple[str, str]:
        """Return the key of a cloud's queue, and a message for it."""
        if cloud not in self._forms:
            self._forms[cloud] = self._make_form(cloud)
        text, task, tag = self._forms[cloud]
        return self._prefix + cloud_queue(cloud), text.replace(task, str(uuid4())).replace(tag, str(uuid4()))

    def _make_form(self, cloud: str) -> tuple[str, str, str]:
        # Celery makes the task's message, and kombu puts it into the form that all its virtual transports
        # share; the channel in memory carries nothing.
        task, tag = str(uuid4()), str(uuid4())
        message = self._app.amqp.create_task_message(task, DRAIN, ignore_result=True)
        content_type, encoding, text = serialization.dumps(message.body, serializer="json")
        with Connection("memory://") as connection, connection.channel() as channel:
            body, body_encoding = channel.encode_body(text, channel.body_encoding)
            properties = message.properties | {
                "body_encoding": body_encoding,
                "delivery_tag": tag,
                "delivery_info": {"exchange": "", "routing_key": cloud_queue(cloud)},
                "delivery_mode": 2,
            }
            envelope = channel.prepare_message(
                body,
                content_type=content_type,
                content_encoding=encoding,
                headers=message.headers,
                properties=properties,
            )
        return dumps(envelope), task, tag


def send_batch(app: Celery, queue: str, message: dict[str, Any]) -> None:
    """Send a Monte-Carlo batch to the shared queue or to that of one worker.

    Raises
    ------
    kombu.exceptions.OperationalError
        When Redis is away.
    """
    _send(app, BATCH, batch_queue(queue), args=[message], expires=BATCH_EXPIRES_S)


def ring_for_job(app: Celery, job: str) -> None:
    """Tell whichever job manager is free to look after a job.

    Raises
    ------
    kombu.exceptions.OperationalError
        When Redis is away; job managers then find out by themselves.
    """
    _send(app, ADVANCE, job_queue(), args=[job], expires=RING_EXPIRES_S)


def _send(app: Celery, task: str, queue: Queue, **options: Any) -> None:
    app.send_task(task, ignore_result=True, queue=queue, **options)
