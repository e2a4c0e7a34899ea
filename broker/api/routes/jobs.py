"""Serves batch jobs. A job of another member is answered as if it did not exist."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Annotated

from fastapi import Depends, Header, Query, Request
from starlette.responses import Response

from broker.api import attribution, parsing, problems
from broker.api.dependencies import (
    Caller,
    PermissionDependency,
    Reader,
    Runner,
    Services,
    bind_key,
    json_response,
    require,
    v1_router,
)
from broker.api.openapi import document_body, problem_responses
from broker.api.services.jobs import JobSnapshot
from broker.contract import CloudInfo
from broker.identity.permissions import Action, Principal
from broker.jobs.events import JobSubmitted
from broker.jobs.models import JobFiles, JobList, JobLog, JobState, JobView, JobWish

router = v1_router("/jobs", tags=["batch jobs"])

LONGEST_BODY = 256 * 1024  # a job's journal, which holds its body, is read whole each time
_EXAMPLE = {
    "name": "nightly",
    "command": ["python3", "count.py", "--steps", "1000"],
    "home": "north",
    "cores": 2,
    "checkpoint": {},
    "deadline_s": 28800,
}


class RequireJobPermission(PermissionDependency):
    """Checks that the caller may perform the action with the job in the path.

    Raises ProblemError (401, 403, 404, 429).
    """

    async def __call__(self, request: Request, services: Services, who: Caller) -> JobSnapshot:
        """Return the job."""
        snapshot = await services.jobs.find(request.path_params["job"], who)
        if snapshot is None:
            raise problems.not_found("job")
        require(who, self.action, snapshot.protected, "job")
        return snapshot


ReadJob = Annotated[JobSnapshot, Depends(RequireJobPermission(Action.READ))]
OwnJob = Annotated[JobSnapshot, Depends(RequireJobPermission(Action.RUN))]


@router.post(
    "",
    summary="Have a command run as a batch job",
    status_code=201,
    response_model=JobView,
    responses=problem_responses(400, 408, 409, 413, 415, 422),
    openapi_extra=document_body(JobWish, example=_EXAMPLE),
)
async def submit(
    request: Request,
    services: Services,
    who: Runner,
    idempotency_key: Annotated[str | None, Header(description="names the call")] = None,
) -> Response:
    """Submit a job: 201 with the job.

    The same id (or Idempotency-Key) and body get the same job, as it is now. It runs on spot of the clouds
    that run commands, and on-demand on its home, wherever it is expected to cost least. Its view shows what
    becomes of it. 409 (problem:no-commands) where no cloud runs commands.
    """
    del idempotency_key  # documented here; parsing.idempotency_key reads and checks the header
    body = await parsing.read_json(request, LONGEST_BODY)
    key = parsing.idempotency_key(request)
    job_request = parsing.parse(JobWish, body)
    submitted = attribution.attribute_job(job_request, who, key, time.time())
    if key is not None and job_request.id is not None:
        await bind_key(services, who.name, key, body)
    job = await services.jobs.find_submitted(submitted)
    if job is None:
        clouds = {member.info.id: member.info for member in await services.membership.members()}
        submitted = find_home(submitted, who, clouds)
        require_placeable(submitted, who, clouds)
        job = await services.jobs.open(submitted, who)
    return json_response(job, 201, location=f"/v1/jobs/{job.id}")


@router.get("", summary="Your jobs", response_model=JobList, responses=problem_responses(422))
async def listed(
    services: Services,
    who: Reader,
    state: Annotated[JobState | None, Query(description="only those that are there")] = None,
    name: Annotated[str | None, Query(description="only those of this name")] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """List your jobs, the latest first; only the last 5,000 are considered."""
    return json_response(await services.jobs.list_jobs(who, state, name, limit))


@router.get("/{job}", summary="One job", response_model=JobView, responses=problem_responses(404))
async def shown(job: str, snapshot: ReadJob) -> Response:
    """Return a job: its state in a sentence, its cost, and where it ran, why it moved and what that cost.

    A member's jobs are also found by the id that it chose.
    """
    del job  # snapshot holds it
    return json_response(snapshot.view)


@router.get(
    "/{job}/logs",
    summary="What a job has written",
    response_model=JobLog,
    responses=problem_responses(404, 422),
)
async def logs(
    services: Services,
    job: str,
    snapshot: ReadJob,
    attempt: Annotated[
        int | None, Query(ge=1, description="left out: the one that won, else the latest")
    ] = None,
    rank: Annotated[int, Query(ge=0, le=63, description="of the instance")] = 0,
    offset: Annotated[int, Query(ge=0, le=2**53, description="bytes of it that are known")] = 0,
    follow: Annotated[bool, Query(description="wait up to 20 s for more")] = False,
) -> Response:
    """Return standard output and error together, from ``offset`` on.

    The last 256 kB of an attempt are kept, for a while after its end; if ``offset`` was before that, the
    answer's ``offset`` is larger than the one asked for. ``attempt`` 0 in the answer: there is none yet.
    """
    del job  # snapshot holds it
    return json_response(await services.jobs.read_log(snapshot, attempt, rank, offset, follow=follow))


@router.get(
    "/{job}/files",
    summary="The files of a job",
    response_model=JobFiles,
    responses=problem_responses(404, 409, 422),
)
async def files(
    services: Services,
    job: str,
    snapshot: ReadJob,
    attempt: Annotated[
        int | None, Query(ge=1, description="left out: the one that won, else the latest")
    ] = None,
    rank: Annotated[int, Query(ge=0, le=63, description="of the instance")] = 0,
) -> Response:
    """Return where the directory of a job can be read, as it was last saved.

    It is an archive (tar) in parts. When a job is done, its directory is saved. 409 (problem:no-bucket) where
    the states of jobs are not kept in a bucket.
    """
    del job  # snapshot holds it
    return json_response(await services.jobs.find_files(snapshot, attempt, rank))


@router.delete(
    "/{job}", summary="Cancel a job", response_model=JobView, responses=problem_responses(404, 409)
)
async def cancelled(services: Services, job: str, who: Caller, snapshot: OwnJob) -> Response:
    """Stop what runs of a job; then it is ``cancelled``. 409 (problem:job-ended) if it has ended."""
    del job  # snapshot holds it
    return json_response(await services.jobs.cancel(snapshot.view.id, who))


def find_home(submitted: JobSubmitted, who: Principal, clouds: Mapping[str, CloudInfo]) -> JobSubmitted:
    """Return a job with a home: where it has none, the only cloud of the caller that runs commands."""
    own = _list_own(who, clouds)
    return submitted if submitted.home or len(own) != 1 else submitted.model_copy(update={"home": own[0]})


def _list_own(who: Principal, clouds: Mapping[str, CloudInfo]) -> list[str]:
    """Return the clouds that run commands and are the caller's, which may have on-demand instances there."""
    running = (info.id for info in clouds.values() if info.runs_commands)
    return sorted(cloud for cloud in running if who.origins is None or cloud in who.clouds)


def require_placeable(submitted: JobSubmitted, who: Principal, clouds: Mapping[str, CloudInfo]) -> None:
    """Raise ProblemError (409, 422) unless the job can run on ``clouds``, the members by id."""
    job_request = submitted.wish
    running = sorted(info.id for info in clouds.values() if info.runs_commands)
    if not running:
        detail = (
            'no cloud of this federation runs commands: an operator turns that on with driver = "process" in '
            "the cloud's part of the federation file or, for a real cloud, with the table instances.jobs"
        )
        raise problems.conflict("no-commands", "No cloud for commands", detail)
    for cloud in job_request.clouds or ():
        if cloud not in running:
            reason = "does not run commands" if cloud in clouds else "is no member"
            raise problems.invalid_field(
                "clouds", f"{cloud} {reason}", f"null, or some of {', '.join(running)}"
            )
    own = _list_own(who, clouds)
    accepted = f"one of {', '.join(own)}" if own else "none: no cloud of yours runs commands"
    home = submitted.home
    if home is None:
        reason = "the job has none, and needs one, on which it has on-demand instances: name a cloud of yours"
        raise problems.invalid_field("home", reason, accepted)
    if home not in own:
        reason = "does not run commands" if home in who.clouds or who.origins is None else "is not yours"
        raise problems.invalid_field("home", f"{home} {reason}", accepted)
    largest = clouds[home].largest_node
    if job_request.cores > largest:
        reason = f"its instances fit on no node of its home {home}"
        raise problems.invalid_field("cores", reason, f"an integer from 1 to {largest}")
