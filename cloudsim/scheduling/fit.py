"""The one test of room, used when planning and again when committing."""

from __future__ import annotations


def fits(free_cores: int, cores: int) -> bool:
    """Whether an instance of ``cores`` cores fits into ``free_cores`` free cores of one node."""
    return free_cores >= cores
