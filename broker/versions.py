"""Contract versions: what is written for processes of the version before, and what is read of other ones.

During a rolling upgrade processes of two neighbouring versions work on one queue. So that they understand
each other:

* Who reads passes over fields that it does not know (``read``). Of what users send to the HTTP API nothing is
  passed over: there a field that nobody knows is a typing error.
* A field that was added after version 2 is declared with ``since``: it has a default, and while it has that
  it is not written. So a feature that nobody uses changes no message.
* Everything is written in the version that the federation speaks (``broker.upgrading``), the lowest one in
  use. ``written`` leaves out what that version does not know, and tells a reason for a refusal that is new
  since then by the nearest old one.

A new version is for what its readers must not pass over.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from enum import StrEnum
from typing import Any, TypeVar

from pydantic import BaseModel, Field
from pydantic.fields import FieldInfo

from cloudsim.requests import Reason

#: What this code speaks, and the oldest version that it works with side by side.
VERSION, OLDEST_VERSION = 3, 2
_SINCE = "x-since"
#: Words that came later: since which version, and which older one comes nearest.
_WORDS: dict[StrEnum, tuple[int, StrEnum]] = {
    Reason.NOT_DISCLOSED: (3, Reason.RISK_TOO_HIGH),
    Reason.NO_SUCH_PRODUCT: (3, Reason.NO_SUCH_NODE),
    Reason.OVER_FAIR_SHARE: (3, Reason.NO_CAPACITY),
}

_Message = TypeVar("_Message", bound=BaseModel)


def since(version: int, default: Any = None) -> Any:
    """Declares a field that was added in that version: ``tier: str | None = since(3)``.

    It is not written while it has its default, nor for readers of an older version. Constraints go into the
    type (``Annotated``).
    """
    return Field(
        default=default, exclude_if=lambda value: value == default, json_schema_extra={_SINCE: version}
    )


def version_of(field: FieldInfo) -> int:
    """In which version a field of a message was added."""
    said = field.json_schema_extra
    found = said.get(_SINCE, OLDEST_VERSION) if isinstance(said, dict) else OLDEST_VERSION
    assert isinstance(found, int)
    return found


def ours() -> int:
    """Our own version: what is written where no federation is asked what it speaks."""
    return VERSION


def read(model: type[_Message], text: bytes | str) -> _Message:
    """A message that another process wrote. Raises ValidationError."""
    return model.model_validate_json(text, extra="ignore")


def written(message: BaseModel, version: int = VERSION) -> str:
    """The message as JSON that readers of ``version`` understand."""
    if version >= VERSION:
        return message.model_dump_json()
    dumped = message.model_dump(mode="json")
    _leave_out(message, dumped, version)
    return json.dumps(dumped, separators=(",", ":"), ensure_ascii=False)


def list_written(messages: Iterable[BaseModel], version: int = VERSION) -> str:
    """The same of a list of messages."""
    return f"[{','.join(written(message, version) for message in messages)}]"


def _older_word(word: StrEnum, version: int) -> StrEnum:
    came, older = _WORDS.get(word, (OLDEST_VERSION, word))
    return older if came > version else word


def _leave_out(value: Any, dumped: Any, version: int) -> None:
    """Takes out of ``dumped``, the JSON of ``value``, what was added after ``version``."""
    if isinstance(value, BaseModel):
        for name, field in type(value).model_fields.items():
            if name not in dumped:
                continue
            one = getattr(value, name)
            if version_of(field) > version:
                del dumped[name]
            elif isinstance(one, StrEnum):
                dumped[name] = _older_word(one, version).value
            else:
                _leave_out(one, dumped[name], version)
        if "version" in dumped:
            dumped["version"] = version
    elif isinstance(value, list | tuple):
        for one, part in zip(value, dumped, strict=True):
            _leave_out(one, part, version)
