"""Kills (-9) of job managers, owners, node agents and Redis, one after the other, while jobs run."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

from broker.local.federation import LocalFederation
from broker.storage.embedded_server import EmbeddedRedis
from tests.integration.storm_kills import REDIS

#: From one kill to the next, so that each meets a run that goes on again.
PAUSE_S = (3.0, 7.0)


class Kills:
    """A thread that kills so many processes: in turn a job manager, an owner, a node agent and Redis."""

    def __init__(
        self,
        local: LocalFederation,
        server: EmbeddedRedis,
        rng: random.Random,
        count: int,
        say: Callable[[str], None],
    ):
        self.killed: Counter[str] = Counter()
        self._local, self._server, self._rng, self._count, self._say = local, server, rng, count, say
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._kill, name="kills", daemon=True)

    def start(self) -> None:
        """Returns at once."""
        self._thread.start()

    def stop(self) -> None:
        """No kill any more."""
        self._over.set()
        self._thread.join()
        self._server.start()

    def _kill(self) -> None:
        for number in range(self._count):
            if self._over.wait(self._rng.uniform(*PAUSE_S)):
                return
            kind = ("jobs-", "agent-", REDIS, "cloud-")[number % 4]
            for child in self._local._supervisor.children:
                child.failures = 0  # who dies often is started again at once
            if kind == REDIS:
                self._end(REDIS, self._server.pid)
                self._server.start()
                continue
            pids = self._local.pids
            name = self._rng.choice(sorted(name for name in pids if name.startswith(kind)) or [""])
            if name:
                self._end(name, pids[name])

    def _end(self, name: str, pid: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            self.killed[name] += 1
            self._say(f"killed {name}")
