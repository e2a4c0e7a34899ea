"""Bodies of the calls about members."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, model_serializer

from broker.contract import Message
from broker.identity.models import Cap, Clouds, MemberName, MemberRecord


class MemberWish(Message):
    """A new member: its name, its clouds, and how much spot it may hold at once (null: any amount)."""

    name: MemberName
    clouds: Clouds = ()
    spot_cores: Cap | None = None
    spot_instances: Cap | None = None


class MemberChange(Message):
    """Fields of a member to change; those that are left out stay. A cap of null means no cap."""

    clouds: Clouds = ()
    spot_cores: Cap | None = None
    spot_instances: Cap | None = None

    @model_serializer
    def _serialize_named(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in sorted(self.model_fields_set)}


class MemberView(MemberRecord):
    """One member, and how much spot it holds now."""

    held_cores: int = 0
    held_instances: int = 0


class Members(BaseModel, defer_build=True):
    """All members, by name."""

    members: list[MemberView]
