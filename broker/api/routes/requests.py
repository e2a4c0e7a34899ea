"""The calls under ``/v1``: each reads its input, asks the service or the desk, and words the answer."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Depends, Header, Query, Request
from starlette.responses import Response

from broker.api import parsing, problems
from broker.api.container import ApiServices
from broker.api.dependencies import (
    JSON,
    Asker,
    Reader,
    Submitter,
    answer,
    begin_call,
    broker_of,
    caller,
    origins_of,
)
from broker.api.middleware import note
from broker.api.openapi import body_of, problem_responses
from broker.api.problems import ProblemError
from broker.api.routes import identity, jobs, leases, ledger, operations, webhooks
from broker.api.schemas.on_demand import OnDemandOffer
from broker.api.schemas.requests import Admission, ListedResult, ListedResults, Quotes
from broker.api.stream import event_stream
from broker.contract import QuoteRequest, SpotRequest
from broker.identity.permissions import Principal
from broker.requests.models import RequestAnswer
from broker.requests.submit import Result

log = logging.getLogger(__name__)

_EXAMPLE = {"cores": 2, "lifetime_s": 7200, "sla": 0.05}


router = APIRouter(
    prefix="/v1", dependencies=[Depends(caller)], responses=problem_responses(401, 403, 429, 503)
)
router.include_router(leases.router)
router.include_router(operations.router)
router.include_router(ledger.router)
router.include_router(webhooks.router)
router.include_router(jobs.router)
router.include_router(identity.router)


# -- requests ---------------------------------------------------------------------------------------------


@router.post(
    "/requests",
    summary="Ask the federation for spot instances",
    status_code=201,
    response_model=Admission,
    responses={
        200: {"model": ListedResults, "description": "a list: one result an item, in order"},
        **problem_responses(400, 409, 413, 415, 422),
    },
    openapi_extra=body_of("SpotRequest", "a list of them", example=_EXAMPLE),
)
async def submit(
    request: Request,
    who: Submitter,
    idempotency_key: Annotated[str | None, Header(description="names the call; items go by their id")] = None,
) -> Response:
    """One request: 201 with the lease, or 409 with a refusal a cloud, what would be accepted instead, and
    where it could be had on-demand now. Same id and body: same answer.

    A list of up to 5,000: 200 with one result each.
    """
    del idempotency_key  # documented here, read from the request as it is
    broker = broker_of(request)
    body = await parsing.read_json(request)
    key = parsing.idempotency_key(request)
    if parsing.is_list(body):
        if key is not None:
            await begin_call(broker, who.name, key, body)
        answer = await _submit_list(broker, parsing.parse_list(body), who, key)
        if key is not None:
            await broker.records.answer_call(who.name, key, "done")
        return answer
    wish = parsing.parse(SpotRequest, body)
    named = parsing.of_holder(wish, who, key)
    if key is not None and wish.id is not None:
        await begin_call(broker, who.name, key, body)
        await broker.records.answer_call(who.name, key, "done")
    note(request=named.id)
    log.info("asked")
    (result,) = await broker.service.submit([named], who.name)
    if not isinstance(result, RequestAnswer):
        raise result
    if result.lease is None:
        (on_demand,) = await broker.desk.on_demand([named])
        raise problems.refused(result.refusals, on_demand)
    note(lease=result.lease.id, cloud=result.lease.cloud)
    headers = {"Location": f"/v1/leases/{quote(result.lease.id)}"}
    return Response(result.model_dump_json(), 201, headers, JSON)


async def _submit_list(
    broker: ApiServices, sent: Sequence[SpotRequest | ProblemError], who: Principal, key: str | None
) -> Response:
    items = [_of_holder(item, who, key, index) for index, item in enumerate(sent)]
    wishes = {index: item for index, item in enumerate(items) if isinstance(item, SpotRequest)}
    note(requests=len(sent))
    log.info("asked")
    settled = await broker.service.submit(list(wishes.values()), who.name)
    by_index = dict(zip(wishes, settled, strict=True))
    refused = [
        index for index, one in by_index.items() if isinstance(one, RequestAnswer) and one.lease is None
    ]
    offers = await broker.desk.on_demand([wishes[index] for index in refused])
    on_demand = dict(zip(refused, offers, strict=True))
    results = [
        _listed(item if isinstance(item, ProblemError) else by_index[index], on_demand.get(index, ()))
        for index, item in enumerate(items)
    ]
    return Response(ListedResults(results=results).model_dump_json(), 200, media_type=JSON)


def _of_holder(
    item: SpotRequest | ProblemError, who: Principal, key: str | None, index: int
) -> SpotRequest | ProblemError:
    if isinstance(item, ProblemError):
        return item
    try:
        return parsing.of_holder(item, who, key, index)
    except ProblemError as problem:
        return problem


def _listed(result: Result | ProblemError, on_demand: Sequence[OnDemandOffer]) -> ListedResult:
    if not isinstance(result, RequestAnswer):
        return ListedResult(problem=problems.translate(result).problem)
    if result.lease is not None:
        return ListedResult(lease=result.lease, refusals=result.refusals)
    problem = problems.refused(result.refusals, on_demand).problem
    return ListedResult(problem=problem.model_copy(update={"refusals": None}), refusals=result.refusals)


@router.post(
    "/quotes",
    summary="Ask what would be promised, without side effects",
    response_model=Quotes,
    responses=problem_responses(400, 413, 415, 422),
    openapi_extra=body_of("QuoteRequest", example=_EXAMPLE | {"cores": [1, 2, 4]}),
)
async def quotes(request: Request, who: Asker) -> Response:
    """The same code path as a request, dry: quotes in the order in which clouds would be asked; refusals.

    ``cores`` may be a list of sizes: then the quotes of the first size come first, and so on.
    """
    broker = broker_of(request)
    wish = parsing.quote_of_holder(parsing.parse(QuoteRequest, await parsing.read_json(request)), who)
    return answer(await broker.desk.quotes(wish, await broker.holding(wish.origin)))


# -- events -----------------------------------------------------------------------------------------------


@router.get(
    "/events",
    summary="Public events of the leases that are yours, as they happen",
    responses={
        200: {"content": {"text/event-stream": {}}, "description": "server-sent events; data is an Event"},
        **problem_responses(410, 422),
    },
    response_class=Response,
)
async def events(
    request: Request,
    who: Reader,
    cloud: Annotated[str | None, Query(max_length=64)] = None,
    origin: Annotated[str | None, Query(max_length=64)] = None,
    follow: Annotated[bool, Query(description="false: end after the last event there is")] = True,
    last_event_id: Annotated[str | None, Header(description="resume after this event")] = None,
) -> Response:
    """Operators get those of all. Ids are of the merged stream; a cloud's own sequence is in the event.

    Without Last-Event-ID: from now on, or, with follow=false, from the oldest that is kept.
    """
    broker, authorization = broker_of(request), request.headers.get("authorization")

    async def let_in() -> None:
        await broker.authenticator.principal(authorization)

    return await event_stream(
        broker.streaming,
        broker.keys,
        last_event_id=last_event_id,
        cloud=cloud,
        origins=origins_of(who, origin),
        follow=follow,
        let_in=let_in,
    )
