"""``spotfed config show``, the first key, next steps, completion, and that all commands are alike."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import redis
import typer

from broker.cli.app import app
from broker.cli.console import next_step
from broker.identity.store import api_key_digest, parse_key_record
from broker.settings import Settings, settings
from broker.storage.keys import RedisKeys
from tests.unit.broker.running import runner

Spotfed = Callable[..., SimpleNamespace]


@pytest.fixture
def spotfed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Iterator[Spotfed]:
    """Runs a command with its own state directory and nothing else told but ``environ``."""
    for name in [name for name in os.environ if name.startswith("SPOTFED_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("SPOTFED_STATE_DIR", str(tmp_path))

    command = runner(monkeypatch, capsys)

    def run(*arguments: object, **environ: str) -> SimpleNamespace:
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        settings.cache_clear()
        return command(*arguments)

    yield run
    settings.cache_clear()


# -- config show ---------------------------------------------------------------------------------------------


def told(done: SimpleNamespace) -> dict[str, dict[str, str]]:
    assert done.code == 0
    return {one["variable"]: one for one in json.loads(done.out)["settings"]}


def test_every_setting_is_shown_with_its_origin(spotfed: Spotfed, tmp_path: Path) -> None:
    found = told(spotfed("config", "show", "--json", SPOTFED_PORT="8111", SPOTFED_WEBHOOK_ALLOW="10.0.0.0/8"))
    assert found.keys() == {f"SPOTFED_{name.upper()}" for name in Settings.model_fields}
    assert (found["SPOTFED_PORT"]["value"], found["SPOTFED_PORT"]["origin"]) == ("8111", "environment")
    assert found["SPOTFED_WEBHOOK_ALLOW"]["value"] == "10.0.0.0/8"
    assert (found["SPOTFED_SEED"]["value"], found["SPOTFED_SEED"]["origin"]) == ("0", "default")
    assert found["SPOTFED_REDIS_URL"]["value"] == "unset"
    assert all(one["what"] for one in found.values())
    said = " ".join(one["what"] for one in found.values())
    assert "None" not in said
    assert "Private key of SPOTFED_TLS_CERT" in said


def test_what_runs_here_is_found_in_files(spotfed: Spotfed, tmp_path: Path) -> None:
    (tmp_path / "api-key").write_text("s3cret\n")
    (tmp_path / "redis-url").write_text("unix:///run/x.sock?db=0&password=s3cret")
    shown = spotfed("config", "show", "--json")
    found = told(shown)
    assert found["SPOTFED_API_KEY"]["value"] == "***"
    assert found["SPOTFED_API_KEY"]["origin"] == str(tmp_path / "api-key")
    assert found["SPOTFED_REDIS_URL"]["value"] == "unix:///run/x.sock?db=0&password=***"
    assert found["SPOTFED_REDIS_URL"]["origin"] == str(tmp_path / "redis-url")
    set_here = told(spotfed("config", "show", "--json", SPOTFED_REDIS_URL="redis://other"))
    assert set_here["SPOTFED_REDIS_URL"]["origin"] == "environment"
    assert "s3cret" not in shown.out


@pytest.mark.parametrize("form", [("--json",), ("--origin",), ()])
def test_no_secret_is_shown(spotfed: Spotfed, form: tuple[str, ...]) -> None:
    done = spotfed(
        "config", "show", *form, SPOTFED_API_KEY="s3cret", SPOTFED_REDIS_URL="redis://me:s3cret@host:1/0",
        SPOTFED_URL="http://me:s3cret@host",
    )  # fmt: skip
    assert done.code == 0
    assert "s3cret" not in done.out + done.err
    assert "redis://me:***@host:1/0" in done.out
    assert ("environment" in done.out) == bool(form)


def test_a_variable_that_is_no_setting_is_warned_of(spotfed: Spotfed) -> None:
    done = spotfed("config", "show", "--json", SPOTFED_REDIS_URI="redis://host")
    assert json.loads(done.out)["unknown"] == ["SPOTFED_REDIS_URI"]
    assert "SPOTFED_REDIS_URI: there is no such setting" in done.err
    assert "did you mean SPOTFED_REDIS_URL?" in done.err


def test_a_malformed_one_is_named(spotfed: Spotfed) -> None:
    done = spotfed("config", "show", SPOTFED_PORT="x")
    assert (done.code, done.out) == (2, "")
    assert "SPOTFED_PORT: " in done.err


def test_the_schema_of_federation_files_is_printed(spotfed: Spotfed) -> None:
    done = spotfed("config", "schema")
    assert done.code == 0
    schema = json.loads(done.out)
    assert schema["required"] == ["cloud"]
    assert schema["properties"].keys() == {"until", "flavours", "cloud", "workload"}
    cloud = schema["$defs"]["CloudTable"]
    assert cloud["additionalProperties"] is False
    assert "partial-hour" in cloud["properties"]["lineup"]["enum"]
    assert {"type": "string"} in cloud["properties"]["grace"]["anyOf"]


# -- the first key -------------------------------------------------------------------------------------------


def test_the_first_key_is_an_operators_and_stays_the_same(
    spotfed: Spotfed, redis_client: redis.Redis, redis_url: str, tmp_path: Path
) -> None:
    first = spotfed("key", "first", "--json", SPOTFED_REDIS_URL=redis_url)
    assert first.code == 0
    path = Path(json.loads(first.out)["api_key_file"])
    key = path.read_text().strip()
    assert path.stat().st_mode & 0o777 == 0o600
    assert key not in first.out + first.err
    kept: Any = redis_client.hget(RedisKeys("spotfed:").api_keys, api_key_digest(key))
    record = parse_key_record(kept)
    assert record is not None
    assert record.role.value == "operator"
    redis_client.flushall()  # and after a Redis that came back empty
    assert spotfed("key", "first").code == 0
    assert path.read_text().strip() == key
    assert redis_client.hexists(RedisKeys("spotfed:").api_keys, api_key_digest(key))


def test_without_redis_it_says_what_to_set(spotfed: Spotfed) -> None:
    done = spotfed("key", "first")
    assert done.code == 4
    assert "set SPOTFED_REDIS_URL" in done.err


# -- what a person does next ---------------------------------------------------------------------------------


@pytest.mark.parametrize("terminal", [True, False])
def test_the_next_step_is_for_terminals(
    terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    next_step("spotfed clouds [all]")
    assert ("Next: spotfed clouds [all]" in capsys.readouterr().out) == terminal


# -- all commands --------------------------------------------------------------------------------------------


def commands(group: Any, path: str = "spotfed") -> Iterator[tuple[str, Any]]:
    context = typer.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if hasattr(command, "commands"):
            yield from commands(command, f"{path} {name}")
        elif not command.hidden:
            yield f"{path} {name}", command


COMMANDS = dict(commands(typer.main.get_command(app)))


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_is_like_the_others(path: str) -> None:
    command = COMMANDS[path]
    options = {name for one in command.params for name in one.opts if one.param_type_name == "option"}
    assert "--json" in options
    assert all(re.fullmatch(r"--[a-z]+(-[a-z]+)*|-[a-z]", name) for name in options)
    for one in command.params:
        assert one.help, f"{path}: {one.name} is not explained"
        assert one.help.endswith("."), f"{path}: {one.name}"
    assert f"Example: {path}" in command.help


@pytest.mark.parametrize(
    ("shell", "environ"),
    [
        ("bash", {"COMP_WORDS": "spotfed cloud dr", "COMP_CWORD": "2"}),
        ("zsh", {"_TYPER_COMPLETE_ARGS": "spotfed cloud dr"}),
        ("fish", {"_TYPER_COMPLETE_ARGS": "spotfed cloud dr", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}),
    ],
)
def test_shells_complete_commands(shell: str, environ: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from broker.cli import main; main()"],
        env={**os.environ, "_SPOTFED_COMPLETE": f"complete_{shell}", **environ},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "drain" in done.stdout
    assert "reopen" not in done.stdout
