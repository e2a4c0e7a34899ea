"""Names of Monte-Carlo workers: what is asked of one is asked of no other."""

from __future__ import annotations

import pytest

from broker.queue.celery_config import MONTECARLO, montecarlo_queue
from broker.settings import Settings
from workers import worker_process
from workers.montecarlo import worker


def test_workers_of_one_name_are_several(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "warm_up", lambda: None)
    monkeypatch.setattr(worker_process, "require_safe_queue", lambda _: None)
    settings = Settings(redis_url="redis://127.0.0.1:1")
    served = {}
    for given in ("m@host", "m@host", "m"):
        app = worker_process.create_app(settings)
        worker.serve_batches(app, settings)
        name = app.Worker(hostname=given, queues=[MONTECARLO], pool="prefork", concurrency=1).hostname
        served[name] = set(app.amqp.queues.consume_from)
        assert name.startswith("m-")
    assert served == {name: {MONTECARLO, montecarlo_queue(name)} for name in served}
    assert len(served) == 3
