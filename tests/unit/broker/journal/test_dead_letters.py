"""Dead letters: kept once and bounded, shown without secrets, sent again only when that is right."""

from __future__ import annotations

import json
import re

import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st

from broker.contract import VERSION, Cancel, Release
from broker.journal.dead_letters import (
    DEAD_BYTES_KEPT,
    LARGEST_ENTRY_BYTES,
    SHOWN_CHARACTERS,
    DeadLetter,
    DeadLetterKind,
    DeadLetters,
    ReplayError,
)
from broker.journal.inbox import MalformedCommand
from broker.journal.journal import Journal
from broker.storage.keys import RedisKeys

KEYS = RedisKeys("dl:")


def letter(
    body: bytes, kind: DeadLetterKind = DeadLetterKind.UNREADABLE, items: tuple[int, ...] = (0,)
) -> DeadLetter:
    return DeadLetter("A", "5-0", "5-0", kind, "why", body, len(body), items)


def command(**fields: object) -> dict[str, object]:
    return {"kind": "release", "id": "c1", "attempt": "r.1", "version": VERSION} | fields


def body(*items: object) -> bytes:
    return json.dumps(items).encode()


@pytest.fixture
def box(redis_client: redis.Redis) -> DeadLetters:
    return DeadLetters(redis_client, KEYS, "A")


@pytest.mark.parametrize("order", [("5-1", "5-2"), ("5-2", "5-1"), ("5-1", "5-1")])
def test_a_letter_is_there_once_in_whatever_order_entries_are_read(
    box: DeadLetters, order: tuple[str, str]
) -> None:
    labels = [f"{entry}/{place}" for place, entry in enumerate(order)]
    for _ in range(3):
        for of, entry in zip(labels, order, strict=True):
            box.put(of, DeadLetterKind.POISON, "ValueError: x", b"[]", entry=entry)
    assert [one.of for one in box.letters()] == labels
    assert box.count() == 2
    assert box.letters()[0].id == order[0]
    first, second = box.letters()
    assert box.get(second.id) == second
    assert box.drop(first.id)
    assert not box.drop(first.id)
    assert box.get(first.id) is None
    assert box.get("no id") is None


@pytest.mark.parametrize("size", [LARGEST_ENTRY_BYTES + 1, 10_000_000])
def test_an_entry_that_is_too_large_is_never_parsed(
    redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    journal = Journal(redis_client, KEYS, "A")
    entry = redis_client.xadd(KEYS.inbox("A"), {"c": b"[" + b" " * (size - 2) + b"]"})
    parsed: list[bytes] = []
    monkeypatch.setattr("broker.journal.inbox._parse_singly", parsed.append)
    monkeypatch.setattr("broker.journal.inbox.commands", None)
    ((_, (wrong,)),) = journal.read_inbox("0-0")
    assert isinstance(wrong, MalformedCommand)
    assert str(size) in wrong.why
    (kept,) = journal.dead_letters.letters()
    assert (kept.kind, kept.id) == (DeadLetterKind.TOO_LARGE, entry.decode())  # type: ignore[union-attr]
    assert (kept.size_bytes, len(kept.body), kept.whole) == (size, DEAD_BYTES_KEPT, False)
    with pytest.raises(ReplayError, match=f"only {DEAD_BYTES_KEPT} of its {size} bytes"):
        kept.parse_commands()
    assert not parsed


def test_only_the_commands_that_were_put_aside_are_sent_again(redis_client: redis.Redis) -> None:
    journal = Journal(redis_client, KEYS, "A")
    wrong = command(id="c2", version=VERSION + 1)
    redis_client.xadd(KEYS.inbox("A"), {"c": body(command(id="c1"), wrong, command(id="c3"))})
    journal.read_inbox("0-0")
    (kept,) = journal.dead_letters.letters()
    assert (kept.kind, kept.items) == (DeadLetterKind.UNKNOWN_VERSION, (1,))
    with pytest.raises(ReplayError, match="upgrade"):
        kept.parse_commands()
    mended = letter(body(command(id="c1"), command(id="c2"), command(id="c3")), kept.kind, kept.items)
    assert mended.parse_commands() == [Release(id="c2", attempt="r.1")]


@pytest.mark.parametrize(
    ("what", "why"),
    [
        (letter(b"not json"), "cannot be read"),
        (letter(b"[]"), "names no command"),
        (letter(body({"kind": "conquer"})), "cannot be read"),
        (letter(body(command(attempt="spaces in it"))), "attempt"),
        (letter(body(command()), DeadLetterKind.SIGNATURE), "vouch"),
        (letter(body(command()), DeadLetterKind.BATCH), "next table"),
        (letter(body({"kind": "tick", "id": "t"}), DeadLetterKind.POISON), "nobody waits"),
    ],
)
def test_what_cannot_be_sent_again_says_why(what: DeadLetter, why: str) -> None:
    with pytest.raises(ReplayError, match=why):
        what.parse_commands()


def test_a_command_that_broke_its_owner_may_be_sent_again() -> None:
    cancel = Cancel(id="c", lease="r.1", by="me")
    assert letter(f"[{cancel.model_dump_json()}]".encode(), DeadLetterKind.POISON).parse_commands() == [
        cancel
    ]


SECRET = "s3cr3t-Value"


@pytest.mark.parametrize(
    "text",
    [
        json.dumps([{"api_key": SECRET, "id": "seen"}]),
        json.dumps([{"id": "seen", "deep": [{"Authorization": {"x": SECRET}}]}]),
        json.dumps([{"id": "seen", "note": f"Bearer {SECRET}"}]),
        json.dumps([{"id": "seen", "url": f"redis://me:{SECRET}@host/0"}]),
        f'{{"id": "seen", "password": "{SECRET}"',
        f"id=seen token={SECRET} x",
        f'[{{"id":"seen","client_secret":"a\\"{SECRET}',
        f"seen Authorization: Bearer {SECRET}",
        f"seen eyJhbGciOiJFZERTQSJ9.{SECRET}.sig",
    ],
)
def test_secrets_are_not_shown(text: str) -> None:
    shown = letter(text.encode()).format_body()
    assert SECRET not in shown
    assert "seen" in shown


@given(st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
def test_whatever_the_body_is_it_can_be_shown_and_is_sent_only_if_valid(raw: bytes) -> None:
    what = letter(raw)
    assert len(what.format_body(100)) <= 100 + len(" […]")
    with pytest.raises(ReplayError):
        what.parse_commands()


def test_a_long_body_is_cut_off_and_says_so() -> None:
    shown = letter(body("x" * 5000)).format_body()
    assert shown.endswith("[…]")
    assert len(shown) < SHOWN_CHARACTERS + 10
    assert re.fullmatch(r'\["x+ \[…\]', shown)
    deep = letter(b"[" * 60_000)
    assert deep.format_body().startswith("[[[")
