"""The parties of a federation that sign messages: the broker, the job managers and each cloud."""

from __future__ import annotations

import re

#: The party whose commands every cloud obeys.
BROKER = "broker"
#: The job managers, whose work every node agent runs.
JOBS = "jobs"

_PARTY = re.compile(rf"{BROKER}|{JOBS}|cloud\.[A-Za-z0-9][A-Za-z0-9_-]{{0,63}}")


def cloud_party(cloud: str) -> str:
    """Return the name under which a cloud's owner and its agents sign.

    It contains a dot, so no cloud can be called ``BROKER`` or ``JOBS``.
    """
    return f"cloud.{cloud}"


def is_party(name: str) -> bool:
    """Tell whether a party can have this name."""
    return _PARTY.fullmatch(name) is not None
