"""The version of the contract, and how messages are read and written across versions.

During a rolling upgrade processes of two neighbouring versions work on one queue. Three rules let them
understand each other:

* Readers pass over fields that they do not know (``read_message``). The HTTP API does not: an unknown field
  in what a user sends is an error.
* A field that a later version adds is declared with ``since``: it has a default, and is not written while it
  has that value. So a feature that nobody uses changes no message.
* Messages are written in the version that the federation speaks (``broker.storage.negotiation``), the lowest
  one in use. ``write_message`` leaves out fields that this version does not know, and replaces values of
  enumerations that are new since then by the nearest older ones, which they name
  (``cloudsim.model.codes.Code``).

The version of this code is the highest one that a field or a value names, so it rises by itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, Field
from pydantic.fields import FieldInfo

from broker.contract.fields import Message
from cloudsim.model.codes import Code

#: The oldest version that this code works with side by side.
OLDEST_VERSION = 3
_SINCE = "x-since"

_Message = TypeVar("_Message", bound=BaseModel)


def since(version: int, default: Any = None) -> Any:
    """Declare a field that was added in a version: ``tier: str | None = since(3)``.

    The field is not written while it has its default, nor for readers of an earlier version. Constraints go
    into the type (``Annotated``).
    """
    return Field(
        default=default, exclude_if=lambda value: value == default, json_schema_extra={_SINCE: version}
    )


def written_version() -> Any:
    """Declare the field that holds the version of a message, by default the version of this code."""
    return Field(
        default_factory=current_version,
        json_schema_extra=lambda schema: schema.update(default=current_version()),
    )


def field_version(field: FieldInfo) -> int:
    """Return the version that added a field; ``OLDEST_VERSION`` for a field that does not say."""
    extra = field.json_schema_extra
    version = extra.get(_SINCE, OLDEST_VERSION) if isinstance(extra, dict) else OLDEST_VERSION
    assert isinstance(version, int)
    return version


@cache
def current_version() -> int:
    """Return the version of this code: the highest one that a message declares when it is first asked for.

    Writers that do not follow a federation write it. ``broker.contract`` asks once all messages are there.
    """
    return max(OLDEST_VERSION, *_declared_versions(Message))


def _declared_versions(model: type[BaseModel]) -> Iterator[int]:
    """Yield the versions that fields and their values name, in the models that derive from a model."""
    for field in model.model_fields.values():
        yield field_version(field)
        yield from (value.since for code in _codes(field.annotation) for value in code)
    for derived in model.__subclasses__():
        yield from _declared_versions(derived)


def _codes(annotation: Any) -> Iterator[type[Code]]:
    """Yield the enumerations that a field's type names."""
    if isinstance(annotation, type) and issubclass(annotation, Code):
        yield annotation
    for part in get_args(annotation):
        yield from _codes(part)


def read_message(model: type[_Message], text: bytes | str) -> _Message:
    """Parse a message that another process wrote, passing over unknown fields.

    Raises
    ------
    pydantic.ValidationError
        When it is not a message of this model.
    """
    return model.model_validate_json(text, extra="ignore")


def write_message(message: BaseModel, version: int | None = None) -> str:
    """Return the message as JSON that readers of ``version`` understand, by default those of this code's."""
    if version is None or version >= current_version():
        return message.model_dump_json()
    dumped = message.model_dump(mode="json")
    _shrink_to(version, message, dumped)
    return json.dumps(dumped, separators=(",", ":"), ensure_ascii=False)


def write_messages(messages: Iterable[BaseModel], version: int | None = None) -> str:
    """Return messages as a JSON list that readers of ``version`` understand; see ``write_message``."""
    return f"[{','.join(write_message(message, version) for message in messages)}]"


def _shrink_to(version: int, value: Any, dumped: Any) -> None:
    """Take out of ``dumped``, the JSON of ``value``, what was added after ``version``."""
    if isinstance(value, BaseModel):
        for name, field in type(value).model_fields.items():
            if name not in dumped:
                continue
            part = getattr(value, name)
            if field_version(field) > version:
                del dumped[name]
            elif isinstance(part, Code):
                dumped[name] = part.older if part.since > version else part.value
            else:
                _shrink_to(version, part, dumped[name])
        if "version" in dumped:
            dumped["version"] = version
    elif isinstance(value, list | tuple):
        for part, dumped_part in zip(value, dumped, strict=True):
            _shrink_to(version, part, dumped_part)
