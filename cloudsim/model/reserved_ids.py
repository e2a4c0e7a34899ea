"""Ids that a cloud gives to on-demand instances by itself: its own load, and blocks of room that it keeps."""

from __future__ import annotations

#: After the cloud's id and a slash: how ids of blocks of headroom begin, and of room that was freed for a
#: user.
HEADROOM, FREED = "headroom-", "freed-"

#: No request may have an id that begins so, after the cloud's id and a slash.
RESERVED = ("own-", HEADROOM, FREED)

#: Room that was freed is kept at least so many seconds for the user who was refused.
FREED_S = 300.0


def is_block(instance_id: str) -> bool:
    """Return whether an on-demand instance is room that its cloud keeps, and runs nothing."""
    return f"/{HEADROOM}" in instance_id or f"/{FREED}" in instance_id
