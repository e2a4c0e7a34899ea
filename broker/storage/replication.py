"""Waits until a replica has what was written, before anybody is told of it.

Redis answers a write before its replicas have it, so a primary that dies takes the latest writes with it. An
owner therefore waits before it decides about a command and after each commit, and the API before it believes
an owner's answer and before it answers a call that changes something: what was answered is on two servers.

Where no replica follows, this server is the only one that has everything, and to wait for another one would
stop the federation. Then the Sentinels are asked: if most of them say that this is the primary, writes count
without a replica. (A replica that fell behind may still be promoted if the primary dies too.) A server that
was cut off from the others is not believed, nor one that was demoted. Where ``SPOTFED_REDIS_REPLICAS`` gives
a number, nothing counts with fewer.
"""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import redis
import redis.client
import structlog

from broker.settings import Settings, is_sentinel
from broker.storage.connections import DemotedError
from broker.storage.sentinel import SentinelAddress
from broker.storage.shared_call import SharedCall

log = structlog.get_logger(__name__)

#: How long one write waits for replicas: in all, before a look at what is wrong, and between looks.
LONGEST_WAIT_S, FIRST_WAIT_MS, WAIT_MS = 4.0, 100, 500
#: A replica acknowledges once a second what it has.
REPLICA_SILENT_S = 3
#: How long the Sentinels' word counts for a primary without replicas.
_TRUSTED_S = 1.0

Write = Callable[["redis.client.Pipeline"], object]
Result = TypeVar("Result")


def count_replicas(info: Mapping[str, Any]) -> int:
    """Return how many replicas follow a server, by its answer to INFO; those that fell silent do not."""
    replicas = [value for name, value in info.items() if re.fullmatch(r"slave\d+", name)]
    return sum(
        replica["state"] == "online" and int(replica.get("lag", 0)) <= REPLICA_SILENT_S
        for replica in replicas
    )


def replicas_awaited(settings: Settings) -> int:
    """Return how many replicas writes wait for."""
    if settings.redis_replicas is not None:
        return settings.redis_replicas
    return int(settings.redis_url is not None and is_sentinel(settings.redis_url))


class Replication:
    """Sends writes whose answers count once replicas have them."""

    def __init__(self, client: redis.Redis, settings: Settings):
        """Ask nobody yet. ``client`` is one of the address in the settings."""
        url = settings.redis_url or ""
        address = SentinelAddress.parse(url) if is_sentinel(url) else None
        self._client = client
        self._service = None if address is None else address.service
        self._sentinels = None if address is None else address.sentinels()
        self._is_fixed = settings.redis_replicas is not None
        self._count = replicas_awaited(settings)
        self._trusted_until_s = 0.0
        self._is_short = self._is_alone = False
        #: Host and port of the server of the latest write; None before the first.
        self.place: tuple[str, int] | None = None

    @property
    def is_awaited(self) -> bool:
        """Tells whether writes wait for replicas at all."""
        return self._count > 0

    def write(self, write: Write) -> Any:
        """Return the answer to a write, given as a call on a pipeline, once replicas have it.

        It may be sent more than once. An error that Redis answers is raised as it is.

        Raises
        ------
        redis.RedisError
            When Redis is away, or replicas lack it; the write may have been done nevertheless.
        """
        deadline_s = time.monotonic() + LONGEST_WAIT_S
        while True:
            with self._client.pipeline(transaction=False) as pipeline:
                connection: Any = self._client.connection_pool.get_connection()
                pipeline.connection = connection
                write(pipeline)
                pipeline.wait(
                    0 if self._is_alone else self._count, WAIT_MS if self._is_short else FIRST_WAIT_MS
                )
                if self._is_short:
                    pipeline.info("replication")  # on the same connection: it is true of this server
                answer, reached, *told = pipeline.execute(raise_on_error=False)
            for result in (answer, reached, *told):
                if isinstance(result, Exception):
                    raise result
            self._note_place((connection.host, connection.port))
            if reached >= self._count:
                self._note_short(False)
                return answer
            if told:
                self._is_alone = self._may_be_alone(told[0], (connection.host, connection.port))
                if self._is_alone:
                    return answer
            self._note_short(True)
            if time.monotonic() > deadline_s:
                raise DemotedError(
                    f"{reached} of {self._count} replicas have what was written, after {LONGEST_WAIT_S:g} s"
                )

    def durably(self, call: Callable[[], Result], channel: str) -> Result:
        """Return the result of a call that reads or writes, once replicas have what it read or wrote.

        ``channel`` is that of a message that marks the place behind it, and reaches no one. The call may have
        been done also where this fails. Raises redis.RedisError.
        """
        place = self.place
        result = call()
        self.settle(channel, place)
        return result

    def settle(self, channel: str, place: object) -> None:
        """Return once replicas have everything that was read or written since the primary was at ``place``.

        Raises
        ------
        DemotedError
            When there was a failover since; None is any place.
        redis.RedisError
            When Redis is away, or replicas lack it.
        """
        if self.is_awaited:
            self.mark(channel)
            if place not in {None, self.place}:
                raise DemotedError(f"the primary was {place}, and is {self.place}")

    def mark(self, channel: str) -> None:
        """Return once replicas have everything that was written before."""
        # Redis sends a message to its replicas, in the order of writes, and keeps it off its disk.
        self.write(lambda pipeline: pipeline.publish(channel, b""))

    def _note_place(self, place: tuple[str, int]) -> None:
        if self.place not in {None, place}:
            DemotedError.count += (
                1  # connections to the server before, if there still are any, are not trusted
            )
        self.place = place

    def _note_short(self, is_short: bool) -> None:
        if is_short != self._is_short:
            self._is_short, self._is_alone, self._trusted_until_s = is_short, False, 0.0
            if is_short:
                log.warning("replicas lack what was written", wanted=self._count)
            else:
                log.info("replicas have what was written")

    def _may_be_alone(self, info: Mapping[str, Any], place: tuple[str, int]) -> bool:
        """Return whether a server without replicas is the primary to most Sentinels; False to wait on.

        Raises
        ------
        DemotedError
            When it is not.
        """
        if self._is_fixed or self._sentinels is None or self._service is None or count_replicas(info):
            return False
        if self._is_alone and time.monotonic() < self._trusted_until_s:
            return True
        states, _ = self._sentinels.ask(self._service)
        if 2 * len(states) <= len(self._sentinels.clients):
            raise DemotedError("no replica follows the server, and too few Sentinels answer")
        if any("failover_in_progress" in state["flags"] for state in states):
            raise DemotedError("no replica follows the server, and a Sentinel promotes one")
        latest = max(states, key=lambda state: int(state["config-epoch"]))
        if (latest["ip"], latest["port"]) != place or latest["is_odown"]:
            raise DemotedError("no replica follows the server, and Sentinels name another one, or none yet")
        self._trusted_until_s = time.monotonic() + _TRUSTED_S
        if not self._is_alone:
            log.warning("no replica follows the primary: writes count without one", primary=place)
        return True

    def run_script(self, script: Any, keys: list[str], arguments: list[Any]) -> Any:
        """Run a registered script like ``write``; without replicas to wait for, as it is."""
        if not self.is_awaited:
            return script(keys, arguments)
        try:
            return self.write(lambda pipeline: pipeline.evalsha(script.sha, len(keys), *keys, *arguments))
        except redis.exceptions.NoScriptError:
            script(keys, arguments)  # loads it, where this user may
            return self.write(lambda pipeline: pipeline.evalsha(script.sha, len(keys), *keys, *arguments))


class ReplicationBarrier:
    """Lets calls of an API process wait, many at a time, until replicas have all that was written before."""

    def __init__(
        self, mark: Callable[[], Awaitable[object]] | None, place: Callable[[], object] = lambda: None
    ):
        """Wait for nothing yet.

        Parameters
        ----------
        mark
            Returns once replicas have a write that it makes; None: nothing is waited for.
        place
            Returns what is another one after a failover; None if that is not known.
        """
        self._place = place
        self._round = None if mark is None else SharedCall(partial(_mark_for_all, mark), most=sys.maxsize)

    @classmethod
    def from_replication(cls, replication: Replication, channel: str) -> ReplicationBarrier:
        """Return a barrier that marks places by messages in a channel, which reach no one."""
        if not replication.is_awaited:
            return NO_BARRIER
        return cls(lambda: asyncio.to_thread(replication.mark, channel), lambda: replication.place)

    @property
    def place(self) -> object:
        """Names the primary, for a later ``wait``."""
        return self._place()

    async def wait(self, place: object = None) -> None:
        """Return once replicas have everything that this process has written, or has read.

        ``place`` is that from before the first write; None if no matter.

        Raises
        ------
        redis.RedisError
            When Redis is away, replicas lack it, or there was a failover.
        """
        if self._round is None:
            return
        await self._round([None])
        if place is not None and place != self.place:
            raise DemotedError("another server has become the primary meanwhile")


async def _mark_for_all(mark: Callable[[], Awaitable[object]], waiting: Sequence[None]) -> Sequence[None]:
    await mark()
    return waiting


NO_BARRIER = ReplicationBarrier(None)
