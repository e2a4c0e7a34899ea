"""Takes requests for spot instances, one or a list."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Annotated
from urllib.parse import quote

from fastapi import Header, Request
from pydantic import TypeAdapter
from starlette.responses import Response

from broker.api import attribution, parsing, problems
from broker.api.container import ApiServices
from broker.api.dependencies import (
    DirectRoute,
    Services,
    Submitter,
    bind_key,
    json_response,
    v1_router,
)
from broker.api.middleware import add_log_fields
from broker.api.openapi import document_body, problem_responses
from broker.api.problems import ProblemError
from broker.contract import SpotRequest, SpotRequests
from broker.identity.permissions import Principal
from broker.requests.errors import SubmitError
from broker.requests.models import RequestAnswer
from broker.requests.submit import Result
from broker.schemas.on_demand import OnDemandOffer
from broker.schemas.requests import Admission, Admissions, ListedResult, ListedResults

log = logging.getLogger(__name__)

router = v1_router(route_class=DirectRoute)

_spot_requests = TypeAdapter(list[SpotRequest])


@router.post(
    "/requests",
    summary="Ask the federation for spot instances",
    status_code=201,
    response_model=Admission | Admissions,
    responses={
        200: {"model": ListedResults, "description": "a list: one result an item, in order"},
        **problem_responses(400, 408, 409, 413, 415, 422),
    },
    openapi_extra=document_body(
        SpotRequest,
        SpotRequests,
        example={"cores": 2, "lifetime_s": 7200, "sla": 0.05},
        list_description="a list of them",
    ),
)
async def submit(
    request: Request,
    services: Services,
    who: Submitter,
    idempotency_key: Annotated[str | None, Header(description="names the call; items go by their id")] = None,
) -> Response:
    """Submit one request, or a list of up to 5,000, or up to 100 with ``all_or_nothing``.

    One request is answered with 201 and the lease, or with 409 and a refusal a cloud, what would be accepted
    instead, and where it could be had on-demand now. The same id and body get the same answer. A list is
    answered with 200 and one result each. Of requests with ``all_or_nothing`` all are admitted, on whichever
    clouds, and answered with 201 and the leases in order; or none is, and the answer is 409 with the refusals
    of those that no cloud admits. Each lease is promised the SLA of its own request, and ends by itself.
    """
    del idempotency_key  # documented here; parsing.idempotency_key reads and checks the header
    body = await parsing.read_json(request)
    key = parsing.idempotency_key(request)
    if parsing.is_list(body):
        return await _submit_list(services, who, body, key)
    if parsing.is_group(body):
        return await _submit_together(services, who, body, key)
    spot_request = parsing.parse(SpotRequest, body)
    attributed = attribution.attribute_request(spot_request, who, key)
    if key is not None and spot_request.id is not None:
        await bind_key(services, who.name, key, body)
    add_log_fields(request=attributed.id)
    log.debug("asked")
    (result,) = await services.submissions.submit([attributed], who.name)
    if not isinstance(result, RequestAnswer):
        raise result
    if result.lease is None:
        (offers,) = await services.quotes.on_demand_offers([attributed])
        raise problems.refused(result.refusals, offers)
    add_log_fields(lease=result.lease.id, cloud=result.lease.cloud)
    return json_response(result, 201, location=f"/v1/leases/{quote(result.lease.id)}")


async def _submit_together(services: ApiServices, who: Principal, body: bytes, key: str | None) -> Response:
    group = parsing.parse(SpotRequests, body)
    requests = [
        attribution.attribute_request(request, who, key, index)
        for index, request in enumerate(group.requests)
    ]
    parsing.check_different_ids(requests)
    add_log_fields(requests=len(requests))
    if key is None:
        return await _answer_together(services, who, requests)
    async with services.idempotency.hold(who.name, key, attribution.fingerprint(body)):
        return await _answer_together(services, who, requests)


async def _answer_together(
    services: ApiServices, who: Principal, requests: Sequence[SpotRequest]
) -> Response:
    log.debug("asked")
    results = await services.submissions.submit_together(requests, who.name)
    answers: list[RequestAnswer] = []
    for result in results:
        if isinstance(result, SubmitError | ValueError):
            raise result
        answers.append(result)
    leases = [answer.lease for answer in answers if answer.lease is not None]
    if len(leases) == len(answers):
        return json_response(Admissions(leases=leases), 201)
    raise problems.refused_together([answer.refusals for answer in answers if answer.lease is None])


async def _submit_list(services: ApiServices, who: Principal, body: bytes, key: str | None) -> Response:
    parsed = parsing.parse_list(_spot_requests, SpotRequest, body)
    items = [_attribute_item(item, who, key, index) for index, item in enumerate(parsed)]
    add_log_fields(requests=len(items))
    if key is None:
        return await _answer_list(services, who, items)
    async with services.idempotency.hold(who.name, key, attribution.fingerprint(body)):
        return await _answer_list(services, who, items)


async def _answer_list(
    services: ApiServices, who: Principal, items: Sequence[SpotRequest | ProblemError]
) -> Response:
    requests = {index: item for index, item in enumerate(items) if isinstance(item, SpotRequest)}
    log.debug("asked")
    settled = await services.submissions.submit(list(requests.values()), who.name)
    by_index = dict(zip(requests, settled, strict=True))
    refused = [
        index
        for index, result in by_index.items()
        if isinstance(result, RequestAnswer) and result.lease is None
    ]
    offers = await services.quotes.on_demand_offers([requests[index] for index in refused])
    offers_of = dict(zip(refused, offers, strict=True))
    results = [
        _listed_result(item if isinstance(item, ProblemError) else by_index[index], offers_of.get(index, ()))
        for index, item in enumerate(items)
    ]
    return json_response(ListedResults(results=results))


def _attribute_item(
    item: SpotRequest | ProblemError, who: Principal, key: str | None, index: int
) -> SpotRequest | ProblemError:
    if isinstance(item, ProblemError):
        return item
    try:
        return attribution.attribute_request(item, who, key, index)
    except ProblemError as problem:
        return problem


def _listed_result(result: Result | ProblemError, offers: Sequence[OnDemandOffer]) -> ListedResult:
    if not isinstance(result, RequestAnswer):
        return ListedResult(problem=problems.translate(result).problem)
    if result.lease is not None:
        return ListedResult(lease=result.lease, refusals=result.refusals)
    problem = problems.refused(result.refusals, offers).problem
    return ListedResult(problem=problem.model_copy(update={"refusals": None}), refusals=result.refusals)
