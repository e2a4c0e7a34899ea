"""Owners that take over from each other, wake up late and repeat commits, beside a model of the journal."""

import json
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from broker.contract import Done, Event, EventKind, Lease, LeaseState, Reply, Tick
from broker.journal.hash_chain import BEGINNING
from broker.journal.journal import Commit, FencedError, Journal, JournalError
from broker.journal.verify import verify_entries
from broker.storage.connections import connect
from broker.storage.keys import RedisKeys
from cloudsim.model.requests import Kind
from tests.support.mutants import broken_script

KEYS = RedisKeys("p:")
TTL_S = 1000.0
OWNERS = ["one", "two"]

owners = st.sampled_from(OWNERS)


@dataclass
class Owner:
    """What a process believes. It reads the journal when it opens an epoch, and never again."""

    epoch: int
    number: int
    sequence: int
    cursor: str
    running: list[str]
    hash: str


class Takeovers(RuleBasedStateMachine):
    """One cloud, two processes."""

    url = ""

    def __init__(self) -> None:
        super().__init__()
        self.client: Any = connect(self.url)
        self.client.flushall()
        self.journals = {token: Journal(self.client, KEYS, "a") for token in OWNERS}
        self.believes: dict[str, Owner] = {}
        self.commits: list[Commit] = []
        # The model.
        self.epoch = 0
        self.holder: str | None = None
        self.opener: str | None = None  # of the epoch
        self.entries: list[tuple[str, Event]] = []
        self.cursor = "0-0"
        self.answered: set[str] = set()
        self.leases = 0

    def teardown(self) -> None:
        self.client.close()

    # -- what happens -----------------------------------------------------------------------------

    @initialize()
    def begin(self) -> None:
        self.acquire("one", 0)

    @rule(token=owners, floor=st.integers(0, 5))
    def acquire(self, token: str, floor: int) -> None:
        epoch = self.journals[token].acquire(token, TTL_S, floor)
        if self.holder not in {None, token}:
            assert epoch is None
            return
        self.holder = token
        if self.opener == token and self.epoch > floor:  # it asks again
            assert epoch == self.epoch
            return
        self.epoch = max(self.epoch, floor) + 1
        assert epoch == self.epoch
        self.opener = token
        journal = self.journals[token]
        stored = list(journal.entries.after())
        events = [entry.event() for entry in stored]
        public = [event.lease for event in events if event.sequence is not None]
        ended = {lease.id for lease in public if lease and lease.state is LeaseState.COMPLETED}
        running = [lease.id for lease in public if lease and lease.id not in ended]
        self.believes[token] = Owner(
            epoch, 0, len(public), journal.cursor(), running, stored[-1].hash if stored else BEGINNING
        )

    @rule()
    def the_lease_runs_out(self) -> None:
        self.client.delete(KEYS.owner("a"))
        self.holder = None

    @rule(token=owners)
    def take_over(self, token: str) -> None:
        self.the_lease_runs_out()
        self.acquire(token, 0)

    @rule(token=owners)
    def renew(self, token: str) -> None:
        if (owner := self.believes.get(token)) is None:
            return
        if self.is_owner(token, owner.epoch):
            self.journals[token].renew(token, owner.epoch, TTL_S)
            self.holder = token
        else:
            with pytest.raises(FencedError):
                self.journals[token].renew(token, owner.epoch, TTL_S)

    @rule(token=owners)
    def give_up(self, token: str) -> None:
        if (owner := self.believes.get(token)) is None:
            return
        self.journals[token].give_up(token, owner.epoch)
        if self.holder == token and self.epoch == owner.epoch:
            self.holder = None

    @rule(count=st.integers(1, 3))
    def commands_come(self, count: int) -> None:
        for _ in range(count):
            self.journals["one"].send("a", [Tick(id="t")])

    @rule(token=owners, kinds=st.text("spe", max_size=4), reads=st.integers(0, 3))
    def commit(self, token: str, kinds: str, reads: int) -> None:
        """Events: s secret, p a lease begins, e the oldest one ends."""
        if (owner := self.believes.get(token)) is None:
            return
        events, leases = [], []
        first = owner.number + 1
        for kind in kinds:
            if kind == "s":
                events.append(event(EventKind.RESERVED))
                continue
            if kind == "e" and owner.running:
                leases.append(lease(owner.running.pop(0), LeaseState.COMPLETED))
            else:
                self.leases += 1
                leases.append(lease(f"r.{self.leases}", LeaseState.RUNNING))
                owner.running.append(leases[-1].id)
            owner.sequence += 1
            events.append(event(EventKind.ADMITTED, owner.sequence, leases[-1]))
        owner.number += len(events)
        entries = [entry for entry, _ in self.journals[token].read_inbox(owner.cursor, 3)]
        cursor = entries[:reads][-1] if entries[:reads] else None
        owner.cursor = cursor or owner.cursor
        reply = Reply(command=f"c{len(self.commits)}", answer=Done())
        answers = {"api": [reply]} if cursor else {}
        commit = Commit(owner.epoch, token, TTL_S, first, events, cursor, answers, leases, after=owner.hash)
        if written := self.journals[token].link(commit):
            owner.hash = written[-1].hash
        self.commits.append(commit)
        self.send(commit)

    @rule(token=owners)
    def answer_only(self, token: str) -> None:
        """A commit without events: a quote, a heartbeat."""
        self.commands_come(1)
        self.commit(token, "", 1)

    @precondition(lambda self: self.commits)
    @rule(back=st.integers(0, 5))
    def again(self, back: int) -> None:
        """A retry, or a duplicate that comes late."""
        if back < len(self.commits):
            self.send(self.commits[-1 - back])

    def send(self, commit: Commit) -> None:
        journal = self.journals[commit.token]
        if not self.is_owner(commit.token, commit.epoch):
            with pytest.raises(FencedError):
                journal.commit(commit)
            return
        self.holder = commit.token
        written = {entry for entry, _ in self.entries}
        ids = [f"{commit.epoch}-{commit.first + i}" for i in range(len(commit.events))]
        if ids and ids[-1] in written:
            assert journal.commit(commit) is False
            return
        if not ids and commit.cursor and position(commit.cursor) < position(self.cursor):
            assert journal.commit(commit) is False
            return
        if commit.after != self.head():
            # Late, and without events: what was committed meanwhile is another history.
            assert not ids
            with pytest.raises(JournalError, match="BROKEN the chain"):
                journal.commit(commit)
            return
        assert journal.commit(commit) is True
        self.entries += zip(ids, commit.events, strict=True)
        self.cursor = commit.cursor or self.cursor
        self.answered |= {reply.command for batch in commit.replies.values() for reply in batch}

    def head(self) -> str:
        newest = self.journals["one"].entries.head()
        return BEGINNING if newest is None else newest.hash

    def is_owner(self, token: str, epoch: int) -> bool:
        return epoch == self.epoch and self.holder in {None, token}

    # -- what must hold ---------------------------------------------------------------------------

    @invariant()
    def the_journal_is_that_of_the_model(self) -> None:
        journal = self.journals["one"]
        assert list(journal.read()) == self.entries
        entries = journal.entries
        assert verify_entries("a", [], entries.after(), entries.public()).bad is None
        epochs: dict[int, list[int]] = {}
        for entry, _ in self.entries:
            epoch, number = position(entry)
            epochs.setdefault(epoch, []).append(number)
        assert list(epochs) == sorted(epochs)
        assert all(numbers == list(range(1, len(numbers) + 1)) for numbers in epochs.values())

    @invariant()
    def the_public_streams_follow_from_the_journal(self) -> None:
        public = [(event.sequence, event) for _, event in self.entries if event.sequence is not None]
        assert [sequence for sequence, _ in public] == list(range(1, len(public) + 1))
        found = [
            (position(entry.decode())[1], Event.model_validate_json(fields[b"e"]))
            for entry, fields in self.client.xrange(KEYS.events("a"))
        ]
        merged = [fields[b"e"] for _, fields in self.client.xrange(KEYS.all_events)]
        assert found == public
        assert [Event.model_validate_json(text) for text in merged] == [event for _, event in public]

    @invariant()
    def what_lies_beside_follows_from_the_journal(self) -> None:
        leases = {event.lease.id: event.lease for _, event in self.entries if event.lease}
        running = {name for name, one in leases.items() if one.state is LeaseState.RUNNING}
        assert {name.decode() for name in self.client.smembers(KEYS.running("a"))} == running
        for name, one in leases.items():
            assert Lease.model_validate_json(self.client.get(KEYS.lease("a", name))) == one

    @invariant()
    def no_command_and_no_reply_is_lost(self) -> None:
        assert self.journals["one"].cursor() == self.cursor
        waiting = [entry for entry, _ in self.journals["one"].read_inbox("0-0", 1000)]
        assert all(position(entry) > position(self.cursor) for entry in waiting)
        replies = [fields[b"r"] for _, fields in self.client.xrange(KEYS.replies("api"))]
        assert {reply["command"] for text in replies for reply in json.loads(text)} == self.answered


def event(kind: EventKind, sequence: int | None = None, about: Lease | None = None) -> Event:
    return Event(cloud="a", kind=kind, at_s=0, at="2026-01-01T00:00:00Z", sequence=sequence, lease=about)


def lease(name: str, state: LeaseState) -> Lease:
    return Lease(
        id=name,
        request="r",
        cloud="a",
        origin="b",
        kind=Kind.SPOT,
        cores=1,
        node=0,
        starts_at_s=0,
        ends_at_s=None,
        promised_sla=None,
        eviction_probability=None,
        table_version=None,
        fence=1,
        number=1,
        state=state,
    )


def position(stream_id: str) -> tuple[int, int]:
    high, low = stream_id.split("-")
    return int(high), int(low)


def test_takeovers(redis_url):
    machine = type("Takeovers", (Takeovers,), {"url": redis_url})
    run_state_machine_as_test(machine, settings=settings(max_examples=30, stateful_step_count=25))


@pytest.mark.parametrize(
    ("script", "hook", "broken"),
    [
        ("commit", "past_epoch", "false"),
        ("commit", "written_before", "false"),
        ("commit", "cursor_goes_back", "false"),
        ("acquire", "next_epoch", "math.max(latest, 1)"),
        ("acquire", "past_floor", "false"),
        ("renew", "past_epoch", "false"),
        ("give_up", "is_ours", "true"),
    ],
)
def test_the_machine_finds_a_missing_check(redis_url, script, hook, broken):
    machine = seed(8)(type("Takeovers", (Takeovers,), {"url": redis_url}))
    # Found is enough: no shrinking, and a seed that finds all of them soon.
    plan = settings(max_examples=3000, stateful_step_count=25, database=None, phases=[Phase.generate])
    with (
        broken_script(script, {hook: broken}),
        pytest.raises((AssertionError, JournalError, FencedError, pytest.fail.Exception)),
    ):
        run_state_machine_as_test(machine, settings=plan)
