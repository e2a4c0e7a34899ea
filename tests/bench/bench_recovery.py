"""For how long a cloud admits nothing after its owner was killed, with a long journal, and where that goes.

    python -m tests.bench.bench_recovery [--entries 100000] [--runs 3]

A real server (fsync at every write) and a real owner process, which is killed (SIGKILL) and started again at
once; ``spotfed up`` takes 0.1 to 0.2 s for that. Seconds since the kill, and in brackets the processor time
of the new owner: until it has the lease (it has started, and waited for the lease if it must), until it has
recovered, and until it has answered the first reservation. Each way some times: as it is; without knowing
that the other is dead; from the journal alone, without a snapshot.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NoReturn

import psutil
import redis

from broker.contract import Cancel, Command, Confirm, LeaseGranted, Reserve, replies
from broker.journal.archive import Archive, archive_directory
from broker.journal.journal import Journal
from broker.settings import Settings
from broker.storage.connections import connect
from broker.storage.embedded_server import EmbeddedRedis
from broker.storage.keys import RedisKeys
from cloudsim.federation.file import load_federation
from workers.owner.__main__ import parser, process_spec
from workers.owner.process import OwnerProcess, epochs_directory

ROOT = Path(__file__).resolve().parents[2]
PREFIX = "bench:"
KEYS = RedisKeys(PREFIX)
ARGUMENTS = ("--cloud", "A", "--federation", "federation.toml", "--history", "1s")
FEDERATION = """
[[cloud]]
id = "A"
nodes = "64x16"
trace = { synthetic = "table-1", hours = 1, seed = 1 }
"""
LIMIT_S = 180.0
RUNNING = 500  # leases that run

#: Of each phase, when it was over, and processor time of the owner by then.
Seen = dict[str, tuple[float, float]]


def reserve(attempt: str) -> Reserve:
    wish: dict[str, Any] = {"request": attempt, "origin": "B", "cores": 1, "lifetime_s": 1e6, "sla": None}
    return Reserve(id=f"reserve-{attempt}", reply_to="bench", attempt=attempt, **wish)


def fill(client: redis.Redis, directory: Path, entries: int) -> None:
    """So many journal entries of leases that come and go, written by a real owner in this process."""
    (directory / "federation.toml").write_text(FEDERATION)
    settings = Settings(state_dir=directory / "state", key_prefix=PREFIX)
    spec = process_spec(
        "A", parser().parse_args(ARGUMENTS), settings, load_federation(directory / "federation.toml", None)
    )
    archive = Archive(archive_directory(settings.state_dir, PREFIX, "A"))
    journal = Journal(client, KEYS, "A")
    runtime = OwnerProcess(spec, settings, journal, lambda *_: None, _fail, archive)
    runtime.open()
    left = [*range(RUNNING + (entries - 2 * RUNNING) // 3)]
    while left:
        batch: list[Command] = []
        for number in left[:20]:
            batch += [reserve(f"r{number}.1"), Confirm(id=f"confirm-{number}", attempt=f"r{number}.1")]
            if number >= RUNNING:
                batch.append(Cancel(id=f"cancel-{number}", lease=f"r{number}.1", by="B"))
        del left[:20]
        journal.send("A", batch)
        runtime.drain()
        runtime.keep_short()
    runtime.close()


def _fail(status: int) -> NoReturn:
    raise SystemExit(status)


class Bench:
    """The owner process and what is seen of it in Redis."""

    def __init__(self, client: redis.Redis, url: str, directory: Path):
        self._client, self._directory = client, directory
        told = {"REDIS_URL": url, "STATE_DIR": str(directory / "state"), "KEY_PREFIX": PREFIX}
        self._environment = {**os.environ, **{f"SPOTFED_{name}": text for name, text in told.items()}}
        self._log = (directory / "owner.log").open("ab")
        self._process = self._started()
        self._asked, self._read = 0, "0-0"
        self.first_admission(0.0)

    def _started(self) -> subprocess.Popen[bytes]:
        options = {"cwd": self._directory, "env": self._environment | {"PYTHONPATH": str(ROOT)}}
        return subprocess.Popen(
            [sys.executable, "-m", "workers.owner", *ARGUMENTS],
            stdout=self._log,
            stderr=self._log,
            **options,  # type: ignore[call-overload]
        )

    def first_admission(self, since_s: float) -> Seen:
        """Asks for a lease and watches; what happened when."""
        self._asked += 1
        epoch = self._client.get(KEYS.epoch("A"))
        Journal(self._client, KEYS, "A").send("A", [reserve(f"bench-{os.getpid()}-{self._asked}.1")])
        seen: Seen = {}
        limit_s = time.monotonic() + LIMIT_S
        while time.monotonic() < limit_s:
            now_s = time.monotonic() - since_s
            opened: Any = self._client.get(KEYS.epoch("A"))
            if opened != epoch:
                self._note(seen, "lease", now_s)
                head: Any = self._client.xrevrange(KEYS.journal("A"), count=1)
                if head and head[0][0].startswith((opened or b"") + b"-"):
                    self._note(seen, "recovered", now_s)
            found: Any = self._client.xrange(KEYS.replies("bench"), f"({self._read}", "+")
            for entry, fields in found:
                self._read = entry.decode()
                for reply in replies.validate_json(fields[b"r"]):
                    if reply.command == f"reserve-bench-{os.getpid()}-{self._asked}.1":
                        assert isinstance(reply.answer, LeaseGranted), reply
                        self._note(seen, "admitted", now_s)
                        return seen
            time.sleep(0.002)
        raise AssertionError(f"no answer; see {self._directory / 'owner.log'}")

    def _note(self, seen: Seen, what: str, now_s: float) -> None:
        if what not in seen:
            times = psutil.Process(self._process.pid).cpu_times()
            seen[what] = now_s, times.user + times.system

    def kill(self, *, told_dead: bool, snapshot: bool) -> Seen:
        """Kills the owner and starts the next one."""
        state = self._directory / "state"
        if not snapshot:
            self._client.delete(KEYS.snapshot("A"))
            (archive_directory(state, PREFIX, "A") / "snapshot").unlink(missing_ok=True)
        self._process.kill()
        since_s = time.monotonic()
        self._process.wait()
        if not told_dead:
            (epochs_directory(state, PREFIX) / "A").unlink()
        self._process = self._started()
        return self.first_admission(since_s)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._log.close()


def main() -> None:
    told = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    told.add_argument("--entries", type=int, default=100_000)
    told.add_argument("--runs", type=int, default=3)
    options = told.parse_args()
    with tempfile.TemporaryDirectory() as name, EmbeddedRedis(Path(name) / "redis") as server:
        os.chdir(name)
        client, directory = connect(server.url), Path(name)
        began_s = time.monotonic()
        fill(client, directory, options.entries)
        entries, took_s = client.xlen(KEYS.journal("A")), time.monotonic() - began_s
        print(f"{entries} entries in the journal, written in {took_s:.0f} s; load {os.getloadavg()[0]:.1f}")
        print(f"{'':30}" + "".join(f"{what:>16}" for what in ("lease", "recovered", "admitted")))
        bench = Bench(client, server.url, directory)
        try:
            for what, told_dead, snapshot in (
                ("as it is", True, True),
                ("not knowing that it is dead", False, True),
                ("without a snapshot", True, False),
            ):
                for _ in range(options.runs):
                    seen = bench.kill(told_dead=told_dead, snapshot=snapshot)
                    times = "".join(f"{wall_s:9.2f} ({cpu_s:4.2f})" for wall_s, cpu_s in seen.values())
                    print(f"{what:30}{times}", flush=True)
        finally:
            bench.close()
            client.close()


if __name__ == "__main__":
    main()
