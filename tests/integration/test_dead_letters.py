"""What breaks an owner breaks no other one: it is put aside, told to who waits, seen, and sent again."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
import redis

from broker.contract import EventKind, LeaseGranted, LeaseState, RefusalView
from broker.journal.dead_letters import DeadLetterKind
from broker.queue.celery_config import DRAIN
from cloudsim.model.refusals import RefusalReason
from tests.integration.test_workers_runtime import Bench, Failed, Make
from tests.integration.worker_processes import Processes
from tests.support.wait import wait_until
from tests.unit.workers.owners import (
    acknowledge,
    ask,
    cancel,
    confirm,
    drain,
    extend,
    release,
    reopen,
    reserve,
    show,
    spec,
    start,
    stop,
)
from workers.owner.owner import Owner

pytestmark = pytest.mark.xdist_group("worker-processes")

_SECRET = "hunter2-is-long"


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Ids of commands that break the owner half way."""
    ids: set[str] = set()
    handle = Owner.handle

    def half_way(self: Owner, command: Any, now_s: float, now: str) -> Any:
        outcome = handle(self, command, now_s, now)
        if command.id in ids:
            raise RuntimeError(f"half way, token={_SECRET}")
        return outcome

    monkeypatch.setattr(Owner, "handle", half_way)
    return ids


def drained(bench: Bench, times: int) -> list[Any]:
    for _ in range(times):
        bench.runtime.drain()
    return bench.replies()


@pytest.mark.parametrize(
    "poison",
    [
        *(reserve("r.1"), ask(), start("own"), extend("r.1", 50.0), confirm("r.1"), cancel("r.1")),
        *(release("r.1"), acknowledge("r.1"), stop("own"), show("own"), drain(0), reopen(0)),
    ],
    ids=lambda command: command.kind,
)
def test_it_becomes_a_dead_letter_and_who_waits_is_told(
    make_bench: Make, broken: set[str], poison: Any
) -> None:
    bench = make_bench(spec())
    bench.runtime.open()
    broken.add(poison.id)
    bench.journal.send("A", [reserve("a.1"), poison, reserve("b.1")])
    answers = {reply.command: reply.answer for reply in drained(bench, 3)}
    (letter,) = bench.journal.dead_letters.letters()
    assert (letter.kind, json.loads(letter.body)[0]["id"]) == (DeadLetterKind.POISON, poison.id)
    assert letter.why.startswith("RuntimeError: half way")
    assert _SECRET not in letter.why
    refusal = answers[poison.id]
    assert isinstance(refusal, RefusalView)
    assert (refusal.reason, "has set it aside" in str(refusal.detail)) == (RefusalReason.UNREACHABLE, True)
    assert sum(isinstance(answer, LeaseGranted) for answer in answers.values()) == 2
    assert bench.client.xlen(bench.keys.inbox("A")) == 0, "nothing is left that breaks the next owner"
    bench.runtime.close()
    bench.runtime = bench.make()
    bench.runtime.open()
    assert bench.journal.dead_letters.count() == 1


def test_restarts_get_past_a_run_of_commands_that_break_the_owner(make_bench: Make, broken: set[str]) -> None:
    """Each breaks it: after a few it stops, as it may not be the commands. Restarts end all the same."""
    bench = make_bench(spec((64,)))
    bench.runtime.open()
    wishes = [reserve(f"r{n}.1") for n in range(10)]
    broken |= {wish.id for wish in wishes}
    for wish in wishes:
        bench.journal.send("A", [wish])
    bench.journal.send("A", [last := reserve("last.1")])
    answers: dict[str, Any] = {}
    for _restart in range(8):
        try:
            answers |= {reply.command: reply.answer for reply in drained(bench, 6)}
        except Failed:
            bench.client.delete(bench.keys.owner("A"))  # its lease runs out
            bench.runtime = bench.make()
            try:
                bench.runtime.open()
            except Failed:
                continue
        if last.id in answers:
            break
    answers |= {reply.command: reply.answer for reply in bench.replies()}
    assert isinstance(answers[last.id], LeaseGranted)
    assert bench.journal.dead_letters.count() == len(wishes)


def test_many_of_one_entry_are_one_senders_fault(make_bench: Make, broken: set[str]) -> None:
    bench = make_bench(spec((64,)))
    bench.runtime.open()
    wishes = [reserve(f"r{n}.1") for n in range(10)]
    broken |= {wish.id for wish in wishes[::2]}
    bench.journal.send("A", wishes)
    answers = {reply.command: reply.answer for reply in drained(bench, 8)}
    granted = [wish.id for wish in wishes if isinstance(answers[wish.id], LeaseGranted)]
    assert granted == [wish.id for wish in wishes[1::2]]
    assert bench.journal.dead_letters.count() == 5


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("{", DeadLetterKind.UNREADABLE),
        ('[{"kind": "conquer", "id": "x"}]', DeadLetterKind.UNREADABLE),
        ('[{"kind": "tick", "id": "x", "version": 99}]', DeadLetterKind.UNKNOWN_VERSION),
        ("[" + " " * 10_000_000 + "]", DeadLetterKind.TOO_LARGE),
    ],
    ids=["bad JSON", "unknown kind", "unknown version", "10 MB"],
)
def test_what_cannot_be_read_beside_what_breaks_is_put_aside_too(
    make_bench: Make, broken: set[str], body: str, kind: DeadLetterKind
) -> None:
    """In whatever order they are met: neither hides the other."""
    bench = make_bench(spec())
    bench.runtime.open()
    poison = reserve("r.1")
    broken.add(poison.id)
    bench.journal.send("A", [poison])
    bench.client.xadd(bench.keys.inbox("A"), {"c": body})
    bench.journal.send("A", [after := reserve("s.1")])
    answers = {reply.command: reply.answer for reply in drained(bench, 3)}
    assert isinstance(answers[after.id], LeaseGranted)
    kinds = [letter.kind for letter in bench.journal.dead_letters.letters()]
    assert sorted(kinds) == sorted([kind, DeadLetterKind.POISON])


def test_sent_again_once_the_owner_is_mended_it_is_carried_out(make_bench: Make, broken: set[str]) -> None:
    bench = make_bench(spec())
    bench.runtime.open()
    bench.tell(reserve("r.1", lifetime_s=1e6), confirm("r.1"))
    poison = cancel("r.1")
    broken.add(poison.id)
    bench.journal.send("A", [poison])
    (reply,) = drained(bench, 3)
    assert isinstance(reply.answer, RefusalView)
    bench.runtime.close()
    broken.clear()
    bench.runtime = bench.make()
    bench.runtime.open()
    (letter,) = bench.journal.dead_letters.letters()
    bench.journal.send("A", letter.parse_commands())
    (reply,) = drained(bench, 1)
    assert reply.answer.lease.state is LeaseState.CANCELLED
    assert [event.kind for event in bench.events()].count(EventKind.CANCELLED) == 1


def test_a_storm_of_ten_thousand_evictions_is_one_commit(make_bench: Make, redis_client: redis.Redis) -> None:
    count = 10_000
    bench = make_bench(spec((count,)))
    bench.runtime.open()
    for at in range(0, count, 500):
        names = [f"r{n}.1" for n in range(at, at + 500)]
        told = [one for name in names for one in (reserve(name, lifetime_s=1e6), confirm(name))]
        bench.journal.send("A", [one.model_copy(update={"reply_to": None}) for one in told])
    bench.runtime.drain()
    assert redis_client.scard(bench.keys.running("A")) == count
    (reply,) = bench.tell(start("own", cores=count))
    assert isinstance(reply.answer, LeaseGranted)
    assert redis_client.scard(bench.keys.running("A")) == 0
    assert redis_client.xlen(bench.keys.events("A")) == 2 * count
    (advert,) = [bench.runtime._owner.advert("2026-01-01T00:00:00+00:00")]
    assert (advert.evicted, advert.spot_cores, advert.free_cores) == (count, 0, 0)


def message(**changes: Any) -> str:
    """As kombu writes one to its list."""
    body = base64.b64encode(json.dumps([[], {}, {}]).encode()).decode()
    properties = {
        "delivery_tag": "t",
        "delivery_info": {"exchange": "cloud.A", "routing_key": "cloud.A"},
        "body_encoding": "base64",
    }
    whole = {
        "body": body,
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": {"task": DRAIN, "id": "i"},
        "properties": properties,
    }
    return json.dumps(whole | changes)


def test_celery_messages_that_cannot_be_read_harm_nobody(redis_url: str, tmp_path: Path) -> None:
    """They are not kept: a doorbell says nothing that the next look does not find. But its owner hears the
    next one, and so does a worker."""
    bad = [
        message(**{"content-type": "application/x-python-serialize"}),
        message(headers={"task": "os.system", "id": "i"}),
        message(headers={}),
        message(body=base64.b64encode(b"not JSON").decode()),
        message(body="%%%"),
        message(properties={}),
        "[]",
        "not JSON",
    ]
    with Processes(redis_url, tmp_path) as processes:
        owner = processes.owner("--time", "trace", "--until", "1h")
        processes.opened(1)
        for text in bad:
            processes.client.lpush(f"{processes.settings.key_prefix}cloud.A", text)
        processes.send(wish := ask(lifetime_s=60.0))
        processes.answer(wish.id)
        queue = f"{processes.settings.key_prefix}cloud.A"
        wait_until(lambda: processes.client.llen(queue) == 0, "the bad messages are passed over")
        processes.send(wish := ask(lifetime_s=60.0))
        processes.answer(wish.id)
        assert owner.poll() is None
        assert processes.journal.dead_letters.count() == 0
