"""A node agent as on an instance: a process with a token, an API, and nothing else of the federation."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from broker.client import Client
from broker.jobs.bucket import Bucket
from broker.jobs.models import WorkReport, WorkState
from tests.contract.harness import KEY
from tests.contract.test_instance_calls import Scene, scene
from tests.integration.agents import end_shim
from tests.integration.instance_jobs import bucket, scratch
from tests.integration.test_agent import COUNT
from tests.integration.worker_processes import ROOT
from tests.support.wait import wait_until

__all__ = ["scene"]

Start = Callable[[Scene], subprocess.Popen[bytes]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts agents, which know no setting of the federation."""
    with scratch() as directory:
        started: list[subprocess.Popen[bytes]] = []

        def start(scene: Scene) -> subprocess.Popen[bytes]:
            (directory / "token").write_text(scene.token)
            environment = {
                "PATH": os.environ["PATH"],
                "PYTHONPATH": str(ROOT),
                "SPOTFED_STATE_DIR": str(directory / "state"),
            }
            command = ["-m", "workers.node_agent", "--api", scene.federation.url]
            with (directory / "log").open("ab") as output:
                started.append(
                    subprocess.Popen(
                        [sys.executable, *command, "--token-file", str(directory / "token")],
                        cwd="/",
                        env=environment,
                        stdout=output,
                        stderr=output,
                    )
                )
            return started[-1]

        (directory / "state").mkdir(mode=0o711)
        yield start
        for process in started:
            process.kill()
            process.wait()
        for state in (directory / "state/agents/instance").glob("*/state"):
            end_shim(state)


def reported(scene: Scene, told: Callable[[WorkReport], Any], what: str) -> WorkReport:
    def look() -> WorkReport | None:
        report = scene.works.read_reports("glade", ["j.1.0"]).get("j.1.0")
        return report if report is not None and told(report) else None

    return wait_until(look, what)


def shell(scene: Scene, script: str, **more: Any) -> None:
    scene.assign(command=("/bin/sh", "-c", script), **more)


def log(scene: Scene) -> str:
    value: Any = scene.federation.redis.get(scene.federation.keys.work_log("glade", "j.1.0"))
    return "" if value is None else bytes(value).decode()


def test_it_runs_the_work_reports_and_ends_with_the_lease(scene: Scene, start: Start) -> None:
    agent = start(scene)
    shell(scene, "echo hello; sleep 1000")
    reported(scene, lambda report: report.state is WorkState.RUNNING, "it runs")
    wait_until(lambda: "hello" in log(scene), "its output")
    with Client(scene.federation.url, KEY) as operator:
        operator.leases.cancel(scene.lease.id)
    report = reported(scene, lambda report: report.state is WorkState.EVICTED, "it is evicted")
    assert report.why == "its lease was cancelled: tester"
    scene.works.drop("glade", ["j.1.0"])
    assert agent.wait(30) == 0


def test_what_is_taken_back_while_it_runs_is_ended_with_the_agent(scene: Scene, start: Start) -> None:
    agent = start(scene)
    shell(scene, "echo shell $$; sleep 1000")
    wait_until(lambda: "shell" in log(scene), "its output")
    pid = int(log(scene).split()[-1])
    scene.works.drop("glade", ["j.1.0"])
    with Client(scene.federation.url, KEY) as operator:
        operator.leases.cancel(scene.lease.id)
    assert agent.wait(30) == 0
    assert not Path(f"/proc/{pid}").exists()


def test_a_job_that_ends_by_the_machines_own_warning_has_not_failed(
    scene: Scene, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch system sends SIGTERM to all processes of an instance that it takes back."""
    agent = start(scene)
    with bucket() as told:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION"):
            monkeypatch.setenv(name, told[name])
        states = Bucket("states", "jobs", told["SPOTFED_JOBS_BUCKET_URL"])
        monkeypatch.setattr(scene.federation.services.instances, "_bucket", states)
        shell(scene, f"echo shell $$; {COUNT % 1_000_000}", saves_on_notice=True)
        wait_until(lambda: "at 3" in log(scene), "it counts")
        agent.send_signal(signal.SIGTERM)
        os.kill(int(log(scene).split()[2]), signal.SIGTERM)
        report = reported(scene, lambda report: report.ended_at, "it has ended")
        assert (report.state, report.checkpoint, report.exit_code) == (WorkState.SAVED, 1, None)
        assert list(states.list_states("j", "j.1.0")) == [1]
        assert agent.poll() is None


def test_without_an_answer_it_goes_on_and_reports_later(
    scene: Scene, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(scene)
    shell(scene, "trap 'exit 7' USR1; echo shell $$; while :; do sleep 0.1; done")
    wait_until(lambda: "shell" in log(scene), "it runs")
    asked: list[object] = []

    async def away(authorization: object) -> object:
        asked.append(authorization)
        raise redis.ConnectionError("away")

    with monkeypatch.context() as patch:
        patch.setattr(scene.federation.services.instances, "authenticate", away)
        pid = int(log(scene).split()[-1])
        os.kill(pid, signal.SIGUSR1)
        wait_until(lambda: not Path(f"/proc/{pid}").exists() and len(asked) > 1, "it has ended untold")
        assert reported(scene, lambda report: True, "a report").state is WorkState.RUNNING
    report = reported(scene, lambda report: report.state is WorkState.EXITED, "it has ended")
    assert report.exit_code == 7


def test_the_agent_after_one_that_was_killed_takes_up_the_work(scene: Scene, start: Start) -> None:
    agent = start(scene)
    shell(scene, "trap 'exit 7' USR1; echo shell $$; while :; do sleep 0.1; done")
    wait_until(lambda: "shell" in log(scene), "it runs")
    reported(scene, lambda report: report.state is WorkState.RUNNING, "it is told")
    agent.kill()
    agent.wait()
    os.kill(int(log(scene).split()[-1]), signal.SIGUSR1)
    start(scene)
    report = reported(scene, lambda report: report.ended_at, "it has ended")
    assert (report.state, report.exit_code) == (WorkState.EXITED, 7)


def test_an_unknown_token_ends_it(scene: Scene, start: Start) -> None:
    scene.token += "x"
    assert start(scene).wait(30) == 0
