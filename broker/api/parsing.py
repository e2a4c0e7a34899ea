"""Reads and parses request bodies; whatever is wrong with one becomes a problem that names the field.

FastAPI's own body parameters are not used: bodies are validated strictly as JSON (a list is a tuple, a number
is no text), have a limit of size that holds while they are read, and their bytes are needed where a call has
an ``Idempotency-Key``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from fastapi import Depends, Request
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import from_json, to_json
from starlette.requests import ClientDisconnect

from broker.api.problems import (
    ProblemError,
    body_too_slow,
    from_validation,
    invalid_field,
    malformed,
    too_long,
    unsupported_media_type,
)
from broker.contract import Id, OnDemandRequest, SpotRequest

if TYPE_CHECKING:
    from broker.api.call_limits import OpenCall

LONGEST_BODY = 4 * 2**20
MOST_ITEMS = 5000

_Model = TypeVar("_Model", bound=BaseModel)
_ids: TypeAdapter[str] = TypeAdapter(Id)


class JsonBody:
    """Parses the body of a call as one message, as a FastAPI dependency.

    Use it as ``Annotated[Model, JsonBody.of(Model)]``. Raises ProblemError (400, 413, 415, 422).
    """

    def __init__(self, model: type[BaseModel]):
        self._model = model

    @classmethod
    def of(cls, model: type[BaseModel]) -> Any:
        """Return the dependency that parses the body as a ``model``."""
        return Depends(cls(model))

    async def __call__(self, request: Request) -> BaseModel:
        """Return the parsed body."""
        return parse(self._model, await read_json(request))


async def read_json(request: Request, longest: int = LONGEST_BODY) -> bytes:
    """Return the body, which must be declared as JSON, have at most ``longest`` bytes, and come in time.

    Raises ProblemError (408, 413, 415, 429).
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        raise unsupported_media_type()
    declared = request.headers.get("content-length", "")
    if declared.isascii() and declared.isdecimal() and int(declared[:20]) > longest:
        raise too_long(longest)
    call: OpenCall = request.state.open_call
    body = bytearray()
    try:
        async with asyncio.timeout(call.body_timeout_s):
            async for part in request.stream():
                body += part
                if len(body) > longest:
                    raise too_long(longest)
                call.hold_bytes(len(part))
    except TimeoutError:
        raise body_too_slow(call.body_timeout_s) from None
    except ClientDisconnect:
        raise malformed("the connection ended before the body did") from None
    return bytes(body)


def parse(model: type[_Model], body: bytes) -> _Model:
    """Return the body as a ``model``. Raises ProblemError (400, 422)."""
    try:
        return model.model_validate_json(body, strict=True)
    except ValidationError as error:
        raise from_validation(error, model.model_fields) from None


def parse_any(body: bytes) -> Any:
    """Return the body as plain Python values. Raises ProblemError (400)."""
    try:
        return from_json(body)
    except ValueError as error:
        raise malformed(str(error)) from None


def is_list(body: bytes) -> bool:
    """Return whether a JSON body is a list."""
    return body.lstrip(b" \t\r\n").startswith(b"[")


def is_group(body: bytes) -> bool:
    """Return whether a JSON body is an object that holds several requests. Raises ProblemError (400)."""
    if b'"requests"' not in body:
        return False
    value = parse_any(body)
    return isinstance(value, dict) and "requests" in value


def check_different_ids(requests: Sequence[SpotRequest] | Sequence[OnDemandRequest]) -> None:
    """Raise ProblemError (422) if two requests of a group have the same id."""
    if len({request.id for request in requests}) < len(requests):
        raise invalid_field("id", "two of the requests have the same")


def parse_list(
    messages: TypeAdapter[list[_Model]], model: type[_Model], body: bytes
) -> list[_Model | ProblemError]:
    """Return the items of a list, each a ``model`` or the problem with it.

    A list without mistakes is parsed once; only one with mistakes is parsed again, item by item.

    Raises
    ------
    ProblemError
        When the body is not JSON (400) or has more than ``MOST_ITEMS`` items (422).
    """
    items: list[_Model | ProblemError]
    try:
        items = [*messages.validate_json(body, strict=True)]
    except ValidationError:
        items = [_parse_item(model, item) for item in parse_any(body)[: MOST_ITEMS + 1]]
    if len(items) > MOST_ITEMS:
        raise invalid_field("body", "the list is too long", f"at most {MOST_ITEMS} items")
    return items


def _parse_item(model: type[_Model], item: object) -> _Model | ProblemError:
    try:
        return parse(model, to_json(item, inf_nan_mode="constants"))
    except ProblemError as problem:
        return problem


def is_id(text: str) -> bool:
    """Return whether a text may be an id."""
    try:
        _ids.validate_python(text)
    except ValidationError:
        return False
    return True


def idempotency_key(request: Request) -> str | None:
    """Return the ``Idempotency-Key`` of a call, None if it has none. Raises ProblemError (422)."""
    key = request.headers.get("idempotency-key")
    if key is not None and not (1 <= len(key) <= 255 and key.isascii() and key.isprintable()):
        raise invalid_field("Idempotency-Key", "cannot be used")
    return key
