"""Errors as RFC 9457 problems: one table from exceptions to what callers are answered.

``type`` is a stable URN (``urn:spotfed:problem:<name>``) to branch on; ``title`` names the kind of problem;
``detail`` is for people and says what to do next. A value that was sent is never repeated: it may be long, or
a secret.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

import redis
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from pydantic_core import ErrorDetails
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import compile_path

from broker.contract import CounterOffers, RefusalView
from broker.identity.permissions import Role
from broker.observability import request_id
from broker.requests.errors import (
    InFlightError,
    NoMembersError,
    ReusedError,
    SetAsideError,
    SilentError,
    UnsuitableError,
)
from broker.requests.routing import UnfittableError, UnknownTargetError
from broker.schemas.on_demand import OnDemandOffer
from broker.schemas.problems import FieldError, Problem
from broker.storage.connections import DemotedError

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
_URN = "urn:spotfed:problem:"

_ID = "letters, digits and . _ : @ / -, beginning with a letter or digit, at most 128 characters"
_CLOUD = "letters, digits, _ and -, beginning with a letter or digit, at most 64 characters"
_NAME = "letters, digits and . _ / -, beginning with a letter or digit, at most 64 characters"
ACCEPTED = {
    "id": f"null, or {_ID}",
    "origin": f"the id of a cloud: {_CLOUD}",
    "cores": "an integer from 1 to 1000000",
    "lifetime_s": "seconds as a number, more than 0 and at most 3200000000",
    "sla": "the largest acceptable probability of eviction, a number from 0 to 1; null or 1: no guarantee",
    "targets": "null, or a list of ids of member clouds (see GET /v1/clouds)",
    "resources": f'whole numbers by name, such as {{"memory_mb": 4000}}, beside cores; names: {_NAME}',
    "labels": f'texts by name, such as {{"zone": "north"}}; both: {_NAME}',
    "group": f"null, or {_NAME}",
    "spread": "null, apart or together, with a group",
    "launch": "null, or what a real cloud runs: image, instance_type, key (a public key of SSH), networks, "
    "security_groups, tags, user_data, arguments, environment",
    "all_or_nothing": "true",
    "requests": "1 to 100 requests",
    "until_s": "an end in seconds of the cloud's time, later than the present one; it or lifetime_s",
    "at_s": "seconds as a number from 0 to 3200000000; only where the federation runs in trace time",
    "state": "one of booked, reserved, running, completed, evicted, cancelled, failed",
    "limit": "an integer from 1 to 1000",
    "cursor": "nothing, or what next was in the answer before",
    "by": "nothing, or some of cloud, origin, sla and table, with commas between them",
    "finish": "true",
    "nodes": "null for all, or a list of numbers of nodes, counted from 0",
    "node": "the number of a node, counted from 0",
    "dry_run": "true or false",
    "paused": "true or false",
    "url": "an https URL without user and fragment, at most 2048 characters, its host at public addresses",
    "kinds": "null, or a list of kinds of public events, such as evicted",
    "origins": "null, or a list of 1 to 128 ids",
    "description": "at most 200 characters",
    "Last-Event-ID": "an id of this stream, such as 1700000000000-0, or a time in milliseconds since 1970",
    "Idempotency-Key": "1 to 255 printable ASCII characters",
    "name": "letters, digits, _ and -, beginning with a letter or digit, at most 40 characters",
    "principal": "a member, such as acme, or a part of it, such as acme/ci; of operators any such name",
    "clouds": "null, or a list of up to 64 ids of clouds",
    "role": "one of operator, runner, member, viewer",
    "spot_cores": "null for no cap, or an integer from 0 to 100000000",
    "spot_instances": "null for no cap, or an integer from 0 to 100000000",
    "grace_s": "seconds as a number from 0 to 2592000 (30 days)",
}


#: Fields that accept something else where a lease is extended.
_ACCEPTED_BY_EXTENSIONS = {
    "sla": "null for the lease's own, or a number from 0 to below 1",
    "lifetime_s": "the whole lifetime since the start, longer than the present one; it or until_s",
}


class ProblemError(Exception):
    """Ends a call with a problem, and with headers beside it."""

    def __init__(self, problem: Problem, headers: Mapping[str, str] | None = None):
        self.problem, self.headers = problem, dict(headers or {})
        super().__init__(problem.detail)

    def response(self) -> Response:
        """Return the response that the caller gets."""
        body = self.problem.model_dump_json(exclude_none=True)
        return Response(body, self.problem.status, self.headers, MEDIA_TYPE)


def _problem(name: str, status: int, title: str, detail: str, **members: Any) -> Problem:
    return Problem(type=_URN + name, title=title, status=status, detail=detail, **members)


def _later(name: str, title: str, detail: str, status: int = 503) -> ProblemError:
    """Return a problem that the same call, made again a second later, may not have."""
    return ProblemError(_problem(name, status, title, detail), {"Retry-After": "1"})


def unauthorized(detail: str) -> ProblemError:
    """Return the 401 for a call without a key, or with an unknown one."""
    return ProblemError(
        _problem("unauthorized", 401, "Missing or unknown API key", detail),
        {"WWW-Authenticate": 'Bearer realm="spotfed"'},
    )


def forbidden(least: Role) -> ProblemError:
    """Return the 403 for a role that is too small; ``least`` is the smallest role that may make the call."""
    more = "" if least is Role.OPERATOR else ", or one that may more"
    detail = f"the role of this API key does not allow this: use a key with the role {least}{more}"
    return ProblemError(_problem("forbidden", 403, "Insufficient role", detail))


def too_many_calls(calls_per_s: int) -> ProblemError:
    """Return the 429 for a key that made more than ``calls_per_s`` calls in a second."""
    detail = f"this key may make {calls_per_s} calls a second: wait, or send requests as a list in one call"
    return _later("too-many-calls", "Too many calls", detail, 429)


def too_many_open_calls(limit: int) -> ProblemError:
    """Return the 429 for a member with ``limit`` calls under way in this process."""
    detail = f"{limit} calls of your member are under way here, as many as may be: wait until some have ended"
    return _later("too-many-open-calls", "Too many calls under way", detail, 429)


def too_many_streams(limit: int) -> ProblemError:
    """Return the 429 for a member with ``limit`` open event streams in this process."""
    detail = f"your member has {limit} event streams open here, as many as it may have: close one first"
    return _later("too-many-streams", "Too many event streams", detail, 429)


def too_many_bytes(limit: int) -> ProblemError:
    """Return the 429 for bodies that hold more than ``limit`` bytes together."""
    detail = f"the bodies of calls under way hold {limit} bytes, as many as they may: send fewer at a time"
    return _later("too-many-bytes", "Too much at a time", detail, 429)


def body_too_slow(limit_s: float) -> ProblemError:
    """Return the 408 for a body that is not whole after ``limit_s`` seconds."""
    detail = f"the body was not whole {limit_s:g} seconds after it began: send long lists in parts"
    return ProblemError(_problem("body-too-slow", 408, "Slow body", detail), {"Connection": "close"})


def not_found(kind: str) -> ProblemError:
    """Return the 404 for an object that does not exist, or is another member's; ``kind``: such as "lease"."""
    return ProblemError(_problem("not-found", 404, "Unknown object", f"there is no such {kind}"))


def invalid(errors: Iterable[FieldError]) -> ProblemError:
    """Return the 422 for fields that cannot be used."""
    errors = list(errors)
    detail = "; ".join(f"{error.field}: {error.message}" for error in errors[:5])
    return ProblemError(_problem("invalid", 422, "Invalid input", detail, errors=errors))


def invalid_field(field: str, message: str, accepted: str | None = None) -> ProblemError:
    """Return the 422 for one field that cannot be used."""
    return invalid([FieldError(field=field, message=message, accepted=accepted or ACCEPTED.get(field))])


def malformed(detail: str) -> ProblemError:
    """Return the 400 for a body that is not JSON at all."""
    return ProblemError(_problem("malformed", 400, "Malformed JSON", detail))


def unsupported_media_type() -> ProblemError:
    """Return the 415 for a body that is not declared as JSON."""
    detail = "send the body as JSON, with the header Content-Type: application/json"
    return ProblemError(_problem("unsupported-media-type", 415, "Unsupported media type", detail))


def too_long(limit: int) -> ProblemError:
    """Return the 413 for a body of more than ``limit`` bytes."""
    detail = f"a body may have at most {limit} bytes: send long lists in parts"
    return ProblemError(_problem("body-too-large", 413, "Oversized body", detail))


def refused(refusals: list[RefusalView], on_demand: Sequence[OnDemandOffer] = ()) -> ProblemError:
    """Return the 409 for a request that no cloud admits; ``on_demand``: offers of on-demand instead."""
    offers = [refusal.counter_offers for refusal in refusals]
    best = CounterOffers(
        lifetime_s=max((offer.lifetime_s for offer in offers if offer.lifetime_s), default=None),
        sla=min((offer.sla for offer in offers if offer.sla is not None and offer.sla < 1), default=None),
        cores=max((offer.cores for offer in offers if offer.cores), default=None),
    )
    asked = len(refusals)
    detail = "no cloud could be asked" if not asked else f"refused by all of {asked}; see refusals for why"
    if best != CounterOffers():
        detail += "; counter_offers holds what would be accepted instead, under a new id"
    if on_demand:
        detail += "; on_demand tells where it can be had on-demand: POST it to /v1/clouds/{cloud}/on-demand"
    members = {"refusals": refusals, "counter_offers": best, "on_demand": list(on_demand) or None}
    return ProblemError(_problem("refused", 409, "Refused request", detail, **members))


def refused_together(refusals: Sequence[Sequence[RefusalView]]) -> ProblemError:
    """Return the 409 for requests of which none is admitted; ``refusals``: those of each request.

    A request without refusals failed only because of the others.
    """
    failed = sum(1 for of_request in refusals if of_request)
    detail = (
        f"none of the {len(refusals)} is admitted, as no cloud admits {failed} of them; see refusals for why"
        if failed
        else f"none of the {len(refusals)} is admitted: it was interrupted; ask again with new ids"
    )
    together = [refusal for of_request in refusals for refusal in of_request]
    return ProblemError(_problem("refused", 409, "Refused request", detail, refusals=together))


def in_flight() -> ProblemError:
    """Return the 409 for a request that is still being answered."""
    detail = "a request with this id is still being answered: ask again with the same id and body"
    return _later("in-flight", "Request in flight", detail, 409)


def exists(kind: str) -> ProblemError:
    """Return the 409 for a name that is taken."""
    detail = f"there is a {kind} of this name: choose another one, or change that one"
    return ProblemError(_problem("exists", 409, "Name in use", detail))


def not_noticed() -> ProblemError:
    """Return the 409 for a lease that cannot be acknowledged, as it is not under notice."""
    detail = "this lease is not under notice: DELETE it if it is not needed any more"
    return ProblemError(_problem("not-noticed", 409, "Lease not under notice", detail))


def conflict(name: str, title: str, detail: str) -> ProblemError:
    """Return a 409 of the kind ``name``: the present state does not allow the call."""
    return ProblemError(_problem(name, 409, title, detail))


def key_reused() -> ProblemError:
    """Return the 422 for an id or key that was used with another body before."""
    detail = "this id or Idempotency-Key was used with another body before: choose a new one"
    return ProblemError(_problem("key-reused", 422, "Reused id or key", detail))


def events_gone(resume_after: str) -> ProblemError:
    """Return the 410 for events that are no longer kept; ``resume_after``: the id of the newest one."""
    detail = (
        "events after this Last-Event-ID are no longer kept: read GET /v1/leases and GET /v1/clouds for what "
        "is true now, then follow the events with the Last-Event-ID that resume_after names"
    )
    members = {"resume_after": resume_after, "snapshot": ("/v1/leases", "/v1/clouds")}
    return ProblemError(_problem("events-gone", 410, "Events no longer kept", detail, **members))


def owner_silent(cloud: str) -> ProblemError:
    """Return the 503 for an owner that did not answer in time; it will still carry out the command."""
    detail = (
        f"the owner of {cloud} did not answer in time; the command is kept and will be carried out once: "
        "ask again with the same id to learn the answer"
    )
    return _later("owner-silent", "Silent cloud owner", detail)


def set_aside(cloud: str) -> ProblemError:
    """Return the 409 for an owner that failed over the command, which is not carried out."""
    detail = (
        f"the owner of {cloud} failed over this command and has set it aside; nothing was done, and asking "
        "again will not help before its operators have looked into it (spotfed dlq)"
    )
    return ProblemError(_problem("set-aside", 409, "Command set aside", detail))


def bucket_away(error: Exception) -> ProblemError:
    """Return the 503 for a store of saved states that does not answer."""
    log.error("the bucket of saved states: %s", error)
    return _later("bucket-away", "Bucket unavailable", "the bucket of saved states does not answer")


def no_bucket() -> ProblemError:
    """Return the 409 for a federation that keeps the states of jobs in a directory."""
    detail = (
        "states of jobs are in a directory of the node agents (SPOTFED_JOBS_DIR), and in no bucket: an "
        "operator sets SPOTFED_JOBS_BUCKET"
    )
    return conflict("no-bucket", "No bucket for states", detail)


def not_ready(detail: str) -> ProblemError:
    """Return the 503 for a federation that cannot work yet."""
    return _later("not-ready", "Federation not ready", detail)


def _queue_away(_: Exception) -> ProblemError:
    detail = "the queue (Redis) does not answer; nothing admitted is lost: ask again with the same id"
    return _later("queue-away", "Queue unavailable", detail)


def _queue_demoted(error: Exception) -> ProblemError:
    log.error("%s", error)
    detail = (
        "the queue (Redis) is a replica now and takes no writes; this process connects anew, to find the "
        "server that does: ask again with the same id"
    )
    return _later("queue-read-only", "Queue takes no writes", detail)


def _queue_refused(error: Exception) -> ProblemError:
    """Return the problem for a command that Redis answers with an error."""
    log.error("Redis refused a command: %s", error)
    text = str(error)
    if isinstance(error, redis.OutOfMemoryError) or "OOM " in text:
        detail = "the memory of the queue (Redis) is full, and nothing was changed: raise its maxmemory"
        return _later("queue-full", "Queue full", detail, 507)
    if text.startswith("MISCONF"):
        detail = "the queue (Redis) cannot write to its disk, and nothing was changed: is the disk full?"
        return _later("queue-full", "Queue full", detail, 507)
    detail = "the queue (Redis) answers, and refuses what it is asked; the log of the API says why"
    return _later("queue-refused", "Queue refused", detail)


def _pool_exhausted(error: Exception) -> ProblemError:
    log.error("%s", error)
    detail = "all connections of this API process to the queue (Redis) are in use: ask again with the same id"
    return _later("overloaded", "API process overloaded", detail)


def _unfittable(error: UnfittableError) -> ProblemError:
    accepted = f"an integer from 1 to {error.largest_node}, the cores of the largest node of any member"
    errors = [FieldError(field="cores", message="fits on no member's node", accepted=accepted)]
    return ProblemError(_problem("unfittable", 422, "Unfittable request", str(error), errors=errors))


def from_validation(error: ValidationError, fields: Iterable[str]) -> ProblemError:
    """Return the problem for what pydantic found in a body; ``fields``: those of the message."""
    details = error.errors(include_url=False, include_context=False, include_input=False)
    if details[0]["type"] == "json_invalid":
        return malformed(details[0]["msg"])
    return invalid(_field_error(detail, tuple(fields)) for detail in details)


def _field_error(detail: ErrorDetails, fields: tuple[str, ...] = ()) -> FieldError:
    path = [str(part)[:64] for part in detail["loc"]]
    named = next((part for part in path if part in ACCEPTED), None)
    known = ACCEPTED | _ACCEPTED_BY_EXTENSIONS if "until_s" in fields else ACCEPTED
    accepted = known.get(named or "")
    if detail["type"] == "extra_forbidden" and path[0] != "launch":
        accepted = f"these fields: {', '.join(fields)}"
    elif not path:
        accepted = "a JSON object"
    return FieldError(field=".".join(path) or "body", message=detail["msg"], accepted=accepted)


def _request_validation(error: RequestValidationError) -> ProblemError:
    # The first part of a location is where the value came from: query, path, header.
    details = [{**detail, "loc": tuple(detail["loc"][1:]) or detail["loc"]} for detail in error.errors()]
    return invalid(_field_error(detail) for detail in details)  # type: ignore[arg-type]


def _http(error: HTTPException) -> ProblemError:
    if error.status_code == 404:
        problem = _problem(
            "not-found", 404, "Unknown path", "there is no such path; /openapi.json has them all"
        )
    elif error.status_code == 405:
        detail = "this path does not take this method; the header Allow names those that it takes"
        problem = _problem("method-not-allowed", 405, "Wrong method", detail)
    else:
        title = HTTPStatus(error.status_code).phrase
        problem = _problem(title.lower().replace(" ", "-"), error.status_code, title, str(error.detail))
    return ProblemError(problem, error.headers)


_BUG = "this is a fault of ours; it was logged"

#: The first class that matches decides.
TABLE: tuple[tuple[type[Exception], Callable[[Any], ProblemError]], ...] = (
    (ProblemError, lambda error: error),
    (InFlightError, lambda _: in_flight()),
    (ReusedError, lambda _: key_reused()),
    (UnsuitableError, lambda error: invalid_field(error.field, str(error))),
    (SilentError, lambda error: owner_silent(error.clouds)),
    (SetAsideError, lambda error: set_aside(error.cloud)),
    (NoMembersError, lambda _: not_ready("no cloud has joined the federation yet")),
    (UnfittableError, _unfittable),
    (UnknownTargetError, lambda error: invalid_field("targets", str(error))),
    (RequestValidationError, _request_validation),
    (HTTPException, _http),
    (redis.MaxConnectionsError, _pool_exhausted),
    (DemotedError, _queue_demoted),
    (redis.AuthenticationError, _queue_refused),
    (redis.ResponseError, _queue_refused),
    (redis.RedisError, _queue_away),
    (OSError, _queue_away),  # sockets; includes the built-in TimeoutError
    (Exception, lambda _: ProblemError(_problem("internal", 500, "Internal error", _BUG))),
)


def translate(error: Exception) -> ProblemError:
    """Return the problem that the caller is answered for an exception."""
    return next(make(error) for kind, make in TABLE if isinstance(error, kind))


def _allowed_verbs(request: Request) -> list[str]:
    """Return the HTTP methods of the path of a request; the router itself knows those of one route only."""
    paths = request.app.openapi()["paths"].items()
    matching = [verbs for path, verbs in paths if compile_path(path)[0].match(request.url.path)]
    return sorted({verb.upper() for verbs in matching for verb in verbs})


def install(app: FastAPI) -> None:
    """Make every exception of ``app`` end as a problem."""

    async def handle(request: Request, error: Exception) -> Response:
        response = translate(error).response()
        if response.status_code == 405:
            verbs = _allowed_verbs(request) or response.headers.get("Allow", "").split(", ")
            response.headers["Allow"] = ", ".join(sorted([*verbs, "HEAD"]) if "GET" in verbs else verbs)
        if response.status_code == 500 and (call := request_id.current()):
            response.headers[request_id.HEADER] = call  # a 500 does not pass the middleware
        return response

    for kind, _ in TABLE:
        app.add_exception_handler(kind, handle)
