"""Real worker processes on a real server, each test's under a key prefix of its own."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

import redis

from broker.contract import Advert, Command, Event, Reply, replies
from broker.journal.journal import Journal
from broker.queue.celery_config import make_app
from broker.queue.send import ring
from broker.settings import Settings
from broker.storage.connections import connect
from broker.storage.keys import RedisKeys
from tests.support.wait import LIMIT_S, wait_until

ROOT = Path(__file__).resolve().parents[2]

FEDERATION = """
[[cloud]]
id = "A"
nodes = "16x4"
trace = { synthetic = "table-1", hours = 120, seed = 1 }

[[workload]]
origin = "B"
trace = { synthetic = "table-1", hours = 120, seed = 2 }
delay = "24h"
sla = 0.2
targets = ["A"]
"""

_prefixes = itertools.count()


class Started:
    """Modules that run as processes, with their output in numbered logs of a directory."""

    def __init__(self, directory: Path):
        self._directory = directory
        self.running: list[subprocess.Popen[bytes]] = []

    def start(
        self, arguments: Sequence[str], environ: Mapping[str, str], tree: Path = ROOT
    ) -> subprocess.Popen[bytes]:
        """``tree``: where the code is."""
        log = self._directory / f"{len(self.running)}.log"
        command = [sys.executable, "-m", *arguments]
        with log.open("wb") as output:
            process = subprocess.Popen(
                command, cwd=tree, env={**os.environ, **environ}, stdout=output, stderr=output
            )
        self.running.append(process)
        return process

    def kill(self) -> None:
        for process in self.running:
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()

    def show_logs(self) -> None:
        for log in sorted(self._directory.glob("*.log")):
            print(f"--- {log.name}\n{log.read_text(errors='replace')[-4000:]}")  # noqa: T201


class Processes:
    """Owners and Monte-Carlo workers of one small federation. All of them are killed at the end."""

    def __init__(self, redis_url: str, directory: Path):
        self.settings = Settings(
            redis_url=redis_url, state_dir=directory, key_prefix=f"t{os.getpid()}-{next(_prefixes)}:"
        )
        self.file = directory / "federation.toml"
        self.file.write_text(FEDERATION)
        self.directory = directory
        self.tree = ROOT  # of the code that is started
        self.client = connect(redis_url)
        self.keys = RedisKeys(self.settings.key_prefix)
        self.journal = Journal(self.client, self.keys, "A")
        self.app = make_app(self.settings)
        self._started = Started(directory)
        self.running = self._started.running
        self._read = "0-0"
        self._answers: dict[str, Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._started.kill()
        self.app.close()
        self.client.close()
        if error is not None:
            self._started.show_logs()

    def start(self, *arguments: str, **environ: str) -> subprocess.Popen[bytes]:
        told = {
            "SPOTFED_REDIS_URL": str(self.settings.redis_url),
            "SPOTFED_STATE_DIR": str(self.directory),
            "SPOTFED_KEY_PREFIX": self.settings.key_prefix,
            "SPOTFED_REPLY_DEADLINE_S": "20",  # an owner that means to answer may stand still under load
        }
        return self._started.start(arguments, {**told, **environ}, self.tree)

    def owner(self, *options: str, **environ: str) -> subprocess.Popen[bytes]:
        command = ("workers.owner", "--cloud", "A", "--federation", str(self.file), "--samples", "500")
        return self.start(*command, *options, **environ)

    def montecarlo(self, name: str = "m") -> subprocess.Popen[bytes]:
        return self.start("workers.montecarlo", "--name", name)

    def advert(self, cloud: str = "A") -> Advert | None:
        stored = cast("bytes | None", self.client.get(self.keys.advert(cloud)))
        return None if stored is None else Advert.model_validate_json(stored)

    def opened(self, epoch: int) -> Advert:
        """Waits for the owner of that epoch."""

        def look() -> Advert | None:
            advert = self.advert()
            return advert if advert is not None and advert.epoch == epoch else None

        return wait_until(look, f"epoch {epoch}")

    def table(self, epoch: int, *, after_s: float = 0.0) -> Advert:
        """Waits for a table that this epoch's owner made later than ``after_s``."""

        def look() -> Advert | None:
            advert = self.advert()
            if advert is None or advert.epoch != epoch or advert.table_made_at_s is None:
                return None
            return advert if advert.table_made_at_s > after_s else None

        # A batch that is lost while its worker seems to live is sent again after 70 s, see
        # ``workers.owner.table_refresh``.
        return wait_until(look, f"a table of epoch {epoch}", 2 * LIMIT_S)

    def send(self, *batch: Command, bell: bool = True, cloud: str = "A") -> None:
        self.journal.send(cloud, batch)
        if bell:
            ring(self.app, cloud)

    def answer(self, command: str, limit_s: float = LIMIT_S) -> Any:
        """Waits for the answer to a command that was sent."""
        return wait_until(lambda: self._look(command), f"the answer to {command}", limit_s)

    @property
    def answered(self) -> set[str]:
        """The commands whose answers were read so far."""
        return {*self._answers}

    def _look(self, command: str) -> Any:
        try:
            found = self.client.xread({self.keys.replies("me"): self._read}, block=1000)
        except redis.RedisError:
            return self._answers.get(command)
        for _, entries in cast("Iterable[Any]", found or []):
            for entry, fields in entries:
                self._read = entry.decode()
                answers: list[Reply] = replies.validate_json(fields[b"r"])
                self._answers |= {reply.command: reply.answer for reply in answers}
        return self._answers.get(command)

    def events(self) -> list[Event]:
        return [event for _, event in self.journal.read()]
