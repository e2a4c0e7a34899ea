"""An owner process that discloses two figures: what it leaves in Redis for others tells no more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from broker.contract import QuoteView, RefusalView
from broker.storage.embedded_server import EmbeddedRedis
from tests.integration.worker_processes import Processes
from tests.support.wait import wait_until
from tests.unit.workers.owners import ask

pytestmark = pytest.mark.xdist_group("worker-processes")

#: Of those that the broker and readers may not read (``broker.identity.redis_acl``).
_FOR_OWNER_AND_WORKERS = ("history:", "batch:", "journal:", "snapshot:")


def figures(answer: object) -> tuple[float | None, float | None]:
    """Risk and lifetime that an answer tells."""
    if isinstance(answer, QuoteView):
        return answer.eviction_probability, answer.survives_s
    assert isinstance(answer, RefusalView)
    return answer.counter_offers.sla, answer.counter_offers.lifetime_s


def test_an_owner_publishes_two_figures_and_withdraws_what_was_told_before(tmp_path: Path) -> None:
    with EmbeddedRedis(tmp_path / "redis") as server, Processes(server.url, tmp_path) as processes:
        text = processes.file.read_text()
        processes.file.write_text(text.replace('nodes = "16x4"', 'nodes = "16x4"\ndisclosure = "p90"'))
        client, key = processes.client, processes.keys.table("A")
        client.set(key, json.dumps({"version": "v", "made_at_s": 0.0, "rows": [{"samples": 500}]}))
        processes.owner("--time", "wall", "--speed", "60", "--history", "30h")
        processes.opened(1)
        wait_until(lambda: client.get(key) is None, "the full table of the owner before is withdrawn")

        processes.montecarlo()
        advert = processes.table(1)
        stored: Any = client.get(key)
        told = json.loads(stored)
        assert (told["version"], told["disclosure"]) == (advert.table_version, "p90")
        assert all(set(one) == {"cores", "median_s", "quantile_s"} for one in told["lifetimes"])
        assert advert.disclosure == "p90"
        assert advert.on_demand_cores == advert.spot_cores == 0
        one = next(one for one in told["lifetimes"] if one["cores"] == 1)
        lifetimes_s = {one["median_s"], one["quantile_s"]}
        for sla in (0.05, 0.5, 0.9):
            for lifetime_s in (60.0, one["median_s"], one["quantile_s"], 2 * one["quantile_s"]):
                processes.send(question := ask(1, lifetime_s, sla))
                answer = processes.answer(question.id)
                risk, survives_s = figures(answer)
                assert risk in (None, 0.5, 0.9, 1.0)
                assert survives_s is None or survives_s in lifetimes_s
        for name in client.scan_iter(f"{processes.keys.prefix}*"):
            of = name.decode().removeprefix(processes.keys.prefix)
            if client.type(name) == b"string" and not of.startswith(_FOR_OWNER_AND_WORKERS):
                value: Any = client.get(name)
                assert b"risk_intervals" not in value
                assert b"samples" not in value
