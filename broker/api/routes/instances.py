"""Serves the node agents on instances of real clouds. Their token is no API key, and opens nothing else."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from broker.api.dependencies import Services, api_services, json_response
from broker.api.middleware import add_log_fields
from broker.api.openapi import document_body, problem_responses
from broker.api.parsing import JsonBody
from broker.api.services.instances import InstanceCall
from broker.jobs.models import InstanceOutput, InstanceReport, InstanceWork, StateLinks, StateRequest

router = APIRouter(
    prefix="/v1/instance",
    tags=["node agents on instances"],
    responses=problem_responses(401, 404, 422, 429, 503, 507),
)


async def begin_instance_call(request: Request) -> InstanceCall:
    """Find what the token of a call stands for, and count the call until its answer was sent.

    Raises ProblemError (401, 429).
    """
    services = await api_services(request)
    call = await services.instances.authenticate(request.headers.get("authorization"))
    holder = f"instance/{call.token.work}"
    add_log_fields(principal=holder)
    request.state.open_call = services.call_limits.open_call(holder)
    return call


OnInstance = Annotated[InstanceCall, Depends(begin_instance_call)]


@router.get("/work", summary="What the agent on an instance is to run", response_model=InstanceWork)
async def work(
    services: Services,
    call: OnInstance,
    version: Annotated[
        str | None, Query(max_length=64, description="wait up to 20 s for another one")
    ] = None,
) -> Response:
    """Return the work of an instance and its lease. 401: the lease has ended, and the agent ends, too."""
    return json_response(await services.instances.read_work(call, version))


@router.post(
    "/report",
    summary="How the work on an instance stands",
    status_code=204,
    response_class=Response,
    openapi_extra=document_body(
        InstanceReport, example={"report": {"work": "nightly.1.0", "state": "running", "at": 1785000000.0}}
    ),
)
async def report(
    services: Services, call: OnInstance, body: Annotated[InstanceReport, JsonBody.of(InstanceReport)]
) -> Response:
    """Keep the report of an agent, for job managers."""
    await services.instances.write_report(call, body)
    return Response(status_code=204)


@router.post(
    "/output",
    summary="What the work on an instance has written",
    status_code=204,
    response_class=Response,
    openapi_extra=document_body(InstanceOutput, example={"offset": 0, "part": "aGVsbG8K"}),
)
async def output(
    services: Services, call: OnInstance, body: Annotated[InstanceOutput, JsonBody.of(InstanceOutput)]
) -> Response:
    """Keep the last part of the output, at most 256 kB."""
    await services.instances.write_output(call, body)
    return Response(status_code=204)


@router.post(
    "/states",
    summary="Addresses of saved states",
    response_model=StateLinks,
    responses=problem_responses(409),
    openapi_extra=document_body(
        StateRequest,
        example={"action": "write", "work": "nightly.1.0", "checkpoint": 1, "files": ["part-00000"]},
    ),
)
async def states(
    services: Services, call: OnInstance, body: Annotated[StateRequest, JsonBody.of(StateRequest)]
) -> Response:
    """Return addresses by which files of a saved state are read or written, in the federation's bucket.

    An agent writes states of its own work, and reads the one that its work begins with.
    """
    return json_response(await services.instances.sign(call, body))
