"""Serves members, the organisations that have keys, what they may hold, and what they hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import Depends, Request
from starlette.responses import Response

from broker.api import problems
from broker.api.container import ApiServices
from broker.api.dependencies import (
    Administrator,
    Caller,
    PermissionDependency,
    Services,
    json_response,
    require,
    v1_router,
)
from broker.api.openapi import document_body, problem_responses
from broker.api.parsing import JsonBody
from broker.identity.models import MemberRecord
from broker.identity.permissions import Action, ProtectedObject
from broker.identity.store import ChangedError
from broker.schemas.members import MemberChange, Members, MemberView, MemberWish

router = v1_router(tags=["members and keys"])


class RequireMemberPermission(PermissionDependency):
    """Checks that the caller may perform the action with the member in the path.

    Raises ProblemError (401, 403, 404, 429).
    """

    async def __call__(self, request: Request, services: Services, who: Caller) -> MemberRecord:
        """Return the member."""
        name = request.path_params["name"]
        require(who, self.action, ProtectedObject(holder=name), "member")
        member = await services.identities.member(name)
        if member is None:
            raise problems.not_found("member")
        return member


ReadMember = Annotated[MemberRecord, Depends(RequireMemberPermission(Action.READ))]


@router.get("/members", summary="Members, for operators", response_model=Members)
async def members(services: Services, _: Administrator) -> Response:
    """List the organisations that have keys here, what they may hold and what they hold."""
    records = await services.identities.members()
    return json_response(Members(members=[await _view(services, record) for record in records.values()]))


@router.post(
    "/members",
    summary="Add a member",
    status_code=201,
    response_model=MemberView,
    responses=problem_responses(400, 408, 409, 413, 415, 422),
    openapi_extra=document_body(
        MemberWish, example={"name": "acme", "clouds": ["acme-1"], "spot_cores": 500}
    ),
)
async def add_member(
    services: Services, who: Administrator, body: Annotated[MemberWish, JsonBody.of(MemberWish)]
) -> Response:
    """Add a member. Its requests carry its name as origin, or the id of one of its clouds.

    409 if there is a member of this name.
    """
    await _require_unowned(services, body.name, [body.name, *body.clouds])
    member = MemberRecord(**body.model_dump())
    if not await services.identities.add_member(member, who):
        raise problems.exists("member")
    services.authenticator.forget()
    return json_response(await _view(services, member), 201)


@router.get(
    "/members/{name}", summary="One member", response_model=MemberView, responses=problem_responses(404)
)
async def one_member(services: Services, name: str, member: ReadMember) -> Response:
    """Return a member, to operators and to the member itself."""
    del name  # member holds it
    return json_response(await _view(services, member))


@router.patch(
    "/members/{name}",
    summary="Change a member",
    response_model=MemberView,
    responses=problem_responses(400, 404, 408, 409, 413, 415, 422),
    openapi_extra=document_body(MemberChange, example={"spot_cores": 1000}),
)
async def set_member(
    services: Services,
    name: str,
    who: Administrator,
    change: Annotated[MemberChange, JsonBody.of(MemberChange)],
) -> Response:
    """Change the fields that the body names; the rest stays. A lowered cap ends nothing that is held."""
    await _require_unowned(services, name, change.clouds)
    try:
        member = await services.identities.set_member(name, change.model_dump(exclude_unset=True), who)
    except ChangedError:
        raise problems.in_flight() from None
    if member is None:
        raise problems.not_found("member")
    services.authenticator.forget()
    return json_response(await _view(services, member))


@router.delete(
    "/members/{name}",
    summary="Remove a member and its keys",
    status_code=204,
    responses=problem_responses(404, 409),
)
async def remove_member(services: Services, name: str, who: Administrator) -> Response:
    """Remove a member; its keys stop working. Its leases run to their ends."""
    try:
        removed = await services.identities.remove_member(name, who)
    except ChangedError:
        raise problems.in_flight() from None
    if not removed:
        raise problems.not_found("member")
    services.authenticator.forget()
    return Response(status_code=204)


async def _require_unowned(services: ApiServices, name: str, origins: Sequence[str]) -> None:
    """Raise ProblemError (422) if one of the origins is that of a member other than ``name``."""
    members = (await services.identities.members()).values()
    owned = {origin for member in members if member.name != name for origin in (member.name, *member.clouds)}
    for origin in origins:
        if origin in owned:
            field = "name" if origin == name else "clouds"
            raise problems.invalid_field(field, "another member has it", "what is no other's name or cloud")


async def _view(services: ApiServices, member: MemberRecord) -> MemberView:
    cores, instances = await services.quota_holds.total(member.name)
    return MemberView(**member.model_dump(), held_cores=cores, held_instances=instances)
