"""The archive: what was appended is found again, whatever a crash or a second owner left."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from broker.journal.archive import Archive, ArchiveError
from broker.journal.hash_chain import BEGINNING, ChainedEntry, hash_entry


def entries(count: int, epoch: int = 1, before: str = BEGINNING, first: int = 1) -> list[ChainedEntry]:
    made: list[ChainedEntry] = []
    for number in range(first, first + count):
        body = b'{"n":"%d-%d"}' % (epoch, number)
        before = hash_entry(before, f"{epoch}-{number}", body)
        made.append(ChainedEntry(f"{epoch}-{number}", before, body))
    return made


def opened(directory: Path, segment_entries: int = 4) -> Archive:
    archive = Archive(directory, segment_entries)
    archive.open()
    return archive


def test_what_was_appended_is_read_from_compressed_and_open_segments(tmp_path: Path) -> None:
    archive, written = opened(tmp_path / "new"), entries(10)
    for entry in written:
        archive.append([entry])
    assert archive.sync() == written[-1]
    assert [path.name.partition(".")[2] for path in archive.segments()] == ["jsonl.gz", "jsonl.gz", "jsonl"]
    assert list(archive.entries()) == written
    assert list(archive.entries((1, 6))) == written[6:]
    assert list(archive.backwards()) == written[::-1]
    assert archive.get("1-5") == written[4]
    assert archive.get("1-11") is None
    archive.close()


def test_a_segment_that_is_compressed_while_others_read_is_read(tmp_path: Path) -> None:
    archive, written = opened(tmp_path), entries(7)
    archive.append(written[:4])
    archive.sync()
    archive.append(written[4:])
    reader = Archive(tmp_path).entries()
    read = [next(reader)]
    for entry in entries(9)[7:]:
        archive.append([entry])
    archive.sync()
    assert [path.name.partition(".")[2] for path in archive.segments()] == ["jsonl.gz", "jsonl.gz", "jsonl"]
    assert read + list(reader) == entries(8)
    archive.close()


def test_an_old_entry_without_a_hash_stays_one(tmp_path: Path) -> None:
    archive = opened(tmp_path)
    archive.append([ChainedEntry("1-1", "", b"{}")])
    assert list(archive.entries()) == [ChainedEntry("1-1", "", b"{}")]
    archive.close()


def test_the_next_owner_goes_on_behind_a_line_that_was_cut_off(tmp_path: Path) -> None:
    written = entries(6)
    archive = opened(tmp_path, 100)
    archive.append(written[:4])
    archive.close()
    (segment,) = archive.segments()
    segment.write_bytes(segment.read_bytes()[:-20])
    again = opened(tmp_path, 100)
    assert again.last == written[2]
    again.append(written[3:])
    again.close()
    assert list(again.entries()) == written


def test_a_segment_with_nothing_whole_in_it_is_begun_again(tmp_path: Path) -> None:
    written = entries(2)
    archive = opened(tmp_path)
    archive.append(written)
    archive.close()
    (segment,) = archive.segments()
    segment.write_bytes(segment.read_bytes()[:20])
    again = opened(tmp_path)
    assert again.last is None
    again.append(written)
    again.close()
    assert list(again.entries()) == written


def test_what_an_overtaken_owner_appends_late_is_there_once(tmp_path: Path) -> None:
    written = [*entries(3), *entries(2, 2, entries(3)[-1].hash)]
    late, owner = opened(tmp_path, 100), Archive(tmp_path, 100)
    late.append(written[:2])
    owner.open()
    owner.append(written[2:4])
    late.append(written[2:3])
    owner.append(written[4:])
    owner.close()
    late.close()
    assert list(owner.entries()) == written
    assert list(owner.backwards()) == written[::-1]
    assert opened(tmp_path).last == written[-1]


def test_a_crash_while_a_segment_is_compressed_leaves_it_whole(tmp_path: Path) -> None:
    written = entries(6)
    archive = opened(tmp_path)
    archive.append(written[:4])
    archive.append(written[4:])
    first, _ = archive.segments()
    first.with_name(first.name + ".gz").write_bytes(gzip.compress(first.read_bytes())[:-9])
    again = opened(tmp_path)
    assert list(again.entries()) == written
    again.sync()
    assert list(again.entries()) == written
    assert not list(tmp_path.glob("*.jsonl"))
    archive.abandon()


@pytest.mark.parametrize(
    "line", [b"what is this\n", b'{"id":"1-x","h":"","e":{}}\n', b'{"id":"1-9","h":""}\n']
)
def test_what_is_no_entry_is_named(tmp_path: Path, line: bytes) -> None:
    archive = opened(tmp_path)
    archive.append(entries(1))
    archive.close()
    (segment,) = archive.segments()
    segment.write_bytes(segment.read_bytes() + line)
    with pytest.raises(ArchiveError, match=f"{segment.name}:2"):
        list(archive.entries())


def test_a_segment_that_is_cut_off_in_its_compressed_form_is_named(tmp_path: Path) -> None:
    archive = opened(tmp_path)
    for entry in entries(5):
        archive.append([entry])
    archive.close()
    packed = archive.segments()[0]
    packed.write_bytes(packed.read_bytes()[:-12])
    with pytest.raises(ArchiveError, match=packed.name):
        list(archive.entries())


def test_a_snapshot_replaces_the_one_before(tmp_path: Path) -> None:
    archive = opened(tmp_path)
    assert archive.snapshot() is None
    for content in (b"one", b"two"):
        archive.write_snapshot(content)
        assert archive.snapshot() == content
    assert [path.name for path in tmp_path.iterdir()] == ["snapshot"]


def test_who_abandoned_an_archive_adds_what_is_missing_when_it_opens_it_again(tmp_path: Path) -> None:
    written = entries(4)
    archive = opened(tmp_path)
    archive.append(written[:2])
    archive.abandon()
    assert not archive.is_open
    archive.open()
    assert archive.last == written[1]
    archive.append(written[2:])
    archive.close()
    assert list(archive.entries()) == written


def test_two_hosts_that_owned_a_cloud_in_turn_have_the_whole_between_them(tmp_path: Path) -> None:
    written = entries(30)
    one, two = opened(tmp_path / "one"), opened(tmp_path / "two")
    one.append(written[:11])
    two.append(written[9:20])
    one.open()
    one.append(written[20:25])
    two.open()
    two.append(written[23:])
    assert one.merge(two) == 9
    assert list(one.entries()) == written[:25]
    one.append(written[25:])  # its owner went on meanwhile
    one.sync()
    assert list(one.entries()) == written
    assert list(one.backwards()) == written[::-1]
    assert one.merge(two) == 0
    assert two.merge(one) == 12
    two.open()
    two.close()  # what was added is compressed
    assert list(two.entries()) == written
    one.close()


def test_an_archive_of_another_history_is_not_merged(tmp_path: Path) -> None:
    one, two = opened(tmp_path / "one"), opened(tmp_path / "two")
    one.append(entries(3))
    two.append(entries(6, before=hash_entry(BEGINNING, "0-1", b"{}")))
    with pytest.raises(ArchiveError, match="entry 1-1 is another one in"):
        one.merge(two)
    assert list(one.entries()) == entries(3)
    one.close()
    two.close()
