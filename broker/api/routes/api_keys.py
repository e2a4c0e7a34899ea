"""Serves API keys, which operators create, replace and revoke."""

from __future__ import annotations

from typing import Annotated

from starlette.responses import Response

from broker.api import problems
from broker.api.dependencies import Administrator, Services, json_response, v1_router
from broker.api.openapi import document_body, problem_responses
from broker.api.parsing import JsonBody
from broker.identity.models import KeyRecord
from broker.identity.permissions import Role
from broker.identity.store import ChangedError
from broker.schemas.api_keys import ApiKeys, KeyWish, NewKey, Rotation

router = v1_router(tags=["members and keys"])


@router.get("/keys", summary="API keys, without their secrets", response_model=ApiKeys)
async def keys(services: Services, _: Administrator) -> Response:
    """List all keys, the oldest first."""
    return json_response(ApiKeys(keys=await services.identities.keys()))


@router.post(
    "/keys",
    summary="Create an API key",
    status_code=201,
    response_model=NewKey,
    responses=problem_responses(400, 408, 413, 415, 422),
    openapi_extra=document_body(KeyWish, example={"principal": "acme/ci", "role": "member"}),
)
async def create_key(
    services: Services, who: Administrator, body: Annotated[KeyWish, JsonBody.of(KeyWish)]
) -> Response:
    """Create a key. It is in this answer and nowhere else: only its hash is kept."""
    if body.role is not Role.OPERATOR:
        member = await services.identities.member(body.principal.partition("/")[0])
        if member is None:
            raise problems.invalid_field("principal", "no such member: add it first")
        if body.clouds is not None and not set(body.clouds) <= set(member.clouds):
            raise problems.invalid_field("clouds", "not all are this member's", "null, or some of its clouds")
    elif body.clouds is not None:
        raise problems.invalid_field("clouds", "an operator acts for all clouds", "null")
    record, key = await services.identities.create(
        body.principal, body.role, body.clouds, body.lifetime_s, who
    )
    return json_response(NewKey(key=key, record=record), 201)


@router.post(
    "/keys/{key_id}/rotate",
    summary="Replace an API key",
    status_code=201,
    response_model=NewKey,
    responses=problem_responses(400, 404, 408, 409, 413, 415, 422),
    openapi_extra=document_body(Rotation, example={"grace_s": 86400}),
)
async def rotate_key(
    services: Services,
    key_id: str,
    who: Administrator,
    rotation: Annotated[Rotation, JsonBody.of(Rotation)],
) -> Response:
    """Create a new key for the same principal; the old one works on for ``grace_s``, by default 24 hours."""
    try:
        created = await services.identities.rotate(key_id, rotation.grace_s, who)
    except ChangedError:
        raise problems.in_flight() from None
    if created is None:
        raise problems.not_found("key")
    services.authenticator.forget()
    record, key = created
    return json_response(NewKey(key=key, record=record), 201)


@router.delete(
    "/keys/{key_id}",
    summary="Revoke an API key",
    response_model=KeyRecord,
    responses=problem_responses(404, 409, 422),
)
async def revoke_key(services: Services, key_id: str, who: Administrator) -> Response:
    """Revoke a key: here at once, in other API processes within about a second, at most five."""
    if who.key_id == key_id:  # so that one operator's key always remains
        raise problems.invalid_field("key_id", "this is the key you call with", "the id of another key")
    try:
        revoked = await services.identities.revoke(key_id, who)
    except ChangedError:
        raise problems.in_flight() from None
    if revoked is None:
        raise problems.not_found("key")
    services.authenticator.forget()
    return json_response(revoked)
