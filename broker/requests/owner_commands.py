"""Commands to owners, doorbells and answers: how this process talks to the clouds.

A command is written to the owner's inbox, the doorbell (a Celery task) tells the owner to look, the answer
comes back by this process's reply stream. The bell may be lost: the owner looks by itself once a second. That
of an attempt is written in the same step: one wait for the disk less for whoever waits for the answer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import kombu.exceptions
import redis

from broker.contract import Answer, Command
from broker.requests.replies import Replies
from broker.requests.store import RequestStore

log = logging.getLogger(__name__)

_SOON_S = 0.1  # in a stream of requests the next one rings before


class OwnerNotifier:
    """Rings for clouds without making anybody wait; one bell at a time for a cloud, whoever asks."""

    def __init__(self, ring: Callable[[str], None]):
        """``ring`` may block; it is called on a thread."""
        self._ring = ring
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="doorbell")
        self._again: dict[str, bool] = {}  # clouds whose bell is being rung: must it be rung once more?
        self._later: dict[str, asyncio.TimerHandle] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def ring(self, clouds: Iterable[str]) -> None:
        """Now. Call it when the inbox entries are written."""
        for cloud in clouds:
            self.rung([cloud])
            if cloud in self._again:
                self._again[cloud] = True  # the bell under way may have been heard before the entry was there
                continue
            self._again[cloud] = True
            task = asyncio.create_task(self._run(cloud))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def rung(self, clouds: Iterable[str]) -> None:
        """Somebody else rang for them: what was to ring soon need not."""
        for cloud in clouds:
            timer = self._later.pop(cloud, None)
            if timer is not None:
                timer.cancel()

    def ring_soon(self, clouds: Iterable[str]) -> None:
        """In a moment, unless somebody rings for the same cloud before: for what nobody waits for."""
        loop = asyncio.get_running_loop()
        for cloud in clouds:
            if cloud not in self._later:
                self._later[cloud] = loop.call_later(_SOON_S, self.ring, (cloud,))

    async def _run(self, cloud: str) -> None:
        while self._again[cloud]:
            self._again[cloud] = False
            try:
                await asyncio.get_running_loop().run_in_executor(self._threads, self._ring, cloud)
            except (kombu.exceptions.KombuError, redis.RedisError, OSError) as error:
                log.warning("doorbell of %s: %s; who it is for will look without it", cloud, error)
        del self._again[cloud]

    async def close(self) -> None:
        """Lets the bells under way end; those that were to ring soon are left to the owners' own look."""
        for timer in self._later.values():
            timer.cancel()
        await asyncio.gather(*self._tasks)
        self._threads.shutdown(wait=False)


class OwnerCommands:
    """Sends commands and awaits their answers."""

    def __init__(self, records: RequestStore, replies: Replies, bells: OwnerNotifier):
        self.records, self.replies, self.bells = records, replies, bells

    @property
    def reply_to(self) -> str:
        """What commands name as the place to answer to."""
        return self.replies.name

    def ring(self, clouds: Iterable[str]) -> None:
        """For attempts that were made, unless the bell went with them."""
        if self.records.rings:
            self.bells.rung(clouds)
        else:
            self.bells.ring(clouds)

    async def tell(self, batches: Mapping[str, Sequence[Command]]) -> None:
        """Sends commands, by cloud, and waits for no answer."""
        await self.records.send(batches)
        self.bells.ring_soon(batches)

    async def ask(self, batches: Mapping[str, Sequence[Command]], deadline_s: float) -> dict[str, Answer]:
        """Sends commands, by cloud, and returns the answers by command id; who is silent is missing."""
        asked = {command.id: cloud for cloud, batch in batches.items() for command in batch}
        with self.expecting(asked) as futures:
            await self.records.send(batches)
            self.bells.ring(batches)
            return await await_answers(futures, deadline_s)

    @contextmanager
    def expecting(self, commands: Mapping[str, str]) -> Iterator[dict[str, asyncio.Future[Answer]]]:
        """Futures of the answers to commands, given with their clouds; enter it before they are sent."""
        futures = self.replies.expect(commands)
        try:
            yield futures
        finally:
            self.replies.forget(futures)


async def await_answers(
    futures: Mapping[str, asyncio.Future[Answer]], deadline_s: float
) -> dict[str, Answer]:
    """What has been answered when all have, or at the deadline."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + deadline_s
    for future in futures.values():  # they come in batches: when the first is there, most are
        left_s = until_s - loop.time()
        if not future.done() and left_s > 0:
            await asyncio.wait((future,), timeout=left_s)
    return {command: future.result() for command, future in futures.items() if future.done()}
