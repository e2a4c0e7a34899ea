"""Clouds whose owners are real and whose node agents are scripted, and a job manager in threads."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from broker.client import Client
from broker.contract import LeaseState
from broker.jobs.backup_servers import BackupServers
from broker.jobs.events import JobSubmitted
from broker.jobs.models import ENDED, WORK_ENDED, JobView, JobWish, Usage, Work, WorkReport, WorkState
from broker.jobs.store import JobStore
from broker.jobs.view import make_job_view
from broker.jobs.work_queue import WorkStore
from broker.storage.connections import connect
from tests.contract.harness import KEY, FakeOwner, Federation
from tests.support.wait import wait_until
from workers.job_manager.effects import JobEffects
from workers.job_manager.manager import JobAdvancer, JobManager
from workers.job_manager.market_client import MarketClient
from workers.job_manager.observer import JobObserver


@dataclass
class ScriptedAgent(threading.Thread):
    """Reports on a cloud's work as a node agent does, and runs nothing: a command ``("run", "2.5")`` is done
    after so many seconds of work, ``("fail", "0.1")`` ends with status 3 then.

    held: work waits while this is set. usage: what it reports.
    """

    url: str
    keys: Any
    cloud: str
    held: threading.Event = field(default_factory=threading.Event)
    usage: Usage = field(default_factory=lambda: Usage(wall_s=1.0, cpu_s=1.0, peak_memory_gb=0.1))

    def __post_init__(self) -> None:
        super().__init__(daemon=True, name=f"agent-{self.cloud}")
        self._redis = connect(self.url)
        self._works = WorkStore(self._redis, self.keys)
        self._ending = threading.Event()
        self.reports: dict[str, WorkReport] = {}
        self.begun: list[Work] = []
        self._kept: dict[str, float] = {}

    def __hash__(self) -> int:
        return id(self)

    def run(self) -> None:
        while not self._ending.is_set():
            self._redis.set(self.keys.agent(self.cloud), "it", px=3000)
            found: Any = self._redis.hgetall(self.keys.work(self.cloud))
            works = {name.decode(): Work.model_validate_json(text) for name, text in found.items()}
            for gone in set(self.reports) - set(works):
                del self.reports[gone]
            for work in works.values():
                self._look(work)
            time.sleep(0.02)

    def stop(self) -> None:
        self._ending.set()
        self.join(60)
        self._redis.close()

    def _look(self, work: Work) -> None:
        now = time.time()
        report = self.reports.get(work.id)
        if report is not None and report.state in WORK_ENDED:
            return
        if not self._has_instance(work):
            if report is not None:
                self._say(report, state=WorkState.EVICTED, ended_at=now)
            return
        if report is None:
            if self.held.is_set():
                return
            self.begun.append(work)
            report = WorkReport(
                work=work.id, state=WorkState.RUNNING, at=now, started_at=now, usage=self.usage
            )
            self._kept[work.id] = _restored(self._redis, self.keys, work)
        assert report.started_at is not None
        done_s = self._kept[work.id] + (now - report.started_at) * work.share
        name, length = work.command
        if work.wanted == "save":
            self._keep(report, work, done_s, now, state=WorkState.SAVED, ended_at=now)
        elif done_s >= float(length):
            code = 0 if name == "run" else 3
            self._say(report, state=WorkState.EXITED, exit_code=code, ended_at=now)
        elif (
            work.checkpoint_s is not None
            and now - (report.checkpoint_at or report.started_at) >= work.checkpoint_s
        ):
            self._keep(report, work, done_s, now)
        else:
            self._say(report)

    def _has_instance(self, work: Work) -> bool:
        if not work.spot:
            return True
        lease = self._works.read_leases([(self.cloud, work.instance)]).get(work.instance)
        return lease is not None and lease.state is LeaseState.RUNNING

    def _keep(self, report: WorkReport, work: Work, done_s: float, now: float, **changes: Any) -> None:
        number = report.checkpoint + 1
        self._redis.set(f"{self.keys.prefix}kept:{work.id}:{number}", done_s)
        self._say(report, checkpoint=number, checkpoint_at=now, checkpoint_gb=0.01, **changes)

    def _say(self, report: WorkReport, **changes: Any) -> None:
        report = report.model_copy(update={"at": time.time(), "usage": self.usage, **changes})
        self.reports[report.work] = report
        self._redis.hset(self.keys.work_reports(self.cloud), report.work, report.model_dump_json())


def _restored(client: Any, keys: Any, work: Work) -> float:
    if work.restore is None:
        return 0.0
    kept = client.get(f"{keys.prefix}kept:{work.restore[0]}:{work.restore[1]}")
    assert kept is not None, f"{work.id} is to begin with a state that nobody kept"
    return float(kept)


class JobWorld:
    """A federation with agents and managers."""

    def __init__(self, federation: Federation):
        self.federation, self.keys = federation, federation.keys
        self.redis = federation.redis
        self.store = JobStore(self.redis, self.keys)
        self.agents: dict[str, ScriptedAgent] = {}
        self.managers: list[JobManager] = []
        self._clients: list[Client] = []

    def client(self) -> Client:
        client = Client(self.federation.url, KEY, deadline_s=3.0)
        self._clients.append(client)
        return client

    def join(self, cloud: str, nodes: tuple[int, ...], spot: float, on_demand: float = 1.0) -> FakeOwner:
        owner = self.federation.join(cloud, nodes, runs_commands=True)
        owner.tell(spot_usd_per_core_hour=spot, on_demand_usd_per_core_hour=on_demand)
        agent = ScriptedAgent(self.federation.redis_url, self.keys, cloud)
        agent.start()
        self.agents[cloud] = agent
        return owner

    def manage(self) -> JobManager:
        """One manager more, with connections of its own."""
        client, events = self.client(), self.client()
        works = WorkStore(self.redis, self.keys)
        servers = BackupServers(self.redis, self.keys)
        doing, looking = JobEffects(client, works, servers), MarketClient(client, works)
        observing = JobObserver(client, works, servers, doing, looking, time.time)
        advancing = JobAdvancer(self.store, works, doing, observing)
        manager = JobManager(advancing, self.store, servers, doing, events)
        manager.start()
        self.managers.append(manager)
        return manager

    def submit(self, job: str, **wish: Any) -> None:
        now = time.time()
        asked = JobWish(id=job, **wish)
        entry = JobSubmitted(at=now, job=job, wish=asked, holder="tester", origin="home", home="home")
        self.store.append(job, 0, [entry], next_at=now, submitted_at=now)

    def view(self, job: str) -> JobView:
        return make_job_view(self.store.read_entries(job), time.time())

    def ended(self, job: str) -> JobView:
        wait_until(lambda: self.view(job).state in ENDED, f"{job} ends")
        return self.view(job)

    def nothing_left(self) -> bool:
        """No lease, on-demand instance, shared server or work is left of any job."""
        running = [name for owner in self.federation.owners.values() for name in owner.running()]
        works = [name for cloud in self.agents for name in self.redis.hkeys(self.keys.work(cloud))]
        servers = self.redis.hlen(self.keys.backup_servers)
        return not running and not works and not servers and not self.redis.zcard(self.keys.open_jobs)

    def stop(self) -> None:
        for manager in self.managers:
            manager.stop()
        for agent in self.agents.values():
            agent.stop()
        for client in self._clients:
            client.close()


@contextmanager
def job_world(federation: Federation) -> Iterator[JobWorld]:
    world = JobWorld(federation)
    try:
        yield world
    finally:
        world.stop()
