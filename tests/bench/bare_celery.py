"""The bare Celery round trip that admissions are measured against: solo worker, no results, the reply
through a list."""

from __future__ import annotations

import os

import redis
from celery import Celery

from broker.storage.connections import celery_url, connect

REPLIES = "bench:replies"
QUEUE = "bench"


def make_app(redis_url: str) -> Celery:
    """An application with nothing but what a round trip needs."""
    app = Celery("bare", broker=celery_url(redis_url))
    app.conf.update(
        task_ignore_result=True,
        task_default_queue=QUEUE,
        broker_connection_retry_on_startup=True,
        worker_prefetch_multiplier=1,
    )

    client: list[redis.Redis] = []

    @app.task(name="bench.echo")
    def echo(text: str) -> None:
        if not client:
            client.append(connect(redis_url))
        client[0].rpush(REPLIES, text)

    return app


if __name__ == "__main__":  # the worker process
    make_app(os.environ["SPOTFED_REDIS_URL"]).worker_main(
        ["worker", "-P", "solo", "-Q", QUEUE, "--loglevel", "ERROR", "--without-gossip", "--without-mingle"]
    )
