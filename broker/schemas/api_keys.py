"""Bodies of the calls about API keys."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from broker.contract import Message
from broker.identity.models import Clouds, KeyRecord, PrincipalName
from broker.identity.permissions import Role

_GRACE_S = 24 * 3600.0
_LONGEST_GRACE_S = 30 * 24 * 3600

_LONGEST_LIFE_S = 10 * 365 * 24 * 3600


class KeyWish(Message):
    """A new key for a principal.

    clouds: those for whose own users it acts; null: all of its member's. lifetime_s: seconds; null: until it
    is revoked.
    """

    principal: PrincipalName
    role: Role = Role.MEMBER
    clouds: Clouds | None = None
    lifetime_s: Annotated[float, Field(gt=0, le=_LONGEST_LIFE_S, allow_inf_nan=False)] | None = None


class Rotation(Message):
    """The replacement of a key. grace_s: how many seconds the old key works beside the new one."""

    grace_s: Annotated[float, Field(ge=0, le=_LONGEST_GRACE_S, allow_inf_nan=False)] = _GRACE_S


class NewKey(BaseModel, defer_build=True):
    """A key and its record. The key is shown only here: its hash is all that is kept."""

    key: str
    record: KeyRecord


class ApiKeys(BaseModel, defer_build=True):
    """All keys, also those that have expired, the oldest first."""

    keys: list[KeyRecord]
