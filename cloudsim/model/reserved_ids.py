"""Ids that a cloud gives to on-demand instances by itself: its own load, and blocks of room that it keeps."""

from __future__ import annotations

#: The beginnings, after the cloud's id and a slash, of the ids of headroom blocks and of freed room.
HEADROOM, FREED = "headroom-", "freed-"

#: The beginnings that no id of a request may have, after the cloud's id and a slash.
RESERVED = ("own-", HEADROOM, FREED)

#: The least time, in seconds, for which freed room is kept for the user who was refused.
FREED_S = 300.0


def is_block(instance_id: str) -> bool:
    """Return whether an on-demand instance is room that its cloud keeps, and runs nothing."""
    return f"/{HEADROOM}" in instance_id or f"/{FREED}" in instance_id
