"""Defines the stored records of members and API keys, and the entries of the audit log."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from broker.contract import CloudId
from broker.identity.permissions import Principal, Role

#: The name of a member is the origin of its requests and the prefix of the ids that it chooses.
MemberName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$", max_length=40)]

#: "acme", or "acme/ci" for a part of it.
PrincipalName = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*(/[A-Za-z0-9][A-Za-z0-9_-]*)?$", max_length=80)
]

Clouds = Annotated[tuple[CloudId, ...], Field(max_length=64)]

Cap = Annotated[int, Field(strict=True, ge=0, le=100_000_000)]


class MemberRecord(BaseModel):
    """A member: the clouds that are its own, and how much spot it may hold at once (None: no limit)."""

    model_config = ConfigDict(frozen=True)

    name: MemberName
    clouds: Clouds = ()
    spot_cores: Cap | None = None
    spot_instances: Cap | None = None
    created_at_s: float = 0.0


class KeyRecord(BaseModel):
    """An API key as it is stored, without its secret.

    ``clouds`` is None for all clouds of its member; times are in seconds since 1970.
    """

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
        """The member that the key belongs to; None for operators."""
        return None if self.role is Role.OPERATOR else self.principal.partition("/")[0]

    def expired(self, now_s: float) -> bool:
        """Tell whether the key has expired. ``now_s``: seconds since 1970."""
        return self.expires_at_s is not None and now_s >= self.expires_at_s

    def acts_as(self, member: MemberRecord | None) -> Principal | None:
        """Return the principal that the key stands for; None if its member has left."""
        if self.role is Role.OPERATOR:
            return Principal(self.principal, self.role, self.id)
        if member is None:
            return None
        own = frozenset(member.clouds)
        clouds = own if self.clouds is None else own & set(self.clouds)
        return Principal(self.principal, self.role, self.id, member.name, clouds)


class AuditEntry(BaseModel):
    """One line of the audit log: who changed what, or who bought on-demand capacity of another's cloud.

    ``id`` is that of the stream, ``at_s`` is in seconds since 1970. It contains no secret.
    """

    id: str = ""
    at_s: float
    by: str
    key: str
    what: str
    object: str
    more: dict[str, Any] = {}
