"""Request bodies: bytes in, messages out, and problems that name the field. Nothing ends as a 500."""

from __future__ import annotations

import hashlib
from typing import TypeVar
from uuid import uuid4

from fastapi import Request
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import from_json, to_json

from broker.api.problems import (
    ProblemError,
    from_validation,
    invalid_field,
    malformed,
    too_long,
    unsupported_media_type,
)
from broker.contract import (
    LONGEST_S,
    ExtensionRequest,
    Id,
    Lease,
    OnDemandRequest,
    OnDemandRequests,
    QuoteRequest,
    SpotRequest,
)
from broker.identity.permissions import Principal
from broker.jobs.events import JobSubmitted
from broker.jobs.ids import LONGEST_CHOSEN, make_suffix
from broker.jobs.models import JobWish

LONGEST_BODY = 4 * 2**20
MOST_ITEMS = 5000
_LONGEST_ID = 128
_NOBODYS = "user"  # the origin of what an operator asks for nobody in particular

_Model = TypeVar("_Model", bound=BaseModel)
_ids: TypeAdapter[str] = TypeAdapter(Id)
_spot_requests = TypeAdapter(list[SpotRequest])


async def read_json(request: Request, longest: int = LONGEST_BODY) -> bytes:
    """The body, which claims to be JSON. Raises ProblemError (413, 415)."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        raise unsupported_media_type()
    claimed = request.headers.get("content-length", "")
    if claimed.isascii() and claimed.isdecimal() and int(claimed[:20]) > longest:
        raise too_long(longest)
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > longest:
            raise too_long(longest)
    return bytes(body)


def parse(model: type[_Model], body: bytes) -> _Model:
    """One message. Raises ProblemError (400, 422)."""
    try:
        return model.model_validate_json(body, strict=True)
    except ValidationError as error:
        raise from_validation(error, model.model_fields) from None


def is_id(text: str) -> bool:
    """Whether the text can be an id at all."""
    try:
        _ids.validate_python(text)
    except ValidationError:
        return False
    return True


def is_list(body: bytes) -> bool:
    """Whether the JSON is a list."""
    return body.lstrip(b" \t\r\n").startswith(b"[")


def parse_list(body: bytes) -> list[SpotRequest | ProblemError]:
    """The items of a list, each a request or what is wrong with it.

    Raises ProblemError (400, 422) for the whole.
    """
    items: list[SpotRequest | ProblemError]
    try:
        items = [*_spot_requests.validate_json(body, strict=True)]
    except ValidationError:
        try:
            raw = from_json(body)
        except ValueError as error:
            raise malformed(str(error)) from None
        items = [_item(one) for one in raw[: MOST_ITEMS + 1]]
    if len(items) > MOST_ITEMS:
        raise invalid_field("body", "the list is too long", f"at most {MOST_ITEMS} items")
    return items


def _item(raw: object) -> SpotRequest | ProblemError:
    try:
        return parse(SpotRequest, to_json(raw, inf_nan_mode="constants"))
    except ProblemError as problem:
        return problem


def new_end_s(wish: ExtensionRequest, lease: Lease) -> float:
    """When the lease is to end, in the cloud's time. Raises ProblemError (422)."""
    if wish.lifetime_s is not None and wish.until_s is not None:
        raise invalid_field("until_s", "there is a lifetime_s as well")
    if wish.until_s is not None:
        return wish.until_s
    if wish.lifetime_s is None:
        raise invalid_field("lifetime_s", "there is no until_s either")
    if lease.starts_at_s + wish.lifetime_s > LONGEST_S:
        raise invalid_field("lifetime_s", "the lease would end later than any can")
    return lease.starts_at_s + wish.lifetime_s


def fulfils(lease: Lease, until_s: float, sla: float | None, *, rounded_up: bool = False) -> bool:
    """Whether the lease has the end that was wished for, or the next that is sold, at the SLA that was."""
    assert lease.ends_at_s is not None, "a spot lease has an end"
    right = lease.ends_at_s >= until_s if rounded_up else lease.ends_at_s == until_s
    return right and sla in (None, lease.promised_sla)


def is_together(body: bytes) -> bool:
    """Whether the JSON is an object that holds several requests. Raises ProblemError (400)."""
    try:
        found = from_json(body)
    except ValueError as error:
        raise malformed(str(error)) from None
    return isinstance(found, dict) and "requests" in found


def parse_together(body: bytes, principal: str, key: str | None) -> list[OnDemandRequest]:
    """The requests, each with an id. Raises ProblemError (422)."""
    wish = parse(OnDemandRequests, body)
    named = [
        one if one.id is not None else one.model_copy(update={"id": derived_id(principal, key, number)})
        for number, one in enumerate(wish.requests)
    ]
    if len({one.id for one in named}) < len(named):
        raise invalid_field("id", "two of the requests have the same")
    return named


def is_of(lease: Lease, wish: OnDemandRequest, origin: str | None) -> bool:
    """Whether an instance is what was wished for, by whom it was; ``origin`` None: by whomever."""
    needs = (wish.resources, wish.labels, wish.group, wish.spread)
    same = lease.cores == wish.cores and (lease.amounts, lease.labels, lease.group, lease.spread) == needs
    return same and origin in (None, lease.origin)


def of_guest(wish: OnDemandRequest, who: Principal) -> OnDemandRequest:
    """As a guest asks another's cloud for it: its id goes after the name of its member, as in ``of_holder``.

    Raises ProblemError (422) for an id that is too long for that.
    """
    name = f"{_guest(who)}{wish.id}"
    if not is_id(name):
        raise invalid_field("id", "is too long", f"at most {_LONGEST_ID - len(_guest(who))} characters")
    return wish.model_copy(update={"id": name})


def is_of_guest(instance: str, who: Principal) -> bool:
    """Whether a member gave this id to an instance that it started on another's cloud."""
    return instance.startswith(_guest(who))


def _guest(who: Principal) -> str:
    return f"{who.member}:"


def idempotency_key(request: Request) -> str | None:
    """The header, or None. Raises ProblemError (422)."""
    key = request.headers.get("idempotency-key")
    if key is not None and not (1 <= len(key) <= 255 and key.isascii() and key.isprintable()):
        raise invalid_field("Idempotency-Key", "cannot be used")
    return key


def of_holder(
    request: SpotRequest, who: Principal, key: str | None = None, index: int | None = None
) -> SpotRequest:
    """With an id (its own, else one that follows from the call's key, else a fresh one) and an origin.

    Ids that members choose go after their names: no member can use up, or find, what another calls its own.
    Raises ProblemError (422) for the origin of somebody else.
    """
    name, origin = request.id or derived_id(who.name, key, index), request.origin
    if who.origins is not None:
        origin = _own_origin(who, origin if "origin" in request.model_fields_set else None)
        name = f"{who.member}:{name}"
    return request.model_copy(update={"id": name, "origin": origin})


def _own_origin(who: Principal, origin: str | None) -> str:
    """It, or the member's name where there is none. Raises ProblemError (422) for that of somebody else."""
    assert who.member is not None
    assert who.origins is not None
    found = who.member if origin is None else origin
    if found not in who.origins:
        raise invalid_field("origin", "is not yours", f"nothing, or one of {', '.join(sorted(who.origins))}")
    return found


def job_of_holder(wish: JobWish, who: Principal, key: str | None, at: float) -> JobSubmitted:
    """A job as it is noted: with an id, an origin and, where it names one or its origin may be one, a home.

    Ids of members get a mark of theirs. Raises ProblemError (422) for the origin of somebody else.
    """
    name, end = wish.id or derived_id(who.name, key), make_suffix(who.member)
    if end and len(name) > LONGEST_CHOSEN:
        raise invalid_field("id", "is too long", f"null, or at most {LONGEST_CHOSEN} characters")
    origin = wish.origin or _NOBODYS if who.origins is None else _own_origin(who, wish.origin)
    home = wish.home or (None if origin in (_NOBODYS, who.member) else origin)
    named = wish.model_copy(update={"id": name + end})
    return JobSubmitted(at=at, job=name + end, wish=named, holder=who.holder, origin=origin, home=home)


def quote_of_holder(wish: QuoteRequest, who: Principal) -> QuoteRequest:
    """With an origin. Raises ProblemError (422) for that of somebody else."""
    if who.origins is None:
        return wish
    asked = SpotRequest(cores=1, lifetime_s=None, **wish.model_dump(include={"origin"}, exclude_unset=True))
    return wish.model_copy(update={"origin": of_holder(asked, who).origin})


def named_instance(request: OnDemandRequest, principal: str, key: str | None) -> OnDemandRequest:
    """The same for a request of a cloud's own users."""
    if request.id is not None:
        return request
    return request.model_copy(update={"id": derived_id(principal, key)})


def derived_id(principal: str, key: str | None, index: int | None = None) -> str:
    """The same for the same holder, key and place in the list; fresh without a key."""
    if key is None:
        return uuid4().hex
    digest = fingerprint(principal.encode(), key.encode())[:40]
    return f"key-{digest}" if index is None else f"key-{digest}-{index}"


def fingerprint(*parts: bytes) -> str:
    """Of byte strings."""
    return hashlib.sha256(b"\n".join(parts)).hexdigest()
