"""``spotfed trust``: keys are made, shown, exchanged and removed; no private key leaves its file."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from broker import cli
from broker.doctor import Installation
from broker.doctor.keys import check_signatures
from broker.local.__main__ import signing_variables
from broker.local.process_list import ProcessList
from broker.settings import Settings, settings
from broker.signing.key_files import local_key_files, read_private_key
from broker.signing.signer import MessageSigner

Spotfed = Callable[..., SimpleNamespace]


@pytest.fixture
def spotfed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Iterator[Spotfed]:
    """Runs a command with its own state directory; returns exit code, output and errors."""
    monkeypatch.setenv("SPOTFED_STATE_DIR", str(tmp_path / "state"))

    def run(*arguments: object) -> SimpleNamespace:
        settings.cache_clear()
        monkeypatch.setattr(sys, "argv", ["spotfed", *map(str, arguments)])
        try:
            cli.main()
            code: object = 0
        except SystemExit as end:
            code = end.code
        said = capsys.readouterr()
        return SimpleNamespace(code=code or 0, out=said.out, err=said.err)

    yield run
    settings.cache_clear()


def test_a_key_is_made_once_for_its_user_alone_and_not_printed(spotfed: Spotfed, tmp_path: Path) -> None:
    path = tmp_path / "state" / "keys" / "cloud.a.key"
    made = spotfed("trust", "create", "cloud.a")
    assert made.code == 0
    secret = json.loads(path.read_text())["d"]
    assert secret not in made.out + made.err
    assert path.stat().st_mode & 0o777 == 0o600
    again = spotfed("trust", "create", "cloud.a")
    assert again.code == 2
    assert "--replace" in again.err
    assert json.loads(path.read_text())["d"] == secret


def test_keys_are_exchanged_between_machines_and_removed(spotfed: Spotfed, tmp_path: Path) -> None:
    here, there = tmp_path / "here.json", tmp_path / "there.json"
    spotfed("trust", "create", "broker", "--key", tmp_path / "broker.key", "--trust", here)
    spotfed("trust", "create", "cloud.a", "--key", tmp_path / "a.key", "--trust", there)
    public = spotfed("trust", "show", "cloud.a", "--trust", there, "--json").out
    assert '"d"' not in public
    (tmp_path / "sent.json").write_text(public)
    added = json.loads(spotfed("trust", "add", tmp_path / "sent.json", "--trust", here, "--json").out)
    assert [key["issuer"] for key in added["keys"]] == ["cloud.a"]
    old = added["keys"][0]["kid"]
    spotfed("trust", "create", "cloud.a", "--key", tmp_path / "a.key", "--trust", here, "--replace")
    assert len(json.loads(spotfed("trust", "show", "--trust", here, "--json").out)["keys"]) == 3
    assert spotfed("trust", "remove", old, "--trust", here).code == 0
    left = json.loads(spotfed("trust", "show", "--trust", here, "--json").out)["keys"]
    assert old not in [key["kid"] for key in left]
    assert read_private_key(tmp_path / "a.key").kid in [key["kid"] for key in left]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["create", "harbour"], "cloud.harbour"),
        (["create", "jobs.a"], "'jobs'"),
        (["show"], "trust.json"),
        (["add", "nowhere.json"], "nowhere.json"),
        (["remove", "x"], "trust.json"),
    ],
)
def test_what_is_wrong_is_named(spotfed: Spotfed, arguments: list[str], named: str) -> None:
    failed = spotfed("trust", *arguments)
    assert failed.code == 2
    assert named in failed.err


def test_processes_on_this_machine_get_their_keys(spotfed: Spotfed, tmp_path: Path) -> None:
    assert spotfed("trust", "create", "cloud.x").code == 0
    files = local_key_files(settings().state_dir)
    processes = ProcessList(tmp_path / "f.toml", ("a", "b")).specs()
    assert [party for process in processes for party in process.parties] == ["broker", "cloud.a", "cloud.b"]
    processes = ProcessList(tmp_path / "f.toml", ("a", "b"), commanded=("b",)).specs()
    assert {process.name: process.parties for process in processes[-2:]} == {
        "agent-b": ("cloud.b",),
        "jobs-1": ("jobs",),
    }
    assert signing_variables(
        ["-m", "workers.node_agent", "--cloud", "b", "--federation", "f"]
    ) == files.environment("cloud.b")
    assert signing_variables(["-m", "workers.job_manager"]) == files.environment("jobs")
    assert signing_variables(["-m", "broker.api"]) == files.environment("broker")
    assert signing_variables(["-m", "workers.owner", "--cloud", "a", "--time", "wall"]) == files.environment(
        "cloud.a"
    )
    together = signing_variables(["-m", "workers.owner", "--cloud", "a", "--cloud", "b", "--time", "wall"])
    assert together == files.environment("cloud.a", "cloud.b")
    assert together["SPOTFED_SIGNING_KEY"] == str(files.directory)
    for party in ("cloud.a", "cloud.b"):
        signer = MessageSigner.from_settings(Settings(signing_key=files.directory, trust=files.trust), party)
        assert signer.verify(signer.sign(b"text", "place"), b"text", "place", {party})
    assert signing_variables(["-m", "workers.montecarlo"]) == {}
    kids = [read_private_key(files.key(party)).kid for party in ("broker", "cloud.a")]
    signing_variables(["-m", "broker.api"])
    assert [read_private_key(files.key(party)).kid for party in ("broker", "cloud.a")] == kids


def test_the_doctor_says_whether_messages_are_signed(spotfed: Spotfed, tmp_path: Path) -> None:
    spotfed("trust", "create", "broker", "--key", tmp_path / "key", "--trust", tmp_path / "trust")
    spotfed("trust", "create", "broker", "--key", tmp_path / "stray", "--trust", tmp_path / "other")
    told = settings()

    def state(**changes: Path) -> str:
        (result,) = check_signatures(Installation(told.model_copy(update=changes)))
        return result.state

    trust, key = tmp_path / "trust", tmp_path / "key"
    assert state() == state(signing_key=key) == "warning"
    assert state(trust=trust, signing_key=key) == "ok"
    assert state(trust=trust, signing_key=tmp_path / "stray") == "failure"
    assert state(trust=tmp_path / "none", signing_key=key) == "failure"
    local_key_files(told.state_dir).ensure(["broker"])
    assert state() == "ok"
