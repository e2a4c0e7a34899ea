"""Members of the federation and their API keys, in Redis.

Two hashes hold them: the digest of a key to its record, the name of a member to what it may hold. A key is
``sf_<id>_<secret>`` with 256 bits of secret; only its SHA-256 is kept, so it is shown once, when it is made.
Every change is one script that writes the audit stream as well, and changes nothing that somebody else has
changed since it was read.
"""

from __future__ import annotations

import json
import logging
import re
import secrets
import time
from collections.abc import Sequence
from typing import Annotated, Any, cast

import redis
import redis.asyncio
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from broker.asked import CloudId
from broker.identity import Principal, Role
from broker.keys import Keys, api_key_digest
from broker.lua import read_script

log = logging.getLogger(__name__)

GRACE_S = 24 * 3600.0
#: Names of members are origins of requests and go before the ids that they choose.
MemberName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$", max_length=40)]
#: "acme", or "acme/ci" for a part of it.
PrincipalName = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*(/[A-Za-z0-9][A-Za-z0-9_-]*)?$", max_length=80)
]
Clouds = Annotated[tuple[CloudId, ...], Field(max_length=64)]
Cap = Annotated[int, Field(strict=True, ge=0, le=100_000_000)]

_KEY = re.compile(r"sf_([0-9a-f]{12})_[A-Za-z0-9_-]{43}")
_TRIES = 5
_AUDIT_LENGTH = 100_000  # as in administer.lua


class ChangedError(Exception):
    """Others kept changing the same thing: try again."""


class MemberRecord(BaseModel):
    """A member: the clouds that are its own, and how much spot it may hold at once (None: as it likes)."""

    model_config = ConfigDict(frozen=True)

    name: MemberName
    clouds: Clouds = ()
    spot_cores: Cap | None = None
    spot_instances: Cap | None = None
    created_at_s: float = 0.0


class KeyRecord(BaseModel):
    """A key as it is kept. ``clouds`` None: all of its member's; times are seconds since 1970."""

    model_config = ConfigDict(frozen=True)

    id: str
    principal: str
    role: Role
    clouds: Clouds | None = None
    created_at_s: float
    expires_at_s: float | None = None
    replaces: str | None = None

    @property
    def member(self) -> str | None:
        """The member whose key it is; None for operators."""
        return None if self.role is Role.OPERATOR else self.principal.partition("/")[0]

    def expired(self, now_s: float) -> bool:
        """Whether it is no key any more."""
        return self.expires_at_s is not None and now_s >= self.expires_at_s

    def acts_as(self, member: MemberRecord | None) -> Principal | None:
        """Whom it lets in; None when its member has left."""
        if self.role is Role.OPERATOR:
            return Principal(self.principal, self.role, self.id)
        if member is None:
            return None
        own = frozenset(member.clouds)
        clouds = own if self.clouds is None else own & set(self.clouds)
        return Principal(self.principal, self.role, self.id, member.name, clouds)


class AuditEntry(BaseModel):
    """Who changed what, or bought what on-demand of another's cloud.

    ``id`` is that of the stream, ``at_s`` seconds since 1970. Never a secret."""

    id: str = ""
    at_s: float
    by: str
    key: str
    what: str
    object: str
    more: dict[str, Any] = {}


def new_key() -> tuple[str, str]:
    """A fresh key: its id, and all of it."""
    key_id = secrets.token_hex(6)
    return key_id, f"sf_{key_id}_{secrets.token_urlsafe(32)}"


def let_in_operator(client: redis.Redis, keys: Keys, key: str, name: str = "first") -> None:
    """Makes ``key`` an operator's, without asking anybody: for whoever starts a federation."""
    parts = _KEY.fullmatch(key)
    record = KeyRecord(
        id=parts[1] if parts else name, principal=name, role=Role.OPERATOR, created_at_s=time.time()
    )
    client.hset(keys.api_keys, api_key_digest(key), record.model_dump_json())


def parsed_key(text: bytes | None) -> KeyRecord | None:
    """Parse the record of an API key; return None for one that a later version wrote."""
    record: KeyRecord | None = _parsed(KeyRecord, text)
    return record


def _parsed(model: type[Any], text: bytes | None) -> Any:
    if not text:
        return None
    try:
        return model.model_validate_json(text)
    except ValidationError:
        return None


class Register:
    """Reads and changes members and keys. Every method may raise redis.RedisError."""

    def __init__(self, client: redis.asyncio.Redis, keys: Keys):
        self._client, self._keys = client, keys
        self._administer = client.register_script(read_script("administer"))

    # -- members ------------------------------------------------------------------------------------------

    async def members(self) -> dict[str, MemberRecord]:
        """By name."""
        found = [_parsed(MemberRecord, text) for text in (await self._all(self._keys.members)).values()]
        return {one.name: one for one in sorted(filter(None, found), key=lambda one: one.name)}

    async def member(self, name: str) -> MemberRecord | None:
        """One of them, or None."""
        found: MemberRecord | None = _parsed(MemberRecord, await self._get(self._keys.members, name))
        return found

    async def add_member(self, member: MemberRecord, by: Principal) -> bool:
        """False: there is one of that name."""
        member = member.model_copy(update={"created_at_s": time.time()})
        return await self._change(self._keys.members, by, "member added", member.name, [("", member)])

    async def set_member(self, name: str, update: dict[str, Any], by: Principal) -> MemberRecord | None:
        """What is named changes, the rest stays; None: there is no such member. Raises ChangedError."""
        for _ in range(_TRIES):
            text = await self._get(self._keys.members, name)
            known = _parsed(MemberRecord, text)
            if known is None:
                return None
            member: MemberRecord = known.model_copy(update=update)
            if await self._change(
                self._keys.members, by, "member changed", name, [(_text(text), member)], update
            ):
                return member
        raise ChangedError

    async def remove_member(self, name: str, by: Principal) -> bool:
        """With all its keys. False: there is none. Its leases run on. Raises ChangedError."""
        for _ in range(_TRIES):
            text = await self._get(self._keys.members, name)
            if text is None:
                return False
            if await self._change(self._keys.members, by, "member removed", name, [(_text(text), None)]):
                # Its keys let nobody in from here on; a namesake that joins later shall not get them.
                for key in await self.keys():
                    if key.member == name:
                        await self.revoke(key.id, by)
                return True
        raise ChangedError

    # -- keys ---------------------------------------------------------------------------------------------

    async def keys(self) -> list[KeyRecord]:
        """All that let somebody in, or did until they expired, the oldest first."""
        found = [parsed_key(text) for text in (await self._all(self._keys.api_keys)).values()]
        return sorted((one for one in found if one), key=lambda one: (one.created_at_s, one.id))

    async def create(
        self,
        principal: str,
        role: Role,
        clouds: Sequence[str] | None,
        lifetime_s: float | None,
        by: Principal,
    ) -> tuple[KeyRecord, str]:
        """A new key: its record, and all of it, to be shown once."""
        now_s = time.time()
        key_id, key = new_key()
        record = KeyRecord(
            id=key_id,
            principal=principal,
            role=role,
            clouds=None if clouds is None else tuple(clouds),
            created_at_s=now_s,
            expires_at_s=None if lifetime_s is None else now_s + lifetime_s,
        )
        more = {"principal": principal, "role": role.value}
        digest = api_key_digest(key)
        made = await self._change(
            self._keys.api_keys, by, "key created", key_id, [("", record)], more, [digest]
        )
        assert made, "two keys of 256 random bits are the same"
        return record, key

    async def rotate(self, key_id: str, grace_s: float, by: Principal) -> tuple[KeyRecord, str] | None:
        """A new key in the place of one that works for ``grace_s`` more; None: there is no such key.

        Raises ChangedError.
        """
        for _ in range(_TRIES):
            found = await self._find(key_id)
            if found is None:
                return None
            now_s = time.time()
            digest, text, old = found
            new_id, key = new_key()
            left_s = now_s + grace_s
            until_s = left_s if old.expires_at_s is None else min(old.expires_at_s, left_s)
            update = {"id": new_id, "created_at_s": now_s, "replaces": key_id}
            new = old.model_copy(update=update)
            retired = old.model_copy(update={"expires_at_s": until_s})
            if await self._change(
                self._keys.api_keys,
                by,
                "key rotated",
                key_id,
                [("", new), (text, retired)],
                {"new": new_id, "grace_s": grace_s},
                [api_key_digest(key), digest],
            ):
                return new, key
        raise ChangedError

    async def revoke(self, key_id: str, by: Principal) -> KeyRecord | None:
        """Ends a key; None: there is no such key. Raises ChangedError."""
        for _ in range(_TRIES):
            found = await self._find(key_id)
            if found is None:
                return None
            digest, text, old = found
            more = {"principal": old.principal}
            if await self._change(
                self._keys.api_keys, by, "key revoked", key_id, [(text, None)], more, [digest]
            ):
                return old
        raise ChangedError

    async def _find(self, key_id: str) -> tuple[str, str, KeyRecord] | None:
        for digest, text in (await self._all(self._keys.api_keys)).items():
            record = parsed_key(text)
            if record is not None and record.id == key_id:
                return digest.decode(), text.decode(), record
        return None

    # -- the audit log ------------------------------------------------------------------------------------

    async def audit(self, limit: int) -> list[AuditEntry]:
        """The latest changes, the latest first."""
        entries: Any = await self._client.xrevrange(self._keys.audit, count=limit)
        found = [(entry.decode(), _parsed(AuditEntry, fields.get(b"a"))) for entry, fields in entries]
        return [one.model_copy(update={"id": entry}) for entry, one in found if one is not None]

    async def note(self, by: Principal, what: str, named: str, more: dict[str, Any]) -> None:
        """Writes down something that changes neither members nor keys."""
        entry = AuditEntry(at_s=time.time(), by=by.name, key=by.key_id, what=what, object=named, more=more)
        text = entry.model_dump_json(exclude={"id"})
        await self._client.xadd(self._keys.audit, {"a": text}, maxlen=_AUDIT_LENGTH, approximate=True)
        _log(entry)

    # -- how ----------------------------------------------------------------------------------------------

    async def _change(
        self,
        where: str,
        by: Principal,
        what: str,
        named: str,
        changes: Sequence[tuple[str, BaseModel | None]],
        more: dict[str, Any] | None = None,
        fields: Sequence[str] | None = None,
    ) -> bool:
        entry = AuditEntry(
            at_s=time.time(), by=by.name, key=by.key_id, what=what, object=named, more=more or {}
        )
        arguments = [entry.model_dump_json(exclude={"id"})]
        for field, (known, new) in zip(fields or [named], changes, strict=True):
            arguments += [field, known, "" if new is None else new.model_dump_json()]
        done = bool(await self._administer([where, self._keys.audit], arguments))
        if done:
            _log(entry)
        return done

    async def _get(self, where: str, field: str) -> bytes | None:
        return cast("bytes | None", await cast("Any", self._client.hget(where, field)))

    async def _all(self, where: str) -> dict[bytes, bytes]:
        return cast("dict[bytes, bytes]", await cast("Any", self._client.hgetall(where)))


def _text(value: bytes | None) -> str:
    return "" if value is None else value.decode()


def _log(entry: AuditEntry) -> None:
    more = f" {json.dumps(entry.more)}" if entry.more else ""
    log.info("%s: %s by %s (key %s)%s", entry.what, entry.object, entry.by, entry.key, more)
