"""Commands to owners, wake-ups and answers: how this process talks to the clouds.

A command is written to the owner's inbox, a wake-up (a Celery task) tells the owner to look, and the answer
comes back by this process's reply stream. A wake-up may be lost: the owner looks by itself once a second. The
wake-up
for an attempt is written in the same step as the attempt, which saves its caller one wait for the disk.
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

_SOON_S = 0.1  # in a stream of requests the next one wakes the owner before


class OwnerNotifier:
    """Wakes owners without making a caller wait, with one wake-up at a time for each cloud."""

    def __init__(self, ring: Callable[[str], None]):
        """Keep ``ring``, which wakes a cloud's owner. It may block; it is called on a thread."""
        self._ring = ring
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="doorbell")
        self._again: dict[str, bool] = {}  # clouds with a wake-up under way: is another one needed after it?
        self._planned: dict[str, asyncio.TimerHandle] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def ring(self, clouds: Iterable[str]) -> None:
        """Wake the owners now. Call it when the inbox entries are written."""
        for cloud in clouds:
            self.cancel_planned([cloud])
            if cloud in self._again:
                self._again[cloud] = True  # the owner may have looked before the entry was there
                continue
            self._again[cloud] = True
            task = asyncio.create_task(self._run(cloud))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def cancel_planned(self, clouds: Iterable[str]) -> None:
        """Cancel planned wake-ups of owners that are woken otherwise."""
        for cloud in clouds:
            timer = self._planned.pop(cloud, None)
            if timer is not None:
                timer.cancel()

    def ring_soon(self, clouds: Iterable[str]) -> None:
        """Plan a wake-up in ``_SOON_S`` seconds, for commands without a waiting caller."""
        loop = asyncio.get_running_loop()
        for cloud in clouds:
            if cloud not in self._planned:
                self._planned[cloud] = loop.call_later(_SOON_S, self.ring, (cloud,))

    async def _run(self, cloud: str) -> None:
        while self._again[cloud]:
            self._again[cloud] = False
            try:
                await asyncio.get_running_loop().run_in_executor(self._threads, self._ring, cloud)
            except (kombu.exceptions.KombuError, redis.RedisError, OSError) as error:
                log.warning("doorbell of %s: %s; who it is for will look without it", cloud, error)
        del self._again[cloud]

    async def close(self) -> None:
        """Let wake-ups under way end; planned ones are left to the owners' own look."""
        for timer in self._planned.values():
            timer.cancel()
        await asyncio.gather(*self._tasks)
        self._threads.shutdown(wait=False)


class OwnerCommands:
    """Sends commands and awaits their answers."""

    def __init__(self, records: RequestStore, replies: Replies, notifier: OwnerNotifier):
        self.records, self.replies, self.notifier = records, replies, notifier

    @property
    def reply_to(self) -> str:
        """The name of the reply stream that commands give as the place to answer to."""
        return self.replies.name

    def note_attempts(self, clouds: Iterable[str]) -> None:
        """Note that attempts were written, and wake-ups with them: planned ones are not needed."""
        self.notifier.cancel_planned(clouds)

    async def send(self, batches: Mapping[str, Sequence[Command]]) -> None:
        """Send commands, by cloud, without waiting for answers."""
        await self.records.send(batches)
        self.notifier.ring_soon(batches)

    async def ask(self, batches: Mapping[str, Sequence[Command]], deadline_s: float) -> dict[str, Answer]:
        """Send commands, by cloud, and return the answers that came in time, by command id."""
        clouds = {command.id: cloud for cloud, batch in batches.items() for command in batch}
        with self.expecting(clouds) as futures:
            await self.records.send(batches)
            self.notifier.ring(batches)
            return await await_answers(futures, deadline_s)

    @contextmanager
    def expecting(self, commands: Mapping[str, str]) -> Iterator[dict[str, asyncio.Future[Answer]]]:
        """Provide futures for the answers to commands, given with their clouds, before they are sent."""
        futures = self.replies.expect(commands)
        try:
            yield futures
        finally:
            self.replies.forget(futures)


async def await_answers(
    futures: Mapping[str, asyncio.Future[Answer]], deadline_s: float
) -> dict[str, Answer]:
    """Wait until all answers are there or ``deadline_s`` seconds are over; return those that are there."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + deadline_s
    for future in futures.values():  # they come in batches: when the first is there, most are
        left_s = until_s - loop.time()
        if not future.done() and left_s > 0:
            await asyncio.wait((future,), timeout=left_s)
    return {command: future.result() for command, future in futures.items() if future.done()}
