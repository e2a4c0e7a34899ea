"""The owner's process without the process: what it reads, leaves out, waits for, and cannot live on with."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
import redis

from broker.contract import (
    GANGS_SINCE,
    Advert,
    Batch,
    CloudInfo,
    Command,
    Event,
    EventKind,
    LeaseGranted,
    Overflow,
    RefusalView,
    Reply,
    replies,
)
from broker.journal.journal import Journal
from broker.settings import Settings
from broker.storage.keys import RedisKeys
from cloudsim.model.refusals import RefusalReason
from tests.support.wait import wait_until
from tests.unit.workers.owners import ask, command_id, confirm, load, reserve, spec, start
from workers.montecarlo.sampling import BatchSampler
from workers.owner.owner import Owner
from workers.owner.process import EXIT_BROKEN, EXIT_FENCED, OwnerProcess, OwnerProcessSpec
from workers.owner.state import OwnerSpec
from workers.owner.table_turns import TABLES_A_WORKER, TableTurns

HOUR_S = 3600.0


class Failed(BaseException):
    """The process would have ended."""


def fail(status: int) -> NoReturn:
    raise Failed(status)


class Bench:
    """A runtime whose timetable does not run by itself, and the other ends of its streams."""

    def __init__(self, client: redis.Redis, directory: Path, owner: OwnerSpec, **options: Any):
        self.client, self.directory = client, directory
        self.keys = RedisKeys("rt:")
        self.settings = Settings(state_dir=directory, key_prefix="rt:", owner_lease_ttl_s=60.0)
        self.journal = Journal(client, self.keys, "A")
        nodes = owner.cloud.node_cores
        info = CloudInfo(
            id="A",
            order=0,
            nodes="2x4",
            cores=sum(nodes),
            largest_node=max(nodes),
            time="wall",
            overflow=False,
        )
        self.spec = OwnerProcessSpec(owner, info, frozenset({1}), seed=1, births=50, **options)
        self.batches: list[Batch] = []
        self.read = "0-0"
        self.made: list[OwnerProcess] = []
        self.runtime = self.make()

    def make(self) -> OwnerProcess:
        made = OwnerProcess(
            self.spec, self.settings, self.journal, lambda _, batch: self.batches.append(batch), fail
        )
        self.made.append(made)
        return made

    def close(self) -> None:
        """Ends the threads that keep the leases."""
        for runtime in self.made:
            runtime.close()

    def tell(self, *batch: Command) -> list[Reply]:
        """Sends commands as one entry, drains, and returns what is answered."""
        self.journal.send("A", batch)
        self.runtime.drain()
        return self.replies()

    def replies(self) -> list[Reply]:
        found: list[Reply] = []
        entries: Any = self.client.xrange(self.keys.replies("me"), f"({self.read}", "+")
        for entry, fields in entries:
            self.read = entry.decode()
            found += replies.validate_json(fields[b"r"])
        return found

    def events(self) -> list[Event]:
        return [event for _, event in self.journal.read()]

    def sample(self) -> None:
        worker = BatchSampler("w", self.client, self.keys, lambda _: None)
        for batch in self.batches:
            worker.run(batch)
        self.batches.clear()


Make = Callable[..., Bench]


@pytest.fixture
def bench(make_bench: Make) -> Bench:
    made = make_bench(spec())
    made.runtime.open()
    return made


def test_what_cannot_be_read_is_passed_over(bench: Bench) -> None:
    wish = reserve("r.1")
    known = json.loads(wish.model_dump_json())
    bench.client.xadd(bench.keys.inbox("A"), {"c": "not json"})
    bench.client.xadd(bench.keys.inbox("A"), {"c": json.dumps([{"kind": "quote"}, known])})
    assert [reply.command for reply in bench.tell()] == [wish.id]
    assert bench.client.xlen(bench.keys.inbox("A")) == 0


def test_a_command_that_breaks_the_owner_is_left_out_alone(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = Owner.handle

    def broken(self: Owner, command: Any, now_s: float, now: str) -> Any:
        outcome = handle(self, command, now_s, now)
        if command.id == poison.id:
            raise RuntimeError("half way")
        return outcome

    monkeypatch.setattr(Owner, "handle", broken)
    before, poison, after = reserve("r.1"), reserve("s.1"), reserve("t.1")
    answered = bench.tell(before, poison, after)
    answered += bench.tell()
    assert [reply.command for reply in answered] == [before.id, poison.id, after.id]
    refusal = answered[1].answer
    assert isinstance(refusal, RefusalView)
    assert "spotfed dlq" in str(refusal.detail)
    held = [event.lease.id for event in bench.events() if event.kind is EventKind.RESERVED and event.lease]
    assert held == ["r.1", "t.1"]


def test_gangs_wait_until_all_members_read_leases_on_several_nodes(bench: Bench) -> None:
    speaks, bench.journal.speaks = bench.journal.speaks, lambda: GANGS_SINCE - 1
    (refused,) = bench.tell(start("early", cores=6))
    assert isinstance(refused.answer, RefusalView)
    assert refused.answer.reason is RefusalReason.TOO_LARGE
    bench.journal.speaks = speaks
    (granted,) = bench.tell(start("late", cores=6))
    assert isinstance(granted.answer, LeaseGranted)
    parts = granted.answer.lease.parts
    assert sum(cores for _, cores in parts) == 6
    bench.runtime.close()
    bench.runtime = bench.make()
    bench.runtime.open()
    instance = bench.runtime._owner.cloud.inventory.get("late")
    assert instance is not None
    assert instance.parts == parts


def test_an_owner_that_every_command_breaks_stops(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> NoReturn:
        raise RuntimeError("always")

    monkeypatch.setattr(Owner, "handle", broken)
    for number in range(3):
        bench.tell(reserve(f"r{number}.1"))
    with pytest.raises(Failed, match=str(EXIT_BROKEN)):
        bench.tell(reserve("r9.1"))


def send_once_awake(bench: Bench, monkeypatch: pytest.MonkeyPatch, *entries: Command) -> None:
    """Lets an owner attend to entries that come, one by one, right after its first look into the inbox."""
    drain, sent = OwnerProcess.drain, False

    def drain_then_send(self: OwnerProcess, *arguments: Any, **options: Any) -> bool:
        nonlocal sent
        is_read = drain(self, *arguments, **options)
        if not sent:
            sent = True
            for command in entries:
                bench.journal.send("A", [command])
        return is_read

    monkeypatch.setattr(OwnerProcess, "drain", drain_then_send)
    bench.runtime.attend()


def without_reply(command: Command) -> Command:
    return command.model_copy(update={"reply_to": None})


def advertised_leases(bench: Bench) -> int:
    advert = bench.client.get(bench.keys.advert("A"))
    assert isinstance(advert, bytes)
    return Advert.model_validate_json(advert).spot_leases


def test_an_owner_that_is_awake_needs_no_doorbell(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = reserve("r.1"), reserve("s.1")
    bench.tell(first)
    send_once_awake(bench, monkeypatch, without_reply(confirm("r.1")), second)
    assert [reply.command for reply in bench.replies()] == [second.id]
    kinds = [event.kind for event in bench.events()]
    assert kinds[-2:] == [EventKind.ADMITTED, EventKind.RESERVED]
    assert bench.client.xlen(bench.keys.inbox("A")) == 0
    assert advertised_leases(bench) == 2


def test_what_nobody_waits_for_is_handled_before_an_owner_rests(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.tell(reserve("r.1"))
    send_once_awake(bench, monkeypatch, without_reply(confirm("r.1")))
    assert bench.events()[-1].kind is EventKind.ADMITTED
    assert bench.client.xlen(bench.keys.inbox("A")) == 0


def test_adverts_of_an_owner_that_is_awake_are_fewer_than_its_turns(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.owner.process._ADVERT_S", 60.0)
    bench.tell(reserve("r.1"))
    bench.journal.send("A", [reserve("s.1")])
    bench.runtime.drain(bench.journal.await_inbox("0-0", 1.0), may_wait=True)
    assert len(bench.replies()) == 1
    assert advertised_leases(bench) == 1
    bench.runtime.drain([])
    assert advertised_leases(bench) == 2


def test_a_command_that_breaks_an_owner_that_is_awake_is_left_out_alone(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = Owner.handle

    def broken(self: Owner, command: Any, now_s: float, now: str) -> Any:
        if command.id == poison.id:
            raise RuntimeError("half way")
        return handle(self, command, now_s, now)

    monkeypatch.setattr(Owner, "handle", broken)
    before, poison, after = reserve("r.1"), reserve("s.1"), reserve("t.1")
    send_once_awake(bench, monkeypatch, before, poison, after)
    answered = bench.replies() + bench.tell()
    assert [reply.command for reply in answered] == [before.id, poison.id, after.id]


def test_what_was_read_and_is_handled_by_now_is_not_handled_again(bench: Bench) -> None:
    bench.journal.send("A", [reserve("r.1")])
    came = bench.journal.await_inbox("0-0", 1.0)
    assert len(came) == 1
    bench.runtime.drain()
    bench.runtime.drain(came)
    assert len(bench.replies()) == 1


def test_an_owner_that_was_overtaken_stops(bench: Bench) -> None:
    bench.client.delete(bench.keys.owner("A"))
    second = bench.make()
    second.open()
    bench.journal.send("A", [reserve("r.1")])
    with pytest.raises(Failed, match=str(EXIT_FENCED)):
        bench.runtime.drain()
    second.drain()
    assert isinstance(bench.replies()[0].answer, LeaseGranted)


def test_an_epoch_is_never_opened_twice_though_redis_forgets(bench: Bench) -> None:
    bench.client.flushall()
    second = bench.make()
    second.open()
    assert bench.client.get(bench.keys.epoch("A")) == b"2"


def test_a_new_cloud_replays_its_history_before_it_opens(make_bench: Make) -> None:
    own = load(*((hour * HOUR_S, hour * HOUR_S + 1800.0, 1) for hour in range(60)))
    bench = make_bench(spec(own_load=own), speed=1e-3, history_s=30 * HOUR_S)
    bench.runtime.open()
    kinds = [event.kind for event in bench.events()]
    assert kinds == [EventKind.ADMITTED, EventKind.COMPLETED] * 30 + [EventKind.ADMITTED, EventKind.OPENED]
    bench.runtime.close()
    again = bench.make()
    again.open()
    opened = [event.at_s for event in bench.events() if event.kind is EventKind.OPENED]
    assert opened == pytest.approx([30 * HOUR_S] * 2, abs=1.0)


def test_commands_wait_in_order_for_the_table_that_one_of_them_needs(make_bench: Make) -> None:
    own = load(*((minute * 600.0, minute * 600.0 + 900.0, 1) for minute in range(400)))
    bench = make_bench(spec(own_load=own, trace_time=True))
    bench.runtime.open()
    questions = [
        ask(sla=sla).model_copy(update={"at_s": at_s})
        for at_s, sla in ((25 * HOUR_S, None), (26 * HOUR_S, 0.9), (27 * HOUR_S, 0.9), (31 * HOUR_S, 0.9))
    ]
    assert [reply.command for reply in bench.tell(*questions)] == [questions[0].id]
    assert bench.tell(late := ask().model_copy(update={"at_s": 31 * HOUR_S})) == []
    bench.sample()
    assert [reply.command for reply in bench.tell()] == [question.id for question in questions[1:3]]
    bench.sample()
    assert [reply.command for reply in bench.tell()] == [questions[3].id, late.id]
    tables = [event.table_made_at_s for event in bench.events() if event.kind is EventKind.TABLE]
    assert tables == [24 * HOUR_S, 30 * HOUR_S]


def test_a_restart_gives_the_same_table_from_a_new_history(make_bench: Make) -> None:
    own = load(*((minute * 600.0, minute * 600.0 + 900.0, 1) for minute in range(400)))
    versions = []
    bench = make_bench(spec(own_load=own, trace_time=True))
    bench.runtime.open()
    for at_s in (25 * HOUR_S, 31 * HOUR_S):
        bench.tell(ask(sla=0.9).model_copy(update={"at_s": at_s}))
        bench.sample()
        versions.append(bench.tell()[0].answer.table_version)  # type: ignore[union-attr]
    bench.runtime.close()
    bench.runtime = bench.make()
    bench.runtime.open()
    assert bench.tell(ask(sla=0.9).model_copy(update={"at_s": 31 * HOUR_S})) == []
    assert [batch.epoch for batch in bench.batches] == [2]
    bench.sample()
    assert bench.tell()[0].answer.table_version == versions[1]  # type: ignore[union-attr]


def test_a_table_that_is_due_waits_for_its_turn_at_the_workers(make_bench: Make) -> None:
    bench = make_bench(spec(), history_s=25 * HOUR_S)
    others = [
        TableTurns(bench.client, bench.keys, f"other{number}", HOUR_S, time.monotonic)
        for number in range(TABLES_A_WORKER)
    ]
    assert all(other.take(1.0) for other in others)
    bench.settings = bench.settings.model_copy(update={"inbox_poll_s": 0.05})
    bench.runtime = bench.make()
    bench.runtime.open()
    bench.runtime.start()
    wait_until(lambda: bench.client.zscore(bench.keys.table_turns, "A"), "it waits")
    assert bench.batches == []
    others[0].leave()
    wait_until(lambda: bench.batches, "its batch")
    assert bench.client.zscore(bench.keys.table_turns, "A") == -math.inf, "others wait for it"
    bench.sample()
    wait_until(lambda: bench.client.zscore(bench.keys.table_turns, "A") is None, "it has left")
    wait_until(lambda: bench.events()[-1].kind is EventKind.TABLE, "its table")


def test_overflow_goes_out_with_its_journal_entry(make_bench: Make) -> None:
    bench = make_bench(spec((4,), overflow=True, overflow_sla=0.1))
    bench.runtime.open()
    bench.tell(start("od", cores=4), start("more", cores=2, lifetime_s=500.0))
    bench.runtime.close()
    bench.runtime = bench.make()
    bench.runtime.open()
    news = {"instance": "more", "outcome": "evicted", "cloud": "B"}
    bench.tell(Overflow.model_validate(command_id() | news))
    entries: Any = bench.client.xrange(bench.keys.overflow)
    offers = [json.loads(fields[b"o"]) for _, fields in entries]
    assert [(offer["attempt"], offer["avoid"]) for offer in offers] == [(1, None), (2, "B")]


def test_the_timetable_ticks_through_the_inbox_and_gives_up_reservations(make_bench: Make) -> None:
    bench = make_bench(spec(reservation_ttl_s=0.2))
    bench.settings = bench.settings.model_copy(update={"inbox_poll_s": 0.05})
    bench.runtime = bench.make()
    bench.runtime.open()
    bench.tell(reserve("r.1", lifetime_s=1e6), reserve("s.1", lifetime_s=1e6), confirm("s.1"))
    bench.runtime.start()
    wait_until(lambda: bench.events()[-1].kind is EventKind.RELEASED, "the reservation is given up")
    bench.runtime.close()
    released = [event for event in bench.events() if event.kind is EventKind.RELEASED]
    assert [(event.lease and event.lease.id, event.cause) for event in released] == [("r.1", "expired")]
