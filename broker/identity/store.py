"""Stores the members of a federation and their API keys in Redis.

Two hashes contain them: one maps the digest of a key to its record, the other the name of a member to its
clouds and caps. A key is ``sf_<id>_<secret>`` with 256 bits of secret; only its SHA-256 is stored, so it is
shown once, when it is made. Every change is one script that also writes the audit stream, and that changes
nothing if another call changed the record since it was read.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import secrets
import time
from collections.abc import Sequence
from typing import Any, cast

import redis
import redis.asyncio
from pydantic import BaseModel, ValidationError

from broker.identity.models import AuditEntry, KeyRecord, MemberRecord
from broker.identity.permissions import Principal, Role
from broker.storage.keys import RedisKeys
from broker.storage.scripts import read_script

log = logging.getLogger(__name__)


_KEY = re.compile(r"sf_([0-9a-f]{12})_[A-Za-z0-9_-]{43}")

_TRIES = 5

_AUDIT_LENGTH = 100_000  # as in administer.lua


class ChangedError(Exception):
    """Other calls kept changing the same record: try again."""


def generate_api_key() -> tuple[str, str]:
    """Make a random key and return its id and the whole key."""
    key_id = secrets.token_hex(6)
    return key_id, f"sf_{key_id}_{secrets.token_urlsafe(32)}"


def api_key_digest(key: str) -> str:
    """Return the digest of an API key, which is stored in its place."""
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


def let_in_operator(client: redis.Redis, keys: RedisKeys, key: str, name: str = "first") -> None:
    """Store ``key`` as an operator's key, without any check: for the start of a federation."""
    parts = _KEY.fullmatch(key)
    record = KeyRecord(
        id=parts[1] if parts else name, principal=name, role=Role.OPERATOR, created_at_s=time.time()
    )
    client.hset(keys.api_keys, api_key_digest(key), record.model_dump_json())


def parse_key_record(text: bytes | None) -> KeyRecord | None:
    """Parse the record of an API key; return None for one that a later version wrote."""
    record: KeyRecord | None = _parse_record(KeyRecord, text)
    return record


def _parse_record(model: type[Any], text: bytes | None) -> Any:
    if not text:
        return None
    try:
        return model.model_validate_json(text)
    except ValidationError:
        return None


class IdentityStore:
    """Reads and changes members and API keys. Every method may raise redis.RedisError."""

    def __init__(self, client: redis.asyncio.Redis, keys: RedisKeys):
        self._client, self._keys = client, keys
        self._administer = client.register_script(read_script("administer"))

    # -- members ------------------------------------------------------------------------------------------

    async def members(self) -> dict[str, MemberRecord]:
        """Return all members, keyed and sorted by name."""
        texts = (await self._all(self._keys.members)).values()
        members = [member for text in texts if (member := _parse_record(MemberRecord, text))]
        return {member.name: member for member in sorted(members, key=lambda member: member.name)}

    async def member(self, name: str) -> MemberRecord | None:
        """Return the member of that name, or None."""
        member: MemberRecord | None = _parse_record(MemberRecord, await self._get(self._keys.members, name))
        return member

    async def add_member(self, member: MemberRecord, by: Principal) -> bool:
        """Add a member. Return False if the name is taken."""
        member = member.model_copy(update={"created_at_s": time.time()})
        return await self._change(self._keys.members, by, "member added", member.name, [("", member)])

    async def set_member(self, name: str, update: dict[str, Any], by: Principal) -> MemberRecord | None:
        """Change the fields in ``update`` and return the member; None if there is none of that name.

        Raises ChangedError.
        """
        for _ in range(_TRIES):
            text = await self._get(self._keys.members, name)
            known = _parse_record(MemberRecord, text)
            if known is None:
                return None
            member: MemberRecord = known.model_copy(update=update)
            if await self._change(
                self._keys.members, by, "member changed", name, [(_text(text), member)], update
            ):
                return member
        raise ChangedError

    async def remove_member(self, name: str, by: Principal) -> bool:
        """Remove a member and all its keys; its leases run on. Return False if there is none of that name.

        Raises ChangedError.
        """
        for _ in range(_TRIES):
            text = await self._get(self._keys.members, name)
            if text is None:
                return False
            if await self._change(self._keys.members, by, "member removed", name, [(_text(text), None)]):
                # Its keys are useless from here on; a later member of the same name must not get them.
                for key in await self.keys():
                    if key.member == name:
                        await self.revoke(key.id, by)
                return True
        raise ChangedError

    # -- keys ---------------------------------------------------------------------------------------------

    async def keys(self) -> list[KeyRecord]:
        """Return all keys that are not revoked, expired ones too, the oldest first."""
        texts = (await self._all(self._keys.api_keys)).values()
        records = [record for text in texts if (record := parse_key_record(text))]
        return sorted(records, key=lambda record: (record.created_at_s, record.id))

    async def create(
        self,
        principal: str,
        role: Role,
        clouds: Sequence[str] | None,
        lifetime_s: float | None,
        by: Principal,
    ) -> tuple[KeyRecord, str]:
        """Make a key and return its record and the whole key, which is shown this once.

        ``clouds``: ids of the clouds it is limited to; None for all clouds of its member. ``lifetime_s`` is
        None for a key that works until it is revoked.
        """
        now_s = time.time()
        key_id, key = generate_api_key()
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
        """Replace a key, which still works for ``grace_s``, and return the new record and key.

        None: there is no such key. Raises ChangedError.
        """
        for _ in range(_TRIES):
            stored = await self._find_key(key_id)
            if stored is None:
                return None
            now_s = time.time()
            digest, text, old = stored
            new_id, key = generate_api_key()
            ends_at_s = now_s + grace_s
            if old.expires_at_s is not None:
                ends_at_s = min(ends_at_s, old.expires_at_s)
            update = {"id": new_id, "created_at_s": now_s, "replaces": key_id}
            new = old.model_copy(update=update)
            retired = old.model_copy(update={"expires_at_s": ends_at_s})
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
        """End a key and return its record; None if there is no such key. Raises ChangedError."""
        for _ in range(_TRIES):
            stored = await self._find_key(key_id)
            if stored is None:
                return None
            digest, text, old = stored
            more = {"principal": old.principal}
            if await self._change(
                self._keys.api_keys, by, "key revoked", key_id, [(text, None)], more, [digest]
            ):
                return old
        raise ChangedError

    async def _find_key(self, key_id: str) -> tuple[str, str, KeyRecord] | None:
        for digest, text in (await self._all(self._keys.api_keys)).items():
            record = parse_key_record(text)
            if record is not None and record.id == key_id:
                return digest.decode(), text.decode(), record
        return None

    # -- the audit log ------------------------------------------------------------------------------------

    async def audit(self, limit: int) -> list[AuditEntry]:
        """Return at most ``limit`` entries of the audit log, the latest first."""
        entries: Any = await self._client.xrevrange(self._keys.audit, count=limit)
        return [
            entry.model_copy(update={"id": entry_id.decode()})
            for entry_id, fields in entries
            if (entry := _parse_record(AuditEntry, fields.get(b"a"))) is not None
        ]

    async def note(self, by: Principal, what: str, named: str, more: dict[str, Any]) -> None:
        """Write an audit entry about something that changes neither members nor keys."""
        entry = AuditEntry(at_s=time.time(), by=by.name, key=by.key_id, what=what, object=named, more=more)
        text = entry.model_dump_json(exclude={"id"})
        await self._client.xadd(self._keys.audit, {"a": text}, maxlen=_AUDIT_LENGTH, approximate=True)
        _log(entry)

    # -- scripts and fields ------------------------------------------------------------------------------

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
