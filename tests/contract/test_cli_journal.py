"""``spotfed journal``: verify and show, on a real journal and its archive."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from broker.contract import CloudInfo, Event, EventKind
from broker.journal.archive import Archive, archive_directory
from broker.journal.journal import Commit, Journal
from broker.settings import settings
from tests.contract.harness import Federation, Run


@pytest.fixture
def journal(federation: Federation, monkeypatch: pytest.MonkeyPatch, spotfed: Run, tmp_path: Path) -> Journal:
    """Of cloud A: an epoch of five entries, two of them in the archive only."""
    monkeypatch.setenv("SPOTFED_REDIS_URL", federation.redis_url)
    monkeypatch.setenv("SPOTFED_KEY_PREFIX", federation.prefix)
    settings.cache_clear()
    made = Journal(federation.redis, federation.keys, "A")
    made.publish_info(CloudInfo(id="A", order=0, nodes="1x4", cores=4, largest_node=4, time="wall"))
    assert made.acquire("me", 60) == 1
    events = [event(EventKind.OPENED), *(event(EventKind.TABLE, f"[{number}]") for number in range(4))]
    commit = Commit(1, "me", 60, 1, events)
    made.commit(commit)
    archive = Archive(archive_directory(tmp_path, federation.prefix, "A"))
    archive.open()
    archive.append(made.link(commit))
    archive.close()
    federation.redis.xtrim(federation.keys.journal("A"), maxlen=3, approximate=False)
    return made


def event(kind: EventKind, cause: str | None = None) -> Event:
    return Event(cloud="A", kind=kind, at_s=1, at="2026-01-01T00:00:00Z", cause=cause)


def test_a_sound_journal(spotfed: Run, journal: Journal) -> None:
    code, out, _ = spotfed("journal", "verify")
    assert (code, "sound A: 5 entries up to 1-5 (5 of them archived, 0 public)" in out) == (0, True)
    code, out, _ = spotfed("journal", "verify", "--cloud", "A", "--json")
    (found,) = json.loads(out)["clouds"]
    assert (code, found["sound"], found["first"], found["last"]) == (0, True, "1-1", "1-5")
    assert journal.cloud == "A"


def test_a_broken_one_is_named_with_its_first_bad_entry(spotfed: Run, journal: Journal) -> None:
    journal.redis.xdel(journal.keys.journal("A"), "1-4")
    code, out, _ = spotfed("journal", "verify")
    assert (code, "broken A: 1-4" in out) == (1, True)
    code, out, _ = spotfed("journal", "verify", "--json")
    (found,) = json.loads(out)["clouds"]
    assert (code, found["sound"], found["bad"]) == (1, False, "1-4")


def test_an_archive_that_cannot_be_read(spotfed: Run, journal: Journal, tmp_path: Path) -> None:
    (segment,) = tmp_path.glob("archive/*/A/*.jsonl")
    segment.write_bytes(b"nonsense\n")
    code, _, errors = spotfed("journal", "verify")
    assert (code, f"{segment.name}:1: not an entry" in errors) == (4, True)
    assert journal.cloud == "A"


def test_a_gap_is_filled_from_the_archive_of_another_host(
    spotfed: Run, journal: Journal, tmp_path: Path
) -> None:
    (segment,) = tmp_path.glob("archive/*/A/*.jsonl")
    (tmp_path / "copied").mkdir()
    shutil.copy(segment, tmp_path / "copied")
    lines = segment.read_bytes().splitlines(keepends=True)
    segment.write_bytes(lines[0])
    segment.with_name(segment.name.replace("1.jsonl", "3.jsonl")).write_bytes(b"".join(lines[2:]))
    assert spotfed("journal", "verify")[0] == 1
    code, out, _ = spotfed("journal", "merge", "A", str(tmp_path / "copied"))
    assert (code, "1 entries added" in out, "sound A: 5 entries" in out) == (0, True, True)
    assert journal.cloud == "A"


def test_entries_are_shown_from_archive_and_journal(spotfed: Run, journal: Journal) -> None:
    code, out, _ = spotfed("journal", "show", "A", "--after", "1-1", "--limit", 2)
    assert (code, out.splitlines()) == (0, ["1-2  1 s  table  [0]", "1-3  1 s  table  [1]"])
    code, out, _ = spotfed("journal", "show", "A", "--limit", 1, "--json")
    (entry,) = json.loads(out)["entries"]
    newest = journal.entries.head()
    assert newest is not None
    assert (code, entry["id"], entry["hash"], entry["event"]["cause"]) == (0, "1-5", newest.hash, "[3]")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("show", "A", "--after", "x"), "--after"),
        (("show", "B"), "there are: A"),
        (("verify", "--cloud", "B"), "'B'"),
        (("merge", "A", "nowhere"), "nowhere holds no archive"),
    ],
)
def test_wrong_usage_is_named(spotfed: Run, journal: Journal, arguments: tuple[str, ...], says: str) -> None:
    code, _, errors = spotfed("journal", *arguments)
    assert (code, says in errors) == (2, True)
    assert journal.cloud == "A"


def test_without_a_queue(spotfed: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPOTFED_REDIS_URL", f"unix://{tmp_path}/nothing.sock")
    settings.cache_clear()
    code, _, errors = spotfed("journal", "verify")
    assert (code, "spotfed doctor" in errors) == (4, True)
