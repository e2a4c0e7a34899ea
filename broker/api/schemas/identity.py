"""Bodies of the calls about members and keys; the server and the client share them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, Field, model_serializer

from broker.contract import Message
from broker.identity.models import AuditEntry, Cap, Clouds, KeyRecord, MemberName, MemberRecord, PrincipalName
from broker.identity.permissions import Role

_GRACE_S = 24 * 3600.0
_LONGEST_GRACE_S = 30 * 24 * 3600
_LONGEST_LIFE_S = 10 * 365 * 24 * 3600


class MemberWish(Message):
    """A new member: its name, the clouds that are its own, how much spot it may hold at once (null: any)."""

    name: MemberName
    clouds: Clouds = ()
    spot_cores: Cap | None = None
    spot_instances: Cap | None = None


class MemberChange(Message):
    """What is named changes, the rest stays. A cap of null is none."""

    clouds: Clouds = ()
    spot_cores: Cap | None = None
    spot_instances: Cap | None = None

    @model_serializer
    def _named(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in sorted(self.model_fields_set)}


class MemberView(MemberRecord):
    """A member, and how much spot it holds now."""

    held_cores: int = 0
    held_instances: int = 0


class Members(BaseModel):
    """By name."""

    members: list[MemberView]


class KeyWish(Message):
    """A new key. ``clouds`` null: all of its member's; ``lifetime_s`` null: until it is revoked."""

    principal: PrincipalName
    role: Role = Role.MEMBER
    clouds: Clouds | None = None
    lifetime_s: Annotated[float, Field(gt=0, le=_LONGEST_LIFE_S, allow_inf_nan=False)] | None = None


class Rotation(Message):
    """For how long the old key works beside the new one."""

    grace_s: Annotated[float, Field(ge=0, le=_LONGEST_GRACE_S, allow_inf_nan=False)] = _GRACE_S


class NewKey(BaseModel):
    """``key`` is shown this once; only its hash is kept."""

    key: str
    record: KeyRecord


class ApiKeys(BaseModel):
    """The oldest first, those that have expired too."""

    keys: list[KeyRecord]


class Audit(BaseModel):
    """The latest first."""

    entries: list[AuditEntry]
