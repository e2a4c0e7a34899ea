"""Owners on a real server that lost its last entries, or all of them; and journals that are kept short."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
import redis

from broker.contract import CloudInfo, EventKind, LeaseGranted, Reply, replies
from broker.journal.archive import Archive, ArchiveError, archive_directory
from broker.journal.entries import JournalEntries
from broker.journal.journal import Journal
from broker.journal.verify import JournalFinding, verify_journal
from broker.settings import Settings
from broker.storage.connections import connect
from broker.storage.embedded_server import EmbeddedRedis
from broker.storage.keys import RedisKeys
from tests.unit.workers.owners import cancel, confirm, reserve, snapshot, spec, start
from workers.owner.process import OwnerProcess, OwnerProcessSpec
from workers.owner.recovery import Recovery

KEYS = RedisKeys("rc:")
FOREVER_S = 1e6


def fail(status: int) -> NoReturn:
    raise AssertionError(f"the owner ends with status {status}")


class Site:
    """A machine with a Redis server of its own, on which an owner of cloud A runs."""

    def __init__(self, directory: Path):
        self.data, self.state = directory / "redis", directory / "state"
        self.settings = Settings(state_dir=self.state, key_prefix=KEYS.prefix, owner_lease_ttl_s=60.0)
        self.settings = self.settings.model_copy(
            update={"snapshot_every": 30, "journal_kept": 40, "events_kept": 20}
        )
        self.archive = Archive(archive_directory(self.state, KEYS.prefix, "A"), 16)
        self.server: EmbeddedRedis | None = None
        self.runtime: OwnerProcess | None = None
        self.read = "0-0"
        self.start()

    def start(self) -> None:
        self.server = EmbeddedRedis(self.data, appendfsync="no")
        self.server.__enter__()
        self.client = connect(self.server.url)

    def stop(self) -> None:
        if self.runtime is not None:
            self.runtime.close()
            self.runtime = None
        if self.server is not None:
            self.client.close()
            self.server.__exit__(None, None, None)
            self.server = None

    def open(self) -> OwnerProcess:
        """An owner, which is there until ``crash``."""
        owner = spec((8, 8))
        info = CloudInfo(id="A", order=0, nodes="2x8", cores=16, largest_node=8, time="wall")
        self.runtime = OwnerProcess(
            OwnerProcessSpec(owner, info, frozenset({1}), seed=1, births=50),
            self.settings,
            Journal(self.client, KEYS, "A", events_kept=self.settings.events_kept),
            lambda *_: None,
            fail,
            self.archive,
        )
        self.runtime.open()
        return self.runtime

    def crash(self) -> None:
        """The process ends; that it gave up its lease stands for what its successor knows of its death."""
        assert self.runtime is not None
        self.runtime.close()

    def tell(self, *commands: Any) -> list[Reply]:
        assert self.runtime is not None
        Journal(self.client, KEYS, "A").send("A", commands)
        self.runtime.drain()
        found: list[Reply] = []
        entries: Any = self.client.xrange(KEYS.replies("me"), f"({self.read}", "+")
        for entry, fields in entries:
            self.read = entry.decode()
            found += replies.validate_json(fields[b"r"])
        return found

    def admit(self, *names: str) -> None:
        wishes = [wish for name in names for wish in (reserve(name, 1, FOREVER_S), confirm(name))]
        answers = [reply.answer for reply in self.tell(*wishes)]
        assert all(isinstance(answer, LeaseGranted) for answer in answers), answers

    def turn_over(self, count: int, name: str = "t") -> None:
        """So many leases come and go: three entries each, two of them public."""
        for number in range(count):
            self.admit(f"{name}{number}.1")
            self.tell(cancel(f"{name}{number}.1"))

    def verified(self) -> JournalFinding:
        return verify_journal("A", JournalEntries(self.client, KEYS, "A"), self.archive)

    def ids(self) -> list[str]:
        return [entry.id for entry in JournalEntries(self.client, KEYS, "A").after()]

    def running(self) -> list[str]:
        return sorted(name.decode() for name in self.client.smembers(KEYS.running("A")))  # type: ignore[union-attr]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.stop()


def state_of(runtime: OwnerProcess) -> dict[str, Any]:
    held = snapshot(runtime._owner)
    del held["opened"]  # each epoch has its own
    return copy.deepcopy(held)


def test_a_redis_that_was_rolled_back_is_brought_forward_again(site: Site, tmp_path: Path) -> None:
    site.open()
    site.admit("a.1", "b.1")
    site.stop()
    shutil.copytree(site.data, tmp_path / "earlier")
    site.start()
    live = site.open()
    site.admit("c.1")
    site.tell(cancel("a.1"), start("od", 2))
    before, ids = state_of(live), site.ids()
    site.stop()
    shutil.rmtree(site.data)
    shutil.copytree(tmp_path / "earlier", site.data)

    site.start()
    assert site.ids() == ids[:5]
    lost = site.verified()
    assert (lost.bad, "Redis has lost it" in (lost.why or "")) == ("2-1", True)
    again = site.open()
    assert state_of(again) == before
    assert site.ids() == [*ids, "3-1"]
    assert site.running() == ["b.1", "c.1"]
    assert site.verified().bad is None
    # What the broker sends once more is not admitted once more.
    (known,) = site.tell(reserve("c.1", 1, FOREVER_S))
    assert isinstance(known.answer, LeaseGranted)
    assert state_of(again) == before
    merged: Any = site.client.xrange(KEYS.all_events)
    of_cloud: Any = site.client.xrange(KEYS.events("A"))
    assert [fields for _, fields in merged] == [fields for _, fields in of_cloud]


def test_a_redis_that_lost_everything_is_rebuilt(site: Site) -> None:
    live = site.open()
    site.admit("a.1", "b.1")
    site.turn_over(15)
    live.keep_short()
    site.admit("c.1")
    before, ids = state_of(live), site.ids()
    site.crash()
    site.client.flushall()
    again = site.open()
    assert state_of(again) == before
    assert again._since_snapshot < 10, "it began with the snapshot on the disk"
    assert site.ids() == [*ids[-40:], "2-1"]
    assert site.running() == ["a.1", "b.1", "c.1"]
    assert site.client.exists(*(KEYS.lease("A", name) for name in ("a.1", "b.1", "c.1"))) == 3
    assert site.verified().bad is None
    site.admit("d.1")
    site.turn_over(12, "u")
    again.keep_short()
    assert site.verified().bad is None


def test_an_owner_that_redis_left_behind_stops_and_its_successor_brings_all_back(site: Site) -> None:
    live = site.open()
    site.admit("a.1")
    before = state_of(live)
    site.client.flushall()
    with pytest.raises(AssertionError, match="75"):
        site.tell(reserve("b.1"))
    site.crash()
    again = site.open()
    site.tell(cancel("b.1"))  # its successor found the reservation, and admitted it
    assert state_of(again)["open"] == before["open"]
    assert site.verified().bad is None


def test_the_journal_is_kept_short_and_the_archive_has_it_all(site: Site) -> None:
    live = site.open()
    site.admit("a.1")
    site.turn_over(30)
    assert len(site.ids()) == 93
    live.keep_short()
    assert site.ids() == [f"1-{number}" for number in range(54, 94)]
    assert site.client.xlen(KEYS.events("A")) == 20
    found = site.verified()
    assert (found.bad, found.entries, found.archived, found.since) == (None, 93, 93, False)
    live.keep_short()  # nothing new
    site.turn_over(1, "v")
    before = state_of(live)
    site.crash()
    again = site.open()
    assert again._since_snapshot == 4, "three, and its own first entry"
    assert state_of(again) == before
    # The same id, the same answer: the book is in the snapshot.
    (known,) = site.tell(reserve("t0.1"))
    assert isinstance(known.answer, LeaseGranted)
    assert known.answer.lease.ended_at_s is not None


def test_a_snapshot_that_cannot_be_read_is_passed_over_for_the_archive(site: Site) -> None:
    live = site.open()
    site.turn_over(30)
    live.keep_short()
    before = state_of(live)
    site.crash()
    site.client.set(KEYS.snapshot("A"), b"{}")
    (site.archive.directory / "snapshot").write_bytes(b'{"format": 99}\n')
    again = site.open()
    assert state_of(again) == before
    assert again._since_snapshot == 92, "all, and its own first entry"


def test_an_owner_on_another_machine_begins_with_the_snapshot_in_redis(site: Site) -> None:
    live = site.open()
    site.turn_over(30)
    live.keep_short()
    before = state_of(live)
    site.crash()
    shutil.rmtree(site.state)
    assert state_of(site.open()) == before
    found = site.verified()
    assert (found.bad, found.since, found.archived) == (None, True, found.entries)


def test_an_archive_that_missed_entries_gets_them_from_the_journal(site: Site) -> None:
    site.open()
    site.archive.abandon()
    site.turn_over(12)
    assert site.archive.newest() is not None
    live = site.runtime
    assert live is not None
    live.keep_short()
    assert site.verified().archived == 37
    site.crash()
    shutil.rmtree(site.archive.directory)
    site.open()
    found = site.verified()
    assert (found.bad, found.archived) == (None, 38)


def test_entries_that_only_the_archive_has_are_named(site: Site, tmp_path: Path) -> None:
    site.open()
    site.admit("a.1")
    site.crash()
    shutil.copytree(site.state, tmp_path / "other")
    site.open()
    site.admit("b.1")
    lost = site.ids()[-1]
    site.crash()
    # Redis went back to where the other machine's owner goes on from.
    for entry in ("2-1", "2-2", "2-3"):
        site.client.xdel(KEYS.journal("A"), entry)
    site.client.xdel(KEYS.events("A"), "0-2")
    site.archive.directory.rename(tmp_path / "ours")
    shutil.copytree(tmp_path / "other" / "archive", site.state / "archive", dirs_exist_ok=True)
    site.open()
    site.admit("c.1")
    site.crash()
    shutil.rmtree(site.archive.directory)
    (tmp_path / "ours").rename(site.archive.directory)
    site.open()
    events = [entry.event() for entry in JournalEntries(site.client, KEYS, "A").after()]
    admitted = [event.lease.id for event in events if event.kind is EventKind.ADMITTED and event.lease]
    assert admitted == ["a.1", "c.1"]
    assert lost == "2-3"
    assert site.verified().bad in {"2-1", "3-1"}


def test_a_journal_of_an_older_version_goes_on(site: Site) -> None:
    site.open()
    site.admit("a.1")
    site.crash()
    entries = list(JournalEntries(site.client, KEYS, "A").after())
    site.client.delete(KEYS.journal("A"))
    shutil.rmtree(site.archive.directory)
    for entry in entries:
        site.client.xadd(KEYS.journal("A"), {"e": entry.body}, id=entry.id)
    site.open()
    site.admit("b.1")
    site.crash()
    site.open()
    found = site.verified()
    assert (found.bad, found.unchained, found.entries) == (None, 3, 7)


def test_a_changed_entry_stops_the_owner(site: Site) -> None:
    site.open()
    site.admit("a.1", "b.1")
    site.crash()
    head: Any = site.client.xrevrange(KEYS.journal("A"), count=1)
    ((entry, fields),) = head
    site.client.xdel(KEYS.journal("A"), entry)
    shutil.rmtree(site.archive.directory)
    with pytest.raises(redis.ResponseError):
        site.client.xadd(KEYS.journal("A"), fields, id=entry)
    journal: Any = site.client.xrange(KEYS.journal("A"))
    site.client.delete(KEYS.journal("A"))
    for one, kept in journal:
        changed: Any = {b"e": kept[b"e"].replace(b'"cores":1', b'"cores":2'), b"h": kept[b"h"]}
        site.client.xadd(KEYS.journal("A"), changed, id=one)
    with pytest.raises(AssertionError, match="status 70"):
        site.open()
    assert site.verified().bad == "1-2"


def test_an_archive_that_is_deleted_under_its_owner_is_written_again(site: Site) -> None:
    live = site.open()
    site.turn_over(15)
    live.keep_short()
    shutil.rmtree(site.archive.directory)
    site.admit("a.1")
    site.turn_over(12, "u")
    live.keep_archive(at_once=True)
    found = site.verified()
    assert (found.bad, found.archived) == (None, found.entries)
    assert site.archive.snapshot() == site.client.get(KEYS.snapshot("A")) is not None
    assert not live._archiver.needs_mending(at_once=True)
    before = state_of(live)
    site.admit("b.1")
    site.tell(cancel("b.1"))
    site.crash()
    site.client.flushall()  # what was rebuilt is enough to begin with
    again = site.open()
    assert state_of(again)["open"] == before["open"]
    assert site.running() == ["a.1"]


@pytest.mark.parametrize("files", ["all", "first", "middle", "last"])
def test_files_of_an_archive_that_are_deleted_are_written_again(site: Site, files: str) -> None:
    live = site.open()
    site.turn_over(12)
    site.archive.sync()
    segments = site.archive.segments()
    assert len(segments) > 2
    wanted = list(site.archive.entries())
    for path in {"all": segments, "first": segments[:1], "middle": segments[1:2], "last": segments[-1:]}[
        files
    ]:
        path.unlink()
    site.turn_over(1, "u")
    live.keep_archive(at_once=True)
    assert list(site.archive.entries())[: len(wanted)] == wanted
    found = site.verified()
    assert (found.bad, found.archived) == (None, found.entries)
    site.turn_over(2, "v")
    site.archive.sync()
    assert site.verified().archived == site.verified().entries
    assert not live._archiver.needs_mending(at_once=True)


def test_entries_that_were_in_the_archive_alone_are_missed(site: Site) -> None:
    live = site.open()
    site.turn_over(30)
    live.keep_short()
    site.archive.sync()
    site.archive.segments()[0].unlink()
    live.keep_archive(at_once=True)
    assert live._stats._measures.archive_gaps == 1
    live.keep_archive(at_once=True)
    assert live._stats._measures.archive_gaps == 1, "it is still so"


def test_a_standby_has_all_but_what_it_slept_through_and_its_archive_is_filled_from_the_other(
    site: Site, tmp_path: Path
) -> None:
    live = site.open()
    standby = Archive(tmp_path / "standby", 16)
    copying = Recovery(Journal(site.client, KEYS, "A"), standby)

    def verify() -> JournalFinding:
        return verify_journal("A", JournalEntries(site.client, KEYS, "A"), standby)

    copying.copy_journal()
    for number in range(3):
        site.turn_over(15, f"{number}-")
        copying.copy_journal()
        live.keep_short()
    assert site.ids()[0] != "1-1"
    assert list(standby.entries()) == list(site.archive.entries())
    copying.copy_journal()
    assert standby.snapshot() == JournalEntries(site.client, KEYS, "A").snapshot()
    assert verify().bad is None

    site.turn_over(30, "missed-")
    live.keep_short()
    copying.copy_journal()
    site.turn_over(2, "then-")
    copying.copy_journal()
    assert verify().bad == site.ids()[0]
    site.archive.sync()
    assert standby.merge(site.archive) > 0
    assert verify().bad is None
    assert list(standby.entries()) == list(site.archive.entries())
    site.turn_over(2, "later-")
    copying.copy_journal()
    assert list(standby.entries()) == list(site.archive.entries())
    standby.close()


def test_a_standby_copies_nothing_behind_what_the_journal_does_not_have(site: Site, tmp_path: Path) -> None:
    site.open()
    standby = Archive(tmp_path / "standby")
    copying = Recovery(Journal(site.client, KEYS, "A"), standby)
    site.admit("a.1")
    copying.copy_journal()
    had = list(standby.entries())
    # Redis lost its last entry, and an owner without this archive went on.
    site.crash()
    site.client.xdel(KEYS.journal("A"), had[-1].id)
    site.client.xdel(KEYS.events("A"), "0-1")
    shutil.rmtree(site.state)
    site.open()
    with pytest.raises(ArchiveError, match=f"does not continue {had[-1].id}"):
        copying.copy_journal()
    assert list(standby.entries()) == had
    standby.close()
