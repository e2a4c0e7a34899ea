"""Case 12: a lease is cancelled while its owner is away: accepted, durable, carried out on return."""

from __future__ import annotations

import httpx
import pytest

from broker.contract import EventKind, LeaseState
from broker.journal.journal import Journal
from broker.storage.connections import connect
from broker.storage.embedded_server import EmbeddedRedis
from tests.contract.harness import KEY, Federation, serving
from tests.integration.test_workers_runtime import Make
from tests.support.wait import wait_until
from tests.unit.workers.owners import cancel, check_journal, confirm, reserve, spec


@pytest.mark.parametrize("repeats", [1, 3])
def test_it_is_accepted_kept_and_carried_out_on_return(
    federation: Federation, api: httpx.Client, repeats: int
) -> None:
    east = federation.join("east")
    made = api.post("/v1/requests", json={"id": "r", "cores": 2, "lifetime_s": 1e6})
    assert made.status_code == 201, made.text
    lease = made.json()["lease"]["id"]
    east.go_deaf()
    for _ in range(repeats):
        answer = api.delete(f"/v1/leases/{lease}")
        assert answer.status_code == 202, answer.text
        assert answer.json()["done"] is False
    shown = api.get(f"/v1/leases/{lease}").json()
    assert shown["state"] == "running", "nobody says that it has ended before it has"
    assert federation.redis.xlen(federation.keys.inbox("east")) >= 1
    east.deaf.clear()
    wait_until(lambda: api.get(f"/v1/leases/{lease}").json()["state"] == "cancelled")
    again = api.delete(f"/v1/leases/{lease}")
    assert (again.status_code, again.json()["done"]) == (200, True)
    assert east.running() == []
    ends = [
        event
        for _, event in Journal(federation.redis, federation.keys, "east").read()
        if event.kind is EventKind.CANCELLED
    ]
    assert len(ends) == 1


def test_it_outlives_the_queue_and_the_broker_too(tmp_path: object) -> None:
    """The broker that accepted it is gone, and Redis was killed: it is still in the inbox."""
    import os
    import signal
    from pathlib import Path

    directory = Path(str(tmp_path)) / "redis"
    with EmbeddedRedis(directory) as server:
        with serving(Federation(server.url)) as federation:
            east = federation.join("east")
            with httpx.Client(base_url=federation.url, headers={"Authorization": f"Bearer {KEY}"}) as api:
                api.post("/v1/requests", json={"id": "r", "cores": 2, "lifetime_s": 1e6})
                east.go_deaf()
                assert api.delete("/v1/leases/r.1").status_code == 202
        os.kill(server.pid, signal.SIGKILL)
        server.start()
        with connect(server.url) as client:
            journal = Journal(client, federation.keys, "east")
            waiting = [one for _, commands in journal.read_inbox(journal.cursor()) for one in commands]
    assert [getattr(one, "lease", None) for one in waiting][-1] == "r.1"


@pytest.mark.parametrize("away", ["closed", "killed", "killed before it committed"])
@pytest.mark.parametrize("count", [1, 20])
def test_the_next_owner_carries_it_out_before_anything_else(make_bench: Make, away: str, count: int) -> None:
    bench = make_bench(spec((32,)))
    bench.runtime.open()
    for n in range(count):
        bench.tell(reserve(f"r{n}.1", lifetime_s=1e6), confirm(f"r{n}.1"))
    if away != "killed before it committed":
        bench.runtime.close()
    if away != "closed":  # its lease runs out
        bench.client.delete(bench.keys.owner("A"))
    bench.journal.send("A", [cancel(f"r{n}.1") for n in range(count)])
    if away == "killed before it committed":  # it read them, and died
        bench.journal.read_inbox(bench.journal.cursor())
    bench.runtime = bench.make()
    bench.runtime.open()
    answers = bench.replies()
    assert [reply.answer.lease.state for reply in answers] == [LeaseState.CANCELLED] * count  # type: ignore[union-attr]
    events = bench.events()
    opened = max(place for place, event in enumerate(events) if event.kind is EventKind.OPENED)
    assert [event.kind for event in events[opened + 1 :]] == [EventKind.CANCELLED] * count
    assert all(event.at_s - events[opened].at_s < 60.0 for event in events[opened + 1 :])
    check_journal(events)
    assert bench.runtime._owner.cloud.inventory.spot() == ()


def test_a_lease_whose_time_was_over_meanwhile_ends_by_itself_at_its_end(make_bench: Make) -> None:
    bench = make_bench(spec((8,)), speed=1000.0)
    bench.runtime.open()
    bench.tell(reserve("r.1", lifetime_s=0.001), confirm("r.1"))
    bench.runtime.close()
    bench.journal.send("A", [cancel("r.1")])
    bench.runtime = bench.make()
    bench.runtime.open()
    (ended,) = [
        event.lease for event in bench.events() if event.kind in (EventKind.COMPLETED, EventKind.CANCELLED)
    ]
    assert ended is not None
    assert ended.state is LeaseState.COMPLETED
    assert ended.ended_at_s == ended.ends_at_s
