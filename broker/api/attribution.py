"""Completes what callers send with ids and origins: ids that they left out, and the names of their members.

Ids that members choose are kept under the names of the members, so that no member can use up, or find out,
what another one calls its own.
"""

from __future__ import annotations

import hashlib
from uuid import uuid4

from broker.api.parsing import is_id
from broker.api.problems import invalid_field
from broker.contract import OnDemandRequest, QuoteRequest, SpotRequest
from broker.identity.permissions import Principal
from broker.jobs.events import JobSubmitted
from broker.jobs.ids import LONGEST_CHOSEN, make_suffix
from broker.jobs.models import JobWish

_LONGEST_ID = 128
_OPERATORS_ORIGIN = "user"  # the origin of what an operator asks for no member in particular


def attribute_request(
    request: SpotRequest, who: Principal, key: str | None = None, index: int | None = None
) -> SpotRequest:
    """Return the request with an id and an origin.

    The id is the request's own, else one that follows from ``key``, the call's ``Idempotency-Key``, and
    ``index``, the place in the list, else a fresh one. Raises ProblemError (422) if the origin is another
    member's.
    """
    request_id, origin = request.id or derived_id(who.name, key, index), request.origin
    if who.origins is not None:
        if request.launch is not None and request.launch.agent:
            raise invalid_field("launch", "agent is for job managers", "a launch without agent")
        origin = _own_origin(who, origin if "origin" in request.model_fields_set else None)
        request_id = f"{who.member}:{request_id}"
    return request.model_copy(update={"id": request_id, "origin": origin})


def attribute_quote(request: QuoteRequest, who: Principal) -> QuoteRequest:
    """Return the request for quotes with an origin. Raises ProblemError (422) if it is another member's."""
    if who.origins is None:
        return request
    origin = request.origin if "origin" in request.model_fields_set else None
    return request.model_copy(update={"origin": _own_origin(who, origin)})


def attribute_job(request: JobWish, who: Principal, key: str | None, at: float) -> JobSubmitted:
    """Return the first event of a job, with an id, an origin and, where one is known, a home.

    Ids of members' jobs end with a mark of the member. ``at``: Unix time in seconds. Raises ProblemError
    (422) if the origin is another member's or the id is too long.
    """
    chosen, suffix = request.id or derived_id(who.name, key), make_suffix(who.member)
    if suffix and len(chosen) > LONGEST_CHOSEN:
        raise invalid_field("id", "is too long", f"null, or at most {LONGEST_CHOSEN} characters")
    job = chosen + suffix
    origin = request.origin or _OPERATORS_ORIGIN if who.origins is None else _own_origin(who, request.origin)
    home = request.home or (None if origin in (_OPERATORS_ORIGIN, who.member) else origin)
    named = request.model_copy(update={"id": job})
    return JobSubmitted(at=at, job=job, wish=named, holder=who.holder, origin=origin, home=home)


def attribute_instance(
    request: OnDemandRequest, who: Principal, key: str | None, index: int | None = None
) -> OnDemandRequest:
    """Return a request for an on-demand instance with an id; see ``attribute_request``."""
    if request.id is not None:
        return request
    return request.model_copy(update={"id": derived_id(who.name, key, index)})


def attribute_to_guest(request: OnDemandRequest, who: Principal) -> OnDemandRequest:
    """Return a request of a member for an instance on another's cloud, its id after the name of the member.

    Raises ProblemError (422) if the id is too long for that.
    """
    instance = f"{_guest_prefix(who)}{request.id}"
    if not is_id(instance):
        longest = _LONGEST_ID - len(_guest_prefix(who))
        raise invalid_field("id", "is too long", f"at most {longest} characters")
    return request.model_copy(update={"id": instance})


def is_guest_instance(instance: str, who: Principal) -> bool:
    """Return whether the member of ``who`` started this instance on another's cloud, judged by its id."""
    return instance.startswith(_guest_prefix(who))


def derived_id(principal: str, key: str | None, index: int | None = None) -> str:
    """Return an id that follows from principal, key and index; a fresh one if ``key`` is None."""
    if key is None:
        return uuid4().hex
    digest = fingerprint(principal.encode(), key.encode())[:40]
    return f"key-{digest}" if index is None else f"key-{digest}-{index}"


def fingerprint(*parts: bytes) -> str:
    """Return the SHA-256 of byte strings, joined by newlines, in hexadecimal."""
    return hashlib.sha256(b"\n".join(parts)).hexdigest()


def _own_origin(who: Principal, origin: str | None) -> str:
    assert who.member is not None
    assert who.origins is not None
    origin = who.member if origin is None else origin
    if origin not in who.origins:
        raise invalid_field("origin", "is not yours", f"nothing, or one of {', '.join(sorted(who.origins))}")
    return origin


def _guest_prefix(who: Principal) -> str:
    return f"{who.member}:"
