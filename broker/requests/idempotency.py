"""Idempotency keys: one body a key, and one call at a time under it.

What comes of a call is in the records of its items, by their ids: a call that is repeated finds it there. A
key is held while its call is being answered. The holder says so again and again, so that a key whose holder
failed is free at once, and one whose process died within seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from uuid import uuid4

import redis

from broker.requests.errors import InFlightError, ReusedError
from broker.requests.models import AcceptOutcome
from broker.requests.store import RequestStore

#: How long a key stays held without a sign of life of its holder.
HOLD_S = 3.0
_RENEW_S = HOLD_S / 3


class IdempotencyKeys:
    """Binds idempotency keys to bodies, and holds them while calls are answered."""

    def __init__(self, records: RequestStore):
        self._records = records

    async def bind(self, principal: str, key: str, fingerprint: str) -> None:
        """Record the body that a key stands for; ``fingerprint`` is its digest.

        Raises
        ------
        ReusedError
            When the key was used with another body before.
        InFlightError
            When a call with this key and body is being answered.
        """
        await self._begin(principal, key, fingerprint, uuid4().hex, 0.0)

    @asynccontextmanager
    async def hold(self, principal: str, key: str, fingerprint: str) -> AsyncIterator[None]:
        """Hold a key while its call is answered in the context, whose end without an error is its answer.

        Raises ReusedError and InFlightError as ``bind`` does.
        """
        token = uuid4().hex
        await self._begin(principal, key, fingerprint, token, HOLD_S)
        renewal = asyncio.create_task(self._renew(principal, key, token))
        try:
            yield
            await self._records.answer_call(principal, key, "done")
        except BaseException:
            renewal.cancel()
            with suppress(redis.RedisError, OSError):  # then it is free when the hold is over
                await self._records.hold_call(principal, key, 0, token)
            raise
        finally:
            renewal.cancel()

    async def _begin(self, principal: str, key: str, fingerprint: str, token: str, hold_s: float) -> None:
        accepted = await self._records.accept_call(principal, key, fingerprint, round(1000 * hold_s), token)
        if accepted.outcome is AcceptOutcome.MISMATCH:
            raise ReusedError
        if accepted.outcome is AcceptOutcome.IN_FLIGHT:
            raise InFlightError

    async def _renew(self, principal: str, key: str, token: str) -> None:
        while True:
            await asyncio.sleep(_RENEW_S)
            with suppress(redis.RedisError, OSError):
                await self._records.hold_call(principal, key, round(1000 * HOLD_S), token)
