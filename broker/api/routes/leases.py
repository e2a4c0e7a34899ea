"""Lists, reads, ends, extends and acknowledges spot leases."""

from __future__ import annotations

from typing import Annotated

from fastapi import Header, Query, Request
from starlette.responses import Response

from broker.api import attribution, parsing, problems
from broker.api.dependencies import (
    OwnLease,
    Reader,
    ReadLease,
    Services,
    bind_key,
    json_response,
    v1_router,
    visible_origins,
)
from broker.api.openapi import document_body, problem_responses
from broker.api.services.leases import is_extended, new_end_s
from broker.contract import ExtensionRequest, Lease, LeaseGranted, LeaseState, RefusalView
from broker.contract.instances import InstanceRecord
from broker.leases.pages import LeaseFilter
from broker.schemas.leases import Cancellation, Leases

router = v1_router()


@router.get("/leases", summary="Spot leases", response_model=Leases, responses=problem_responses(422))
async def leases(
    services: Services,
    who: Reader,
    state: LeaseState | None = None,
    cloud: Annotated[str | None, Query(max_length=64)] = None,
    origin: Annotated[str | None, Query(max_length=64)] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    cursor: Annotated[str | None, Query(max_length=500, description="next of the page before")] = None,
) -> Response:
    """List your leases: those that have not ended, by cloud and id; then those that ended, the latest first.

    Repeat the call with ``next`` as the cursor until that is null to get all of them. Leases that begin or
    end meanwhile move nothing; one that ends in between may appear again, as one that ended.
    """
    wanted = LeaseFilter(state, cloud, visible_origins(who, origin))
    page, next_cursor = await services.leases.page(wanted, limit, cursor)
    return json_response(Leases(leases=page, more=next_cursor is not None, next=next_cursor))


@router.get(
    "/leases/{lease_id:path}/instance",
    summary="The instance of a spot lease on a real cloud",
    response_model=InstanceRecord,
    responses=problem_responses(404),
)
async def instance(services: Services, lease_id: str, permitted: ReadLease) -> Response:
    """Return the name, addresses and state of the instance on its cloud.

    404 before it is asked for, some time after its end, and on simulated clouds.
    """
    del lease_id  # permitted holds the lease
    record = await services.leases.get_instance(permitted.lease)
    if record is None:
        raise problems.not_found("instance")
    return json_response(record)


@router.get(
    "/leases/{lease_id:path}",
    summary="One spot lease",
    response_model=Lease,
    responses=problem_responses(404),
)
async def lease(lease_id: str, permitted: ReadLease) -> Response:
    """Return a lease as it is now; one that ended is kept for some days."""
    del lease_id  # permitted holds the lease
    return json_response(permitted.lease)


@router.delete(
    "/leases/{lease_id:path}",
    summary="End a spot lease",
    response_model=Cancellation,
    responses={
        202: {"model": Cancellation, "description": "kept; carried out when the cloud's owner returns"},
        **problem_responses(404, 409),
    },
)
async def cancel(services: Services, lease_id: str, permitted: OwnLease) -> Response:
    """End a lease durably; one that has ended stays as it ended.

    409 (problem:set-aside) if the owner of its cloud failed over the command, here and in all calls about a
    lease or a cloud: then it is not carried out.
    """
    del lease_id  # permitted holds the lease
    cancellation = await services.leases.end(permitted.lease, permitted.who.name)
    return json_response(cancellation, 200 if cancellation.done else 202)


@router.post(
    "/leases/{lease_id:path}/extend",
    summary="Promise a spot lease a later end",
    response_model=Lease,
    responses=problem_responses(400, 404, 408, 409, 413, 415, 422),
    openapi_extra=document_body(ExtensionRequest, example={"lifetime_s": 14400, "sla": 0.05}),
)
async def extend(
    request: Request,
    services: Services,
    lease_id: str,
    permitted: OwnLease,
    idempotency_key: Annotated[
        str | None, Header(description="names the call where the body has no id")
    ] = None,
) -> Response:
    """Promise a lease a later end: 200 with the lease, or 409 with the reason and what would be accepted.

    Its risk is the conditional one: given that the instance has lived until now. A refused lease stays as it
    was. The same id gets the same answer.
    """
    del idempotency_key  # documented here; parsing.idempotency_key reads and checks the header
    body = await parsing.read_json(request)
    extension = parsing.parse(ExtensionRequest, body)
    key = parsing.idempotency_key(request)
    lease, principal = permitted.lease, permitted.who.name
    if extension.id is not None or key is not None:
        key = f"extend\n{lease_id}\n{extension.id or key}"  # no Idempotency-Key contains a newline
        await bind_key(services, principal, key, body)  # the owner remembers what came of it
    until_s = new_end_s(extension, lease)
    member = await services.membership.member(lease.cloud)
    rounded_up = member is not None and bool(member.info.slices_s)
    extension_id = attribution.derived_id(principal, key)
    match await services.leases.extend(lease, until_s, extension, extension_id):
        case LeaseGranted(lease=longer) if is_extended(longer, until_s, extension.sla, rounded_up=rounded_up):
            return json_response(longer)
        case LeaseGranted():
            field = "until_s" if extension.lifetime_s is None else "lifetime_s"
            raise problems.invalid_field(field, "it has longer")
        case RefusalView() as refusal:
            raise problems.refused([refusal])
        case None:
            raise problems.owner_silent(lease.cloud)
        case _:  # reserved, and the owner has not yet read the confirmation
            raise problems.in_flight()


@router.post(
    "/leases/{lease_id:path}/acknowledge",
    summary="Leave before the notice ends",
    response_model=Lease,
    responses=problem_responses(404, 409),
)
async def acknowledge(services: Services, lease_id: str, permitted: OwnLease) -> Response:
    """Give up a lease under notice (with an evict_at_s), so that its room is free at once. No body is read.

    200 with the lease, which is evicted then; one that has ended stays as it ended. 409 (problem:not-noticed)
    if it is not under notice.
    """
    lease = permitted.lease
    match await services.leases.acknowledge(lease, permitted.who.name):
        case LeaseGranted(lease=left) if left.ended_at_s is None:
            raise problems.not_noticed()
        case LeaseGranted(lease=left):
            return json_response(left)
        case None:
            raise problems.owner_silent(lease.cloud)
        case _:  # the owner no longer remembers how the lease ended
            return json_response(await services.leases.get(lease_id) or lease)
