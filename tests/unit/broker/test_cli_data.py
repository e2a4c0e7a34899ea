"""``spotfed data``: data sets are listed, fetched from an address, and compared with what was published."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

import broker.cli.data
from cloudsim.experiments.data_sets import DATA_SETS, DataFile, DataSet
from cloudsim.experiments.registry import MODULES, load
from tests.unit.broker.running import Run, runner

BYTES = b"; a log\n" * 20_000


@pytest.fixture
def spotfed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    monkeypatch.setenv("SPOTFED_STATE_DIR", str(tmp_path / "state"))
    return runner(monkeypatch, capsys)


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Write nothing."""


@pytest.fixture
def published(tmp_path: Path) -> Iterator[str]:
    """The address of a publisher who has one whole file and one that has changed."""
    files = tmp_path / "published"
    files.mkdir()
    (files / "log.swf").write_bytes(BYTES)
    (files / "changed.swf").write_bytes(BYTES + b"more")

    def handler(*args: Any) -> Quiet:
        return Quiet(*args, directory=str(files))

    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def sets(published: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = DataFile("logs/log.swf", len(BYTES), hashlib.sha256(BYTES).hexdigest(), f"{published}/log.swf")
    known = (
        DataSet("logs", "two logs", "somebody", "free", (whole,)),
        DataSet(
            "odd",
            "logs that are gone or changed, and one in another form",
            "somebody else",
            "free",
            (
                replace(whole, path="odd/changed.swf", address=f"{published}/changed.swf"),
                replace(whole, path="odd/gone.swf", address=f"{published}/gone.swf"),
                replace(whole, path="odd/other.swf", address=None),
            ),
            "cut the logs in two",
        ),
    )
    monkeypatch.setattr(broker.cli.data, "DATA_SETS", known)


def states(text: str) -> dict[str, str]:
    return {file["path"]: file["state"] for file in json.loads(text)["files"]}


@pytest.mark.usefixtures("sets")
def test_what_is_fetched_is_whole_and_stays(spotfed: Run, tmp_path: Path) -> None:
    place = tmp_path / "data"
    listed = spotfed("data", "list", "--directory", place, "--json")
    assert [(each["name"], each["state"]) for each in json.loads(listed.out)["data_sets"]] == [
        ("logs", "missing"),
        ("odd", "missing"),
    ]
    assert spotfed("data", "verify", "logs", "--directory", place).code == 1
    for _ in range(2):
        done = spotfed("data", "fetch", "logs", "--directory", place, "--json")
        assert (done.code, states(done.out)) == (0, {"logs/log.swf": "whole"})
        assert f"set SPOTFED_DATA={place}" in done.err
    assert (place / "logs/log.swf").read_bytes() == BYTES
    assert spotfed("data", "verify", "logs", "--directory", place).code == 0
    (place / "logs/log.swf").write_bytes(BYTES[1:])
    damaged = spotfed("data", "verify", "logs", "--directory", place, "--json")
    assert (damaged.code, states(damaged.out)) == (1, {"logs/log.swf": "other"})
    assert spotfed("data", "fetch", "logs", "--directory", place).code == 0
    assert (place / "logs/log.swf").read_bytes() == BYTES


@pytest.mark.usefixtures("sets")
def test_an_address_that_is_gone_or_changed_is_told_and_nothing_is_left(
    spotfed: Run, published: str, tmp_path: Path
) -> None:
    done = spotfed("data", "fetch", "--directory", tmp_path / "data", "--json")
    assert done.code == 1
    assert f"odd/gone.swf: the address is gone: {published}/gone.swf" in done.err
    assert f"odd/changed.swf: it holds other bytes than it did: {published}/changed.swf" in done.err
    assert "odd is not published in this form. From somebody else: cut the logs in two." in done.err
    assert states(done.out)["logs/log.swf"] == "whole"
    assert list((tmp_path / "data/odd").iterdir()) == []


def test_a_publisher_who_is_away_is_told(
    spotfed: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = "http://127.0.0.1:9/log.swf"
    file = DataFile("logs/log.swf", 1, "00", nowhere)
    monkeypatch.setattr(
        broker.cli.data, "DATA_SETS", (DataSet("logs", "a log", "somebody", "free", (file,)),)
    )
    done = spotfed("data", "fetch", "--directory", tmp_path)
    assert done.code == 1
    assert f"logs/log.swf: {nowhere} cannot be read: " in done.err


def test_an_unknown_name_lists_the_known_ones(spotfed: Run) -> None:
    done = spotfed("data", "fetch", "logs")
    assert done.code == 2
    assert "no data set is called 'logs'; there are: eucalyptus, swf," in done.err


def test_whatever_an_experiment_needs_is_listed() -> None:
    listed = {file.path for each in DATA_SETS for file in each.files}
    needed = {path for name in MODULES for case in load(name).cases(False) for path in case.needs}
    assert needed - listed == set()
    assert all(file.path.startswith(f"{each.name}/") for each in DATA_SETS for file in each.files)
    assert all(each.conversion or all(file.address for file in each.files) for each in DATA_SETS)


def test_the_recorded_data_are_what_was_published(spotfed: Run, data_dir: Path) -> None:
    done = spotfed("data", "verify", "--directory", data_dir, "--json")
    found = [state for state in states(done.out).values() if state != "missing"]
    assert {*found} == {"whole"}
