"""Takes the secrets out of launches, and keeps them for the cloud agents that may have to carry them out."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Hashable, Sequence
from typing import Any, cast
from uuid import uuid4

import redis.asyncio
from joserfc.jwk import OKPKey
from pydantic import SecretStr

from broker.contract import Launch, SpotRequest
from broker.jobs.instance_tokens import InstanceTokens
from broker.leases.instances import KEPT_S, read_agent_public_key
from broker.requests.errors import UnsuitableError
from broker.requests.routing import Member, find_targets
from broker.signing.agent_keys import seal
from broker.signing.signer import MessageSigner
from broker.storage.keys import RedisKeys

#: The version of the contract that knows launches.
_SINCE = 4
#: The cost of guessing a secret from the digest of a request that is kept (RFC 7914).
_SCRYPT = {"n": 2**12, "r": 8, "p": 1}


class LaunchSealer:
    """Seals the secrets of launches for one API process."""

    def __init__(
        self,
        client: redis.asyncio.Redis,
        keys: RedisKeys,
        signing: MessageSigner,
        speaks: Callable[[], int],
    ):
        self._client, self._keys, self._signing, self._speaks = client, keys, signing, speaks
        self._tokens = InstanceTokens(client, keys)

    async def digest(self, request: SpotRequest, principal: str) -> str:
        """Return what tells the secrets of a request from others; empty if it has none."""
        if request.launch is None or not request.launch.carried:
            return ""
        text = json.dumps(request.launch.carried, sort_keys=True).encode()
        made = await asyncio.to_thread(hashlib.scrypt, text, salt=principal.encode(), **_SCRYPT)
        return made.hex()

    async def seal(
        self, request: SpotRequest, members: Sequence[Member], names: dict[Hashable, str]
    ) -> SpotRequest:
        """Return a request without the secrets of its launch, which are kept encrypted beside it.

        ``names`` are those under which the secrets of the same call are kept: equal ones are kept once.

        Raises
        ------
        UnsuitableError
            When the launch cannot be asked for now.
        UnknownTargetError
            When the request names a cloud that is not a member.
        redis.RedisError
            When Redis is away.
        """
        launch = request.launch
        if launch is None:
            return request
        if launch.agent_token:
            raise UnsuitableError("launch", "agent_token is set by the broker: leave it out")
        targets = tuple(
            member.info.id for member in find_targets(request, members) if member.info.instances is not None
        )
        if launch.agent and targets:
            token = await self._tokens.make(targets[0], request.id or "")
            launch = launch.model_copy(update={"agent_token": SecretStr(token)})
        return request.model_copy(update={"launch": await self.seal_for(launch, targets, names)})

    async def seal_for(self, launch: Launch, clouds: tuple[str, ...], names: dict[Hashable, str]) -> Launch:
        """Return a launch without its secrets, which are kept encrypted for the agents of these clouds.

        Raises as ``seal`` does.
        """
        if launch.secrets or launch.sealed:
            raise UnsuitableError("launch", "secrets and sealed are set by the broker: leave them out")
        if self._speaks() < _SINCE:
            raise UnsuitableError("launch", "a process of this federation is older and does not know it yet")
        if not launch.carried:
            return launch
        text = json.dumps(launch.carried, sort_keys=True)
        if (text, clouds) not in names:
            names[text, clouds] = name = uuid4().hex
            public_keys = {cloud: key for cloud in clouds if (key := await self._public_key(cloud))}
            if public_keys:
                await self._client.set(self._keys.launch(name), seal(text, public_keys), ex=KEPT_S)
        return launch.without_secrets(names[text, clouds])

    async def can_seal_for(self, cloud: str) -> bool:
        """Return whether the agent of a cloud has told its key."""
        return await self._public_key(cloud) is not None

    async def _public_key(self, cloud: str) -> OKPKey | None:
        """Return the key of a cloud's agent; None while it has told none."""
        answer = await cast("Any", self._client.hgetall(self._keys.catalogue(cloud)))
        return read_agent_public_key(answer, cloud, self._keys, self._signing)
