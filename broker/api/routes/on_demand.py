"""Starts, reads and stops instances on-demand on one cloud, one or several together."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import Request
from starlette.responses import Response

from broker.api import attribution, parsing, problems
from broker.api.container import ApiServices
from broker.api.dependencies import (
    MemberCloud,
    OnDemandBuyer,
    OnDemandCaller,
    OnDemandReader,
    OnDemandUser,
    Services,
    json_response,
    v1_router,
)
from broker.api.openapi import document_body, problem_responses
from broker.api.services.on_demand import matches_request
from broker.contract import (
    Done,
    Lease,
    LeaseGranted,
    LeasesGranted,
    OnDemandRequest,
    OnDemandRequests,
    RefusalView,
)
from broker.contract.instances import InstanceRecord
from broker.requests.routing import Member
from broker.schemas.on_demand import Stopped
from broker.schemas.requests import Admission, Admissions
from cloudsim.model.reserved_ids import RESERVED

router = v1_router()


@router.post(
    "/clouds/{cloud}/on-demand",
    summary="A request of the cloud's own users, or of others to whom it sells on-demand",
    status_code=201,
    response_model=Admission | Admissions,
    responses=problem_responses(400, 404, 408, 409, 413, 415, 422),
    openapi_extra=document_body(OnDemandRequest, OnDemandRequests, example={"cores": 4, "lifetime_s": 3600}),
)
async def start_on_demand(
    request: Request, services: Services, cloud: str, caller: OnDemandBuyer, member: MemberCloud
) -> Response:
    """Place an on-demand instance, if need be after evictions: 201; else 409.

    With overflow on, what is refused is offered to the federation as spot. Several requests with
    ``all_or_nothing``: all are placed, or none is and nobody is evicted. Members that are no users of the
    cloud may start instances where it sells on-demand (``sells_on_demand``), at its on-demand price; the ids
    of these go after the name of the member, and only the member and operators may stop them. On a real cloud
    ``launch`` says what they run.
    """
    del cloud  # member holds it
    body = await parsing.read_json(request)
    key = parsing.idempotency_key(request)
    if _is_group(body):
        group = parsing.parse(OnDemandRequests, body)
        return await _start_all(services, member, caller, _attribute_group(group, caller, key))
    on_demand_request = attribution.attribute_instance(parsing.parse(OnDemandRequest, body), caller.who, key)
    return await _start(services, member, caller, on_demand_request)


async def _start(
    services: ApiServices, member: Member, caller: OnDemandCaller, request: OnDemandRequest
) -> Response:
    cloud = member.info.id
    (request,) = _checked(member, caller, [request])
    match await services.on_demand.start(cloud, request, caller.origin if caller.guest else None):
        case LeaseGranted(lease=started) if matches_request(started, request, caller.origin):
            await _audit_purchases(services, member, caller, [started])
            return json_response(Admission(lease=started), 201)
        case RefusalView() as refusal:
            raise problems.refused([refusal])
        case None:
            raise problems.owner_silent(cloud)
        case _:
            raise problems.key_reused()


async def _start_all(
    services: ApiServices, member: Member, caller: OnDemandCaller, requests: Sequence[OnDemandRequest]
) -> Response:
    cloud = member.info.id
    requests = _checked(member, caller, requests)
    match await services.on_demand.start_all(cloud, requests, caller.origin if caller.guest else None):
        case LeasesGranted(leases=started) if all(
            matches_request(lease, request, caller.origin)
            for lease, request in zip(started, requests, strict=True)
        ):
            await _audit_purchases(services, member, caller, started)
            return json_response(Admissions(leases=list(started)), 201)
        case RefusalView() as refusal:
            raise problems.refused([refusal])
        case None:
            raise problems.owner_silent(cloud)
        case _:
            raise problems.key_reused()


@router.get(
    "/clouds/{cloud}/on-demand/{instance:path}",
    summary="One on-demand instance",
    response_model=Lease,
    responses=problem_responses(404, 409),
)
async def on_demand(
    services: Services, cloud: str, instance: str, caller: OnDemandReader, member: MemberCloud
) -> Response:
    """Return an instance as it is now. While it waits for room it is booked, and starts by starts_by_s.

    409 (problem:refused) if it was turned away.
    """
    del member  # checked to exist
    if not parsing.is_id(instance):
        raise problems.not_found("instance")
    match await services.on_demand.show(cloud, instance, caller.origin):
        case LeaseGranted(lease=lease):
            return json_response(lease)
        case RefusalView() as refusal:
            raise problems.refused([refusal])
        case None:
            raise problems.owner_silent(cloud)
        case _:
            raise problems.not_found("instance")


@router.get(
    "/clouds/{cloud}/on-demand-instances/{instance:path}",
    summary="The instance of an on-demand lease on a real cloud",
    response_model=InstanceRecord,
    responses=problem_responses(404),
)
async def sold_instance(
    services: Services, cloud: str, instance: str, caller: OnDemandReader, member: MemberCloud
) -> Response:
    """Return the name, addresses and state of what another member started on a cloud that sells on-demand.

    404 before it is asked for, and some time after its end.
    """
    del member  # checked to exist
    answer = (
        await services.on_demand.show(cloud, instance, caller.origin) if parsing.is_id(instance) else None
    )
    record = await services.leases.get_instance(answer.lease) if isinstance(answer, LeaseGranted) else None
    if record is None:
        raise problems.not_found("instance")
    return json_response(record)


@router.delete(
    "/clouds/{cloud}/on-demand/{instance:path}",
    summary="Stop an on-demand instance",
    response_model=Stopped,
    responses={
        202: {"model": Stopped, "description": "kept; carried out when the cloud's owner returns"},
        **problem_responses(404, 409),
    },
)
async def stop_on_demand(
    services: Services, cloud: str, instance: str, caller: OnDemandUser, member: MemberCloud
) -> Response:
    """Stop an instance, also where it was offered to the federation; one that has ended stays as it ended.

    404 for an instance that another member started.
    """
    del member  # checked to exist
    if not parsing.is_id(instance):
        raise problems.not_found("instance")
    match await services.on_demand.stop(cloud, instance, caller.origin):
        case LeaseGranted(lease=stopped):
            if caller.guest:
                details = {"cloud": cloud}
                await services.identities.note(caller.who, "on-demand stopped", stopped.id, details)
            return json_response(Stopped(done=True, lease=stopped))
        case Done(found=True):
            return json_response(Stopped(done=True))
        case None:
            return json_response(Stopped(done=False), 202)
        case _:
            raise problems.not_found("instance")


def _is_group(body: bytes) -> bool:
    """Return whether a JSON body is an object that holds several requests. Raises ProblemError (400)."""
    value = parsing.parse_any(body)
    return isinstance(value, dict) and "requests" in value


def _attribute_group(
    group: OnDemandRequests, caller: OnDemandCaller, key: str | None
) -> list[OnDemandRequest]:
    """Return the requests of a group, each with an id. Raises ProblemError (422) if two have the same."""
    requests = [
        attribution.attribute_instance(request, caller.who, key, index)
        for index, request in enumerate(group.requests)
    ]
    if len({request.id for request in requests}) < len(requests):
        raise problems.invalid_field("id", "two of the requests have the same")
    return requests


def _checked(
    member: Member, caller: OnDemandCaller, requests: Sequence[OnDemandRequest]
) -> list[OnDemandRequest]:
    """Return the requests as the owner gets them: the ids of guests after the names of their members.

    Raises ProblemError (422) if the cloud does not take requests, or an id cannot be used.
    """
    if member.info.instances is not None and not caller.guest:
        message = "is a real cloud: its users call it themselves, and what they start there is counted here"
        raise problems.invalid_field("cloud", message)
    reserved = tuple(f"{member.info.id}/{prefix}" for prefix in RESERVED)
    if any((request.id or "").startswith(reserved) for request in requests):
        raise problems.invalid_field("id", "ids of this form belong to the load that the cloud plays")
    if not caller.guest:
        return list(requests)
    return [attribution.attribute_to_guest(request, caller.who) for request in requests]


async def _audit_purchases(
    services: ApiServices, member: Member, caller: OnDemandCaller, started: Sequence[Lease]
) -> None:
    """Write what a guest has started, and at what price, to the audit log."""
    if not caller.guest:
        return
    for lease in started:
        details = {
            "cloud": member.info.id,
            "cores": lease.cores,
            "usd_per_core_hour": member.info.on_demand_usd_per_core_hour,
        }
        await services.identities.note(caller.who, "on-demand started", lease.id, details)
