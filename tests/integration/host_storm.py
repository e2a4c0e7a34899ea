"""Kills whole hosts of a federation on three of them, while users submit, release and listen; then judges.

    python -m tests.integration.host_storm [--kills 60] [--seed 1] [--directory EMPTY]

The hosts are namespaces of the kernel (``hosts``). Each has a Sentinel and owners of two of three clouds, so
that each cloud has an owner and a standby; the first two a Redis, one of which is the other's replica, and an
API each; the last two a Monte-Carlo worker. The users have a machine of their own, with the balancer.

A host dies with all its processes at once, in silence, with or without its disk, and boots some seconds
later. Every other one that dies has the primary. The next one dies when all is whole again; while a host
boots, it may die once more. ``storm_play`` says what is judged. Measured is from a death to the first answer
that grants a request of a prober which was sent after it.
"""

from __future__ import annotations

import random
import shutil
import signal
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import redis

from broker.client import ClientError
from broker.identity.store import let_in_operator
from broker.storage.connections import connect
from broker.storage.replication import count_replicas
from broker.storage.sentinel import SentinelAddress
from tests.integration.hosts import USERS, Host, hosts
from tests.integration.sentinel_servers import NAME, SERVER_CONFIG, sentinel_config
from tests.integration.storm_kills import Budget, await_answers, await_entry
from tests.integration.storm_play import (
    CLOUDS,
    ENVIRONMENT,
    KEYS,
    OWNER_OPTIONS,
    PREFIX,
    Scene,
    budget_of,
    federation_file,
    play,
    run_command,
)
from tests.integration.storm_users import Storm
from tests.support.balancer import balancer
from tests.support.wait import wait_until

NAMES = ("alpha", "beta", "gamma")
SERVERS, SAMPLERS = NAMES[:2], NAMES[1:]
#: Clouds whose owners a host runs: the first unless another host has the lease.
OWNED = dict(zip(NAMES, (("a", "b"), ("b", "c"), ("c", "a")), strict=True))
OPERATOR = "operator"
API_PORT, REDIS_PORT, SENTINEL_PORT = 8000, 6379, 26379
#: As in deploy/redis/sentinel.conf.
DOWN_AFTER_S = 2.0
#: How long a host is away.
AWAY_S = (0.5, 8.0)
#: There is always room for what probers ask for: that nobody is admitted is because of a death.
PROBERS, ROOMY = 4, "60x4"
_WHOLE_LIMIT_S = 240.0
_LOST, _AGAIN, _AT_AN_ENTRY = 0.3, 0.15, 0.7  # shares of the kills


@dataclass
class Death:
    """``at_s``: monotonic time."""

    host: str
    at_s: float
    is_primary: bool
    loses_disk: bool


class HostFederation:
    """A federation on three hosts. ``down_after_s``: silence after which Sentinels believe a server dead."""

    def __init__(self, made: dict[str, Host], file: Path, seed: int, down_after_s: float):
        self.hosts, self._file, self._seed = made, file, seed
        self._down_after_ms = round(1000 * down_after_s)
        sentinels = ",".join(f"{host.address}:{SENTINEL_PORT}" for host in made.values())
        self.redis_url = f"redis+sentinel://{sentinels}/{NAME}/0"
        self._address = SentinelAddress.parse(self.redis_url)

    def start(self) -> None:
        """Start Redis, let an operator in, and start all else."""
        first = self.hosts[SERVERS[0]]
        for name in SERVERS:
            self._start_redis(self.hosts[name], first)
        for host in self.hosts.values():
            self._start_sentinel(host, first)
        wait_until(lambda: self._try(self._redis_is_whole), "Redis")
        with connect(self.redis_url) as client:
            let_in_operator(client, KEYS, OPERATOR)
        for host in self.hosts.values():
            self._start_processes(host)
        self.await_whole()

    def boot(self, host: Host) -> None:
        """Start a host that died, and everything on it.

        One that has lost its disk asks Sentinels for the primary, and waits until it is another one: an empty
        server that starts as the primary would have the replica forget everything.
        """
        host.boot()
        self._start_processes(host)
        primary = host
        if not _disk(host).exists():
            primary = wait_until(lambda: self._other_primary(host), "another primary", _WHOLE_LIMIT_S)
        if host.name in SERVERS:
            self._start_redis(host, primary)
        self._start_sentinel(host, primary)

    def primary(self) -> Host | None:
        """The host of the server that Sentinels name, if they name one that is alive."""
        with closing(self._address.sentinels()) as sentinels, suppress(redis.RedisError):
            address, _ = sentinels.discover_master(self._address.service)
            return next(host for host in self.hosts.values() if host.address == address)
        return None

    def await_whole(self) -> None:
        """Return once each server, Sentinel, API and cloud is there."""
        wait_until(
            lambda: self._try(self._redis_is_whole), "Redis, its replica and all Sentinels", _WHOLE_LIMIT_S
        )
        wait_until(lambda: self._try(self._answers), "the APIs and all clouds", _WHOLE_LIMIT_S)

    def stop(self) -> None:
        """Stop all but Redis and its Sentinels."""
        for host in self.hosts.values():
            for unit in ("api", "montecarlo", *(f"cloud-{cloud}" for cloud in CLOUDS)):
                host.end(unit)

    # -- what runs -------------------------------------------------------------------------------------------

    def _start_processes(self, host: Host) -> None:
        environment = {
            **ENVIRONMENT,
            "SPOTFED_REDIS_URL": self.redis_url,
            "SPOTFED_KEY_PREFIX": PREFIX,
            "SPOTFED_STATE_DIR": str(host.directory / "disk/spotfed"),
        }

        def start(unit: str, *arguments: str) -> None:
            host.start(unit, [sys.executable, "-m", *arguments], environment)

        if host.name in SERVERS:
            start("api", "broker.api", "--host", host.address, "--port", str(API_PORT))
        if host.name in SAMPLERS:
            start("montecarlo", "workers.montecarlo", "--name", host.name)
        for cloud in OWNED[host.name]:
            options = ("--federation", str(self._file), *OWNER_OPTIONS, "--seed", str(self._seed))
            start(f"cloud-{cloud}", "workers.owner", "--cloud", cloud, *options)

    def _start_redis(self, host: Host, primary: Host) -> None:
        file = _disk(host) / "redis.conf"
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            told = SERVER_CONFIG | {"appendfsync": "always", "protected-mode": "no", "bind": "0.0.0.0"}
            told |= {"port": str(REDIS_PORT), "dir": str(file.parent)}
            if primary is not host:
                told["replicaof"] = f"{primary.address} {REDIS_PORT}"
            lines = (f"{name.replace('_', '-')} {value or chr(34) * 2}\n" for name, value in told.items())
            file.write_text("".join(lines))
        host.start("redis", ["redis-server", str(file)], {})

    def _start_sentinel(self, host: Host, primary: Host) -> None:
        file = _disk(host) / "sentinel.conf"
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            config = sentinel_config(primary.address, REDIS_PORT, self._down_after_ms)
            file.write_text(f"port {SENTINEL_PORT}\nprotected-mode no\ndir {file.parent}\n{config}")
        host.start("sentinel", ["redis-server", str(file), "--sentinel"], {})

    # -- what is there ---------------------------------------------------------------------------------------

    def _other_primary(self, host: Host) -> Host | None:
        primary = self.primary()
        return None if primary is host else primary

    def _redis_is_whole(self) -> bool:
        with closing(self._address.sentinels()) as sentinels:
            states, _ = sentinels.ask(NAME)
        wanted = (len(NAMES) - 1, 1)
        known = [(state["num-other-sentinels"], state["num-slaves"]) for state in states]
        if known != [wanted] * len(NAMES) or len({state["ip"] for state in states}) != 1:
            return False
        with connect(self.redis_url) as client:
            return count_replicas(client.info("replication")) == 1

    def _answers(self) -> bool:
        for name in SERVERS:
            url = f"http://{self.hosts[name].address}:{API_PORT}"
            if httpx.get(f"{url}/readyz", timeout=5).status_code != 200:
                return False
            headers = {"Authorization": f"Bearer {OPERATOR}"}
            clouds = httpx.get(f"{url}/v1/clouds", headers=headers, timeout=5).json()["clouds"]
            if [cloud["reachable"] for cloud in clouds] != [True] * len(CLOUDS):
                return False
        return True

    @staticmethod
    def _try(look: Any) -> bool:
        with suppress(redis.RedisError, httpx.HTTPError, ClientError, LookupError):
            return bool(look())
        return False


class HostKillers:
    """Kills hosts of a federation, one at a time."""

    def __init__(self, federation: HostFederation, seed: int, budget: Budget, state: Storm):
        self.deaths: list[Death] = []
        self._federation, self._budget, self._state = federation, budget, state
        self._rng = random.Random(seed)

    def run(self) -> None:
        """Kill until the budget is spent; all is whole then."""
        dead: list[Host] = []
        try:
            while not self._budget.over.is_set():
                await_answers(self._budget, lambda: len(self._state.answers))
                self._budget.over.wait(self._rng.uniform(0.0, 2.0))
                if self._rng.random() < _AT_AN_ENTRY:
                    streams = [*map(KEYS.inbox, CLOUDS), *map(KEYS.journal, CLOUDS), KEYS.all_events]
                    await_entry(self._federation.redis_url, self._rng.choice(streams))
                    self._budget.over.wait(self._rng.uniform(0.0, 0.02))
                host = self._choose()
                again = True
                while again and not self._budget.over.is_set():
                    self._kill(host)
                    dead.append(host)
                    time.sleep(self._rng.uniform(*AWAY_S))
                    self._federation.boot(dead.pop())
                    # Not if it is the primary again: it is the only one that has all, until the replica has.
                    again = self._rng.random() < _AGAIN and self._federation.primary() is not host
                    if again:
                        self._budget.over.wait(self._rng.uniform(0.0, 5.0))
                self._federation.await_whole()
        finally:
            self._budget.over.set()
            for host in dead:
                self._federation.boot(host)
            self._federation.await_whole()

    def _choose(self) -> Host:
        hosts = list(self._federation.hosts.values())
        drawn = self._rng.choice(hosts)
        return (self._federation.primary() or drawn) if len(self.deaths) % 2 == 0 else drawn

    def _kill(self, host: Host) -> None:
        death = Death(host.name, 0.0, self._federation.primary() is host, self._rng.random() < _LOST)

        def act() -> None:
            death.at_s = time.monotonic()
            host.die()
            if death.loses_disk:
                shutil.rmtree(host.directory / "disk")
            self.deaths.append(death)

        self._budget.spend("host of the primary" if death.is_primary else "other host", act)


def _disk(host: Host) -> Path:
    return host.directory / "disk/redis"


def seconds_to_admission(death: Death, state: Storm) -> float:
    """Seconds from a death to the first answer that granted a request of a prober which was sent later."""
    answered_s = min(answered_s for sent_s, answered_s in state.admissions if sent_s >= death.at_s)
    return round(answered_s - death.at_s, 2)


def storm(
    kills: int,
    seed: int,
    longest_s: float = float("inf"),
    directory: Path | None = None,
    down_after_s: float = DOWN_AFTER_S,
) -> dict[str, Any]:
    """Runs it on a thread that stays on the machine of users; returns what happened, with the breaches.

    No kill later than after ``longest_s``, or when the user interrupts. ``directory`` keeps disks and logs.
    """
    state = Storm()
    budget = budget_of(kills, state)
    with ExitStack() as stack:
        if directory is None:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="storm-")))
        file = federation_file(directory, ROOMY)
        wire, made = stack.enter_context(hosts(directory, NAMES, ("redis-server",)))
        wire.join()
        apis = [f"{made[name].address}:{API_PORT}" for name in SERVERS]
        address = f"{USERS}:{API_PORT}"
        stack.enter_context(balancer(directory, address, *apis))
        federation = HostFederation(made, file, seed, down_after_s)
        federation.start()
        scene = Scene(federation.redis_url, f"http://{address}", OPERATOR, file, federation.stop)
        killers = HostKillers(federation, seed, budget, state)
        result = play(scene, state, budget, seed, longest_s, killers.run, PROBERS)
    result["disks_lost"] = sum(death.loses_disk for death in killers.deaths)
    for name, is_primary in (("primary", True), ("other", False)):
        times = [seconds_to_admission(one, state) for one in killers.deaths if one.is_primary == is_primary]
        result[f"seconds_to_admission_{name}"] = times
        if times:
            result[f"median_{name}"], result[f"worst_{name}"] = round(statistics.median(times), 2), max(times)
    return result


def main() -> int:
    """Exit code 1 when anything was breached."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # hosts do not end by themselves
    return run_command(__doc__, storm, 60)


if __name__ == "__main__":
    sys.exit(main())
