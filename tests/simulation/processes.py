"""The product's processes inside the simulation: owners (the real ``OwnerProcess`` on fibers) and brokers
(the real ``SubmissionService`` and ``CloudService`` on the loop), and what stands for clocks, names and
files around them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NoReturn, cast
from unittest import mock

import redis

from broker.api.services.clouds import CloudService
from broker.api.services.leases import LeaseService
from broker.api.services.on_demand import OnDemandService
from broker.api.services.owner_calls import OwnerCalls
from broker.contract import CloudInfo
from broker.journal.journal import Journal
from broker.requests.idempotency import IdempotencyKeys
from broker.requests.members import MembershipView
from broker.requests.owner_commands import OwnerNotifier
from broker.requests.replies import Replies
from broker.requests.store import RequestStore
from broker.requests.submit import SubmissionService
from broker.settings import Settings
from broker.storage.keys import RedisKeys
from broker.storage.replication import Replication, ReplicationBarrier
from cloudsim.cloud.spec import CloudSpec
from cloudsim.prediction.tables import QuantileTable
from tests.simulation.clients import AsyncClient, BlockingClient, SimulatedReplication
from tests.simulation.clockwork import Event, Fiber, Killed, Threading, running
from tests.simulation.options import CloudOptions
from tests.support.wakeups import RingingCommands, no_wakeup
from tests.unit.workers.owners import harmless_table
from workers.owner.nodes import NodesError
from workers.owner.owner_group import OwnerGroup
from workers.owner.process import EXIT_BROKEN, EXIT_FENCED, OwnerProcessSpec
from workers.owner.process import OwnerProcess as ProductOwnerProcess
from workers.owner.state import OwnerSpec

if TYPE_CHECKING:
    from tests.simulation.world import World

KEYS = RedisKeys("sim:")
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
RENEWAL_S = 8.0
SETTINGS = Settings.model_construct(
    reply_deadline_s=0.8,
    trace_reply_deadline_s=0.8,
    max_clouds_asked=3,
    owner_lease_ttl_s=2.0,
    reservation_ttl_s=12.0,
    renewal_s=RENEWAL_S,
    inbox_poll_s=1.0,
    advert_max_age_s=5.0,
    key_prefix=KEYS.prefix,
    state_dir=Path("simulated"),
    seed=0,
    samples=1,
)
_SWEEP_S = 1.0


@cache
def _table(node_cores: tuple[int, ...]) -> QuantileTable:
    return harmless_table(node_cores)


@dataclass
class Machine:
    """Where processes run. ``ahead_s``: of its wall clock; ``floors``: files that outlive processes."""

    name: str
    ahead_s: float = 0.0
    floors: dict[str, int] = field(default_factory=dict)


class _Process:
    """``held_until_s``: it stands still until then, as if stopped by a signal or swapped out."""

    def __init__(self, world: World, name: str, machine: Machine):
        self.world, self.name, self.machine = world, name, machine
        self.alive, self.held_until_s = True, 0.0


class OwnerProcess(_Process):
    """One process of a cloud's owner."""

    def __init__(self, world: World, cloud: CloudOptions, order: int, name: str, machine: Machine):
        super().__init__(world, name, machine)
        self.cloud, self._order = cloud, order
        self.node_cores = world.shapes[cloud.id]  # of the file that it reads when it starts
        self._bell = Event()
        self.runtime: ProductOwnerProcess | None = None
        main = Fiber(world.clock, self._run, self)
        self.fibers = [main]
        main.start()

    def _run(self) -> None:
        world, cloud = self.world, self.cloud
        nodes = self.node_cores
        client = cast("redis.Redis", BlockingClient(world, self))
        replication = cast("Replication", SimulatedReplication(world))
        journal = _Journal(client, KEYS, cloud.id, replication=replication)
        journal.acquired = lambda epoch: world.checker.opens(cloud.id, epoch, nodes)
        spec = OwnerSpec(
            self._cloud_spec(nodes),
            reservation_ttl_s=SETTINGS.reservation_ttl_s,
            renewal_s=SETTINGS.renewal_s,
        )
        info = CloudInfo(
            id=cloud.id,
            order=self._order,
            nodes=",".join(f"1x{cores}" for cores in nodes),
            cores=sum(nodes),
            largest_node=max(nodes),
            time="wall",
            grace_s=cloud.grace_s,
        )
        runtime = ProductOwnerProcess(
            OwnerProcessSpec(spec, info, frozenset({1}), seed=0, births=1),
            SETTINGS,
            journal,
            _no_batches,
            self._fail,
        )
        # By which nobody is ever at risk: it stays through recoveries, and no other is made.
        runtime._owner.cloud.table = _table(nodes)
        try:
            runtime.open()
        except NodesError as error:
            world.refused(cloud.id, self, str(error))
            runtime.close()
            self.kill("exit status 78")
            raise Killed from error
        self.runtime = runtime
        runtime.start()
        while True:
            self._bell.wait()
            self._bell.clear()
            runtime.attend()

    def _cloud_spec(self, node_cores: tuple[int, ...]) -> CloudSpec:
        return CloudSpec(self.cloud.id, node_cores, grace_s=self.cloud.grace_s, first_table_s=1e12)

    def reload(self) -> None:
        """SIGHUP: it becomes a process that has read the file as it is now, if that fits what runs."""
        runtime, world = self.runtime, self.world
        if runtime is None:
            return

        def become() -> NoReturn:
            world.note("reloaded", self.name, f"{world.shapes[self.cloud.id]}")
            world.start_owner(self._order, self.machine.name)
            self.kill("became another")
            raise Killed

        spec = self._cloud_spec(world.shapes[self.cloud.id])
        group = OwnerGroup({spec.id: runtime}, lambda *_: self._fail(EXIT_BROKEN), self._fail)
        last = Fiber(world.clock, lambda: group.make_way({spec.id: spec}, become), self)
        self.fibers.append(last)
        last.start()

    def owns(self, token: bytes | None) -> bool:
        """Whether it is open and the lease in Redis is its own."""
        return self.runtime is not None and token == self.runtime._lease.token.encode()

    def ring(self) -> None:
        """The doorbell: a Celery task of a worker that does one at a time."""
        if self.alive:
            self._bell.set()

    def kill(self, why: str) -> None:
        """kill -9."""
        if not self.alive:
            return
        self.alive = False
        self.world.note("killed", self.name, why)
        for fiber in self.fibers:
            fiber.kill()

    def stop(self) -> None:
        """Told to stop: it lets the next owner in, and ends."""
        runtime = self.runtime
        if runtime is None:
            self.kill("stopped before it was open")
            return

        def close() -> None:
            runtime.close()
            self.kill("stopped")

        last = Fiber(self.world.clock, close, self)
        self.fibers.append(last)
        last.start()

    def _fail(self, status: int) -> NoReturn:
        if status == EXIT_FENCED:
            self.world.note("fenced", self.name, "")
        else:
            self.world.breach(f"I8: owner {self.name} ends with status {status}")
        self.kill(f"exit status {status}")
        raise Killed


class _Journal(Journal):
    """Tells the checker which epoch an owner opens. Nothing else is another."""

    acquired: Callable[[int], None]

    def acquire(self, *arguments: Any, **more: Any) -> int | None:
        epoch = super().acquire(*arguments, **more)
        if epoch is not None:
            self.acquired(epoch)
        return epoch


def _no_batches(queue: str, batch: Any) -> None:
    raise AssertionError("no table is due in a simulation")


class BrokerProcess(_Process):
    """One API process, without HTTP."""

    def __init__(self, world: World, name: str, machine: Machine):
        super().__init__(world, name, machine)
        client = cast("redis.asyncio.Redis", AsyncClient(world, self))
        records = RequestStore(client, KEYS, bell=no_wakeup)
        adverts = MembershipView(
            client,
            KEYS,
            max_age_s=SETTINGS.advert_max_age_s,
            monotonic=world.clock.time,
            now=lambda: EPOCH + timedelta(seconds=world.clock.time() + machine.ahead_s),
        )
        replication = SimulatedReplication(world)
        self._replicated = ReplicationBarrier(replication.mark, lambda: replication.place)
        replies = Replies(client, KEYS, name, replicated=self._replicated)
        exchange = RingingCommands(records, replies, OwnerNotifier(self._ring))
        self.service = SubmissionService(SETTINGS, records, adverts, exchange)
        self.idempotency = IdempotencyKeys(records)
        owners = OwnerCalls(SETTINGS, exchange)
        self.leases = LeaseService(client, KEYS, owners, adverts)
        self.on_demand = OnDemandService(owners, self.service.sealer)
        self.clouds = CloudService(owners, adverts)
        self._tasks: dict[asyncio.Task[Any], None] = {}  # in order: a set's would be another one every time
        self._own(self._keep_up(replies.run))
        self._own(self._keep_up(self._sweep))

    def _ring(self, cloud: str) -> None:
        if self.alive:
            self.world.ring(cloud)

    def _own(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = self.world.clock.create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)
        return task

    async def _keep_up(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await work()
        except Exception as error:  # noqa: BLE001 (whatever it is, it is a find)
            self.world.crash(f"I8: a task of {self.name} ends", error)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP_S)
            try:
                await self.service.sweep()
            except (redis.RedisError, OSError):
                self.world.note("sweep", self.name, "redis is away")

    async def _answer(self, work: Coroutine[Any, Any, Any]) -> Any:
        """As the API's middleware does."""
        place = self._replicated.place
        try:
            return await work
        finally:
            await self._replicated.wait(place)

    async def call(self, work: Coroutine[Any, Any, Any], patience_s: float) -> Any:
        """What a client gets: the answer, or ConnectionError when the process dies or takes too long."""
        if not self.alive:
            work.close()
            raise ConnectionError(self.name)
        task = self._own(self._answer(work))
        await asyncio.wait([task], timeout=patience_s)
        if not task.done() or task.cancelled():
            raise ConnectionError(self.name)
        return task.result()

    def kill(self) -> None:
        """kill -9: whatever is under way ends where it is."""
        self.alive = False
        self.world.note("killed", self.name, "")
        for task in tuple(self._tasks):
            task.cancel()


# -- what stands around them ---


class _EpochFile:
    """Stands for ``workers.owner.epoch_file.EpochFile``: the file is a number of the machine."""

    def __init__(self, directory: Path, cloud: str):
        self._floors, self._cloud = running().process.machine.floors, cloud

    def read(self) -> int:
        return int(self._floors.get(self._cloud, 0))

    def write(self, epoch: int, _token: str) -> None:
        self._floors[self._cloud] = max(epoch, self.read())

    def dead(self) -> str:
        return ""  # nobody looks: a lease runs out


class _Log:
    """Stands for the owner's log. What is logged as an exception there is a find here."""

    def __init__(self, world: World):
        self._world = world

    def info(self, event: str, **_: Any) -> None:
        self._world.note("log", running().process.name, event)

    warning = error = info

    def exception(self, event: str, **_: Any) -> None:
        import sys

        error = sys.exc_info()[1]
        assert error is not None
        self._world.crash(f"I8: owner {running().process.name}: {event}", error)


@contextmanager
def patched(world: World) -> Iterator[None]:
    """Clocks, names, threads, files and logs of the product are those of ``world``."""

    def now(_zone: Any = None) -> datetime:
        return EPOCH + timedelta(seconds=world.clock.time() + running().process.machine.ahead_s)

    clock = world.clock
    threads = Threading(clock)
    uuids = SimpleNamespace(uuid4=world.name)
    times = SimpleNamespace(monotonic=clock.time, sleep=lambda seconds: running().pause(seconds))
    stands = {
        "workers.owner.process.threading": threads,
        "workers.owner.process.time": times,
        "workers.owner.process.uuid": uuids,
        "workers.owner.process.datetime": SimpleNamespace(now=now, fromisoformat=datetime.fromisoformat),
        **{
            f"workers.{name}.log": _Log(world)
            for name in (
                "owner.process",
                "owner.owner_group",
                "owner.ownership",
                "owner.clock",
                "owner.recovery",
            )
        },
        "broker.storage.outages.time": times,
        "workers.owner.ownership.threading": threads,
        "workers.owner.ownership.time": times,
        "workers.owner.ownership.uuid": uuids,
        "workers.owner.ownership.EpochFile": _EpochFile,
        "broker.requests.replies.time": times,
        "broker.requests.idempotency.uuid4": world.name,
        "broker.requests.models.uuid4": world.name,
        "broker.api.services.clouds.uuid4": world.name,
        "broker.api.services.on_demand.uuid4": world.name,
    }
    with ExitStack() as stack:
        for target, stand in stands.items():
            stack.enter_context(mock.patch(target, stand))
        logging.disable(logging.CRITICAL)
        stack.callback(logging.disable, logging.NOTSET)
        yield
