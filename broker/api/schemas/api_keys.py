"""Bodies of the calls about members and keys; the server and the client share them."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from broker.contract import Message
from broker.identity.permissions import Role
from broker.identity.store import GRACE_S, Clouds, KeyRecord, PrincipalName

_LONGEST_GRACE_S = 30 * 24 * 3600

_LONGEST_LIFE_S = 10 * 365 * 24 * 3600


class KeyWish(Message):
    """A new key. ``clouds`` null: all of its member's; ``lifetime_s`` null: until it is revoked."""

    principal: PrincipalName
    role: Role = Role.MEMBER
    clouds: Clouds | None = None
    lifetime_s: Annotated[float, Field(gt=0, le=_LONGEST_LIFE_S, allow_inf_nan=False)] | None = None


class Rotation(Message):
    """For how long the old key works beside the new one."""

    grace_s: Annotated[float, Field(ge=0, le=_LONGEST_GRACE_S, allow_inf_nan=False)] = GRACE_S


class NewKey(BaseModel):
    """``key`` is shown this once; only its hash is kept."""

    key: str
    record: KeyRecord


class ApiKeys(BaseModel):
    """The oldest first, those that have expired too."""

    keys: list[KeyRecord]
