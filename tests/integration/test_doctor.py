"""``spotfed doctor`` and the start-up checks, on a real server that drops keys, and on one that does not."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from broker import cli
from broker.identity.store import let_in_operator
from broker.signing.key_files import local_key_files
from broker.signing.parties import BROKER
from broker.storage.embedded_server import EmbeddedRedis, find_server
from tests.integration.worker_processes import Processes
from tests.support.wait import wait_until

pytestmark = pytest.mark.xdist_group("worker-processes")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedRedis]:
    with EmbeddedRedis(tmp_path_factory.mktemp("redis")) as started:
        yield started


@pytest.fixture
def processes(server: EmbeddedRedis, tmp_path: Path) -> Iterator[Processes]:
    with Processes(server.url, tmp_path) as started:
        started.client.config_set("maxmemory-policy", "noeviction")
        started.client.config_set("appendonly", "yes")
        yield started


@dataclass(frozen=True)
class Ended:
    """What a command printed, and its exit code."""

    returncode: int
    out: str


Doctor = Callable[..., Ended]


@pytest.fixture
def doctor(
    processes: Processes, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Doctor:
    """Runs the command in this process, on the federation of ``processes`` unless it is told otherwise."""
    for name in [name for name in os.environ if name.startswith("SPOTFED_")]:
        monkeypatch.delenv(name)

    def run(*options: str, **environ: str) -> Ended:
        told = {
            "SPOTFED_REDIS_URL": str(processes.settings.redis_url),
            "SPOTFED_STATE_DIR": str(processes.directory),
            "SPOTFED_KEY_PREFIX": processes.settings.key_prefix,
        }
        with monkeypatch.context() as patch:
            for name, value in (told | environ).items():
                patch.setenv(name, value)
            patch.setattr(sys, "argv", ["spotfed", "doctor", *options])
            with pytest.raises(SystemExit) as ended:
                cli.main()
        code = ended.value.code or 0
        assert isinstance(code, int)
        return Ended(code, capsys.readouterr().out)

    return run


def states(ended: Ended) -> dict[str, str]:
    checks = json.loads(ended.out)["checks"]
    assert all(set(check) == {"name", "state", "found", "advice"} for check in checks)
    return {check["name"]: check["state"] for check in checks}


def test_nothing_starts_on_a_server_that_drops_keys(processes: Processes, doctor: Doctor) -> None:
    processes.client.config_set("maxmemory-policy", "allkeys-lru")
    started = {
        "workers.owner": processes.owner(),
        "workers.montecarlo": processes.montecarlo(),
        "broker.api": processes.start("broker.api", "--port", "0"),
    }
    for number, (name, process) in enumerate(started.items()):
        assert process.wait(60) == os.EX_CONFIG == 78
        said = (processes.directory / f"{number}.log").read_text()
        assert f"{name}: maxmemory-policy of unix://" in said
        assert "is allkeys-lru" in said
        assert "CONFIG SET maxmemory-policy noeviction" in said
    assert not processes.client.exists(processes.keys.epoch("A"), processes.keys.clouds)

    shown = doctor("--json")
    assert shown.returncode == 1
    assert {name for name, state in states(shown).items() if state == "failure"} == {"redis policy"}
    plain, coloured = doctor(FORCE_COLOR="1", NO_COLOR="1"), doctor(FORCE_COLOR="1", TERM="xterm")
    assert plain.returncode == coloured.returncode == 1
    assert "allkeys-lru" in plain.out
    assert ("\x1b[31m" in plain.out, "\x1b[31m" in coloured.out) == (False, True)


def test_nothing_starts_on_a_server_of_a_cluster(tmp_path: Path, doctor: Doctor) -> None:
    path = tmp_path / "cluster.sock"
    command = [str(find_server()), "--port", "0", "--unixsocket", str(path), "--dir", str(tmp_path)]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    command += ["--cluster-enabled", "yes", "--cluster-port", port, "--save", ""]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        wait_until(path.exists, "the server")
        url = f"unix://{path}?db=0"
        directory = tmp_path / "state"
        directory.mkdir()
        with Processes(url, directory) as processes:
            for number, (name, process) in enumerate(
                {"workers.owner": processes.owner(), "broker.api": processes.start("broker.api")}.items()
            ):
                assert process.wait(60) == os.EX_CONFIG == 78
                said = (directory / f"{number}.log").read_text()
                assert f"{name}: unix://{path}?db=0 is part of a Redis Cluster" in said
                assert "cluster-enabled no" in said
        assert states(doctor("--json", SPOTFED_REDIS_URL=url))["redis mode"] == "failure"
    finally:
        server.kill()
        server.wait()


def test_a_sound_federation_is_found_sound_until_its_owner_is_killed(
    processes: Processes, doctor: Doctor
) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    url = f"http://127.0.0.1:{port}"
    let_in_operator(processes.client, processes.keys, "k")
    keys = local_key_files(processes.directory)
    keys.ensure([BROKER, "cloud.A"])
    # The usual time until another takes over is short for a machine under load.
    signing = keys.environment("cloud.A")
    owner = processes.owner("--speed", "60", "--history", "30h", SPOTFED_OWNER_LEASE_TTL_S="4", **signing)
    processes.montecarlo()
    processes.start("broker.api", "--port", port, **keys.environment(BROKER))
    processes.table(1)

    def ready() -> bool:
        try:
            return httpx.get(f"{url}/readyz").is_success
        except httpx.TransportError:
            return False

    wait_until(ready, "the API")
    told = {"SPOTFED_URL": url, "SPOTFED_API_KEY": "k", "SPOTFED_ADVERT_MAX_AGE_S": "60"}
    told |= keys.environment(BROKER)
    sound = doctor("--json", **told)
    assert sound.returncode == 0, sound.out
    assert set(states(sound).values()) == {"ok"}
    assert {"owner A", "table A", "contract", "monte-carlo workers", "redis clock", "api ready"} <= set(
        states(sound)
    )
    assert states(doctor("--json", **told | {"SPOTFED_API_KEY": "x"}))["api key"] == "failure"

    owner.kill()
    owner.wait()
    wait_until(lambda: not processes.client.exists(processes.keys.owner("A")), "the end of the owner's lease")
    orphaned = doctor("--json", **told)
    assert orphaned.returncode == 1
    assert {name for name, state in states(orphaned).items() if state == "failure"} == {"owner A"}


def test_an_owner_that_may_lose_its_journal_says_so_and_starts(processes: Processes, doctor: Doctor) -> None:
    processes.client.config_set("appendonly", "no")
    processes.owner("--history", "1h")
    processes.opened(1)
    said = (processes.directory / "0.log").read_text()
    assert "when it stops it loses everything" in said
    shown = doctor("--json")
    assert shown.returncode == 0
    assert states(shown)["redis persistence"] == "warning"


def test_what_cannot_be_reached_or_read_is_a_failure(processes: Processes, doctor: Doctor) -> None:
    nowhere = doctor("--json", SPOTFED_REDIS_URL=f"unix://{processes.directory}/nobody.sock")
    assert nowhere.returncode == 1
    assert states(nowhere)["redis"] == "failure"

    malformed = doctor("--json", SPOTFED_PORT="x")
    assert malformed.returncode == 1
    assert states(malformed)["settings"] == "failure"

    processes.client.execute_command("ACL", "SETUSER", "guest", "reset", "on", ">s3cret", "~other:*", "+@all")
    denied = doctor("--json", SPOTFED_REDIS_URL=_as(processes, "guest", "s3cret"))
    assert denied.returncode == 1
    assert states(denied)["clouds"] == "failure"
    assert states(denied)["redis policy"] == "ok"
    assert "s3cret" not in denied.out


def _as(processes: Processes, user: str, password: str) -> str:
    return str(processes.settings.redis_url) + f"&username={user}&password={password}"


def test_a_fresh_machine_has_nothing_wrong(processes: Processes, doctor: Doctor, tmp_path: Path) -> None:
    shown = doctor("--json", SPOTFED_REDIS_URL="", SPOTFED_STATE_DIR=str(tmp_path / "new"))
    assert shown.returncode == 0
    assert states(shown)["redis"] == "warning"
    assert not (tmp_path / "new").exists()
