"""The Celery application of this federation, for Celery's own commands.

``celery -A workers.celery_app worker -Q montecarlo`` is a Monte-Carlo worker, and ``inspect``, ``control``,
``events`` and Flower reach all workers. ``app`` is made when it is first asked for, with the Redis server of
SPOTFED_REDIS_URL or of the ``spotfed up`` that runs on this machine.
"""

from __future__ import annotations

from functools import cache

from celery import Celery

from broker.local.state_files import find_redis_url
from broker.settings import settings
from workers.montecarlo.worker import serve_batches
from workers.worker_process import create_app


@cache
def _make_app() -> Celery:
    config = settings()
    config = config.model_copy(update={"redis_url": find_redis_url(config)})
    app = create_app(config)
    serve_batches(app, config)
    return app


def __getattr__(name: str) -> Celery:
    if name == "app":
        return _make_app()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
