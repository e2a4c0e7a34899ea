"""Names of Monte-Carlo workers: what is asked of one is asked of no other."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from broker.queue.celery_config import MONTECARLO, montecarlo_queue
from broker.settings import settings
from workers.montecarlo import worker


@pytest.mark.parametrize("arguments", [["--name", "m"], []])
def test_workers_of_one_name_are_several(monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    monkeypatch.setenv("SPOTFED_REDIS_URL", "redis://127.0.0.1:1")
    settings.cache_clear()
    monkeypatch.setattr(worker, "warm_up", lambda: None)
    monkeypatch.setattr(worker, "serve_batches", lambda *_: None)
    monkeypatch.setattr(worker.WorkerHeartbeat, "stop", lambda _: None)
    served: list[tuple[str, Any]] = []

    def run(_app: object, name: str, queues: list[str], **_: object) -> int:
        served.append((name, queues))
        return 0

    celery = SimpleNamespace(create_app=lambda _: None, require_safe_queue=lambda _: None, run_worker=run)
    monkeypatch.setattr(worker, "celery_app", celery)
    for _ in range(3):
        assert worker.main(arguments) == 0
    assert len({name for name, _ in served}) == 3
    for name, queues in served:
        assert queues == [MONTECARLO, montecarlo_queue(name.removeprefix("montecarlo."))]
        assert name.startswith("montecarlo.m-" if arguments else "montecarlo.")
    settings.cache_clear()
