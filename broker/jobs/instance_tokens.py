"""Tokens of node agents on instances of real clouds: each stands for one piece of work and nothing else.

The API makes a token when a job manager requests the instance, and has it encrypted for the cloud agent that
starts the instance (``broker.requests.launches``). Redis has its digest only. A token is good for nothing
before its work is assigned, and dies with the lease (``broker.api.services.instances``).
"""

from __future__ import annotations

import hashlib
import secrets
from typing import Any, cast

import redis.asyncio

from broker.contract import CloudId, Id, Message, read_message
from broker.storage.keys import RedisKeys

#: Seconds for which an unused token is kept; each use begins them anew.
KEPT_S = 86_400


class InstanceToken(Message):
    """The meaning of a token: a piece of work on a cloud. ``lease``: that of the work that was handed out."""

    cloud: CloudId
    work: Id
    lease: Id | None = None


class InstanceTokens:
    """Makes and finds tokens. Its methods raise redis.RedisError."""

    def __init__(self, client: redis.asyncio.Redis, keys: RedisKeys):
        self._client, self._keys = client, keys

    async def make(self, cloud: str, work: str) -> str:
        """Return a new token for a piece of work on a cloud."""
        token = secrets.token_urlsafe(32)
        await self.keep(digest_token(token), InstanceToken(cloud=cloud, work=work))
        return token

    async def keep(self, digest: str, token: InstanceToken) -> None:
        """Keep what a token stands for, for another while."""
        await self._client.set(self._keys.instance_token(digest), token.model_dump_json(), ex=KEPT_S)

    async def find(self, digest: str) -> InstanceToken | None:
        """Return what a token stands for, None for an unknown one."""
        text = cast("Any", await self._client.get(self._keys.instance_token(digest)))
        return None if text is None else read_message(InstanceToken, text)

    async def drop(self, digest: str) -> None:
        """Make a token worthless."""
        await self._client.delete(self._keys.instance_token(digest))


def digest_token(token: str) -> str:
    """Return the digest under which a token is known."""
    return hashlib.sha256(token.encode()).hexdigest()
