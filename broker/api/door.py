"""What the calls share: who calls, what this process is made of, and how an answer is sent."""

from __future__ import annotations

from typing import Annotated
from uuid import uuid4

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel
from starlette.responses import Response

from broker.api import bodies, problems
from broker.api.broker import Broker
from broker.records import Outcome

JSON = "application/json"


def broker_of(request: Request) -> Broker:
    """What this process is made of."""
    broker = request.app.state.broker
    assert isinstance(broker, Broker)
    return broker


async def caller(
    request: Request,
    _: Annotated[HTTPAuthorizationCredentials | None, Depends(HTTPBearer(auto_error=False))],
) -> str:
    """Name of the holder of the API key that the call carries."""
    return await broker_of(request).authenticator.principal(request.headers.get("authorization"))


Caller = Annotated[str, Depends(caller)]


def answer(model: BaseModel, status: int = 200) -> Response:
    """A message as JSON."""
    return Response(model.model_dump_json(), status, media_type=JSON)


async def begin_call(broker: Broker, principal: str, key: str, body: bytes) -> None:
    """Notes what the key stands for. What came of the call is in the records of its items."""
    accepted = await broker.records.accept_call(
        principal, key, bodies.fingerprint(body), broker.call_takeover_ms, uuid4().hex
    )
    if accepted.outcome is Outcome.MISMATCH:
        raise problems.key_reused()
    if accepted.outcome is Outcome.IN_FLIGHT:
        raise problems.in_flight()
