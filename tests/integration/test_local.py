"""``spotfed up`` and the Procfile: a federation that is started, used, damaged and stopped."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from broker.jobs.models import ENDED
from broker.local.process_list import QUEUE, ProcessList, wall_time
from tests.support.ports import free_port
from tests.support.wait import wait_until

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
UP = Path("deploy/federations/up.toml")
JOBS = Path("deploy/federations/jobs.toml")
CLOUDS = ("harbour", "meadow", "forge")

pytestmark = pytest.mark.xdist_group("federation")

FEDERATION = """
[[cloud]]
id = "harbour"
nodes = "8x4"
trace = { synthetic = "table-1", hours = 400, seed = 11 }

[[cloud]]
id = "meadow"
nodes = "7x12"
trace = { synthetic = "production-A", days = 16, seed = 12 }
"""


class Tried:
    """Commands run against one state directory."""

    def __init__(self, directory: Path):
        self.port = free_port()
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SPOTFED_")}
        self.environment = {**kept, "SPOTFED_STATE_DIR": str(directory), "SPOTFED_PORT": str(self.port)}
        self.environment["SPOTFED_REPLY_DEADLINE_S"] = "20"  # owners may stand still under load
        self.directory = directory

    def spotfed(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [BIN / "spotfed", *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def json(self, *arguments: str) -> Any:
        done = self.spotfed(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def processes(self) -> dict[str, Any]:
        return {process["name"]: process for process in self.json("ps")["processes"]}

    def reachable(self) -> set[str]:
        done = self.spotfed("clouds", "--json")
        if done.returncode:
            return set()
        return {view["info"]["id"] for view in json.loads(done.stdout)["clouds"] if view["reachable"]}

    @contextmanager
    def running(self, *command: str | Path, ready: str) -> Iterator[subprocess.Popen[str]]:
        """A command in a group of its own until it says that it is ready; what is left of it is killed."""
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        assert process.stdout is not None
        started: set[psutil.Process] = set()
        try:
            for line in process.stdout:
                if ready in line:
                    break
            started = set(psutil.Process(process.pid).children(recursive=True))
            yield process
        finally:
            if process.poll() is None:
                started |= set(psutil.Process(process.pid).children(recursive=True))
                process.kill()
            process.stdout.close()
            process.wait()
            for left in started:
                if left.is_running() and left.status() != psutil.STATUS_ZOMBIE:
                    left.kill()


@pytest.fixture
def tried(tmp_path: Path) -> Tried:
    (tmp_path / "federation.toml").write_text(FEDERATION)
    return Tried(tmp_path / "state")


@contextmanager
def up(tried: Tried) -> Iterator[subprocess.Popen[str]]:
    file = tried.directory.parent / "federation.toml"
    with tried.running(BIN / "spotfed", "up", "--federation", file, ready="Ctrl-C stops") as process:
        yield process


def gone(pids: list[int]) -> bool:
    """Some containers never collect a dead orphan: that one is gone too."""
    return all(
        not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE for pid in pids
    )


def test_up_is_used_damaged_and_stopped(tried: Tried) -> None:
    with up(tried) as process:
        assert tried.reachable() == {"harbour", "meadow"}
        assert (tried.directory / "api-key").stat().st_mode & 0o777 == 0o600
        first = tried.processes()
        assert set(first) == {"queue", "api", "montecarlo-1", "cloud-harbour", "cloud-meadow"}

        lease = tried.json(
            "submit", "--cores", "2", "--lifetime", "30d", "--sla", "none", "--cloud", "meadow"
        )["lease"]
        for name in ("queue", "api", "cloud-meadow", "montecarlo-1"):
            os.kill(first[name]["pid"], signal.SIGKILL)
        wait_until(
            lambda: all(
                p["pid"] and p["restarts"] >= 1 for n, p in tried.processes().items() if n != "cloud-harbour"
            ),
            "what was killed runs again",
        )
        wait_until(lambda: tried.reachable() == {"harbour", "meadow"}, "both clouds are reachable again")
        kept = tried.json("leases", "--cloud", "meadow")["leases"]
        assert [(one["id"], one["state"]) for one in kept] == [(lease["id"], "running")]

        pids = [p["pid"] for p in tried.processes().values()]
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
        assert gone(pids)
    assert tried.spotfed("ps").returncode == 4
    # The lease is still there after the next start, and release ends it.
    with up(tried) as process:
        assert tried.json("release", lease["id"])["lease"]["state"] == "cancelled"
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0


def test_a_tour(tried: Tried) -> None:
    with up(tried):
        wait_until(
            lambda: all(v["advert"]["table_version"] for v in tried.json("clouds")["clouds"]), "tables"
        )
        quotes = tried.json("quote", "--cores", "1", "--lifetime", "2h", "--sla", "0.5")
        assert {one["cloud"] for one in quotes["quotes"] + quotes["refusals"]} == {"harbour", "meadow"}

        refused = tried.spotfed(
            "submit", "--cores", "1", "--lifetime", "2h", "--sla", "0", "--cloud", "harbour"
        )
        assert refused.returncode == 3
        assert "accepted instead: " in refused.stdout

        wide = tried.spotfed("submit", "--cores", "13", "--lifetime", "2h")
        assert wide.returncode == 2
        assert "cores: an integer from 1 to 12" in wide.stderr

        many = tried.spotfed(
            *("submit", "--cores", "1", "--lifetime", "6h", "--sla", "none", "--cloud", "harbour"),
            *("--count", "30", "--json"),
        )
        answers = [json.loads(line) for line in many.stdout.splitlines()]
        assert len(answers) == 30
        admitted = {answer["lease"]["id"] for answer in answers if answer["lease"]}
        assert admitted
        assert many.returncode == (0 if len(admitted) == 30 else 3)

        def evicted() -> list[dict[str, Any]]:
            lines = tried.spotfed("events", "--cloud", "harbour", "--json").stdout.splitlines()
            events = [json.loads(line)["event"] for line in lines]
            return [event for event in events if event["kind"] == "evicted"]

        first = wait_until(evicted, "a busy cloud evicts within minutes")[0]
        assert first["lease"]["id"] in admitted
        assert "evicted" in tried.spotfed("events").stdout
        assert "evicted" in tried.spotfed("leases", "--state", "evicted").stdout
        assert tried.spotfed("release", "nobody.1").returncode == 2


def test_nothing_outlives_a_killed_supervisor(tried: Tried) -> None:
    with up(tried) as process:
        pids = [p["pid"] for p in tried.processes().values()]
        process.kill()
        process.wait()
        if sys.platform == "linux":
            wait_until(lambda: gone(pids), "all processes have ended")


def test_a_cloud_loses_nodes_and_gets_others_while_it_runs(tried: Tried) -> None:
    file = tried.directory.parent / "federation.toml"

    def write_nodes(nodes: str) -> None:
        file.write_text(FEDERATION.replace('"7x12"', f'"{nodes}"'))

    def submit(cores: int) -> dict[str, Any]:
        wish = ("--cores", str(cores), "--lifetime", "30d", "--sla", "none", "--cloud", "meadow")
        return dict(tried.json("submit", *wish)["lease"])

    def apply(*options: str) -> tuple[int, dict[str, Any]]:
        done = tried.spotfed("cloud", "apply", "meadow", *options, "--json")
        (report,) = json.loads(done.stdout)["clouds"]
        return done.returncode, report

    with up(tried) as process:
        before = tried.processes()["cloud-meadow"]
        write_nodes("7x12,2x24")
        code, report = apply("--dry-run")
        assert (code, report["changes"], report["applied"]) == (0, True, False)
        assert (report["nodes"], report["new_nodes"]) == ("7x12", "7x12, 2x24")
        code, report = apply()
        assert (code, report["applied"]) == (0, True)
        assert submit(20)["node"] == 7
        lease = submit(20)
        assert lease["node"] == 8

        write_nodes("7x12,1x24")
        code, report = apply()
        assert (code, report["applied"]) == (1, False)
        (way,) = report["in_the_way"]
        assert (way["instance"], way["node"], way["why"]) == (lease["id"], 8, "would be gone")
        assert "In the way" in tried.spotfed("cloud", "apply", "--dry-run").stdout
        assert tried.spotfed("cloud", "drain", "meadow", "--node", "8").returncode == 0
        assert apply()[0] == 0
        (kept,) = tried.json("leases", "--state", "running")["leases"]
        assert kept["node"] == 7
        assert {view["info"]["id"]: view["info"]["cores"] for view in tried.json("clouds")["clouds"]} == {
            "harbour": 32,
            "meadow": 108,
        }
        after = tried.processes()["cloud-meadow"]
        assert (after["pid"], after["restarts"]) == (before["pid"], before["restarts"])
        write_nodes("nonsense")
        assert tried.spotfed("cloud", "apply").returncode == 2
        assert tried.reachable() == {"harbour", "meadow"}
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0

    # What is stopped, changed and started says what is in the way.
    write_nodes("7x12")
    command = (BIN / "spotfed", "up", "--federation", file)
    with tried.running(*command, ready="cloud meadow does not fit") as process:
        process.wait(timeout=60)
    log = (tried.directory / "logs" / "cloud-meadow.log").read_text()
    assert f"In the way: lease {kept['id']} (20 cores) on node 7, which would be gone" in log
    assert "(it had 7x12,1x24)" in log
    write_nodes("7x12,1x20")
    with up(tried):
        assert tried.json("release", kept["id"])["lease"]["state"] == "cancelled"
        assert "sound meadow" in tried.spotfed("journal", "verify").stdout


def test_a_port_in_use_and_a_second_federation_are_said_clearly(tried: Tried) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", tried.port))
        taken.listen()
        refused = tried.spotfed("up")
    assert refused.returncode == 1
    assert f"cannot listen on 127.0.0.1:{tried.port}: Address already in use" in refused.stderr
    with up(tried):
        again = tried.spotfed("up", "--port", str(free_port()))
        assert again.returncode == 1
        assert "already" in again.stderr
    other = tried.spotfed("up")
    assert other.returncode == 2
    assert "--fresh" in other.stderr


def procfile(name: str) -> dict[str, str]:
    lines = (ROOT / name).read_text().splitlines()
    return dict(line.split(": ", 1) for line in lines)


@pytest.mark.parametrize(
    ("name", "federation", "commanded"), [("Procfile", UP, ()), ("Procfile.jobs", JOBS, CLOUDS)]
)
def test_the_procfiles_list_the_same_processes(
    name: str, federation: Path, commanded: tuple[str, ...]
) -> None:
    options = wall_time(speed=600, history="48h", samples=2000, seed=0)
    layout = ProcessList(federation, CLOUDS, options, commanded=commanded)
    expected = {}
    for process in layout.specs():
        attach = "" if process.name == QUEUE else "-m broker.local attach "
        expected[process.name] = f".venv/bin/python {attach}{' '.join(process.arguments)}"
    assert procfile(name) == expected


def test_honcho_gives_the_same_federation_which_runs_jobs(tried: Tried) -> None:
    tried.environment["SPOTFED_LOG_LEVEL"] = "ERROR"  # nobody reads what honcho passes on
    assert (ROOT / ".venv").exists(), "the Procfiles run what `make setup` installs"
    with tried.running(BIN / "honcho", "-f", "Procfile.jobs", "start", ready="jobs-1") as process:
        wait_until(lambda: tried.reachable() == {*CLOUDS}, "all clouds are reachable", 120)
        lease = tried.json("submit", "--cores", "2", "--lifetime", "1h", "--sla", "none")["lease"]
        assert lease["state"] in {"running", "completed", "evicted"}
        command = ("--home", "harbour", "--json", "--", "/bin/echo", "done by a job")
        job = json.loads(tried.spotfed("job", "submit", *command).stdout)["id"]
        wait_until(lambda: tried.json("job", "status", job)["state"] in ENDED, "the job ends", 120)
        assert "done by a job" in tried.spotfed("job", "logs", job).stdout
        process.send_signal(signal.SIGINT)
        process.wait(timeout=60)
