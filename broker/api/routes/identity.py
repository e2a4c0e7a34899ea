"""The calls about members, keys and the audit log. Operators make them; a member may look at itself."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from broker.api import parsing, problems
from broker.api.dependencies import Administrator, Caller, PermissionDependency, answer, broker_of, require
from broker.api.openapi import body_of, problem_responses
from broker.api.schemas.identity import (
    ApiKeys,
    Audit,
    KeyWish,
    MemberChange,
    Members,
    MemberView,
    MemberWish,
    NewKey,
    Rotation,
)
from broker.identity.models import KeyRecord, MemberRecord
from broker.identity.permissions import Action, Principal, ProtectedObject, Role
from broker.identity.store import ChangedError

router = APIRouter(tags=["members and keys"])


class RequireMemberPermission(PermissionDependency):
    """Whether the caller may do this with the member in the path."""

    async def __call__(self, request: Request, who: Caller) -> MemberRecord:
        """The member. Raises ProblemError (401, 403, 404, 429)."""
        name = request.path_params["name"]
        require(who, self.action, ProtectedObject(holder=name), "member")
        found = await broker_of(request).register.member(name)
        if found is None:
            raise problems.not_found("member")
        return found


ReadMember = Annotated[MemberRecord, Depends(RequireMemberPermission(Action.READ))]


# -- members ----------------------------------------------------------------------------------------------


@router.get("/members", summary="Members, for operators", response_model=Members)
async def members(request: Request, _: Administrator) -> Response:
    """Organisations that have keys here, what they may hold and what they hold."""
    found = await broker_of(request).register.members()
    return answer(Members(members=[await _view(request, one) for one in found.values()]))


@router.post(
    "/members",
    summary="Add a member",
    status_code=201,
    response_model=MemberView,
    responses=problem_responses(400, 409, 413, 415, 422),
    openapi_extra=body_of("MemberWish", example={"name": "acme", "clouds": ["acme-1"], "spot_cores": 500}),
)
async def add_member(request: Request, who: Administrator) -> Response:
    """Its requests carry its name as origin, or the id of one of its clouds. 409 when there is one."""
    wish = parsing.parse(MemberWish, await parsing.read_json(request))
    await _apart(request, wish.name, [wish.name, *wish.clouds])
    member = MemberRecord(**wish.model_dump())
    if not await broker_of(request).register.add_member(member, who):
        raise problems.exists("member")
    broker_of(request).authenticator.forget()
    return answer(await _view(request, member), 201)


@router.get(
    "/members/{name}", summary="One member", response_model=MemberView, responses=problem_responses(404)
)
async def one_member(request: Request, name: str, member: ReadMember) -> Response:
    """For operators, and for the member itself."""
    del name  # found already
    return answer(await _view(request, member))


@router.patch(
    "/members/{name}",
    summary="Change a member",
    response_model=MemberView,
    responses=problem_responses(400, 404, 409, 413, 415, 422),
    openapi_extra=body_of("MemberChange", example={"spot_cores": 1000}),
)
async def set_member(request: Request, name: str, who: Administrator) -> Response:
    """What is named changes, the rest stays. A cap that is lowered ends nothing that is held."""
    wish = parsing.parse(MemberChange, await parsing.read_json(request))
    await _apart(request, name, wish.clouds)
    try:
        changed = await broker_of(request).register.set_member(name, wish.model_dump(exclude_unset=True), who)
    except ChangedError:
        raise problems.in_flight() from None
    if changed is None:
        raise problems.not_found("member")
    broker_of(request).authenticator.forget()
    return answer(await _view(request, changed))


@router.delete(
    "/members/{name}",
    summary="Remove a member and its keys",
    status_code=204,
    responses=problem_responses(404, 409),
)
async def remove_member(request: Request, name: str, who: Administrator) -> Response:
    """Its keys let nobody in any more. Its leases run to their ends."""
    try:
        removed = await broker_of(request).register.remove_member(name, who)
    except ChangedError:
        raise problems.in_flight() from None
    if not removed:
        raise problems.not_found("member")
    broker_of(request).authenticator.forget()
    return Response(status_code=204)


# -- keys -------------------------------------------------------------------------------------------------


@router.get("/keys", summary="API keys, without their secrets", response_model=ApiKeys)
async def keys(request: Request, _: Administrator) -> Response:
    """The oldest first."""
    return answer(ApiKeys(keys=await broker_of(request).register.keys()))


@router.post(
    "/keys",
    summary="Create an API key",
    status_code=201,
    response_model=NewKey,
    responses=problem_responses(400, 413, 415, 422),
    openapi_extra=body_of("KeyWish", example={"principal": "acme/ci", "role": "member"}),
)
async def create_key(request: Request, who: Administrator) -> Response:
    """The key is in this answer and nowhere else: only its hash is kept."""
    wish = parsing.parse(KeyWish, await parsing.read_json(request))
    register = broker_of(request).register
    if wish.role is not Role.OPERATOR:
        member = await register.member(wish.principal.partition("/")[0])
        if member is None:
            raise problems.invalid_field("principal", "no such member: add it first")
        if wish.clouds is not None and not set(wish.clouds) <= set(member.clouds):
            raise problems.invalid_field("clouds", "not all are this member's", "null, or some of its clouds")
    elif wish.clouds is not None:
        raise problems.invalid_field("clouds", "an operator acts for all clouds", "null")
    record, key = await register.create(wish.principal, wish.role, wish.clouds, wish.lifetime_s, who)
    return answer(NewKey(key=key, record=record), 201)


@router.post(
    "/keys/{key_id}/rotate",
    summary="Replace an API key",
    status_code=201,
    response_model=NewKey,
    responses=problem_responses(400, 404, 409, 413, 415, 422),
    openapi_extra=body_of("Rotation", example={"grace_s": 86400}),
)
async def rotate_key(request: Request, key_id: str, who: Administrator) -> Response:
    """A new key for the same principal. The old one works for ``grace_s`` more (24 hours by default)."""
    wish = parsing.parse(Rotation, await parsing.read_json(request))
    try:
        made = await broker_of(request).register.rotate(key_id, wish.grace_s, who)
    except ChangedError:
        raise problems.in_flight() from None
    if made is None:
        raise problems.not_found("key")
    broker_of(request).authenticator.forget()
    return answer(NewKey(key=made[1], record=made[0]), 201)


@router.delete(
    "/keys/{key_id}",
    summary="Revoke an API key",
    response_model=KeyRecord,
    responses=problem_responses(404, 409, 422),
)
async def revoke_key(request: Request, key_id: str, who: Administrator) -> Response:
    """Here at once, in other API processes within about a second, and never later than in five."""
    _not_own(who, key_id)
    try:
        gone = await broker_of(request).register.revoke(key_id, who)
    except ChangedError:
        raise problems.in_flight() from None
    if gone is None:
        raise problems.not_found("key")
    broker_of(request).authenticator.forget()
    return answer(gone)


@router.get(
    "/audit",
    summary="Who changed members and keys, and who bought what on another's cloud",
    response_model=Audit,
    responses=problem_responses(422),
)
async def audit(
    request: Request, _: Administrator, limit: Annotated[int, Query(ge=1, le=1000)] = 100
) -> Response:
    """The latest first."""
    return answer(Audit(entries=await broker_of(request).register.audit(limit)))


def _not_own(who: Principal, key_id: str) -> None:
    """Raises ProblemError (422): one operator's key remains."""
    if who.key_id == key_id:
        raise problems.invalid_field("key_id", "this is the key you call with", "the id of another key")


async def _apart(request: Request, name: str, origins: list[str] | tuple[str, ...]) -> None:
    """Raises ProblemError (422) for an origin that is another member's."""
    members = await broker_of(request).register.members()
    taken = {origin for one in members.values() if one.name != name for origin in (one.name, *one.clouds)}
    for origin in origins:
        if origin in taken:
            field = "name" if origin == name else "clouds"
            raise problems.invalid_field(field, "another member has it", "what is no other's name or cloud")


async def _view(request: Request, member: MemberRecord) -> MemberView:
    cores, instances = await broker_of(request).holds.total(member.name)
    return MemberView(**member.model_dump(), held_cores=cores, held_instances=instances)
