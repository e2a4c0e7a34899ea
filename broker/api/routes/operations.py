"""The calls about making room: notices that are acknowledged, instances that wait, nodes that are drained."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from broker.api import parsing, problems
from broker.api.dependencies import OnDemandReader, Operator, OwnLease, answer, broker_of
from broker.api.openapi import body_of, problem_responses
from broker.api.routes.leases import member_of
from broker.api.schemas.clouds import DrainRequest
from broker.contract import Done, DrainReport, Lease, LeaseGranted, NodeNumber, RefusalView

router = APIRouter()

_NOT_THERE = "the cloud has no such node"


@router.post(
    "/leases/{lease_id:path}/acknowledge",
    summary="Leave before the notice ends",
    response_model=Lease,
    responses=problem_responses(404, 409),
)
async def acknowledge(request: Request, lease_id: str, held: OwnLease) -> Response:
    """For a spot lease with an evict_at_s: its holder is done, and whoever waits for the room starts now.

    200 with the lease, which is evicted then; one that has ended stays as it ended. 409 (problem:not-noticed)
    when it was not told to leave. No body is read.
    """
    desk, found = broker_of(request).desk, held.lease
    match await desk.acknowledge(found, held.who.name):
        case LeaseGranted(lease=lease) if lease.ended_at_s is None:
            raise problems.not_noticed()
        case LeaseGranted(lease=lease):
            return answer(lease)
        case None:
            raise problems.owner_silent(found.cloud)
        case _:  # the owner has forgotten its end
            return answer(await desk.lease(lease_id) or found)


@router.get(
    "/clouds/{cloud}/on-demand/{instance:path}",
    summary="One on-demand instance",
    response_model=Lease,
    responses=problem_responses(404, 409),
)
async def on_demand(request: Request, cloud: str, instance: str, visitor: OnDemandReader) -> Response:
    """As it is now. While it waits for room it is booked, and starts at the latest at starts_by_s.

    409 (problem:refused) when it was turned away.
    """
    await member_of(request, cloud)
    if not parsing.is_id(instance):
        raise problems.not_found("instance")
    match await broker_of(request).desk.show(cloud, instance, visitor.origin):
        case LeaseGranted(lease=lease):
            return answer(lease)
        case RefusalView() as refusal:
            raise problems.refused([refusal])
        case None:
            raise problems.owner_silent(cloud)
        case _:
            raise problems.not_found("instance")


@router.post(
    "/clouds/{cloud}/drain",
    summary="Close nodes and make their spot instances leave",
    response_model=DrainReport,
    responses=problem_responses(400, 404, 409, 413, 415, 422),
    openapi_extra=body_of("DrainRequest", example={"nodes": [0, 3], "dry_run": True}),
)
async def drain(request: Request, cloud: str, who: Operator) -> Response:
    """Without nodes: all of them. Spot instances leave at once, or when the cloud's grace ends; on-demand
    instances stay until their users stop them. With dry_run nothing happens; the report is the same.

    Draining again tells who has not left yet.
    """
    wish = parsing.parse(DrainRequest, await parsing.read_json(request))
    await member_of(request, cloud)
    match await broker_of(request).desk.drain(cloud, wish, who.name):
        case DrainReport() as report:
            return answer(report)
        case None:
            raise problems.owner_silent(cloud)
        case _:
            raise problems.invalid_field("nodes", _NOT_THERE)


@router.delete(
    "/clouds/{cloud}/drain",
    summary="Let nodes take new instances again",
    response_model=Done,
    responses=problem_responses(404, 409, 422),
)
async def reopen(
    request: Request,
    cloud: str,
    who: Operator,
    node: Annotated[list[NodeNumber] | None, Query(description="this one only; may be repeated")] = None,
) -> Response:
    """Without nodes: all of them. Notices that were given stand."""
    await member_of(request, cloud)
    match await broker_of(request).desk.reopen(cloud, tuple(node) if node else None, who.name):
        case Done(found=True) as done:
            return answer(done)
        case None:
            raise problems.owner_silent(cloud)
        case _:
            raise problems.invalid_field("node", _NOT_THERE)
