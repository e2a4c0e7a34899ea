"""A real node agent on a real server, with leases and work that a test writes as it likes."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

from broker.contract import Advert, CloudInfo, Lease, LeaseState
from broker.jobs.models import Work, WorkReport, WorkState
from broker.jobs.work_queue import decode_log
from broker.signing.signer import UNSIGNED, MessageSigner
from broker.storage.connections import connect
from broker.storage.keys import RedisKeys
from cloudsim.model.requests import Kind
from tests.integration.worker_processes import Started
from tests.support.wait import wait_until
from workers.node_agent.process.process_tree import ProcessTree
from workers.node_agent.process.task_files import read_start, shim_lives

FEDERATION = """
[[cloud]]
id = "A"
nodes = "2x4"
trace = { synthetic = "table-1", hours = 24, seed = 1 }
driver = "process"

[[cloud]]
id = "B"
nodes = "2x4"
trace = { synthetic = "table-1", hours = 24, seed = 2 }
driver = "process"

[[cloud]]
id = "C"
nodes = "2x4"
trace = { synthetic = "table-1", hours = 24, seed = 3 }
"""
_prefixes = itertools.count()


class Agents:
    """Agents of a small federation, and what they are told. All is killed at the end."""

    def __init__(self, redis_url: str, signing: MessageSigner = UNSIGNED):
        # Not pytest's: through its directories only their owner may pass, as through those of a user.
        self.directory = Path(tempfile.mkdtemp(prefix="spotfed-agents-"))
        self.url, self.signing = redis_url, signing
        self.keys = RedisKeys(f"a{os.getpid()}-{next(_prefixes)}:")
        self.client = connect(redis_url)
        self.file = self.directory / "federation.toml"
        self.file.write_text(FEDERATION)
        self._started = Started(self.directory)
        self.environ: dict[str, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._started.kill()
        for state in self.directory.glob("agents/*/*/state"):
            end_shim(state)
        self.client.close()
        if error is not None:
            self._started.show_logs()
        shutil.rmtree(self.directory, ignore_errors=True)

    def agent(self, cloud: str = "A", *options: str, **environ: str) -> subprocess.Popen[bytes]:
        """Starts one."""
        told = {
            "SPOTFED_REDIS_URL": self.url,
            "SPOTFED_STATE_DIR": str(self.directory),
            "SPOTFED_KEY_PREFIX": self.keys.prefix,
        }
        command = ["workers.node_agent", "--cloud", cloud, "--federation", str(self.file), *options]
        return self._started.start(command, {**told, **self.environ, **environ})

    # -- what it is told ------------------------------------------------------------------------------------

    def lease(self, name: str, state: LeaseState = LeaseState.RUNNING, cloud: str = "A", **more: Any) -> None:
        """Shows a lease, as the cloud's owner would, and publishes it."""
        lease = Lease(
            id=name, request=name.rpartition(".")[0] or name, cloud=cloud, origin="B", kind=Kind.SPOT,
            cores=2, node=0, starts_at_s=0.0, ends_at_s=3600.0, promised_sla=0.5, eviction_probability=0.1,
            table_version="t", fence=1, number=1, state=state, **more,
        )  # fmt: skip
        self.client.set(self.keys.lease(cloud, name), lease.model_dump_json())
        event = f'{{"cloud": "{cloud}", "kind": "x", "lease": {{"id": "{name}"}}}}'
        self.client.publish(self.keys.channel(cloud), event)

    def clock(self, at_s: float, cloud: str = "A", speed: float = 1.0) -> None:
        """Says what time it is in the cloud now, as its owner would."""
        info = CloudInfo(
            id=cloud, order=0, nodes="2x4", cores=8, largest_node=4, time="wall", speed=speed
        )  # fmt: skip
        advert = Advert(
            cloud=cloud, at=datetime.now(UTC).isoformat(), at_s=at_s, epoch=1, free_cores=8,
            on_demand_cores=0, spot_cores=0, spot_leases=0, free_slots={}, table_version=None,
            table_made_at_s=None, evicted=0, admitted=0,
        )  # fmt: skip
        self.client.hset(self.keys.clouds, cloud, info.model_dump_json())
        self.client.set(self.keys.advert(cloud), advert.model_dump_json())

    def work(self, script: str, name: str = "j.1.0", cloud: str = "A", **more: Any) -> Work:
        """Asks for work on the lease of that name, which is shown as running where it is not shown yet."""
        job, attempt, _ = name.split(".")
        told: dict[str, Any] = {
            "id": name, "job": job, "attempt": int(attempt), "cloud": cloud, "instance": f"{name}.1",
            "spot": True, "node": 0, "cores": 1, "command": ("/bin/sh", "-c", script), **more,
        }  # fmt: skip
        work = Work(**told)
        if work.spot and not self.client.exists(self.keys.lease(cloud, work.instance)):
            self.lease(work.instance, cloud=cloud)
        self.ask(work)
        return work

    def ask(self, work: Work, token: bytes | None = None) -> None:
        """Writes it as a job manager would."""
        text = work.model_dump_json().encode()
        if token is None:
            token = self.signing.sign(text, f"{self.keys.work(work.cloud)}:{work.id}")
        with self.client.pipeline() as pipeline:
            pipeline.hset(self.keys.work(work.cloud), work.id, text)
            if token:
                pipeline.hset(self.keys.work_signatures(work.cloud), work.id, token)
            pipeline.publish(self.keys.work_channel(work.cloud), work.id)
            pipeline.execute()

    def want(self, work: Work, wanted: str) -> None:
        """Asks for something else of it."""
        self.ask(work.model_copy(update={"wanted": wanted, "revision": work.revision + 1}))

    def take_back(self, work: Work) -> None:
        """As a job manager does with work whose attempt has ended."""
        self.client.hdel(self.keys.work(work.cloud), work.id)
        self.client.publish(self.keys.work_channel(work.cloud), work.id)

    # -- what it says ---------------------------------------------------------------------------------------

    def report(self, name: str = "j.1.0", cloud: str = "A") -> WorkReport | None:
        text = cast("bytes | None", self.client.hget(self.keys.work_reports(cloud), name))
        return None if text is None else WorkReport.model_validate_json(text)

    def reports(self, told: Callable[[WorkReport], bool], what: str, name: str = "j.1.0") -> WorkReport:
        """Waits for a report of which that is true."""

        def look() -> WorkReport | None:
            report = self.report(name)
            return report if report is not None and told(report) else None

        return wait_until(look, f"{name}: {what}")

    def until(self, state: WorkState, name: str = "j.1.0", cloud: str = "A") -> WorkReport:
        """Waits for a report of that state."""

        def look() -> WorkReport | None:
            report = self.report(name, cloud)
            return report if report is not None and report.state is state else None

        try:
            return wait_until(look, f"{name} is {state}")
        except AssertionError as error:
            raise AssertionError(f"{error}; {self.report(name, cloud)!r}") from None

    def log(self, name: str = "j.1.0", cloud: str = "A") -> str:
        """What it wrote, as it is shown."""
        value = cast("bytes | None", self.client.get(self.keys.work_log(cloud, name)))
        return "" if value is None else decode_log(value)[1].decode(errors="replace")

    def says(self, text: str, name: str = "j.1.0", cloud: str = "A") -> str:
        """Waits until it has written that."""
        return wait_until(
            lambda: self.log(name, cloud) if text in self.log(name, cloud) else None,
            f"{name} says {text}",
            30,
        )

    def kept(self, work: Work, number: int) -> Path:
        """Where a state of it is kept."""
        return self.directory / "jobs" / work.job / work.id / str(number) / "files"


def end_shim(state: Path) -> None:
    """Ends what a test left running there."""
    found = read_start(state)
    if found is not None:
        ProcessTree(found, None).kill()
    wait_until(lambda: not shim_lives(state), f"nothing runs in {state}")
