"""Connections to the store that lose, delay and repeat what goes over them, as seeds and options say."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import redis

from tests.simulation.clockwork import Event, running

if TYPE_CHECKING:
    from tests.simulation.world import World

# Scripts that may be read late, from a connection that was given up; and their answers, which may be lost.
LATE_S = (0.0, 12.0)
#: So many times as often as at other calls. Of owners half of all calls are scripts.
_HELD_AT_SCRIPT = 5


class _Connection:
    """What the two kinds share. ``process``: whose it is."""

    def __init__(self, world: World, process: Any):
        self.world, self.process = world, process

    def hold(self, *, script: bool) -> None:
        """Now and then a process stands still where it is about to call, most often where that decides."""
        if self.world.chance(self.world.options.held_at_call * (_HELD_AT_SCRIPT if script else 1)):
            self.world.faults.hold(self.process)

    def reach(self, failovers: int) -> None:
        """Raises what a client sees of a server that is away, or that an outage cuts off.

        ``failovers``: how many there were when the call began.
        """
        world = self.world
        if world.failovers != failovers:
            raise redis.ConnectionError("the primary died")
        if not self.process.alive:
            raise redis.ConnectionError("the process is dead")
        if world.redis_away():
            raise redis.ConnectionError("redis is away")
        if world.chance(world.options.lost):
            world.note("lost", self.process.name, "a call")
            raise redis.TimeoutError("a call was lost")

    def heard(self, failovers: int) -> None:
        """Raises what a client sees when the answer is lost."""
        if self.world.failovers != failovers:
            raise redis.ConnectionError("the primary died")
        if self.world.chance(self.world.options.unheard):
            self.world.note("unheard", self.process.name, "an answer")
            raise redis.TimeoutError("an answer was lost")

    def perform(self, act: Callable[[], Any], *, may_repeat: bool) -> Any:
        result = act()
        world = self.world
        if may_repeat and world.chance(world.options.repeated):
            failovers = world.failovers

            def again() -> None:
                if world.failovers != failovers:
                    return  # the server that would have read it is dead
                world.note("repeated", self.process.name, "a script")
                try:
                    act()
                except redis.ResponseError as error:
                    world.note("refused", self.process.name, str(error))

            world.clock.call_later(world.random.uniform(*LATE_S), again)
        return result


class BlockingClient(_Connection):
    """What ``broker.journal.journal`` wants of a ``redis.Redis``; a call is a pause of the fiber that makes
    it."""

    def _do(self, act: Callable[[], Any], *, may_repeat: bool = False) -> Any:
        fiber = running()
        self.hold(script=False)
        failovers = self.world.failovers
        fiber.pause(self.world.latency_s())
        self.reach(failovers)
        result = self.perform(act, may_repeat=may_repeat)
        if self.world.chance(0.3):
            fiber.pause(self.world.latency_s())
        self.heard(failovers)
        return result

    def register_script(self, text: str) -> Callable[..., Any]:
        store = self.world.store
        return lambda keys=(), args=(): self._do(lambda: store.run(text, keys, args), may_repeat=True)

    def _call(self, name: str, *arguments: Any) -> Any:
        return self._do(lambda: self.world.store.call(name, *arguments))

    def get(self, key: str) -> Any:
        return self._call("GET", key)

    def set(self, key: str, value: Any) -> Any:
        return self._call("SET", key, value)

    def hset(self, key: str, name: str, value: Any) -> Any:
        return self._call("HSET", key, name, value)

    def expire(self, key: str, seconds: int) -> Any:
        return self._call("EXPIRE", key, seconds)

    def hgetall(self, key: str) -> Any:
        return self._call("HGETALL", key)

    def xrange(self, stream: str, low: str, high: str, count: int) -> Any:
        return self._call("XRANGE", stream, low, high, "COUNT", count)

    def xread(self, streams: dict[str, str], block: int) -> Any:
        ((stream, after),) = streams.items()
        store, clock = self.world.store, self.world.clock
        until_s = clock.time() + block / 1000
        while not (found := self._call("XRANGE", stream, f"({after}", "+")) and clock.time() < until_s:
            grown = Event()
            store.waiting.setdefault(stream.encode(), []).append(grown.set)
            grown.wait(until_s - clock.time())
        return [(stream.encode(), found)] if found else []

    def xrevrange(self, stream: str, high: str, low: str, count: int) -> Any:
        return self._call("XREVRANGE", stream, high, low, "COUNT", count)

    def xadd(self, stream: str, fields: dict[Any, Any], *, maxlen: int | None = None, **told: str) -> Any:
        limit = () if maxlen is None else ("MAXLEN", "~", maxlen)
        parts = [part for pair in fields.items() for part in pair]
        return self._call("XADD", stream, *limit, told.get("id", "*"), *parts)


class AsyncClient(_Connection):
    """What ``broker.requests.store`` and its users want of a ``redis.asyncio.Redis``."""

    async def _do(self, act: Callable[[], Any], *, may_repeat: bool = False) -> Any:
        self.hold(script=may_repeat)
        failovers = self.world.failovers
        await self._stand_still(self.world.latency_s())
        self.reach(failovers)
        result = self.perform(act, may_repeat=may_repeat)
        if self.world.chance(0.3):
            await self._stand_still(self.world.latency_s())
        self.heard(failovers)
        return result

    async def _stand_still(self, delay_s: float) -> None:
        """For that long, and while the machine is held."""
        until_s = self.world.clock.time() + delay_s
        if self.world.clock.nobody_before(until_s):
            self.world.clock.pass_until(until_s)  # it would go on next anyhow
        else:
            await asyncio.sleep(delay_s)
        while (held_s := self.process.held_until_s - self.world.clock.time()) > 0:
            await asyncio.sleep(held_s)

    def register_script(self, text: str) -> Callable[..., Any]:
        store = self.world.store
        return lambda keys=(), args=(): self._do(lambda: store.run(text, keys, args), may_repeat=True)

    async def get(self, key: str) -> Any:
        return await self._do(lambda: self.world.store.call("GET", key))

    async def mget(self, keys: list[str]) -> Any:
        return await self._do(lambda: self.world.store.call("MGET", *keys))

    async def hmget(self, key: str, names: list[str]) -> Any:
        return await self._do(lambda: self.world.store.call("HMGET", key, *names))

    async def hkeys(self, key: str) -> Any:
        return await self._do(lambda: self.world.store.call("HKEYS", key))

    async def xread(self, streams: dict[str, str], count: int, block: int | None) -> Any:
        ((stream, after),) = streams.items()
        store, clock = self.world.store, self.world.clock
        until_s = clock.time() + (block or 0) / 1000

        def look() -> Any:
            return store.call("XRANGE", stream, f"({after}", "+", "COUNT", count)

        while not (found := await self._do(look)) and clock.time() < until_s:
            grown = clock.create_future()
            store.waiting.setdefault(stream.encode(), []).append(partial(_wake, grown))
            await asyncio.wait([grown], timeout=until_s - clock.time())
        return [(stream.encode(), found)] if found else []

    def pipeline(self, transaction: bool) -> Pipeline:
        assert not transaction
        return Pipeline(self)


def _wake(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)


class Pipeline:
    """Commands that go out together."""

    def __init__(self, client: AsyncClient):
        self._client = client
        self._commands: list[tuple[Any, ...]] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._commands.clear()

    def xadd(self, stream: str, fields: dict[str, Any]) -> None:
        self._commands.append(("XADD", stream, "*", *(part for pair in fields.items() for part in pair)))

    def xtrim(self, stream: str, minid: str) -> None:
        self._commands.append(("XTRIM", stream, "MINID", minid))

    def expire(self, key: str, seconds: int, gt: bool = False) -> None:
        del gt  # no run lasts so long
        self._commands.append(("EXPIRE", key, seconds))

    def hgetall(self, key: str) -> None:
        self._commands.append(("HGETALL", key))

    def mget(self, keys: list[str]) -> None:
        self._commands.append(("MGET", *keys))

    async def execute(self) -> list[Any]:
        store, commands = self._client.world.store, list(self._commands)
        # ``send`` says that what is sent again is there twice; its commands carry ids.
        repeat = any(name == "XADD" for name, *_ in commands)
        answers = await self._client._do(
            lambda: [store.call(name, *arguments) for name, *arguments in commands], may_repeat=repeat
        )
        assert isinstance(answers, list)
        return answers


_LOOK_S = 0.01


class SimulatedReplication:
    """Stands for ``broker.storage.replication.Replication``: returns once the replica has a write."""

    def __init__(self, world: World):
        self._world = world

    def run_script(self, script: Callable[..., Any], keys: Any, arguments: Any) -> Any:
        failovers = self._world.failovers
        answer = script(keys, arguments)
        while self._world.is_lagging:
            running().pause(_LOOK_S)
        if self._world.failovers != failovers:
            raise redis.ConnectionError("the primary died")
        return answer

    def durably(self, call: Callable[[], Any], _channel: str) -> Any:
        return self.run_script(lambda _keys, _arguments: call(), (), ())

    def settle(self, _channel: str, place: int) -> None:
        while self._world.is_lagging:
            running().pause(_LOOK_S)
        if self._world.failovers != place:
            raise redis.ConnectionError("the primary died")

    @property
    def place(self) -> int:
        return self._world.failovers

    async def mark(self) -> None:
        failovers = self._world.failovers
        while self._world.is_lagging:
            await asyncio.sleep(_LOOK_S)
        if self._world.failovers != failovers:
            raise redis.ConnectionError("the primary died")
