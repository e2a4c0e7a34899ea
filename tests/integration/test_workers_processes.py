"""The owner of a cloud and a Monte-Carlo worker as real processes on a real server, and what befalls them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.contract import EventKind, LeaseGranted, LeaseState, QuoteView
from broker.journal.journal import Journal
from broker.queue.send import ring
from broker.storage.embedded_server import EmbeddedRedis
from cloudsim.federation.file import load_federation
from cloudsim.prediction.predictor import LocalPredictor
from cloudsim.prediction.samplers.replay import SamplerSpec
from tests.integration.worker_processes import Processes
from tests.support.wait import wait_until
from tests.unit.workers.owners import Live, ask, check_journal, confirm, reserve
from workers.owner.owner import Owner
from workers.owner.state import OwnerSpec

pytestmark = pytest.mark.xdist_group("worker-processes")

#: A cloud that runs commands, and one of real instances; nothing answers at its address.
OTHERS = """
[[cloud]]
id = "jobs"
nodes = "2x4"
driver = "process"
trace = { synthetic = "table-1", hours = 1 }

[[cloud]]
id = "real"
nodes = "2x4"

[cloud.instances]
driver = "ec2"
endpoint = "http://127.0.0.1:1"
region = "us-east-1"
image = "ami-1"
sizes = { 1 = "t2.micro" }
"""

WALL = ("--time", "wall", "--speed", "6000", "--history", "30h")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedRedis]:
    with EmbeddedRedis(tmp_path_factory.mktemp("redis")) as started:
        yield started


@pytest.fixture
def processes(server: EmbeddedRedis, tmp_path: Path) -> Iterator[Processes]:
    with Processes(server.url, tmp_path) as started:
        yield started


def folded(processes: Processes) -> Owner:
    """The owner as its journal tells it."""
    federation = load_federation(processes.file, None)
    member = federation.clouds[0]
    spec = OwnerSpec(member.spec, own_load=member.own_load)
    owner = Owner.recover(spec, 0, processes.events())
    owner.validate()
    return owner


def test_a_killed_owner_goes_on_where_its_journal_ends(processes: Processes) -> None:
    first = processes.owner(*WALL)
    processes.montecarlo()
    processes.table(1)
    processes.send(question := ask(lifetime_s=60.0, sla=1.0), wish := reserve("r.1", lifetime_s=3e6))
    assert isinstance(processes.answer(question.id), QuoteView)
    held = processes.answer(wish.id)
    processes.send(decision := confirm("r.1"))
    granted = processes.answer(decision.id)
    assert isinstance(granted, LeaseGranted)
    assert granted.lease.id == held.lease.id
    assert granted.lease.state in (LeaseState.RUNNING, LeaseState.EVICTED)

    first.kill()
    first.wait()
    before = folded(processes)
    processes.send(again := wish.model_copy(update={"id": "again"}), bell=False)
    processes.owner(*WALL)
    processes.opened(2)
    assert processes.answer(again.id).lease.node == held.lease.node
    after = folded(processes)
    assert after.cloud.history.instances >= before.cloud.history.instances
    made_s = processes.table(2).table_made_at_s
    assert made_s is not None
    assert made_s > before.cloud.now_s
    events = processes.events()
    check_journal(events)
    assert [event.kind for event in events].count(EventKind.OPENED) == 2
    for process in processes.running[1:]:
        process.send_signal(signal.SIGTERM)
    assert [process.wait(60) for process in processes.running[1:]] == [0, 0]
    advert = processes.advert()
    assert advert is not None
    last = folded(processes)
    running = (
        advert.on_demand_cores + advert.spot_cores,
        advert.spot_leases,
        advert.admitted,
        advert.evicted,
    )
    inventory, state = last.cloud.inventory, last.state
    used = int((inventory.capacity - inventory.free).sum())
    assert running == (used, len(inventory.spot()), state.admitted, state.evicted)


def test_a_second_owner_waits_and_a_paused_one_that_wakes_up_is_fenced(processes: Processes) -> None:
    ttl_s = 4.0  # longer than an owner stands still under load
    first = processes.owner(*WALL, SPOTFED_OWNER_LEASE_TTL_S=str(ttl_s))
    processes.opened(1)
    second = processes.owner(*WALL, SPOTFED_OWNER_LEASE_TTL_S=str(ttl_s))
    log = processes.directory / "1.log"
    wait_until(lambda: "waiting for its lease" in log.read_text(), "the second owner says that it waits")
    time.sleep(1.5 * ttl_s)
    assert first.poll() is None
    processes.opened(1)
    first.send_signal(signal.SIGSTOP)
    processes.opened(2)
    first.send_signal(signal.SIGCONT)
    assert first.wait(60) == 75
    assert second.poll() is None
    processes.send(wish := reserve("r.1"))
    assert isinstance(processes.answer(wish.id), LeaseGranted)


def test_a_stop_that_meets_work_under_way_finishes_it_and_the_next_owner_does_the_rest(
    processes: Processes,
) -> None:
    """Case 19."""
    owner = processes.owner(*WALL)
    processes.opened(1)
    asked = [[reserve(f"r{batch}-{number}.1") for number in range(20)] for batch in range(40)]
    for batch in asked:
        processes.send(*batch, bell=False)
    processes.send(last := reserve("last.1"))
    processes.answer(asked[0][0].id)
    owner.send_signal(signal.SIGTERM)
    assert owner.wait(60) == 0
    assert "Traceback" not in (processes.directory / "0.log").read_text()
    processes.owner(*WALL)
    processes.opened(2)
    processes.answer(last.id)
    assert {command.id for batch in asked for command in batch} <= processes.answered
    check_journal(processes.events())


def test_whoever_is_told_to_stop_before_it_works_ends_well(processes: Processes) -> None:
    processes.file.write_text(processes.file.read_text() + OTHERS)
    file = ("--federation", str(processes.file))
    away = {
        "SPOTFED_REDIS_URL": f"unix://{processes.directory}/nothing.sock",
        "SPOTFED_CLOUD_USER": "user",
        "SPOTFED_CLOUD_SECRET": "secret",
    }
    started = [
        processes.start(*module, **away)
        for module in (
            ("workers.owner", "--cloud", "A", *file),
            ("workers.node_agent", "--cloud", "jobs", *file),
            ("workers.cloud_agent", "--cloud", "real", *file),
            ("workers.montecarlo",),
            ("workers.job_manager",),
        )
    ]
    for number, process in enumerate(started):
        log = processes.directory / f"{number}.log"
        wait_until(lambda log=log: "redis is away" in log.read_text(), log.name, 180)  # type: ignore[misc]
        process.send_signal(signal.SIGTERM)
    assert [process.wait(60) for process in started] == [0] * len(started)


def test_an_owner_that_is_told_to_stop_while_it_waits_ends_well(processes: Processes) -> None:
    processes.owner(*WALL)
    processes.opened(1)
    waiting = processes.owner(*WALL)
    log = processes.directory / "1.log"
    wait_until(lambda: "waiting for its lease" in log.read_text(), "the second owner says that it waits")
    waiting.send_signal(signal.SIGTERM)
    assert waiting.wait(60) == 0


def test_a_lost_doorbell_costs_a_moment(processes: Processes) -> None:
    processes.owner("--time", "trace", "--until", "1h")
    processes.opened(1)
    processes.send(warm := ask(lifetime_s=60.0))
    processes.answer(warm.id)
    processes.send(question := ask(lifetime_s=60.0), bell=False)
    processes.answer(question.id)


def test_an_owner_hears_its_doorbell_after_redis_was_killed_under_it(
    server: EmbeddedRedis, processes: Processes
) -> None:
    """A solo worker that cannot acknowledge stays deaf for ever: doorbells are not acknowledged."""
    owner = processes.owner("--time", "trace", SPOTFED_INBOX_POLL_S="600")
    processes.opened(1)
    processes.send(warm := ask(lifetime_s=60.0))
    processes.answer(warm.id)
    processes.send(*(reserve(f"r{number}.1", lifetime_s=9.0) for number in range(1000)))
    os.kill(server.pid, signal.SIGKILL)
    time.sleep(1.5)
    server.start()
    wait_until(processes.client.ping, "redis")
    processes.send(wish := reserve("s.1", lifetime_s=60.0))
    processes.answer(wish.id)
    assert owner.poll() is None
    check_journal(processes.events())


def test_workers_survive_a_restart_of_redis(server: EmbeddedRedis, processes: Processes) -> None:
    owner, sampler = processes.owner(*WALL), processes.montecarlo()
    made_s = processes.table(1).table_made_at_s
    assert made_s is not None
    for number in range(20):
        processes.send(reserve(f"r{number}.1", lifetime_s=60.0))
    server.stop()
    time.sleep(0.5)
    server.start()
    processes.send(wish := reserve("s.1", lifetime_s=60.0), bell=False)
    ring(processes.app, "A")
    processes.answer(wish.id)
    processes.table(1, after_s=made_s)
    assert owner.poll() is None
    assert sampler.poll() is None
    check_journal(processes.events())


def test_in_trace_time_a_request_waits_for_its_table(processes: Processes) -> None:
    processes.owner("--time", "trace", "--seed", "3")
    processes.opened(1)
    at_s = 31 * 3600.0
    question = ask(lifetime_s=600.0, sla=0.5).model_copy(update={"at_s": at_s})
    behind = ask(lifetime_s=600.0).model_copy(update={"at_s": at_s})
    processes.send(question, behind)
    time.sleep(1.5)
    assert processes.advert() is not None
    assert processes.client.xlen(processes.keys.replies("me")) == 0
    processes.montecarlo()
    answer, second = processes.answer(question.id), processes.answer(behind.id)

    federation = load_federation(processes.file, None)
    member = federation.clouds[0]
    live = Live(
        OwnerSpec(member.spec, trace_time=True, own_load=member.own_load, own_load_until_s=federation.ends_s)
    )
    boundary_s = 30 * 3600.0
    live.advance(boundary_s)
    sampler = SamplerSpec(member.spec.node_cores, seed=3, births=500)
    predictor = LocalPredictor(sampler, federation.spot_sizes(member))
    table = predictor.table(live.owner.cloud.history.cut(boundary_s), boundary_s)
    live.take(live.owner.adopt(table, "2026-01-01T00:00:00+00:00"))
    assert answer == live.tell(question)
    assert second == live.tell(behind)


def test_an_owner_run_by_hand_takes_other_nodes_or_says_what_is_in_the_way(processes: Processes) -> None:
    options = ("--time", "wall", "--history", "0")

    def give_nodes(nodes: str) -> None:
        processes.file.write_text(
            f'until = "90d"\n[[cloud]]\nid = "A"\nnodes = "{nodes}"\ntrace = "quiet.csv"\n'
        )

    (processes.directory / "quiet.csv").write_text("instance,start_s,stop_s,cores\nvm-1,7000000,7000060,1\n")
    give_nodes("2x4")
    owner = processes.owner(*options)
    processes.opened(1)
    for name in ("a.1", "b.1"):
        processes.send(reserve(name, 4, lifetime_s=1e6), decision := confirm(name))
        processes.answer(decision.id)
    log = processes.directory / "0.log"
    give_nodes("1x4")
    owner.send_signal(signal.SIGHUP)
    wait_until(lambda: "nodes not taken" in log.read_text(), "it says that it keeps its nodes")
    give_nodes("2x4,1x8")
    owner.send_signal(signal.SIGHUP)
    processes.opened(2)
    owner.send_signal(signal.SIGHUP)  # it has not begun to listen: kept until it does
    processes.opened(3)
    processes.send(reserve("c.1", 8), decision := confirm("c.1"))
    granted = processes.answer(decision.id)
    assert isinstance(granted, LeaseGranted)
    assert granted.lease.node == 2
    assert owner.poll() is None
    owner.kill()
    owner.wait()

    give_nodes("2x4")
    assert processes.owner(*options).wait(60) == os.EX_CONFIG
    text = (processes.directory / "1.log").read_text()
    assert "lease c.1 (8 cores) on node 2, which would be gone" in text
    assert "(it had 2x4,1x8)" in text
    give_nodes("2x4,1x8")
    processes.owner(*options)
    processes.opened(5)
    check_journal(processes.events())


def test_owners_of_one_process_are_apart(processes: Processes) -> None:
    other = '[[cloud]]\nid = "B"\nnodes = "20x4"\ntrace = { synthetic = "table-1", hours = 1 }\n'
    processes.file.write_text(processes.file.read_text() + other)
    options = ("--history", "1h", "--federation", str(processes.file))
    alone = processes.owner("--history", "1h")
    processes.opened(1)
    both = processes.start("workers.owner", "--all", *options)
    log = processes.directory / "1.log"
    wait_until(lambda: processes.advert("B") is not None, "B opens")
    wait_until(lambda: "waiting for its lease" in log.read_text(), "A waits meanwhile")
    processes.send(first := reserve("b.1", 3), confirm("b.1"), cloud="B")
    assert processes.answer(first.id).lease.cloud == "B"
    alone.kill()
    alone.wait()
    processes.opened(2)
    processes.send(second := reserve("a.1"))
    assert processes.answer(second.id).lease.cloud == "A"

    before = processes.file.read_text()
    processes.file.write_text(before.replace('nodes = "20x4"', 'nodes = "20x2"'))
    both.send_signal(signal.SIGHUP)
    wait_until(lambda: "nodes not taken" in log.read_text(), "b.1 is in the way")
    processes.file.write_text(before.replace('nodes = "20x4"', 'nodes = "21x4"'))
    both.send_signal(signal.SIGHUP)
    processes.opened(3)
    wait_until(lambda: (advert := processes.advert("B")) is not None and advert.epoch == 2, "B opens again")
    both.send_signal(signal.SIGTERM)
    assert both.wait(60) == 0
    for cloud in ("A", "B"):
        check_journal([event for _, event in Journal(processes.client, processes.keys, cloud).read()])
