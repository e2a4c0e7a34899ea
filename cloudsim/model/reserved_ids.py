"""Ids that are given by the federation itself: of own loads, of room that a cloud keeps, and of overflow."""

from __future__ import annotations

#: The beginnings, after the cloud's id and a slash, of the ids of headroom blocks and of freed room.
HEADROOM, FREED = "headroom-", "freed-"

#: The beginnings that no id of a request may have, after the cloud's id and a slash.
RESERVED = ("own-", HEADROOM, FREED)

#: The beginning of the id of a spot request for an on-demand request that a full cloud had to turn away.
OVERFLOW = "overflow/"

#: The least time, in seconds, for which freed room is kept for the user who was refused.
FREED_S = 300.0


def is_block(instance_id: str) -> bool:
    """Return whether an on-demand instance is room that its cloud keeps, and runs nothing."""
    return f"/{HEADROOM}" in instance_id or f"/{FREED}" in instance_id
