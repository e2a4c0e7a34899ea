"""Makes and checks ids of jobs.

The id of a member's job ends with a suffix of that member. So the ids of two members never coincide, and the
jobs of one member are listed without looking into those of others.
"""

from __future__ import annotations

import hashlib

from pydantic import TypeAdapter, ValidationError

from broker.jobs.models import JobId

LONGEST = 64
_DIGITS = 10
#: Length of the part of an id that its holder chooses.
LONGEST_CHOSEN = LONGEST - 1 - _DIGITS
_ids: TypeAdapter[str] = TypeAdapter(JobId)


def make_suffix(member: str | None) -> str:
    """Return the end of the ids of a member's jobs; empty for operators."""
    return "" if member is None else f"-{hashlib.sha256(member.encode()).hexdigest()[:_DIGITS]}"


def is_job_id(text: str) -> bool:
    """Return True if the text can be the id of a job."""
    try:
        _ids.validate_python(text)
    except ValidationError:
        return False
    return True
