"""``spotfed cloud apply``: what other nodes would mean for clouds with leases, and what is in the way."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import psutil
import pytest

from broker.contract import Advert, NodeKind, read_message, write_message
from broker.settings import settings
from tests.contract.harness import Federation, Run

EAST = """
[[cloud]]
id = "east"
nodes = "{nodes}"
trace = {{ synthetic = "table-1", hours = 1 }}
"""

#: A process that SIGHUP ends, also where the tests were started by nohup.
WAITS = "import signal; signal.signal(signal.SIGHUP, signal.SIG_DFL); print(flush=True); signal.pause()"


@pytest.fixture
def file(federation: Federation, monkeypatch: pytest.MonkeyPatch, spotfed: Run, tmp_path: Path) -> Path:
    """Of a federation whose cloud east has two nodes of 4 cores."""
    del spotfed  # it has a state directory of its own
    federation.join("east", (4, 4))
    monkeypatch.setenv("SPOTFED_REDIS_URL", federation.redis_url)
    monkeypatch.setenv("SPOTFED_KEY_PREFIX", federation.prefix)
    settings.cache_clear()
    return tmp_path / "federation.toml"


def test_what_is_in_the_way_is_shown(file: Path, spotfed: Run, api: httpx.Client) -> None:
    for name in ("r", "s"):
        assert (
            api.post("/v1/requests", json={"id": name, "cores": 4, "lifetime_s": 36_000}).status_code == 201
        )
    file.write_text(EAST.format(nodes="1x4"))
    apply = ("cloud", "apply", "--federation", file)
    code, out, _ = spotfed(*apply)
    assert code == 1
    assert "east: 2x4 cannot become 1x4" in out
    assert "s.1" in out
    assert "r.1" not in out

    assert spotfed("cloud", "drain", "east", "--node", "1")[0] == 0
    code, out, _ = spotfed(*apply)
    assert code == 0
    assert "east: 2x4 becomes 1x4, nothing is in the way" in out
    assert "its owner does not run on this machine" in out


def test_an_owner_that_is_still_opening_is_waited_for(
    federation: Federation, file: Path, spotfed: Run, tmp_path: Path
) -> None:
    """It opens as the file was when it began to read it, and again after the signal."""
    file.write_text(EAST.format(nodes="1x4"))
    east, me = federation.owners["east"], psutil.Process()
    with subprocess.Popen([sys.executable, "-c", WAITS], stdout=subprocess.PIPE) as opening:
        assert opening.stdout is not None
        opening.stdout.readline()
        processes = [{"name": "cloud-east", "pid": opening.pid}]
        record = {"supervisor": me.pid, "supervisor_started_s": me.create_time(), "processes": processes}
        (tmp_path / "processes.json").write_text(json.dumps(record))

        def open_twice() -> None:
            assert opening.wait() == -signal.SIGHUP
            east.stop()
            with federation.redis as redis:
                for nodes in (2, 1):
                    east.tell(node_kinds=(NodeKind(nodes=nodes, cores=4),))
                    advert = read_message(Advert, bytes(redis.get(federation.keys.advert("east"))))
                    later = advert.model_copy(update={"epoch": advert.epoch + 1})
                    redis.set(federation.keys.advert("east"), write_message(later))

        owner = threading.Thread(target=open_twice)
        owner.start()
        code, out, error = spotfed("cloud", "apply", "--federation", file)
        opening.kill()
    owner.join()
    assert (code, "east: 2x4 becomes 1x4, applied" in out) == (0, True), out + error


def test_processes_of_a_supervisor_that_is_gone_are_left_alone(
    file: Path, spotfed: Run, tmp_path: Path
) -> None:
    file.write_text(EAST.format(nodes="1x4"))
    with subprocess.Popen(["sleep", "600"]) as other:
        processes = [{"name": "cloud-east", "pid": other.pid}, {"name": "agent-east", "pid": other.pid}]
        record = {"supervisor": other.pid, "supervisor_started_s": 0.0, "processes": processes}
        (tmp_path / "processes.json").write_text(json.dumps(record))
        code, out, _ = spotfed("cloud", "apply", "--federation", file)
        assert (code, "its owner does not run on this machine" in out) == (0, True), out
        assert other.poll() is None
        other.kill()


def test_what_is_wrong_with_the_file_or_the_call_is_said(file: Path, spotfed: Run) -> None:
    assert "no federation runs on this machine" in spotfed("cloud", "apply")[2]
    file.write_text(EAST.format(nodes="nonsense"))
    code, _, error = spotfed("cloud", "apply", "--federation", file)
    assert code == 2
    assert "cloud[0].nodes: 'nonsense' is not NODESxCORES" in error
    file.write_text(EAST.format(nodes="2x4").replace("east", "west"))
    code, _, error = spotfed("cloud", "apply", "east", "--federation", file)
    assert (code, "no cloud is called 'east'; there are: west" in error) == (2, True)
