"""The calls about batch jobs. Somebody else's are answered as if they were not there."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query, Request
from starlette.responses import Response

from broker.api import parsing, problems
from broker.api.dependencies import (
    Caller,
    PermissionDependency,
    Reader,
    Runner,
    answer,
    begin_call,
    broker_of,
    require,
)
from broker.api.openapi import body_of, problem_responses
from broker.api.services.jobs import JobSnapshot
from broker.contract import CloudInfo
from broker.identity.permissions import Action, Principal
from broker.jobs.events import JobSubmitted
from broker.jobs.models import JobList, JobLog, JobState, JobView, JobWish

router = APIRouter(prefix="/jobs", tags=["batch jobs"])

#: A journal is read whole whenever somebody looks at its job.
LONGEST_BODY = 256 * 1024
_EXAMPLE = {
    "name": "nightly",
    "command": ["python3", "count.py", "--steps", "1000"],
    "home": "north",
    "cores": 2,
    "checkpoint": {},
    "deadline_s": 28800,
}


class RequireJobPermission(PermissionDependency):
    """Whether the caller may do this with the job in the path."""

    async def __call__(self, request: Request, who: Caller) -> JobSnapshot:
        """The job. Raises ProblemError (401, 403, 404, 429)."""
        found = await broker_of(request).jobs.find(request.path_params["job"], who)
        if found is None:
            raise problems.not_found("job")
        require(who, self.action, found.thing, "job")
        return found


ReadJob = Annotated[JobSnapshot, Depends(RequireJobPermission(Action.READ))]
OwnJob = Annotated[JobSnapshot, Depends(RequireJobPermission(Action.RUN))]


@router.post(
    "",
    summary="Have a command run as a batch job",
    status_code=201,
    response_model=JobView,
    responses=problem_responses(400, 409, 413, 415, 422),
    openapi_extra=body_of("JobWish", example=_EXAMPLE),
)
async def submit(
    request: Request,
    who: Runner,
    idempotency_key: Annotated[str | None, Header(description="names the call")] = None,
) -> Response:
    """201 with the job. Same id (or Idempotency-Key) and body: the same job, as it is now.

    It runs on spot of the clouds that run commands, and on-demand on its home, wherever it is expected to
    cost least; what becomes of it is in the job. 409 (problem:no-commands) where no cloud runs commands.
    """
    del idempotency_key  # documented here, read from the request as it is
    broker = broker_of(request)
    body = await parsing.read_json(request, LONGEST_BODY)
    key = parsing.idempotency_key(request)
    wish = parsing.parse(JobWish, body)
    submitted = parsing.job_of_holder(wish, who, key, time.time())
    if key is not None and wish.id is not None:
        await begin_call(broker, who.name, key, body)
        await broker.records.answer_call(who.name, key, "done")
    found = await broker.jobs.known(submitted)
    if found is None:
        clouds = {one.info.id: one.info for one in await broker.adverts.members()}
        found = await broker.jobs.open(placed(submitted, who, clouds), who)
    reply = answer(found, 201)
    reply.headers["Location"] = f"/v1/jobs/{found.id}"
    return reply


@router.get("", summary="Your jobs", response_model=JobList, responses=problem_responses(422))
async def listed(
    request: Request,
    who: Reader,
    state: Annotated[JobState | None, Query(description="only those that are there")] = None,
    name: Annotated[str | None, Query(description="only those of this name")] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """The latest first. Of the caller's jobs the last 5,000 are looked at."""
    return answer(await broker_of(request).jobs.listed(who, state, name, limit))


@router.get("/{job}", summary="One job", response_model=JobView, responses=problem_responses(404))
async def shown(job: str, found: ReadJob) -> Response:
    """How it stands, in a sentence; what it costs; and where it ran, why it moved and what that cost.

    A member's jobs are also found by the id that it chose.
    """
    del job  # found already
    return answer(found.view)


@router.get(
    "/{job}/logs",
    summary="What a job has written",
    response_model=JobLog,
    responses=problem_responses(404, 422),
)
async def logs(
    request: Request,
    job: str,
    found: ReadJob,
    attempt: Annotated[
        int | None, Query(ge=1, description="left out: the one that won, else the latest")
    ] = None,
    rank: Annotated[int, Query(ge=0, le=63, description="of the instance")] = 0,
    offset: Annotated[int, Query(ge=0, le=2**53, description="bytes of it that are known")] = 0,
    follow: Annotated[bool, Query(description="wait up to 20 s for more")] = False,
) -> Response:
    """Standard output and error together, from ``offset`` on. Of an attempt the last 256 kB are kept, for a
    while after its end; where ``offset`` was before that, the answer's ``offset`` is larger than asked for.
    ``attempt`` 0 in the answer: there is none yet."""
    del job  # found already
    return answer(await broker_of(request).jobs.log(found, attempt, rank, offset, follow=follow))


@router.delete(
    "/{job}", summary="Cancel a job", response_model=JobView, responses=problem_responses(404, 409)
)
async def cancelled(request: Request, job: str, who: Caller, found: OwnJob) -> Response:
    """What runs of it is stopped, then it is ``cancelled``. 409 (problem:job-ended) where it has ended."""
    del job  # found already
    return answer(await broker_of(request).jobs.cancel(found.view.id, who))


def placed(submitted: JobSubmitted, who: Principal, clouds: Mapping[str, CloudInfo]) -> JobSubmitted:
    """The job, if it can run. ``clouds``: the members. Raises ProblemError (409, 422)."""
    wish = submitted.wish
    running = sorted(one.id for one in clouds.values() if one.runs_commands)
    if not running:
        detail = (
            'no cloud of this federation runs commands: an operator turns that on with driver = "process" in '
            "the cloud's part of the federation file"
        )
        raise problems.conflict("no-commands", "No cloud runs commands", detail)
    for cloud in wish.clouds or ():
        if cloud not in running:
            said = "does not run commands" if cloud in clouds else "is no member"
            raise problems.invalid_field(
                "clouds", f"{cloud} {said}", f"null, or some of {', '.join(running)}"
            )
    own = [cloud for cloud in running if who.origins is None or cloud in who.clouds]
    accepted = f"one of {', '.join(own)}" if own else "none: no cloud of yours runs commands"
    home = submitted.home
    if home is None:
        why = "the job has none, and needs one, on which it has on-demand instances: name a cloud of yours"
        raise problems.invalid_field("home", why, accepted)
    if home not in own:
        said = "does not run commands" if home in who.clouds or who.origins is None else "is not yours"
        raise problems.invalid_field("home", f"{home} {said}", accepted)
    largest = clouds[home].largest_node
    if wish.cores > largest:
        why = f"its instances fit on no node of its home {home}"
        raise problems.invalid_field("cores", why, f"an integer from 1 to {largest}")
    return submitted
