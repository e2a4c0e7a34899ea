"""The calls about leases and clouds."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Annotated, cast

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response

from broker.api import parsing, problems
from broker.api.dependencies import (
    Looker,
    OnDemandBuyer,
    OnDemandCaller,
    OnDemandUser,
    Operator,
    OwnLease,
    Reader,
    ReadLease,
    answer,
    begin_call,
    broker_of,
    origins_of,
)
from broker.api.openapi import body_of, problem_responses
from broker.api.schemas.clouds import Advance, Clouds, CloudView, Table
from broker.api.schemas.leases import Cancellation, Leases
from broker.api.schemas.on_demand import Stopped
from broker.api.schemas.requests import Admission, Admissions
from broker.contract import (
    Done,
    ExtensionRequest,
    Lease,
    LeaseGranted,
    LeasesGranted,
    LeaseState,
    OnDemandRequest,
    RefusalView,
    read_message,
)
from broker.contract.instances import InstanceRecord
from broker.leases.pages import LeaseFilter
from broker.requests.routing import Member
from cloudsim.model.reserved_ids import RESERVED

router = APIRouter()


# -- leases -----------------------------------------------------------------------------------------------


@router.get("/leases", summary="Spot leases", response_model=Leases, responses=problem_responses(422))
async def leases(
    request: Request,
    who: Reader,
    state: LeaseState | None = None,
    cloud: Annotated[str | None, Query(max_length=64)] = None,
    origin: Annotated[str | None, Query(max_length=64)] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    cursor: Annotated[str | None, Query(max_length=500, description="next of the page before")] = None,
) -> Response:
    """Your own. Those that have not ended, by cloud and id; then those that ended, the latest first.

    All of them are reached by asking again with ``next`` as the cursor until that is null. What comes and
    goes meanwhile moves nothing; a lease that ends in between may be told again, as one that ended.
    """
    wanted = LeaseFilter(state, cloud, origins_of(who, origin))
    found, following = await broker_of(request).desk.leases(wanted, limit, cursor)
    return answer(Leases(leases=found, more=following is not None, next=following))


@router.get(
    "/leases/{lease_id:path}/instance",
    summary="The instance of a spot lease on a real cloud",
    response_model=InstanceRecord,
    responses=problem_responses(404),
)
async def instance(request: Request, lease_id: str, held: ReadLease) -> Response:
    """Its name and addresses there, and how it stands; 404 before it is asked for, some time after its end,
    and on simulated clouds."""
    del lease_id  # found already
    broker = broker_of(request)
    key = broker.keys.instances(held.lease.cloud)
    text = await cast("Awaitable[bytes | None]", broker.redis.hget(key, held.lease.id))
    if text is None:
        raise problems.not_found("instance")
    return answer(read_message(InstanceRecord, text))


@router.get(
    "/leases/{lease_id:path}",
    summary="One spot lease",
    response_model=Lease,
    responses=problem_responses(404),
)
async def lease(lease_id: str, held: ReadLease) -> Response:
    """As it is now; an ended one is kept for some days."""
    del lease_id  # found already
    return answer(held.lease)


@router.delete(
    "/leases/{lease_id:path}",
    summary="End a spot lease",
    response_model=Cancellation,
    responses={
        202: {"model": Cancellation, "description": "kept; carried out when the cloud's owner returns"},
        **problem_responses(404, 409),
    },
)
async def cancel(request: Request, lease_id: str, held: OwnLease) -> Response:
    """Durable. A lease that has ended stays as it ended. 409 (problem:set-aside) when the owner of its cloud
    failed over the command, here and in all calls about a lease or a cloud: then it is not carried out."""
    del lease_id  # found already
    done = await broker_of(request).desk.end(held.lease, held.who.name)
    return answer(done, 200 if done.done else 202)


@router.post(
    "/leases/{lease_id:path}/extend",
    summary="Promise a spot lease a later end",
    response_model=Lease,
    responses=problem_responses(400, 404, 409, 413, 415, 422),
    openapi_extra=body_of("ExtensionRequest", example={"lifetime_s": 14400, "sla": 0.05}),
)
async def extend(
    request: Request,
    lease_id: str,
    held: OwnLease,
    idempotency_key: Annotated[
        str | None, Header(description="names the call where the body has no id")
    ] = None,
) -> Response:
    """200 with the lease as it is then; 409 with the reason and what would be accepted. Same id: same answer.

    Its risk is the conditional one: given that the instance has lived until now. A refused lease stays as it
    was.
    """
    del idempotency_key  # documented here, read from the request as it is
    broker = broker_of(request)
    body = await parsing.read_json(request)
    wish = parsing.parse(ExtensionRequest, body)
    key = parsing.idempotency_key(request)
    found, principal = held.lease, held.who.name
    if wish.id is not None or key is not None:
        key = f"extend\n{lease_id}\n{wish.id or key}"  # no Idempotency-Key looks like this
        await begin_call(broker, principal, key, body)
        await broker.records.answer_call(principal, key, "done")  # what came of it is with the owner
    until_s = parsing.new_end_s(wish, found)
    member = await broker.adverts.member(found.cloud)
    rounded_up = member is not None and bool(member.info.slices_s)
    match await broker.desk.extend(found, until_s, wish, parsing.derived_id(principal, key)):
        case LeaseGranted(lease=longer) if parsing.fulfils(longer, until_s, wish.sla, rounded_up=rounded_up):
            return answer(longer)
        case LeaseGranted():
            raise problems.invalid_field(
                "until_s" if wish.lifetime_s is None else "lifetime_s", "it has longer"
            )
        case RefusalView() as refusal:
            raise problems.refused([refusal])
        case None:
            raise problems.owner_silent(found.cloud)
        case _:  # reserved, and the owner has not read yet that it is confirmed
            raise problems.in_flight()


# -- clouds -----------------------------------------------------------------------------------------------


@router.get("/clouds", summary="The members", response_model=Clouds)
async def clouds(request: Request, _: Looker) -> Response:
    """In cloud order, with what they say of themselves."""
    members = await broker_of(request).adverts.members()
    return answer(Clouds(clouds=[_view(member) for member in members]))


async def member_of(request: Request, cloud: str) -> Member:
    """The member of that id. Raises ProblemError (404)."""
    member = await broker_of(request).adverts.member(cloud)
    if member is None:
        raise problems.not_found("cloud")
    return member


@router.get(
    "/clouds/{cloud}", summary="One member", response_model=CloudView, responses=problem_responses(404)
)
async def cloud(request: Request, cloud: str, _: Looker) -> Response:
    """What it is and what it says of itself; and at which SLAs it is asked last, with the figures."""
    return answer(_view(await member_of(request, cloud)))


@router.get(
    "/clouds/{cloud}/table",
    summary="A member's quantile table",
    response_model=Table,
    responses=problem_responses(404),
)
async def table(request: Request, cloud: str, _: Looker) -> Response:
    """As far as the cloud shows it."""
    await member_of(request, cloud)
    found = await broker_of(request).desk.table(cloud)
    if found is None:
        raise problems.not_found("table yet")
    return answer(found)


@router.post(
    "/clouds/{cloud}/on-demand",
    summary="A request of the cloud's own users, or of others to whom it sells on-demand",
    status_code=201,
    response_model=Admission | Admissions,
    responses=problem_responses(400, 404, 409, 413, 415, 422),
    openapi_extra=body_of(
        "OnDemandRequest", or_model="OnDemandRequests", example={"cores": 4, "lifetime_s": 3600}
    ),
)
async def start_on_demand(request: Request, cloud: str, visitor: OnDemandBuyer) -> Response:
    """Placed if it fits, if need be after evictions: 201. Else 409, and with overflow on offered as spot.

    Several with ``all_or_nothing``: all of them are placed, or none is and nobody is evicted. Who is no user
    of the cloud may start some where it sells on-demand (``sells_on_demand``), at its on-demand price; their
    ids go after the name of the member, and nobody but it and operators may stop them.
    """
    body = await parsing.read_json(request)
    if parsing.is_together(body):
        return await _start_all(request, cloud, visitor, body)
    wish = parsing.parse(OnDemandRequest, body)
    wish = parsing.named_instance(wish, visitor.who.name, parsing.idempotency_key(request))
    (wish,), origin = await _bought(request, cloud, visitor, [wish])
    match await broker_of(request).desk.start_on_demand(cloud, wish, origin):
        case LeaseGranted(lease=started) if parsing.is_of(started, wish, visitor.origin):
            await _note_bought(request, cloud, visitor, [started])
            return answer(Admission(lease=started), 201)
        case RefusalView() as refusal:
            raise problems.refused([refusal])
        case None:
            raise problems.owner_silent(cloud)
        case _:
            raise problems.key_reused()


async def _bought(
    request: Request, cloud: str, visitor: OnDemandCaller, wishes: Sequence[OnDemandRequest]
) -> tuple[list[OnDemandRequest], str | None]:
    """The requests as the owner is to hear of them, and whose they are where they are not its own users'.

    Raises ProblemError (404, 422).
    """
    if (await member_of(request, cloud)).info.instances is not None:
        message = "is a real cloud: its users call it themselves, and what they start there is counted here"
        raise problems.invalid_field("cloud", message)
    if any((wish.id or "").startswith(tuple(f"{cloud}/{one}" for one in RESERVED)) for wish in wishes):
        raise problems.invalid_field("id", "ids of this form belong to the load that the cloud plays")
    if not visitor.guest:
        return list(wishes), None
    return [parsing.of_guest(wish, visitor.who) for wish in wishes], visitor.origin


async def _note_bought(
    request: Request, cloud: str, visitor: OnDemandCaller, started: Sequence[Lease]
) -> None:
    """In the audit log: what members started on another's cloud, and at what price."""
    if visitor.guest:
        price = (await member_of(request, cloud)).info.on_demand_usd_per_core_hour
        register = broker_of(request).register
        for one in started:
            more = {"cloud": cloud, "cores": one.cores, "usd_per_core_hour": price}
            await register.note(visitor.who, "on-demand started", one.id, more)


async def _start_all(request: Request, cloud: str, visitor: OnDemandCaller, body: bytes) -> Response:
    wishes = parsing.parse_together(body, visitor.who.name, parsing.idempotency_key(request))
    wishes, origin = await _bought(request, cloud, visitor, wishes)
    match await broker_of(request).desk.start_all(cloud, wishes, origin):
        case LeasesGranted(leases=started) if all(
            parsing.is_of(one, wish, visitor.origin) for one, wish in zip(started, wishes, strict=True)
        ):
            await _note_bought(request, cloud, visitor, started)
            return answer(Admissions(leases=list(started)), 201)
        case RefusalView() as refusal:
            raise problems.refused([refusal])
        case None:
            raise problems.owner_silent(cloud)
        case _:
            raise problems.key_reused()


@router.delete(
    "/clouds/{cloud}/on-demand/{instance:path}",
    summary="Stop an on-demand instance",
    response_model=Stopped,
    responses={
        202: {"model": Stopped, "description": "kept; carried out when the cloud's owner returns"},
        **problem_responses(404, 409),
    },
)
async def stop_on_demand(request: Request, cloud: str, instance: str, visitor: OnDemandUser) -> Response:
    """One that has ended stays as it ended. What was offered to the federation ends there too.

    404 for one that another member started.
    """
    await member_of(request, cloud)
    if not parsing.is_id(instance):
        raise problems.not_found("instance")
    match await broker_of(request).desk.stop_on_demand(cloud, instance, visitor.origin):
        case LeaseGranted(lease=stopped):
            if visitor.guest:
                await broker_of(request).register.note(
                    visitor.who, "on-demand stopped", stopped.id, {"cloud": cloud}
                )
            return answer(Stopped(done=True, lease=stopped))
        case Done(found=True):
            return answer(Stopped(done=True))
        case None:
            return answer(Stopped(done=False), 202)
        case _:
            raise problems.not_found("instance")


@router.post(
    "/clouds/{cloud}/advance",
    summary="Trace time: let everything happen that is still to come",
    response_model=Done,
    responses=problem_responses(400, 404, 409, 413, 415, 422),
    openapi_extra=body_of("Advance", example={"finish": True}),
)
async def advance(request: Request, cloud: str, _: Operator) -> Response:
    """For federations that run in trace time: answered when the cloud's last instance has ended."""
    parsing.parse(Advance, await parsing.read_json(request))
    member = await member_of(request, cloud)
    if member.info.time != "trace":
        raise problems.invalid_field(
            "finish", "this cloud runs in wall time", "nothing: its time passes by itself"
        )
    return answer(await broker_of(request).desk.finish(cloud))


def _view(member: Member) -> CloudView:
    return CloudView(
        info=member.info,
        advert=member.advert,
        reachable=member.reachable,
        advert_age_s=member.advert_age_s,
        broken_promises=[broken for _, broken in sorted(member.broken.items())],
    )
