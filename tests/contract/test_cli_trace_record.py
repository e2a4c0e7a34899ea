"""``spotfed trace record``: own load from a real journal, whose beginning is in its archive only."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from broker.contract import CloudInfo
from broker.journal.archive import Archive, archive_directory
from broker.journal.journal import Commit, Journal
from broker.settings import settings
from cloudsim.traces.formats import read
from tests.contract.harness import Federation, Run
from tests.unit.workers.owners import Live, load, spec

PLAYED = load((1, 50, 2), (3, 30, 1), (10, 10, 1), (20, 90, 2), (21, 80, 4))


@pytest.fixture
def live() -> Live:
    """Cloud A after 60 s, with headroom."""
    told = spec((4, 4), own_load=PLAYED)
    live = Live(replace(told, cloud=replace(told.cloud, headroom=(2,))))
    live.advance(60)
    return live


@pytest.fixture
def journal(
    federation: Federation, live: Live, monkeypatch: pytest.MonkeyPatch, spotfed: Run, tmp_path: Path
) -> Journal:
    """Of that cloud; its stream holds the last three entries only."""
    monkeypatch.setenv("SPOTFED_REDIS_URL", federation.redis_url)
    monkeypatch.setenv("SPOTFED_KEY_PREFIX", federation.prefix)
    settings.cache_clear()
    made = Journal(federation.redis, federation.keys, "A")
    made.publish_info(CloudInfo(id="A", order=0, nodes="2x4", cores=8, largest_node=4, time="wall"))
    assert made.acquire("me", 60) == 1
    commit = Commit(1, "me", 60, 1, live.events)
    made.commit(commit)
    archive = Archive(archive_directory(tmp_path, federation.prefix, "A"))
    archive.open()
    archive.append(made.link(commit))
    archive.close()
    federation.redis.xtrim(federation.keys.journal("A"), maxlen=3, approximate=False)
    return made


def test_a_cloud_s_load_is_written_as_a_trace_that_is_read_again(
    spotfed: Run, journal: Journal, tmp_path: Path
) -> None:
    file = tmp_path / "A.csv"
    code, out, _ = spotfed("trace", "record", "--cloud", "A", "--output", file, "--json")
    told = json.loads(out)
    assert (code, told["rows"], told["running"], told["turned_away"]) == (0, 4, 1, 1)
    trace, report = read(file)
    assert not report.quarantined
    np.testing.assert_array_equal(trace.start_s, PLAYED.start_s[:4])
    np.testing.assert_array_equal(trace.cores, PLAYED.cores[:4])
    np.testing.assert_array_equal(trace.stop_s[:3], PLAYED.stop_s[:3])
    assert trace.right_censored.tolist() == [False, False, False, True]
    assert journal.cloud == "A"


def test_a_journal_without_its_beginning_is_no_trace(spotfed: Run, journal: Journal, tmp_path: Path) -> None:
    for segment in tmp_path.glob("archive/*/A/*"):
        segment.unlink()
    file = tmp_path / "A.csv"
    code, _, errors = spotfed("trace", "record", "--cloud", "A", "--output", file)
    assert (code, "record where its owner runs" in errors, file.exists()) == (1, True, False)
    assert journal.cloud == "A"


def test_an_output_of_no_known_format_is_refused(spotfed: Run, journal: Journal, tmp_path: Path) -> None:
    code, _, errors = spotfed("trace", "record", "--cloud", "A", "--output", tmp_path / "A.txt")
    assert (code, "--output" in errors) == (2, True)
    assert journal.cloud == "A"


def test_a_trace_is_kept_current_until_it_is_stopped(
    spotfed: Run, journal: Journal, live: Live, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file, before = tmp_path / "A.csv", len(live.events)
    stops_s: list[list[float]] = []

    def sleep(_: float) -> None:
        """Time passes in the cloud, then nothing happens, then Ctrl-C."""
        stops_s.append(read(file)[0].stop_s.tolist())
        if len(stops_s) == 1:
            live.advance(95)
            journal.commit(Commit(1, "me", 60, before + 1, live.events[before:]))
        if len(stops_s) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("broker.cli.trace.record.time", SimpleNamespace(sleep=sleep))
    code, out, _ = spotfed("trace", "record", "--cloud", "A", "--output", file, "--follow")
    assert (code, out.count("instances of A are in")) == (0, 2), "it is not written anew for nothing"
    assert stops_s[0] != stops_s[1] == stops_s[2] == PLAYED.stop_s[:4].tolist()
