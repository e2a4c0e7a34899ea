"""The application beside which single admissions are measured: FastAPI, a Celery task a call, a Redis list.

Nothing in it is durable, signed or decided: it is what a team writes on the first day.
"""

from __future__ import annotations

import os
from uuid import uuid4

import redis
from celery import Celery
from fastapi import FastAPI
from pydantic import BaseModel

from broker.storage.connections import celery_url

QUEUE = "bare-api"
_PREFIX = "bare-api:"

_url = os.environ["SPOTFED_REDIS_URL"]
_client = redis.Redis.from_url(_url, decode_responses=True)
celery = Celery("bare-api", broker=celery_url(_url))
celery.conf.update(task_ignore_result=True, task_default_queue=QUEUE, broker_connection_retry_on_startup=True)
app = FastAPI()


class SpotRequest(BaseModel):
    """What a caller asks for."""

    cores: int
    lifetime_s: float
    sla: float | None = None


@celery.task(name="bare-api.admit")
def admit(call: str, request: dict[str, float]) -> None:
    """Answer by a list."""
    _client.rpush(_PREFIX + call, str(request["cores"]))


@app.post("/v1/requests", status_code=201)
def submit(request: SpotRequest) -> dict[str, str]:
    """Send a task, and wait for its answer."""
    call = uuid4().hex
    admit.delay(call, request.model_dump())
    answer = _client.blpop([_PREFIX + call], 30)
    assert answer is not None
    return {"id": call, "cores": str(answer[1])}


if __name__ == "__main__":  # the worker process
    celery.worker_main(
        ["worker", "-P", "solo", "-Q", QUEUE, "--loglevel", "ERROR", "--without-gossip", "--without-mingle"]
    )
