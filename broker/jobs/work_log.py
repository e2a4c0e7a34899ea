"""What a node agent shows of the output of a piece of work (``Keys.work_log``): the last part of it, after a
line that says where in the whole that part begins."""

from __future__ import annotations

SHOWN_BYTES = 256 * 1024


def shown_log(offset: int, part: bytes) -> bytes:
    """What is written to Redis. ``offset``: how many bytes had been written before ``part``."""
    return b"%d\n%b" % (offset, part)


def read_log(value: bytes) -> tuple[int, bytes]:
    """The offset and the part. Raises ValueError for what ``shown_log`` does not write."""
    offset, _, part = value.partition(b"\n")
    return int(offset), part
