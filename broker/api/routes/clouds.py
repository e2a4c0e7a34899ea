"""Serves member clouds: what they are, their tables, and the commands of those who operate them."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from starlette.responses import Response

from broker.api import problems
from broker.api.dependencies import Looker, MemberCloud, Operator, Services, json_response, v1_router
from broker.api.openapi import document_body, problem_responses
from broker.api.parsing import JsonBody
from broker.contract import Done, DrainReport, NodeNumber
from broker.requests.routing import Member
from broker.schemas.clouds import Advance, Clouds, CloudView, DrainRequest, Table

router = v1_router()

_NO_NODE = "the cloud has no such node"


@router.get("/clouds", summary="The members", response_model=Clouds)
async def clouds(services: Services, _: Looker) -> Response:
    """List the clouds in cloud order, with what they say of themselves."""
    members = await services.membership.members()
    return json_response(Clouds(clouds=[_view(member) for member in members]))


@router.get(
    "/clouds/{cloud}", summary="One member", response_model=CloudView, responses=problem_responses(404)
)
async def cloud(cloud: str, _: Looker, member: MemberCloud) -> Response:
    """Return a cloud, what it says of itself, and at which SLAs it is asked last, with the figures."""
    del cloud  # member holds it
    return json_response(_view(member))


@router.get(
    "/clouds/{cloud}/table",
    summary="A member's quantile table",
    response_model=Table,
    responses=problem_responses(404),
)
async def table(services: Services, cloud: str, _: Looker, member: MemberCloud) -> Response:
    """Return the quantile table as far as the cloud discloses it."""
    del member  # checked to exist
    table = await services.clouds.table(cloud)
    if table is None:
        raise problems.not_found("table yet")
    return json_response(table)


@router.post(
    "/clouds/{cloud}/advance",
    summary="Trace time: let everything happen that is still to come",
    response_model=Done,
    responses=problem_responses(400, 404, 408, 409, 413, 415, 422),
    openapi_extra=document_body(Advance, example={"finish": True}),
)
async def advance(
    services: Services,
    cloud: str,
    _: Operator,
    body: Annotated[Advance, JsonBody.of(Advance)],
    member: MemberCloud,
) -> Response:
    """Advance a cloud in trace time; the answer comes when the cloud's last instance has ended."""
    del body  # it can say one thing only
    if member.info.time != "trace":
        raise problems.invalid_field(
            "finish", "this cloud runs in wall time", "nothing: its time passes by itself"
        )
    return json_response(await services.clouds.finish(cloud))


@router.post(
    "/clouds/{cloud}/drain",
    summary="Close nodes and make their spot instances leave",
    response_model=DrainReport,
    responses=problem_responses(400, 404, 408, 409, 413, 415, 422),
    openapi_extra=document_body(DrainRequest, example={"nodes": [0, 3], "dry_run": True}),
)
async def drain(
    services: Services,
    cloud: str,
    who: Operator,
    drain_request: Annotated[DrainRequest, JsonBody.of(DrainRequest)],
    member: MemberCloud,
) -> Response:
    """Close nodes, without ``nodes`` all of them, and make their spot instances leave.

    Spot instances leave at once, or when the cloud's grace ends; on-demand instances stay until their users
    stop them. With ``dry_run`` nothing happens; the report is the same. A repeated call reports which
    instances have not left yet.
    """
    del member  # checked to exist
    match await services.clouds.drain(cloud, drain_request, who.name):
        case DrainReport() as report:
            return json_response(report)
        case None:
            raise problems.owner_silent(cloud)
        case _:
            raise problems.invalid_field("nodes", _NO_NODE)


@router.delete(
    "/clouds/{cloud}/drain",
    summary="Let nodes take new instances again",
    response_model=Done,
    responses=problem_responses(404, 409, 422),
)
async def reopen(
    services: Services,
    cloud: str,
    who: Operator,
    member: MemberCloud,
    node: Annotated[list[NodeNumber] | None, Query(description="this one only; may be repeated")] = None,
) -> Response:
    """Reopen nodes, without ``node`` all of them. Notices that were given stand."""
    del member  # checked to exist
    match await services.clouds.reopen(cloud, tuple(node) if node else None, who.name):
        case Done(found=True) as done:
            return json_response(done)
        case None:
            raise problems.owner_silent(cloud)
        case _:
            raise problems.invalid_field("node", _NO_NODE)


def _view(member: Member) -> CloudView:
    return CloudView(
        info=member.info,
        advert=member.advert,
        reachable=member.reachable,
        advert_age_s=member.advert_age_s,
        broken_promises=[broken for _, broken in sorted(member.broken.items())],
    )
