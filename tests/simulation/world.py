"""One seed: a federation, its users and what befalls it: faults, then calm, then the reckoning."""

from __future__ import annotations

import asyncio
import gc
import random
import traceback
import zlib
from collections import Counter, deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any

from tests.simulation.checker import Checker
from tests.simulation.clockwork import Loop
from tests.simulation.faults import Faults
from tests.simulation.options import Options, expand, failovers_every_s, reshapes_every_s
from tests.simulation.processes import KEYS, BrokerProcess, Machine, OwnerProcess, patched
from tests.simulation.store import Store
from tests.simulation.users import Users

_TAIL = 30
_LOOK_S = 0.25  # so often, when all is calm, whether everything is settled
_INBOX = KEYS.inbox("").encode()
_EPOCH_MS = 1_767_225_600_000


class Violation(Exception):  # noqa: N818 (the word of the design)
    """An invariant does not hold."""


class _Name(str):
    """Stands for a UUID."""

    __slots__ = ()

    @property
    def hex(self) -> str:
        return str(self)


@dataclass(frozen=True)
class Report:
    """What became of one seed. ``digest``: equal in two runs exactly if they were the same."""

    seed: int
    options: Options
    steps: int
    digest: int
    kinds: dict[str, int]
    befell: dict[str, int]
    violation: str | None
    tail: tuple[str, ...]


class World:
    """Everything of one run. Ask it for chance, names and time; nothing else gives any."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.reshaping = random.Random(f"other nodes {seed}")
        self.widening = random.Random(f"gangs {seed}")
        self.renewing = random.Random(f"renewals {seed}")
        self.failing_over = random.Random(f"failovers {seed}")
        self.options = replace(
            expand(self.random),
            reshape_every_s=reshapes_every_s(self.reshaping),
            failover_every_s=failovers_every_s(self.failing_over),
        )
        self.failovers = 0
        #: Whether the replica lacks what is written now.
        self.is_lagging = False
        #: The nodes that the federation file gives each cloud now.
        self.shapes = {cloud.id: cloud.node_cores for cloud in self.options.clouds}
        self.clock = Loop()
        self.redis_ahead_ms = 0
        self.store = Store(lambda: _EPOCH_MS + round(self.clock.time() * 1000) + self.redis_ahead_ms)
        self.violation: str | None = None
        self.checker = Checker(self.options.clouds, self.store, self.breach)
        self.users = Users(self)
        self.faults = Faults(self)
        self.store.held_back = self._message
        self.owners: dict[str, list[OwnerProcess]] = {cloud.id: [] for cloud in self.options.clouds}
        self.brokers: list[BrokerProcess] = []
        self.machines = {name: Machine(name) for name in ("m1", "m2", "m3")}
        self.calm = False
        self.away_until_s = 0.0
        self.steps = self.digest = 0
        self.befell: Counter[str] = Counter()
        self._tail: deque[str] = deque(maxlen=_TAIL)
        self._names = 0
        self._acting: list[asyncio.Task[None]] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        # One for each cloud: the product rings for a set of them, in an order that differs between processes.
        self._bells = {cloud.id: random.Random(self.random.random()) for cloud in self.options.clouds}
        self.clock.call_delay_s = lambda cloud: self._bells[cloud].expovariate(1 / self.options.latency_s)

    # -- what everybody asks for ---

    def chance(self, rate: float) -> bool:
        """Whether something befalls us, in the phase of faults."""
        return not self.calm and rate > 0 and self.random.random() < rate

    def latency_s(self) -> float:
        """Of one way over the network."""
        return self.random.expovariate(1 / self.options.latency_s)

    def name(self) -> _Name:
        """One that nobody has."""
        self._names += 1
        return _Name(f"u{self._names}")

    def _message(self, key: bytes, arguments: tuple[bytes, ...]) -> bool:
        return key.startswith(_INBOX) and self.faults.inbox(key, arguments)

    def redis_away(self) -> bool:
        return self.clock.time() < self.away_until_s

    def note(self, what: str, who: str, more: str) -> None:
        """A step of the history."""
        self.steps += 1
        self.befell[what] += 1
        line = f"{self.clock.time():9.4f} {what:9} {who} {more}"
        self.digest = zlib.crc32(line.encode(), self.digest)
        self._tail.append(line)

    def breach(self, text: str) -> None:
        """What must not be. The first one counts."""
        if self.violation is None:
            self.violation = f"{text} (at {self.clock.time():.4f} s, step {self.steps})"
            self.note("BREACH", text, "")
            self.clock.call_soon(self._stop)

    def crash(self, where: str, error: BaseException) -> None:
        """Code of the product raised what it must not raise."""
        last = "".join(traceback.format_exception(error)[-6:])
        self.breach(f"{where}: {type(error).__name__}: {error}\n{last}")

    def _stop(self) -> None:
        if self._main is not None:
            self._main.cancel()

    # -- processes -------------------------------------------------------------------------------------------

    def start_owner(self, cloud: int, machine: str) -> None:
        """One more process for a cloud; who is first becomes the owner."""
        told = self.options.clouds[cloud]
        name = f"owner-{told.id}-{self.name()}"
        self.note("start", name, machine)
        self.owners[told.id].append(OwnerProcess(self, told, cloud, name, self.machines[machine]))

    def refused(self, cloud: str, owner: OwnerProcess, why: str) -> None:
        """An owner does not open on its nodes. Its operator gives the cloud those again that it had."""
        self.note("refused", owner.name, why)
        self.checker.refused(cloud, owner.node_cores)
        if self.shapes[cloud] == owner.node_cores:
            self.shapes[cloud] = self.checker.books[cloud].node_cores

    def start_broker(self) -> None:
        name = f"broker-{self.name()}"
        self.note("start", name, "")
        self.brokers.append(BrokerProcess(self, name, self.machines["m3"]))

    def alive(self, cloud: str) -> list[OwnerProcess]:
        """Processes of a cloud."""
        self.owners[cloud] = [one for one in self.owners[cloud] if one.alive]
        return self.owners[cloud]

    def ring(self, cloud: str) -> None:
        """A doorbell."""
        if self.chance(self.options.bell_lost):
            return
        # One queue, one worker takes the message; a process listens once it has become the owner.
        for owner in [one for one in self.alive(cloud) if one.runtime is not None][:1]:
            delay_s = self.latency_s()
            if not self.calm and self.options.bell_late_s:
                delay_s += self.random.uniform(0, self.options.bell_late_s)
            self.clock.call_later(delay_s, owner.ring)

    async def broker_call(
        self, make: Callable[[BrokerProcess], Coroutine[Any, Any, Any]], patience_s: float
    ) -> Any:
        """A call to some broker; raises what clients see of one that dies or is silent."""
        alive = [broker for broker in self.brokers if broker.alive]
        if not alive:
            raise ConnectionError("no broker")
        broker = self.random.choice(alive)
        return await broker.call(make(broker), patience_s)

    def act(self, work: Coroutine[Any, Any, None]) -> None:
        """Something that goes on until the phase is over."""
        self._acting.append(self.clock.create_task(self._watched(work)))

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        """Something that goes on by itself, and is over before all is calm."""
        task = self.clock.create_task(self._watched(work), name=getattr(work, "__qualname__", ""))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _watched(self, work: Coroutine[Any, Any, Any]) -> None:
        try:
            await work
        except Exception as error:  # noqa: BLE001 (whatever it is, it is a find)
            self.crash("I8: a user meets", error)

    # -- the run ---------------------------------------------------------------------------------------------

    def run(self) -> None:
        """The whole of it. Afterwards ``violation`` says what was found."""
        self._main: asyncio.Task[None] | None = None
        with patched(self):
            self._main = self.clock.create_task(self._live())
            try:
                self.clock.run_until_complete(self._main)
            except asyncio.CancelledError:
                pass
            except Exception as error:  # noqa: BLE001 (whatever it is, it is a find)
                self.crash("I8: the run ends", error)
            finally:
                self._end()

    async def _live(self) -> None:
        options = self.options
        for index, cloud in enumerate(options.clouds):
            self.start_owner(index, "m1")
            if cloud.standby:
                self.start_owner(index, "m2")
        for _ in range(options.brokers):
            self.start_broker()
        acts: list[tuple[float, Callable[[], Coroutine[Any, Any, None]]]] = [
            (options.spot_every_s, self.users.spot),
            (options.own_every_s, self.users.own_burst),
            (options.drain_every_s, self.users.drain),
            (options.reshape_every_s, self.users.reshape),
            *self.faults.acts(),
        ]
        for every_s, act in acts:
            if every_s:
                self.act(self._again_and_again(every_s, act))
        await asyncio.sleep(options.faults_s)
        self.calm = True
        for task in self._acting:
            task.cancel()
        self._acting.clear()
        self.note("calm", "everybody", "")
        self.faults.end()
        for _ in range(round(options.calm_s / _LOOK_S)):
            await asyncio.sleep(_LOOK_S)
            if not self._tasks and self._quiet() and self.checker.is_settled():
                break
        if self._tasks:
            waits = sorted(task.get_name() for task in self._tasks)
            self.breach(f"I8: {len(waits)} users still wait for an answer: {waits[:3]}")
        for _ in range(100):
            if self._quiet():
                break
            await asyncio.sleep(0.05)
        owners = {cloud: owner for cloud in self.owners if (owner := self._owner(cloud)) is not None}
        self.checker.settled(owners)
        self.checker.answered(self.users.answers)
        self.checker.together(self.users.together)

    def _quiet(self) -> bool:
        """Whether no commit is under way, and no advert left to a moment later."""
        owners = [self._owner(cloud) for cloud in self.owners]
        runtimes = [owner.runtime for owner in owners if owner is not None]
        return len(runtimes) == len(owners) and not any(
            one is None or one._lock._held or one._owes_advert  # type: ignore[attr-defined]
            for one in runtimes
        )

    def _owner(self, cloud: str) -> OwnerProcess | None:
        """The process that owns a cloud when all is calm, if one does."""
        token = self.store.peek(KEYS.owner(cloud))
        return next((one for one in self.alive(cloud) if one.owns(token)), None)

    async def _again_and_again(self, every_s: float, act: Callable[[], Coroutine[Any, Any, None]]) -> None:
        while True:
            await asyncio.sleep(self.random.expovariate(1 / every_s))
            self.spawn(act())

    def _end(self) -> None:
        """Nobody lives on: threads and tasks end with their world."""
        self.calm = True
        for broker in self.brokers:
            broker.kill()
        for owners in self.owners.values():
            for owner in owners:
                owner.kill("the world ends")
        for task in asyncio.all_tasks(self.clock):
            task.cancel()
        left = asyncio.all_tasks(self.clock)

        async def last() -> None:
            await asyncio.gather(*left, return_exceptions=True)
            await asyncio.sleep(0)

        self.clock.run_until_complete(last())
        self.clock.close()


def run_seed(seed: int) -> Report:
    """Runs one seed."""
    gc.disable()  # a world is garbage when its run is over, and not before
    try:
        return _run(seed)
    finally:
        gc.enable()


def _run(seed: int) -> Report:
    world = World(seed)
    world.run()
    return Report(
        seed=seed,
        options=world.options,
        steps=world.steps,
        digest=world.digest ^ world.checker.digest,
        kinds=dict(world.checker.events),
        befell=dict(world.befell),
        violation=world.violation,
        tail=tuple(world._tail),
    )
