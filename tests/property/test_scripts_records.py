"""The scripts of a request's life, driven at random beside a model of a page.

The machine may send any call again, at any time: what a network does to a process that retries.
"""

import asyncio
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Any

import pytest
import redis
from hypothesis import Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from broker.contract import Confirm, Release, Reserve, commands
from broker.contract.leases import format_attempt_id
from broker.requests.models import (
    Accept,
    Accepted,
    AcceptOutcome,
    AttemptDecision,
    Record,
    RequestAttempt,
    RequestState,
    RequestStatus,
)
from broker.requests.store import RequestStore
from broker.storage.connections import connect_async
from broker.storage.keys import RedisKeys
from tests.support.mutants import broken_script
from tests.support.wakeups import no_wakeup

KEYS = RedisKeys("p:")
CLOUDS = ["a", "b", "c"]
AT_ONCE, NEVER = 0, 10**9  # ms until somebody must look after it

NAMES = ["r1", "r2", "r3", "r4"]

#: By cloud, all commands in its entries: "reserve r1.2".
Inboxes = dict[str, list[str]]

requests = st.sampled_from(NAMES)
clouds = st.sampled_from(CLOUDS)
waits = st.sampled_from([AT_ONCE, NEVER])


def steps(usual: int) -> st.SearchStrategy[int]:
    """How far from the latest attempt's number."""
    return st.sampled_from([usual, usual, usual, -1, 0, 1, 2])


def rarely(answer: str) -> st.SearchStrategy[str | None]:
    """An answer ends a request's life, and there is little to see after it."""
    return st.sampled_from([None] * 5 + [answer])


@dataclass
class Known:
    """What the model knows of one request."""

    fingerprint: str
    body: str
    token: str
    state: RequestState = RequestState.OPEN
    attempt: int = 0
    cloud: str | None = None
    answer: str | None = None
    overdue: bool = False
    given_up: int | None = None  # the attempt that a sweeper has taken from whoever made it

    def standing(self) -> RequestStatus:
        return RequestStatus(self.state, self.attempt, self.cloud, self.answer)

    def fields(self) -> dict[str, str]:
        fields = {
            "fingerprint": self.fingerprint,
            "body": self.body,
            "token": self.token,
            "state": self.state.value,
            "attempt": str(self.attempt),
        }
        if self.cloud is not None:
            fields["cloud"] = self.cloud
        if self.answer is not None:
            fields["answer"] = self.answer
        if self.given_up is not None:
            fields["given_up"] = str(self.given_up)
        return fields


class Model:
    """What the scripts shall do, one item at a time."""

    def __init__(self) -> None:
        self.known: dict[str, Known] = {}
        self.inboxes: dict[str, list[str]] = defaultdict(list)

    def standing(self, request: str) -> RequestStatus:
        return (
            self.known[request].standing() if request in self.known else RequestStatus(RequestState.UNKNOWN)
        )

    def accept(self, one: Accept, sent: dict[str, list[str]]) -> Accepted:
        known = self.known.get(one.id)
        if known is None:
            self.known[one.id] = Known(
                one.fingerprint, one.body, one.token, overdue=one.look_after_ms == AT_ONCE
            )
            if one.first is not None:
                self.reserve(replace(one.first, look_after_ms=one.look_after_ms), sent)
            return Accepted(AcceptOutcome.NEW)
        if known.fingerprint != one.fingerprint:
            return Accepted(AcceptOutcome.MISMATCH)
        if known.answer is not None:
            return Accepted(AcceptOutcome.ANSWERED, known.answer)
        untouched = (RequestState.OPEN, 0) if one.first is None else (RequestState.ATTEMPTING, 1)
        mine = known.token == one.token and (known.state, known.attempt) == untouched
        return Accepted(AcceptOutcome.NEW if mine else AcceptOutcome.IN_FLIGHT)

    def reserve(self, one: RequestAttempt, sent: dict[str, list[str]]) -> RequestStatus:
        known = self.known.get(one.request)
        if known is not None and known.state is RequestState.OPEN and one.number > known.attempt:
            known.state, known.attempt, known.cloud = RequestState.ATTEMPTING, one.number, one.cloud
            known.overdue = one.look_after_ms == AT_ONCE
            sent[one.cloud].append(f"reserve {one.command.attempt}")
        return self.standing(one.request)

    def decide(self, one: AttemptDecision, sent: dict[str, list[str]]) -> RequestStatus:
        known = self.known.get(one.request)
        mine = None if known is None else (known.state, known.attempt, known.cloud)
        if known is not None and mine == (RequestState.ATTEMPTING, one.number, one.cloud):
            assert known.cloud is not None
            attempt = format_attempt_id(one.request, one.number)
            if one.answer is None:
                known.state = RequestState.OPEN
                sent[known.cloud].append(f"release {attempt}")
            elif not known.overdue and known.given_up != known.attempt:
                known.state, known.answer = RequestState.COMMITTED, one.answer
                sent[known.cloud].append(f"confirm {attempt}")
        return self.standing(one.request)

    def close(self, request: str, answer: str) -> RequestStatus:
        known = self.known.get(request)
        if known is not None and known.state is RequestState.OPEN:
            known.state, known.answer = RequestState.REFUSED, answer
        return self.standing(request)

    def overdue(self, look_after_ms: int) -> list[Record]:
        due = [(name, one) for name, one in self.known.items() if one.overdue and one.answer is None]
        for _, one in due:
            one.overdue = look_after_ms == AT_ONCE
            if one.state is RequestState.ATTEMPTING:
                one.given_up = one.attempt
        return [Record(name, one.fingerprint, one.body, one.standing()) for name, one in due]

    def deliver(self, sent: dict[str, list[str]]) -> None:
        """Where some of a call were overtaken, or two of one request, it may come in several entries."""
        for cloud, batch in sent.items():
            self.inboxes[cloud] += batch


class Life(RuleBasedStateMachine):
    """Any number of processes that retry, sleep and race."""

    url = ""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.model = Model()
        self.calls: dict[str, list[Any]] = defaultdict(list)

    @initialize()
    def begin(self) -> None:
        self.client = self.runner.run(self._connected())
        self.records = RequestStore(self.client, KEYS, bell=no_wakeup)
        self.call("accept", [Accept(name, "x", f"body {name}", AT_ONCE) for name in NAMES[:2]])

    async def _connected(self) -> Any:
        client = connect_async(self.url)
        await client.flushall()
        return client

    def teardown(self) -> None:
        if hasattr(self, "client"):
            self.runner.run(self.client.aclose())
        self.runner.close()

    # -- what processes do: mostly what makes sense, now and then what does not ---------------------------

    @rule(
        items=st.lists(
            st.tuples(requests, st.sampled_from("xxxy"), waits, st.sampled_from([None, *CLOUDS])),
            min_size=1,
            max_size=4,
        )
    )
    def accept(self, items: list[tuple[str, str, int, str | None]]) -> None:
        self.call(
            "accept",
            [
                Accept(name, print_, f"body {name}", wait, attempt(name, 1, cloud, wait) if cloud else None)
                for name, print_, wait, cloud in items
            ],
        )

    @rule(items=st.lists(st.tuples(requests, steps(1), clouds, waits), min_size=1, max_size=4))
    def reserve(self, items: list[tuple[str, int, str, int]]) -> None:
        self.call("reserve", [attempt(one[0], self.number(one[0], one[1]), one[2], one[3]) for one in items])

    @rule(items=st.lists(st.tuples(requests, steps(0), rarely("m")), min_size=1, max_size=4))
    def decide(self, items: list[tuple[str, int, str | None]]) -> None:
        self.call(
            "decide",
            [
                AttemptDecision(name, self.number(name, step), self.cloud(name), answer)
                for name, step, answer in items
            ],
        )

    def number(self, request: str, step: int) -> int:
        return max(1, self.model.standing(request).attempt + step)

    def cloud(self, request: str) -> str:
        """Of the latest attempt, as who decides one knows it."""
        return self.model.standing(request).cloud or "a"

    @rule(request=requests, answer=st.sampled_from([None, "n"]))
    def close(self, request: str, answer: str | None) -> None:
        self.call("close", {} if answer is None else {request: answer})

    @rule(wait=waits)
    def overdue(self, wait: int) -> None:
        claimed = self.runner.run(self.records.overdue(100, wait))
        expected = self.model.overdue(wait)
        assert sorted(claimed, key=lambda one: one.id) == sorted(expected, key=lambda one: one.id)

    @rule(verb=st.sampled_from(["accept", "reserve", "decide", "close"]), place=st.integers(-3, 2))
    def again(self, verb: str, place: int) -> None:
        """A retry, or a late duplicate: one of the first or last calls of its kind."""
        if -len(self.calls[verb]) <= place < len(self.calls[verb]):
            self.call(verb, self.calls[verb][place])

    def call(self, verb: str, items: Any) -> None:
        self.calls[verb].append(items)
        actual = self.runner.run(getattr(self.records, verb)(items))
        sent: dict[str, list[str]] = defaultdict(list)
        match verb:
            case "accept":
                expected: list[Any] = [self.model.accept(one, sent) for one in items]
            case "reserve":
                expected = [self.model.reserve(one, sent) for one in items]
            case "decide":
                expected = [self.model.decide(one, sent) for one in items]
            case "close":
                expected = [self.model.close(*one) for one in items.items()]
        assert actual == expected
        self.model.deliver(sent)

    # -- what must hold ---------------------------------------------------------------------------

    @invariant()
    def the_model_is_right_and_no_request_holds_two_clouds(self) -> None:
        records, lives, listed, inboxes = self.runner.run(self.look())
        assert records == {name: known.fields() for name, known in self.model.known.items()}
        for name, ttl in lives.items():
            answered = "answer" in records.get(name, {})
            assert ttl > 7 * 86_400 - 60 if answered else ttl < 0
        assert listed == {name for name, known in self.model.known.items() if known.answer is None}
        for cloud in CLOUDS:
            assert sorted(inboxes[cloud]) == sorted(self.model.inboxes[cloud])
        check_clouds(inboxes)

    async def look(self) -> tuple[dict[str, dict[str, str]], dict[str, int], set[str], Inboxes]:
        """Records, how long they live, which are listed as open, and what the clouds were told."""
        async with self.client.pipeline() as pipeline:
            for name in NAMES:
                pipeline.hgetall(KEYS.request(name))
                pipeline.ttl(KEYS.request(name))
            pipeline.zrange(KEYS.open_requests, 0, -1)
            for cloud in CLOUDS:
                pipeline.xrange(KEYS.inbox(cloud))
            found = await pipeline.execute()
        size = 2 * len(NAMES)
        records = {
            name: {key.decode(): value.decode() for key, value in fields.items()}
            for name, fields in zip(NAMES, found[:size:2], strict=True)
            if fields
        }
        inboxes = {
            cloud: [told(one) for _, fields in entries for one in commands.validate_json(fields[b"c"])]
            for cloud, entries in zip(CLOUDS, found[size + 1 :], strict=True)
        }
        lives = dict(zip(NAMES, found[1:size:2], strict=True))
        return records, lives, {name.decode() for name in found[size]}, inboxes


def check_clouds(inboxes: Inboxes) -> None:
    """From what the clouds were told alone, whatever the model thinks."""
    held, confirmed = defaultdict(set), defaultdict(set)
    for cloud, inbox in inboxes.items():
        for command in inbox:
            verb, attempt = command.split()
            request, _ = attempt.rsplit(".", 1)
            if verb == "reserve":
                held[request].add((cloud, attempt))
            elif verb == "release":
                held[request].remove((cloud, attempt))
            else:
                confirmed[request].add((cloud, attempt))
    for request, attempts in held.items():
        assert len(attempts) <= 1
        assert confirmed[request] <= attempts


def attempt(request: str, number: int, cloud: str, look_after_ms: int) -> RequestAttempt:
    name = format_attempt_id(request, number)
    command = Reserve(
        id=name, attempt=name, request=request, origin="user", cores=1, lifetime_s=1, sla=None, reply_to="api"
    )
    return RequestAttempt(request, number, cloud, command, look_after_ms)


def told(command: Any) -> str:
    assert isinstance(command, Reserve | Confirm | Release)
    return f"{command.kind} {command.attempt}"


def test_the_life_of_requests(redis_url):
    machine = type("Life", (Life,), {"url": redis_url})
    run_state_machine_as_test(machine, settings=settings(max_examples=30, stateful_step_count=30))


@pytest.mark.parametrize(
    ("script", "hook", "broken"),
    [
        ("decide", "same_attempt", "true"),
        ("decide", "whole_entry", "true"),
        ("reserve", "whole_entry", "true"),
        ("accept", "whole_entry", "#made > 0"),
        ("reserve", "higher_number", "true"),
        ("reserve", "is_open", "known[1]"),
        ("close", "is_open", "known[1]"),
        ("accept", "other_request", "false"),
    ],
)
def test_the_machine_finds_a_missing_check(redis_url, script, hook, broken):
    machine = seed(4)(type("Life", (Life,), {"url": redis_url}))
    # Found is enough: no shrinking, and a seed that finds all of them soon.
    plan = settings(max_examples=300, stateful_step_count=30, database=None, phases=[Phase.generate])
    with broken_script(script, {hook: broken}), pytest.raises((AssertionError, redis.ResponseError)):
        run_state_machine_as_test(machine, settings=plan)
