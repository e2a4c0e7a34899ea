"""Ids of jobs. Those of members end with a mark of their member, so that no two members' ids are one, and a
list of one member's jobs is made without looking into those of others."""

from __future__ import annotations

import hashlib

from pydantic import TypeAdapter, ValidationError

from broker.jobs.models import JobId

LONGEST = 64
_DIGITS = 10
#: What is left of an id for who chooses it.
LONGEST_CHOSEN = LONGEST - 1 - _DIGITS
_ids: TypeAdapter[str] = TypeAdapter(JobId)


def make_suffix(member: str | None) -> str:
    """The end of the ids of a member's jobs; nothing for operators."""
    return "" if member is None else f"-{hashlib.sha256(member.encode()).hexdigest()[:_DIGITS]}"


def is_job_id(text: str) -> bool:
    """Whether the text can be an id at all."""
    try:
        _ids.validate_python(text)
    except ValidationError:
        return False
    return True
