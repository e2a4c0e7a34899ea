"""Carries the id of the API call that a piece of work belongs to, so that every log entry can name it.

The caller gives the id or the API makes one, and sends it to owners with their commands
(``broker.requests.store``); they log it as well. It is for people who search the logs: nothing is decided by
it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
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
    """Make all further work in this context belong to a call, and return the id of the call.

    That is ``given`` if it is a valid id, else a new one.
    """
    call = given if given is not None and _valid.fullmatch(given) else uuid4().hex
    _current.set(call)
    return call


def current() -> str | None:
    """Return the id of the present call, or None outside of calls."""
    return _current.get()


def traced(batch: Iterable[tuple[_Message, str | None]]) -> list[_Message]:
    """Return the commands of an inbox entry, given with the ids of the calls that they belong to.

    A command names its call, unless the one before it belongs to the same.
    """
    named: list[_Message] = []
    before = None
    for command, call in batch:
        is_named = call is not None and call != before
        named.append(command.model_copy(update={"trace": call}) if is_named else command)
        before = call
    return named
