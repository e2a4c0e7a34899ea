"""Every way in which a journal is not whole is found, at the first bad id."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from broker.journal.hash_chain import BEGINNING, ChainedEntry, hash_entry
from broker.journal.verify import verify_entries

Public = list[tuple[int, bytes]]


def chained(bodies: list[tuple[str, bytes]], before: str = BEGINNING) -> list[ChainedEntry]:
    made: list[ChainedEntry] = []
    for entry_id, body in bodies:
        before = hash_entry(before, entry_id, body)
        made.append(ChainedEntry(entry_id, before, body))
    return made


def body(sequence: int | None = None, what: str = "x") -> bytes:
    return json.dumps({"kind": what, "sequence": sequence}).encode()


#: Two epochs, three public events.
SOUND = chained(
    [("1-1", body()), ("1-2", body(1)), ("1-3", body(2)), ("3-1", body()), ("3-2", body(3)), ("3-3", body())]
)
PUBLIC: Public = [(1, body(1)), (2, body(2)), (3, body(3))]


def test_a_sound_journal() -> None:
    found = verify_entries("a", SOUND[:5], SOUND[2:], PUBLIC)
    assert (found.bad, found.entries, found.archived, found.public) == (None, 6, 5, 3)
    assert (found.first, found.last, found.since, found.unchained) == ("1-1", "3-3", False, 0)


def test_without_an_archive_and_with_a_trimmed_stream() -> None:
    found = verify_entries("a", [], SOUND[2:], PUBLIC[2:])
    assert (found.bad, found.since, found.first) == (None, True, "1-3")
    assert verify_entries("a", [], [], []).bad is None


def test_entries_of_an_older_version_come_before_the_chain() -> None:
    old = [ChainedEntry("1-1", "", body()), ChainedEntry("1-2", "", body(1))]
    new = chained([("2-1", body()), ("2-2", body(2))])
    found = verify_entries("a", [], [*old, *new], PUBLIC[:2])
    assert (found.bad, found.unchained, found.since) == (None, 2, False)
    found = verify_entries("a", [], [*old, *new, ChainedEntry("3-1", "", body())], PUBLIC[:2])
    assert found.bad == "3-1"


def without(at: int) -> Callable[[list[ChainedEntry]], list[ChainedEntry]]:
    return lambda entries: entries[:at] + entries[at + 1 :]


def changed(at: int, **fields: object) -> Callable[[list[ChainedEntry]], list[ChainedEntry]]:
    def change(entries: list[ChainedEntry]) -> list[ChainedEntry]:
        return [*entries[:at], replace(entries[at], **fields), *entries[at + 1 :]]  # type: ignore[arg-type]

    return change


@pytest.mark.parametrize(
    ("break_it", "bad"),
    [
        (without(1), "1-3"),
        (without(2), "3-1"),
        (without(3), "3-2"),
        (changed(1, body=body(1, "y")), "1-2"),
        (changed(2, hash=SOUND[1].hash), "1-3"),
        (changed(3, hash=""), "3-1"),
        (changed(4, id="3-4"), "3-4"),
        (lambda entries: [*entries, replace(entries[3])], "3-1"),
        (lambda entries: entries[:3] + chained([("3-1", b"no JSON")], entries[2].hash), "3-1"),
        (lambda entries: entries[:3] + chained([("3-1", body(4))], entries[2].hash), "3-1"),
    ],
)
@pytest.mark.parametrize("archived", [0, 6])
def test_the_first_bad_entry_is_named(
    break_it: Callable[[list[ChainedEntry]], list[ChainedEntry]], bad: str, archived: int
) -> None:
    broken = break_it(SOUND)
    found = verify_entries("a", broken[:archived], broken, PUBLIC)
    assert (found.bad, bool(found.why)) == (bad, True)


def test_journal_and_archive_must_agree() -> None:
    other = chained([("1-3", body(2, "y"))], SOUND[1].hash)
    assert verify_entries("a", SOUND[:3], [*SOUND[:2], *other], PUBLIC[:2]).bad == "1-3"
    assert verify_entries("a", [SOUND[0], SOUND[2]], SOUND, PUBLIC).bad == "1-2"
    lost = verify_entries("a", SOUND, SOUND[:4], PUBLIC[:2])
    assert (lost.bad, "Redis has lost it" in (lost.why or "")) == ("3-2", True)
    assert verify_entries("a", SOUND, [], []).bad == "1-1"
    assert verify_entries("a", SOUND, [*SOUND[2:3], *SOUND[4:]], PUBLIC).bad == "3-1"


@pytest.mark.parametrize(
    ("public", "bad"),
    [
        (PUBLIC[:2], "0-3"),
        ([], "0-3"),
        ([PUBLIC[0], PUBLIC[2]], "0-3"),
        ([PUBLIC[0], (2, body(2, "y")), PUBLIC[2]], "0-2"),
        ([*PUBLIC, (4, body(4))], "0-4"),
    ],
)
def test_the_public_stream_is_the_journals(public: Public, bad: str) -> None:
    assert verify_entries("a", [], SOUND, public).bad == bad
