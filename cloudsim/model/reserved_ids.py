"""Ids that a cloud gives to its own on-demand instances: its load, and blocks of room that it keeps for
others."""

from __future__ import annotations

HEADROOM, FREED = "headroom-", "freed-"

#: How ids begin, after the cloud's and a slash, that nobody may use for a request.
RESERVED = ("own-", HEADROOM, FREED)

#: For how long room that was freed is kept for whoever was refused, at least.
FREED_S = 300.0


def is_block(instance_id: str) -> bool:
    """Whether an on-demand instance is room kept for others, and nobody's own."""
    return f"/{HEADROOM}" in instance_id or f"/{FREED}" in instance_id
