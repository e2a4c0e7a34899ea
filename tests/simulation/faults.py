"""What befalls a federation beside lost and late calls: crashes, machines that stand still, outages, clocks
that jump, messages that come again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from tests.simulation.options import POISON
from tests.simulation.processes import KEYS, BrokerProcess, OwnerProcess

if TYPE_CHECKING:
    from tests.simulation.world import World

_HELD_S = (0.5, 5.0)
_BROKER_HELD_S = (0.5, 9.0)  # long enough for another one to sweep up after it
_OUTAGE_S = (0.2, 4.0)
_LAG_S = (0.01, 0.6)
_DOWN_S = (0.0, 3.0)
_JUMP_S = 3600.0
_LATE_S = (0.0, 6.0)

Act = tuple[float, Callable[[], Coroutine[Any, Any, None]]]


class Faults:
    """The faults of one run."""

    def __init__(self, world: World):
        self._world = world
        self._copied = False

    def acts(self) -> list[Act]:
        """Each with the mean gap between two of it."""
        told = self._world.options
        return [
            (told.owner_crash_every_s, self._crash_owner),
            (told.owner_held_every_s, self._hold_owner),
            (told.broker_crash_every_s, self._crash_broker),
            (told.broker_held_every_s, self._hold_broker),
            (told.outage_every_s, self._outage),
            (told.clock_jump_every_s, self._jump),
            (told.poison_every_s, self._poison),
            (told.record_lost_every_s, self._lose_record),
            (told.failover_every_s, self._fail_over),
        ]

    def end(self) -> None:
        """From now on everything is up."""
        world = self._world
        world.away_until_s = 0.0
        for process in (*world.brokers, *(one for owners in world.owners.values() for one in owners)):
            process.held_until_s = min(process.held_until_s, world.clock.time())
        world.act(self._supervise())
        while not any(broker.alive for broker in world.brokers):
            world.start_broker()

    async def _supervise(self) -> None:
        """What watches over processes starts those again that were stopped or fenced."""
        world = self._world
        while True:
            for index, cloud in enumerate(world.options.clouds):
                if not world.alive(cloud.id):
                    world.start_owner(index, "m1")
            await asyncio.sleep(1.0)

    # -- processes -------------------------------------------------------------------------------------------

    def _some_owner(self) -> tuple[int, OwnerProcess] | None:
        world = self._world
        index = world.random.randrange(len(world.options.clouds))
        alive = world.alive(world.options.clouds[index].id)
        return (index, world.random.choice(alive)) if alive else None

    async def _crash_owner(self) -> None:
        world, found = self._world, self._some_owner()
        if found is None:
            return
        index, owner = found
        if world.random.random() < 0.2:
            owner.stop()
        else:
            owner.kill("kill -9")
        await asyncio.sleep(world.random.uniform(*_DOWN_S))
        world.start_owner(index, world.random.choice(("m1", "m1", "m2")))

    async def _hold_owner(self) -> None:
        """It stands still, often for longer than its lease lasts; somebody may take over meanwhile."""
        world, found = self._world, self._some_owner()
        if found is None:
            return
        index, owner = found
        self.hold(owner)
        if world.random.random() < 0.6:
            world.start_owner(index, "m2")

    async def _crash_broker(self) -> None:
        world = self._world
        alive = [broker for broker in world.brokers if broker.alive]
        if alive:
            world.random.choice(alive).kill()
            await asyncio.sleep(world.random.uniform(*_DOWN_S))
            world.start_broker()

    async def _hold_broker(self) -> None:
        world = self._world
        broker = world.random.choice([one for one in world.brokers if one.alive] or world.brokers)
        self.hold(broker)

    def hold(self, process: OwnerProcess | BrokerProcess) -> None:
        """It stands still for a while."""
        world = self._world
        range_s = _HELD_S if isinstance(process, OwnerProcess) else _BROKER_HELD_S
        process.held_until_s = world.clock.time() + world.random.uniform(*range_s)
        world.note("held", process.name, f"until {process.held_until_s:.3f}")

    # -- Redis and clocks ------------------------------------------------------------------------------------

    async def _outage(self) -> None:
        world = self._world
        world.away_until_s = world.clock.time() + world.random.uniform(*_OUTAGE_S)
        world.note("outage", "redis", f"until {world.away_until_s:.3f}")

    async def _fail_over(self) -> None:
        """The primary goes on for a while without its replica, and dies. The replica takes its place."""
        world, rng = self._world, self._world.failing_over
        if world.is_lagging:
            return
        data, books = world.store.copy(), world.checker.copy()
        world.is_lagging = True
        await asyncio.sleep(rng.uniform(*_LAG_S))
        world.store.put_back(data)
        world.checker.put_back(books)
        world.is_lagging = False
        world.failovers += 1
        world.away_until_s = max(world.away_until_s, world.clock.time() + rng.uniform(*_OUTAGE_S))
        world.note("failover", "redis", f"until {world.away_until_s:.3f}")

    async def _jump(self) -> None:
        """A wall clock is set. That of Redis only forward: set back, leases last for as much longer."""
        world = self._world
        jump_s = world.random.uniform(-_JUMP_S, _JUMP_S)
        where = world.random.choice(("m1", "m2", "m3", "redis"))
        jump_s = abs(jump_s) if where == "redis" else jump_s
        world.note("jump", where, f"{jump_s:.1f} s")
        if where == "redis":
            world.redis_ahead_ms += round(jump_s * 1000)
        else:
            world.machines[where].ahead_s += jump_s

    async def _lose_record(self) -> None:
        """Redis is restored from an older copy, and owners bring back all but what the broker wrote.

        Whoever had the answer asks again.
        """
        world = self._world
        answered = [request for request in world.users.answers if world.checker.runs(request)]
        if answered:
            request = world.random.choice(answered)
            world.note("lost", "redis", f"the record of {request}")
            world.checker.lost.add(request)
            world.store.call("SET", KEYS.restored, "1")
            world.store.call("DEL", KEYS.request(request))
            await world.users.ask_again(request)

    # -- messages --------------------------------------------------------------------------------------------

    async def _poison(self) -> None:
        """An entry comes that nobody can read."""
        world = self._world
        cloud = world.random.choice(world.options.clouds).id
        world.note("poison", cloud, "an entry")
        world.store.call("XADD", KEYS.inbox(cloud), "*", "c", world.random.choice(POISON))

    def inbox(self, key: bytes, arguments: tuple[bytes, ...]) -> bool:
        """A message is sent to an owner. True: it is held back, and comes later. It may come again, too.

        Held back are reservations only: that the broker's later words overtake them is what tombstones are
        for. All others follow an answer that the broker has heard.
        """
        world = self._world
        body = arguments[-1]
        if world.chance(world.options.inbox_again):
            world.note("again", key.decode(), f"{body[:60]!r}")
            self._send_later(key, body)
        if body.count(b'"kind":"reserve"') == body.count(b'"kind"') and world.chance(
            world.options.reserve_held
        ):
            world.note("late", key.decode(), f"{body[:60]!r}")
            self._send_later(key, body)
            return True
        return False

    def _send_later(self, key: bytes, body: bytes) -> None:
        world = self._world
        failovers = world.failovers

        def send() -> None:
            if world.failovers == failovers:  # it was on its way to a server that is dead
                world.store.append(key, b"*", b"c", body)

        world.clock.call_later(world.random.uniform(*_LATE_S), send)
