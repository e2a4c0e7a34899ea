"""What an owner reads of its journal and inbox, and what is malformed there, on a real server."""

import json

import pytest
import redis

import broker.journal.inbox
from broker.contract import VERSION, Ask, Event, EventKind, Tick
from broker.journal.dead_letters import DEAD_BYTES_KEPT
from broker.journal.inbox import MalformedCommand
from broker.journal.journal import Commit, Journal, JournalError
from broker.storage.keys import RedisKeys

KEYS = RedisKeys("t:")
TTL_S = 60.0
OPENED = Event(cloud="a", kind=EventKind.OPENED, at_s=1, at="2026-01-01T00:00:00Z")


@pytest.fixture
def journal(redis_client: redis.Redis) -> Journal:
    return Journal(redis_client, KEYS, "a")


def test_reading_pages_through_the_whole_journal(journal):
    journal.acquire("me", TTL_S)
    events = [OPENED] * 2500
    journal.commit(Commit(1, "me", TTL_S, 1, events))
    assert [entry for entry, _ in journal.read()] == [f"1-{n}" for n in range(1, 2501)]
    assert [entry for entry, _ in journal.read("1-2498")] == ["1-2499", "1-2500"]


@pytest.mark.parametrize("fields", [{"e": '{"version": 1, "new": 2}'}, {"x": "y"}])
def test_a_journal_entry_that_cannot_be_read_is_an_error(journal, redis_client, fields):
    redis_client.xadd(KEYS.journal("a"), fields, id="1-1")
    with pytest.raises(JournalError, match="entry 1-1"):
        list(journal.read())


def test_an_inbox_is_read_in_order_and_in_portions(journal):
    question = Ask(id="q", request="r", origin="b", cores=1, lifetime_s=5, sla=None, reply_to="api")
    first = journal.send("a", [Tick(id="t"), question])
    second = journal.send("a", [Tick(id="u")])
    journal.send("b", [Tick(id="for another")])
    assert journal.read_inbox("0-0") == [(first, [Tick(id="t"), question]), (second, [Tick(id="u")])]
    assert journal.read_inbox("0-0", count=1) == [(first, [Tick(id="t"), question])]
    assert journal.read_inbox(first) == [(second, [Tick(id="u")])]
    assert journal.read_inbox(second) == []


def test_what_a_group_leaves_over_is_not_parsed_again(journal, redis_client, monkeypatch):
    parsed: list[bytes] = []

    def noted(body: bytes) -> object:
        parsed.append(body)
        return broker.journal.inbox.parse_entry(body)

    monkeypatch.setattr("broker.journal.journal.parse_entry", noted)
    first, second = (journal.send("a", [Tick(id=name)]) for name in "tu")
    assert journal.read_inbox("0-0")[1] == (second, [Tick(id="u")])
    assert journal.read_inbox(first) == [(second, [Tick(id="u")])]
    assert len(parsed) == 2
    assert journal.cursor() == "0-0"  # whoever asks begins anew
    journal.read_inbox(first)
    redis_client.xdel(KEYS.inbox("a"), second)
    assert (len(parsed), journal.read_inbox(first)) == (3, [])


@pytest.mark.parametrize(
    "fields",
    [
        {"c": "{"},
        {"c": b"\xff\xfe"},
        {"c": "[" * 100_000},
        {"c": '{"kind": "tick", "id": "x"}'},
        {"c": '[{"kind": "tick"}]'},
        {"c": '[{"kind": "conquer", "id": "x"}]'},
        {"c": f'[{{"kind": "tick", "id": "x", "version": {VERSION + 1}}}]'},
        {"c": '[{"kind": "tick", "id": "x", "version": 0}]'},
        {"c": "[7, null]"},
        {"d": "[]"},
    ],
)
def test_a_malformed_entry_is_passed_over_and_put_aside_once(journal, redis_client, fields):
    before = journal.send("a", [Tick(id="before")])
    wrong = redis_client.xadd(KEYS.inbox("a"), fields).decode()
    after = journal.send("a", [Tick(id="after")])
    for _ in range(2):
        entries = dict(journal.read_inbox("0-0"))
        assert (entries[before], entries[after]) == ([Tick(id="before")], [Tick(id="after")])
        assert entries[wrong]
        assert all(isinstance(command, MalformedCommand) for command in entries[wrong])
    ((entry, dead),) = redis_client.xrange(KEYS.dead_letters("a"))
    assert entry.decode() == wrong
    assert dead[b"c"] == _bytes(fields.get("c", ""))[:DEAD_BYTES_KEPT]
    assert dead[b"why"]
    journal.acquire("me", TTL_S)
    journal.commit(Commit(1, "me", TTL_S, 1, cursor=after))
    assert journal.read_inbox(journal.cursor()) == []
    assert redis_client.xlen(KEYS.inbox("a")) == 0


def test_one_malformed_command_does_not_take_the_others_along(journal, redis_client):
    redis_client.xadd(
        KEYS.inbox("a"), {"c": '[{"kind":"tick","id":"x"},{"kind":"spy"},{"kind":"tick","id":"y"}]'}
    )
    ((_, (first, second, third)),) = journal.read_inbox("0-0")
    assert (first, third) == (Tick(id="x"), Tick(id="y"))
    assert isinstance(second, MalformedCommand)


def test_what_is_put_aside_does_not_repeat_values_as_reasons_and_is_bounded(journal, redis_client):
    redis_client.xadd(KEYS.inbox("a"), {"c": '[{"kind":"tick","id":"x","at_s":"hunter2"}]'})
    redis_client.xadd(KEYS.inbox("a"), {"c": json.dumps(["x" * 10_000_000])})
    ((_, (secret,)), (_, (large,))) = journal.read_inbox("0-0")
    assert isinstance(secret, MalformedCommand)
    assert "hunter2" not in secret.why
    assert isinstance(large, MalformedCommand)
    assert len(large.why) < 1000
    assert all(len(dead[b"c"]) <= DEAD_BYTES_KEPT for _, dead in redis_client.xrange(KEYS.dead_letters("a")))


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value
