"""The reply stream of this process, on which owners answer its commands.

One reader a process delivers the answers by command id, on a connection of its own, because it blocks.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import redis.asyncio
from pydantic import ValidationError

from broker.contract import Answer, replies
from broker.signing.parties import cloud_party
from broker.signing.signer import UNSIGNED, MessageSigner, Signature, SignatureError, written_ms
from broker.storage.keys import RedisKeys
from broker.storage.replication import NO_BARRIER, ReplicationBarrier
from broker.storage.streams import BEGINNING, Cursor, EventConsumer, Page

log = logging.getLogger(__name__)

BLOCK_MS = 2000
KEPT_S = 600  # how long the stream outlives this process
_HOUSEKEEPING_S = 30.0
_BATCH = 1000


@dataclass
class _Expected:
    """The cloud that is to answer a command, and the futures of those that wait for it."""

    cloud: str
    futures: list[asyncio.Future[Answer]] = field(default_factory=list)


class Replies:
    """Delivers the answers that owners append to ``keys.replies(name)``.

    Where messages are signed, an answer counts if the cloud that was asked signed it, for this stream. Others
    are dropped, and the caller goes on waiting; ``refused`` counts them by reason.
    """

    def __init__(
        self,
        client: redis.asyncio.Redis,
        keys: RedisKeys,
        name: str,
        signing: MessageSigner = UNSIGNED,
        *,
        replicated: ReplicationBarrier = NO_BARRIER,
    ):
        """Open nothing yet.

        ``client`` is used by this reader alone. ``replicated`` is waited for before an answer is delivered:
        an owner and the primary may die together, and what is decided by an answer must not outlive it.
        """
        self._client, self.name, self._signing, self._replicated = client, name, signing, replicated
        self._stream = keys.replies(name)
        self._waiting: dict[str, _Expected] = {}
        self.refused: Counter[str] = Counter()
        # What was delivered before an outage is ignored when it is read again.
        self._cursor = Cursor(client, self._stream, BEGINNING, count=_BATCH, block_ms=BLOCK_MS, rewinds=True)
        self._housekeeping_due_s = 0.0
        self._place: object = None  # before the latest read

    @property
    def awaited(self) -> int:
        """The number of commands whose answers are awaited."""
        return len(self._waiting)

    def expect(self, commands: Mapping[str, str]) -> dict[str, asyncio.Future[Answer]]:
        """Return a future for the answer to each command; ``commands`` has their clouds by command id.

        Call it before they are sent, and ``forget`` afterwards.
        """
        loop = asyncio.get_running_loop()
        futures: dict[str, asyncio.Future[Answer]] = {}
        for command, cloud in commands.items():
            futures[command] = loop.create_future()
            self._waiting.setdefault(command, _Expected(cloud)).futures.append(futures[command])
        return futures

    def forget(self, futures: dict[str, asyncio.Future[Answer]]) -> None:
        """Cancel futures that are no longer awaited."""
        for command, future in futures.items():
            expected = self._waiting.get(command)
            if expected is not None and future in expected.futures:
                expected.futures.remove(future)
            if expected is not None and not expected.futures:
                del self._waiting[command]
            future.cancel()

    async def run(self) -> None:
        """Deliver answers until the task is cancelled, through outages of Redis."""
        await EventConsumer("reply stream", self._cursor, self._deliver_page, prepare=self._trim_stream).run()

    async def _trim_stream(self) -> bool:
        """Forget what was read and keep the rest from expiring, now and then."""
        self._place = self._replicated.place
        now_s = time.monotonic()
        if now_s >= self._housekeeping_due_s:
            pipe = self._client.pipeline(transaction=False)
            pipe.xtrim(self._stream, minid=await self._cursor.locate())
            pipe.expire(self._stream, KEPT_S)
            await pipe.execute()
            self._housekeeping_due_s = now_s + _HOUSEKEEPING_S
        return True

    async def _deliver_page(self, page: Page) -> None:
        """Deliver the answers in each entry to their futures."""
        await self._replicated.wait(self._place)
        for entry_id, fields in page.entries:
            self._deliver(entry_id, fields)

    def _deliver(self, entry_id: str, fields: dict[bytes, bytes]) -> None:
        if not self._waiting:
            return  # late, or read again after an outage
        try:
            # Before it is read: an entry that is not believed may be made to be hard to read.
            signature = self._verify_reply(entry_id, fields)
            entry = replies.validate_json(fields[b"r"], extra="ignore")
        except SignatureError as error:
            self._drop(error.reason, str(error))
            return
        except (ValidationError, KeyError) as error:
            # Not the error itself: it repeats what the entry holds.
            log.warning("an entry of the reply stream cannot be read (%s)", type(error).__name__)
            return
        for reply in entry:
            expected = self._waiting.get(reply.command)
            if expected is None:
                continue
            if signature is not None and signature.issuer != cloud_party(expected.cloud):
                self._drop("issuer", f"{signature.issuer} answered what {expected.cloud} was asked")
                continue
            del self._waiting[reply.command]
            for future in expected.futures:
                if not future.done():
                    future.set_result(reply.answer)

    def _verify_reply(self, entry_id: str, fields: dict[bytes, bytes]) -> Signature | None:
        clouds = {expected.cloud for expected in self._waiting.values()}
        return self._signing.verify(
            fields.get(b"s"),
            fields[b"r"],
            self._stream,
            {cloud_party(cloud) for cloud in clouds},
            written_ms(entry_id),
        )

    def _drop(self, reason: str, why: str) -> None:
        self.refused[reason] += 1
        log.warning("an answer is not believed: %s", why)
