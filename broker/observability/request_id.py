"""The id of the API call that a piece of work belongs to: given by the caller or made, named in every log.

The API tells it to owners with what it sends them (``broker.requests.store``), who name it in their logs.
It is for people who look for something: nothing is decided by it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextvars import ContextVar
from typing import TypeVar
from uuid import uuid4

from pydantic import BaseModel

from broker.contract.fields import REQUEST_ID_PATTERN

HEADER = "X-Request-Id"

_valid = re.compile(REQUEST_ID_PATTERN)
_current: ContextVar[str | None] = ContextVar("request_id", default=None)
_Message = TypeVar("_Message", bound=BaseModel)


def begin(given: str | None) -> str:
    """From here on, what is done belongs to this call. Returns its id: ``given`` if that is one, else a new
    one."""
    call = given if given is not None and _valid.fullmatch(given) else uuid4().hex
    _current.set(call)
    return call


def current() -> str | None:
    """The id of the present call; None: what is done belongs to none."""
    return _current.get()


def traced(batch: Sequence[_Message]) -> Sequence[_Message]:
    """Commands that go to an owner together: the first one names the present call, for all of them."""
    call = _current.get()
    if call is None or not batch:
        return batch
    return [batch[0].model_copy(update={"trace": call}), *batch[1:]]
