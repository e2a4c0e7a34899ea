"""Workers as Celery's own commands see them, and Monte-Carlo workers that come and go between refreshes."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from broker.contract import Batch
from broker.queue.celery_config import BATCH, DRAIN, MONTECARLO, montecarlo_queue
from broker.queue.send import send_batch
from broker.storage.embedded_server import EmbeddedRedis
from tests.integration.test_workers_montecarlo import CHUNKS, NODES, expected
from tests.integration.worker_processes import ROOT, Processes
from tests.support.wait import wait_until
from workers.owner import table_refresh
from workers.owner.table_refresh import Refresher, Sampling

pytestmark = pytest.mark.xdist_group("worker-processes")

CELERY = ("celery", "-A", "workers.celery_app")


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    with EmbeddedRedis(tmp_path / "redis") as server, Processes(server.url, tmp_path) as started:
        yield started


def alive(processes: Processes, count: int) -> dict[str, Any]:
    """Waits for so many Monte-Carlo workers, and returns what they say of themselves."""

    def look() -> tuple[dict[str, Any]] | None:
        names = cast("list[bytes]", processes.client.zrange(processes.keys.samplers, 0, -1))
        records = {
            name.decode(): processes.client.get(processes.keys.sampler(name.decode())) for name in names
        }
        found = {name: json.loads(cast("bytes", record)) for name, record in records.items() if record}
        return (found,) if len(found) == count else None

    (workers,) = wait_until(look, f"{count} Monte-Carlo workers")
    return workers


def test_celerys_own_commands_reach_all_workers(processes: Processes) -> None:
    processes.owner("--time", "wall", "--history", "1h")
    worker = processes.start(*CELERY, "worker", "-Q", MONTECARLO, "-c", "2", "-n", "mc@host")
    ((name, record),) = alive(processes, 1).items()
    assert record == {"slots": 2}
    assert name.startswith("mc-")
    assert name.endswith("@host")
    processes.opened(1)
    control = processes.app.control
    inspect = control.inspect(timeout=10.0, limit=2)  # ends with the second answer

    def both(ask: Callable[[], Any]) -> dict[str, Any]:
        return wait_until(lambda: answers if len(answers := ask() or {}) == 2 else None, "both answers")

    (cloud,) = both(inspect.ping).keys() - {name}
    assert both(inspect.registered) == {name: [BATCH], cloud: [DRAIN]}
    queues = both(inspect.active_queues)
    assert {queue["name"] for queue in queues[name]} == {MONTECARLO, montecarlo_queue(name)}
    assert {queue["name"] for queue in queues[cloud]} == {"cloud.A"}
    assert both(inspect.active) == {name: [], cloud: []}
    pools = {worker: stats["pool"] for worker, stats in both(inspect.stats).items()}
    assert pools[name]["max-concurrency"] == 2
    assert pools[cloud]["implementation"] == "workers.worker_process:SoloPool"
    assert len(pools[cloud]["processes"]) == 1

    def refusals(command: str, **arguments: Any) -> set[str]:
        options = {"reply": True, "timeout": 10.0, "limit": 1, "destination": [cloud]}
        answers = wait_until(lambda: control.broadcast(command, arguments, **options), command)
        return {answer["error"] for by_name in answers for answer in by_name.values()}

    (refusal,) = refusals("pool_grow", n=1)
    assert "solo by construction" in refusal
    (refusal,) = refusals("add_consumer", queue=MONTECARLO)  # it would serve another party's queue
    assert "add_consumer" in refusal

    environ = {
        "SPOTFED_REDIS_URL": str(processes.settings.redis_url),
        "SPOTFED_KEY_PREFIX": processes.settings.key_prefix,
        "PATH": "",
    }
    command = [sys.executable, "-m", *CELERY, "control", "-t", "1", "-d", name, "shutdown"]
    subprocess.run(command, cwd=ROOT, env=environ, check=False, timeout=60)
    assert worker.wait(60) == 0
    alive(processes, 0)


def test_workers_come_and_go_between_refreshes(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_refresh, "BIRTHS_A_SHARE", 100)
    monkeypatch.setattr(table_refresh, "SIZES_ENOUGH", 9)
    made: Counter[str] = Counter()

    def send(queue: str, batch: Batch) -> None:
        send_batch(processes.app, queue, batch.model_dump(mode="json"))

    refresher = Refresher(
        Sampling("A", 1, NODES, seed=9, births=300), processes.journal, send, time.monotonic
    )
    monkeypatch.setattr(
        refresher._pool, "note", lambda batch, worker, *_, **__: made.update([worker]), raising=True
    )

    def make(number: int, during: Any = lambda: None) -> Counter[str]:
        """The batches that each worker made for a table."""
        boundary_s, events = CHUNKS[number]
        made.clear()
        refresher.begin(boundary_s, (1, 2, 4), events)
        refresher.step()
        during()
        table = wait_until(refresher.step, "a table")
        assert table.version == expected(number).version
        return Counter(made)

    processes.start("workers.montecarlo", "--name", "same")
    (first,) = alive(processes, 1)
    assert make(0) == {first: 9}
    processes.start("workers.montecarlo", "--name", "same")
    processes.start(*CELERY, "worker", "-Q", MONTECARLO, "--autoscale", "2,1", "-n", "same")
    workers = alive(processes, 3)
    assert sorted(record["slots"] for record in workers.values()) == [1, 1, 2]
    shares = make(1)
    assert shares.total() == 9
    assert set(shares) == set(workers)
    leaving = next(name for name in workers if name != first and workers[name]["slots"] == 1)
    make(2, lambda: processes.app.control.shutdown(destination=[leaving]))
    assert leaving not in alive(processes, 2)
