"""The node agent: real processes under leases that a test writes."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import cast

import pytest

from broker.contract import LeaseState
from broker.jobs.models import WorkState
from broker.signing.key_files import KeyFiles, SigningKey, TrustFile
from broker.signing.parties import BROKER, JOBS
from broker.signing.signer import MessageSigner
from broker.storage.embedded_server import EmbeddedRedis
from tests.integration.agents import Agents
from tests.support.wait import wait_until

#: Counts in its directory from what it finds there, and says each number that is on the disk.
COUNT = """
n=$(cat n 2>/dev/null || echo 0)
echo "from $n"
while [ $n -lt %d ]; do n=$((n + 1)); echo $n > n.new; mv n.new n; echo "at $n"; sleep 0.05; done
"""


@pytest.fixture
def agents(redis_url: str) -> Iterator[Agents]:
    with Agents(redis_url) as made:
        yield made


def started(state: Path) -> int:
    """The first process of a command."""
    return int(json.loads((state / "started.json").read_text())["pid"])


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:  # also one that ends while it is read
        return False


def test_runs_work_and_tells_its_status_its_output_and_what_it_used(agents: Agents) -> None:
    agents.agent()
    work = agents.work(
        'echo "hello from $SPOTFED_JOB_ID $SPOTFED_JOB_RANK of $SPOTFED_JOB_SIZE"; exit 3', size=2
    )
    report = agents.until(WorkState.EXITED)
    assert report.exit_code == 3
    assert report.started_at is not None
    assert report.ended_at is not None
    assert report.started_at <= report.ended_at
    assert report.usage is not None
    assert report.usage.cpu_s > 0
    assert agents.log() == "hello from j 0 of 2\n"
    agents.take_back(work)
    home = agents.directory / "agents" / "A" / "j.1.0"
    wait_until(lambda: not home.exists(), "it is forgotten")


def test_what_is_taken_back_while_it_runs_is_killed_at_once(agents: Agents) -> None:
    agents.agent()
    work = agents.work('trap "" TERM; echo shell $$; sleep 1000; sleep 1000')
    pid = int(agents.says("shell").split()[1])
    agents.take_back(work)
    wait_until(lambda: not alive(pid), "it is dead")  # its instance is another's by now


def test_what_vanishes_without_a_word_goes_on(agents: Agents) -> None:
    agents.agent()
    work = agents.work("echo shell $$; sleep 1000")
    pid = int(agents.says("shell").split()[1])
    agents.client.hdel(agents.keys.work("A"), work.id)
    agents.client.publish(agents.keys.work_channel("A"), "another")
    other = agents.work("exit 3", "j.2.0")
    agents.until(WorkState.EXITED, other.id)
    assert alive(pid)


def test_what_jobs_are_not_given_is_told(agents: Agents) -> None:
    agents.agent(SPOTFED_ISOLATION="none")
    key = agents.keys.isolation("A")
    told = wait_until(lambda: cast("bytes | None", agents.client.get(key)), "it is told")
    assert told.startswith(b"anything that keeps them apart (SPOTFED_ISOLATION=none)\n")


def test_an_eviction_kills_the_whole_tree(agents: Agents) -> None:
    agents.agent()
    daemon = "import os, time\nif os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\n"
    daemon += "print('daemon', os.getpid(), flush=True); time.sleep(1000)"
    work = agents.work(
        f'trap "" TERM; /usr/bin/python3 -c "{daemon}"; sleep 1000 & echo shell $$; wait; sleep 1000'
    )
    agents.says("daemon")
    said = dict(line.split() for line in agents.says("shell").splitlines())
    pids = [int(said["daemon"]), int(said["shell"])]
    assert all(alive(pid) for pid in pids)
    agents.lease(work.instance, LeaseState.EVICTED)
    wait_until(lambda: not any(alive(pid) for pid in pids), "all are dead")
    report = agents.until(WorkState.EVICTED)
    assert report.why == "its lease was evicted"


def test_notice_keeps_the_state_and_another_cloud_goes_on_from_it(agents: Agents) -> None:
    agents.agent("A")
    agents.agent("B")
    work = agents.work(COUNT % 1_000_000, saves_on_notice=True)
    agents.says("at 3")
    agents.clock(at_s=100.0, speed=60.0)
    agents.lease(work.instance, evict_at_s=100.0 + 60 * 60.0)
    report = agents.until(WorkState.SAVED)
    assert report.noticed_at is not None
    assert (report.checkpoint, report.exit_code) == (1, None)
    reached = int((agents.kept(work, 1) / "n").read_text())
    assert reached >= 3
    agents.work(COUNT % (reached + 2), "j.2.0", "B", restore=(work.id, 1))
    second = agents.until(WorkState.EXITED, "j.2.0", "B")
    assert (second.exit_code, second.restored) == (0, True)
    assert agents.log("j.2.0", "B").splitlines()[0] == f"from {reached}"
    # What a job that is done has made is kept as well.
    assert second.checkpoint == 1
    made = agents.directory / "jobs" / "j" / "j.2.0" / "1" / "files" / "n"
    assert made.read_text() == f"{reached + 2}\n"


def test_who_ignores_its_notice_is_killed_when_that_is_over(agents: Agents) -> None:
    agents.agent()
    work = agents.work('trap "echo warned" TERM; echo ready; while true; do sleep 0.05; done')
    agents.says("ready")
    agents.clock(at_s=100.0)
    agents.lease(work.instance, evict_at_s=101.5)
    report = agents.until(WorkState.EVICTED)
    assert report.noticed_at is not None
    assert report.ended_at is not None
    assert report.ended_at - report.noticed_at > 0.5
    assert "warned" in agents.log()


def test_checkpoints_are_made_and_the_last_two_are_kept(agents: Agents) -> None:
    agents.agent()
    work = agents.work(COUNT % 1_000_000, checkpoint_s=0.1)
    report = agents.reports(lambda one: one.checkpoint >= 4, "four")
    assert report.checkpoint_at is not None
    assert report.checkpoint_gb > 0
    agents.lease(work.instance, LeaseState.EVICTED)
    last = agents.until(WorkState.EVICTED).checkpoint
    place = agents.kept(work, last).parent.parent
    assert sorted(path.name for path in place.iterdir() if path.name.isdigit()) == sorted(
        [str(last - 1), str(last)]
    )
    reached = int((agents.kept(work, last) / "n").read_text())
    agents.work(COUNT % (reached + 1), "j.2.0", restore=(work.id, last))
    assert agents.until(WorkState.EXITED, "j.2.0").exit_code == 0
    assert agents.log("j.2.0").splitlines()[0] == f"from {reached}"


def test_a_save_command_that_fails_leaves_the_last_good_state(agents: Agents) -> None:
    agents.agent()
    save = ("/bin/sh", "-c", 'cp n saved && if [ -e broken ]; then echo "no room"; exit 4; fi')
    agents.work(COUNT % 1_000_000, checkpoint_s=0.1, save=save, storage="remote")
    good = agents.reports(lambda one: one.checkpoint >= 1, "a first")
    assert good.why is None
    live = agents.directory / "jobs" / "j" / "j.1.0" / "live"
    (live / "broken").touch()
    bad = agents.reports(lambda one: one.why is not None, "it fails")
    assert bad.why == "its save command ended with status 4: no room"
    assert bad.checkpoint >= 1
    (live / "broken").unlink()
    agents.reports(lambda one: one.checkpoint > bad.checkpoint and one.why is None, "another")


def test_work_is_saved_and_stopped_on_demand(agents: Agents) -> None:
    agents.agent()
    saved = agents.work(COUNT % 1_000_000, "s.1.0", spot=False)
    stopped = agents.work("echo up; sleep 1000", "t.1.0", spot=False)
    agents.says("at 2", "s.1.0")
    agents.says("up", "t.1.0")
    agents.want(saved, "save")
    agents.want(stopped, "stop")
    assert agents.until(WorkState.SAVED, "s.1.0").checkpoint == 1
    report = agents.until(WorkState.STOPPED, "t.1.0")
    assert report.exit_code is None


def test_what_runs_and_what_ended_is_found_again_after_the_agent_was_killed(agents: Agents) -> None:
    first = agents.agent()
    agents.work("echo begun $$; touch began; sleep 1000", "r.1.0")
    agents.work("echo begun; while [ ! -e ../../go ]; do sleep 0.02; done; exit 5", "e.1.0", storage="remote")
    pid = int(agents.says("begun", "r.1.0").split()[1])
    agents.says("begun", "e.1.0")
    first.kill()
    first.wait()
    state = agents.directory / "agents" / "A" / "e.1.0" / "state"
    os.kill(started(state), 9)
    wait_until((state / "ended.json").exists, "it ends while nobody looks")
    agents.agent()
    assert agents.until(WorkState.EXITED, "e.1.0").exit_code == 137
    assert alive(pid)
    agents.until(WorkState.RUNNING, "r.1.0")
    assert agents.log("r.1.0") == f"begun {pid}\n"
    agents.lease("r.1.0.1", LeaseState.EVICTED)
    agents.until(WorkState.EVICTED, "r.1.0")
    assert not alive(pid)


def test_a_lease_that_ended_while_the_agent_was_away_is_evicted_then(agents: Agents) -> None:
    first = agents.agent()
    work = agents.work("echo begun $$; sleep 1000")
    pid = int(agents.says("begun").split()[1])
    first.kill()
    first.wait()
    agents.lease(work.instance, LeaseState.EVICTED)
    agents.agent()
    agents.until(WorkState.EVICTED)
    assert not alive(pid)


def test_work_waits_until_its_lease_runs(agents: Agents) -> None:
    agents.agent()
    agents.lease("j.1.0.1", LeaseState.RESERVED)
    agents.work("echo ran")
    agents.work("echo other", "k.1.0")
    agents.until(WorkState.EXITED, "k.1.0")
    assert not (agents.directory / "agents" / "A" / "j.1.0").exists()
    agents.lease("j.1.0.1")
    agents.until(WorkState.EXITED)


def test_what_was_begun_elsewhere_is_not_begun_again(agents: Agents) -> None:
    first = agents.agent()
    agents.work("echo begun; sleep 1000")
    agents.says("begun")
    first.kill()
    first.wait()
    agents.environ["SPOTFED_STATE_DIR"] = str(agents.directory / "other")
    agents.client.delete(agents.keys.agent("A"))
    agents.agent()
    report = agents.until(WorkState.UNUSABLE)
    assert report.why == "it was begun on another machine, or what its agent noted is gone"


def test_work_goes_on_while_redis_is_away_and_what_became_of_its_lease_is_read_then(tmp_path: Path) -> None:
    with EmbeddedRedis(tmp_path / "redis") as server, Agents(server.url) as agents:
        agents.agent()
        agents.work("echo begun; sleep 1000", "r.1.0")
        ends = agents.work(
            "echo begun; while [ ! -e go ]; do sleep 0.02; done; exit 6", "e.1.0", storage="remote"
        )
        agents.work("echo begun; sleep 1000", "g.1.0")
        for name in ("r.1.0", "e.1.0", "g.1.0"):
            agents.says("begun", name)
        homes = agents.directory / "agents" / "A"
        os.kill(server.pid, signal.SIGKILL)
        log = agents.directory / "0.log"
        wait_until(lambda: "redis is away" in log.read_text(), "it notices")
        (agents.directory / "jobs" / ends.job / ends.id / "live" / "go").touch()
        wait_until((homes / "e.1.0" / "state" / "ended.json").exists, "it ends meanwhile")
        assert alive(started(homes / "r.1.0" / "state"))
        server.start()
        assert agents.until(WorkState.EXITED, "e.1.0").exit_code == 6
        assert agents.report("r.1.0") is not None
        agents.lease("r.1.0.1", LeaseState.EVICTED)
        agents.until(WorkState.EVICTED, "r.1.0")
        assert alive(started(homes / "g.1.0" / "state"))


def test_only_what_a_job_manager_signed_is_run(redis_url: str, tmp_path: Path) -> None:
    files = KeyFiles(tmp_path)
    files.ensure([JOBS, BROKER, "cloud.A"])
    ours, theirs = (
        MessageSigner(SigningKey(files.key(one)), TrustFile(files.trust)) for one in (JOBS, BROKER)
    )
    with Agents(redis_url, ours) as agents:
        agents.environ = files.environment("cloud.A")
        agents.agent()
        good = agents.work("echo good", "g.1.0")
        agents.until(WorkState.EXITED, "g.1.0")
        bad = good.model_copy(update={"id": "u.1.0"})
        text, place = bad.model_dump_json().encode(), agents.keys.work("A")
        log = agents.directory / "0.log"
        tokens = [
            b"",
            theirs.sign(text, f"{place}:u.1.0"),
            ours.sign(text, f"{place}:g.1.0"),
            ours.sign(b"{}", f"{place}:u.1.0"),
        ]
        for refused, token in enumerate(tokens, start=1):
            agents.ask(bad, token)
            wait_until(partial(said_often, log, refused), "it is refused")
        # Nor is what was signed for this work good for it after a later order.
        running = agents.work("echo up; sleep 1000", "r.1.0")
        agents.says("up", "r.1.0")
        agents.want(running, "stop")
        agents.until(WorkState.STOPPED, "r.1.0")
        agents.ask(running)
        wait_until(lambda: "a later order was seen" in log.read_text(), "it is refused")
        assert agents.report("u.1.0") is None
        assert not (agents.directory / "agents" / "A" / "u.1.0").exists()


def said_often(log: Path, times: int) -> bool:
    return log.read_text().count("work refused") == times


def test_a_second_agent_waits_for_the_first(agents: Agents) -> None:
    first = agents.agent()
    agents.work("echo one", "k.1.0")
    agents.until(WorkState.EXITED, "k.1.0")
    second = agents.agent()
    log = agents.directory / "1.log"
    wait_until(lambda: "waiting for it" in log.read_text(), "it waits")
    assert second.poll() is None
    first.terminate()
    assert first.wait(60) == 0
    agents.work("echo two")
    agents.until(WorkState.EXITED)


def test_what_was_left_running_can_be_ended(agents: Agents) -> None:
    first = agents.agent()
    agents.work("echo begun $$; sleep 1000")
    pid = int(agents.says("begun").split()[1])
    assert agents.agent("A", "--end-work").wait(60) == os.EX_TEMPFAIL
    first.terminate()
    assert first.wait(60) == 0
    assert alive(pid)
    assert agents.agent("A", "--end-work").wait(60) == 0
    assert not alive(pid)
    agents.until(WorkState.EVICTED)
    left = agents.directory / "agents" / "A"
    assert list(left.rglob("*")) == [left / ".trash"]


def test_a_cloud_that_runs_no_commands_has_no_agent(agents: Agents) -> None:
    assert agents.agent("C").wait(60) == 2
    assert 'needs driver = "process"' in (agents.directory / "0.log").read_text()
