"""Who is killed in a kill storm, and when.

Every victim has a killer of its own, a thread, so that deaths overlap as they like. A killer waits until some
users were answered, so that it is a live run that is hit and not a dead one; then for a moment; kills with
SIGKILL; waits until its victim is back, and begins again. The moments are seen from outside:
right after an entry appears in a stream that the victim works on (a command in the inbox, an event in the
journal, an answer that is on its way), or after some time. No code of the product knows of it.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import redis

from broker.client import ClientError
from broker.local.federation import LocalFederation
from broker.storage.connections import connect
from broker.storage.embedded_server import EmbeddedRedis
from broker.storage.keys import RedisKeys

REDIS = "redis"
#: A victim that is not back after so long is killed all the same: it may need another start.
BACK_LIMIT_S = 20.0
_LOOK_S = 0.05
_MOMENT_LIMIT_S = 2.0
_ANSWERS_BETWEEN, _LULL_LIMIT_S = 5, 8.0
_EARLY = 0.15  # share of kills that do not wait until the victim is back: it dies while it starts or recovers


@dataclass
class Budget:
    """How many kills are left, and what was killed."""

    kills: int
    killed: Counter[str] = field(default_factory=Counter)
    over: threading.Event = field(default_factory=threading.Event)
    told: Callable[[int], None] = lambda _: None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def spend(self, victim: str, act: Callable[[], None]) -> None:
        """Kills, if a kill is left. ``act`` may raise ProcessLookupError: then nobody was there."""
        with self._lock:
            if self.over.is_set():
                return
            with suppress(ProcessLookupError):
                act()
                self.killed[victim] += 1
                self.told(self.done)
            if self.done >= self.kills:
                self.over.set()

    @property
    def done(self) -> int:
        """Kills so far."""
        return sum(self.killed.values())


@dataclass(frozen=True)
class Victim:
    """``streams``: an entry there may be a moment to kill it. ``pid``: None while it does not run.

    ``is_back`` is asked when another pid runs, with what ``mark`` said before the kill.
    """

    name: str
    streams: Sequence[str]
    pid: Callable[[], int | None]
    is_back: Callable[[Any], bool]
    mark: Callable[[], Any] = lambda: None
    revive: Callable[[], None] = lambda: None
    pause_s: tuple[float, float] = (0.0, 1.0)


class Killers:
    """The killers of a federation on this machine, whose server of Redis is ``server``."""

    def __init__(
        self,
        local: LocalFederation,
        server: EmbeddedRedis,
        keys: RedisKeys,
        seed: int,
        budget: Budget,
        answered: Callable[[], int],
    ):
        """``answered``: how many requests of users were."""
        self._local, self._server, self._keys, self._budget = local, server, keys, budget
        self._answered = answered
        self._url = server.url
        rng = random.Random(seed)
        self._threads = [
            threading.Thread(target=self._kill, args=(victim, random.Random(rng.random())), daemon=True)
            for victim in self._victims()
        ]

    def run(self) -> None:
        """Until the budget is spent, or somebody sets its ``over``."""
        for thread in self._threads:
            thread.start()
        try:
            while not self._budget.over.wait(0.5):
                for child in self._local._supervisor.children:
                    child.failures = 0  # who dies often is started again at once
        finally:
            self._budget.over.set()
            for thread in self._threads:
                thread.join()
            self._server.start()

    # -- victims ---------------------------------------------------------------------------------------------

    def _victims(self) -> list[Victim]:
        keys, clouds = self._keys, self._local.processes.clouds
        journals = [f"{keys.prefix}journal:{cloud}" for cloud in clouds]
        owners = [
            Victim(
                f"cloud-{cloud}",
                [keys.inbox(cloud), keys.journal(cloud)],
                self._pid(f"cloud-{cloud}"),
                partial(self._is_open, cloud),
                partial(self._epoch, cloud),
            )
            for cloud in clouds
        ]
        samplers = [
            Victim(name, [], self._pid(name), lambda _: True, pause_s=(1.0, 5.0))
            for name in self._local.pids
            if name.startswith("montecarlo")
        ]
        return [
            *owners,
            *samplers,
            Victim("api", [*map(keys.inbox, clouds), *journals], self._pid("api"), self._api_answers),
            Victim(
                REDIS,
                [*map(keys.inbox, clouds), *journals, keys.all_events],
                lambda: self._server.pid,
                lambda _: True,
                revive=self._server.start,
                pause_s=(1.0, 5.0),
            ),
        ]

    def _pid(self, name: str) -> Callable[[], int | None]:
        return lambda: self._local.pids.get(name)

    def _epoch(self, cloud: str) -> int:
        with connect(self._url) as client:
            return int(client.get(self._keys.epoch(cloud)) or 0)

    def _is_open(self, cloud: str, before: int | None) -> bool:
        return before is None or self._epoch(cloud) > before

    def _api_answers(self, _: Any) -> bool:
        with self._local.client(deadline_s=1.0) as client:
            client.clouds.list()
        return True

    # -- killing ---------------------------------------------------------------------------------------------

    def _kill(self, victim: Victim, rng: random.Random) -> None:
        over = self._budget.over
        while not over.is_set():
            over.wait(rng.uniform(*victim.pause_s))
            await_answers(self._budget, self._answered)
            if victim.streams and rng.random() < 0.7:
                await_entry(self._url, rng.choice(list(victim.streams)))
                over.wait(rng.uniform(0.0, 0.02))
            mark, pid = _unless_away(victim.mark), victim.pid()
            if pid is None:
                over.wait(_LOOK_S)
                continue
            self._budget.spend(victim.name, partial(os.kill, pid, signal.SIGKILL))
            victim.revive()
            early = rng.random() < _EARLY
            deadline_s = time.monotonic() + (rng.uniform(0.0, 3.0) if early else BACK_LIMIT_S)
            while time.monotonic() < deadline_s and not over.is_set():
                if victim.pid() not in (None, pid) and _unless_away(partial(victim.is_back, mark)):
                    break
                over.wait(_LOOK_S)


def await_answers(budget: Budget, answered: Callable[[], int]) -> None:
    """Return once some users were answered, or after a while."""
    wanted, deadline_s = answered() + _ANSWERS_BETWEEN, time.monotonic() + _LULL_LIMIT_S
    while answered() < wanted and time.monotonic() < deadline_s:
        if budget.over.wait(_LOOK_S):
            return


def await_entry(url: str, stream: str) -> None:
    """Return when the next entry appears in a stream, or after a while."""
    with suppress(redis.RedisError), connect(url) as client:
        client.xread({stream: "$"}, block=round(_MOMENT_LIMIT_S * 1000))


def _unless_away(ask: Callable[[], Any]) -> Any:
    """None while nobody answers."""
    with suppress(redis.RedisError, ClientError):
        return ask()
    return None
