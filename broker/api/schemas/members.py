"""Bodies of the calls about members and keys; the server and the client share them."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, model_serializer

from broker.contract import Message
from broker.identity.store import Cap, Clouds, MemberName, MemberRecord


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
