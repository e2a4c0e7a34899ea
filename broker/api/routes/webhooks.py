"""The calls about webhooks. Somebody else's are answered as if they were not there."""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from broker.api import parsing, problems
from broker.api.dependencies import Caller, Changer, PermissionDependency, Reader, answer, broker_of, require
from broker.api.openapi import body_of, problem_responses
from broker.identity.permissions import Action, Principal, ProtectedObject
from broker.webhooks.models import (
    Deliveries,
    Delivery,
    NewSecret,
    NewWebhook,
    Webhook,
    WebhookChange,
    Webhooks,
    WebhookState,
    WebhookWish,
)
from broker.webhooks.secrets import SecretError
from broker.webhooks.service import NotKeptError, WebhookBusyError
from broker.webhooks.store import MOST_WEBHOOKS, StoredWebhook, TooManyWebhooksError, WebhookExistsError
from broker.webhooks.targets import TargetError
from broker.webhooks.worker import MemberGoneError

router = APIRouter(prefix="/webhooks", tags=["webhooks"])


class RequireWebhookPermission(PermissionDependency):
    """Whether the caller may do this with the webhook in the path."""

    async def __call__(self, request: Request, who: Caller) -> StoredWebhook:
        """The webhook. Raises ProblemError (401, 403, 404, 429)."""
        name = request.path_params["webhook"]
        stored = await broker_of(request).webhooks.get(name) if name.isalnum() else None
        if stored is None:
            raise problems.not_found("webhook")
        require(who, self.action, ProtectedObject(holder=stored.holder), "webhook")
        return stored


ReadWebhook = Annotated[StoredWebhook, Depends(RequireWebhookPermission(Action.READ))]
OwnWebhook = Annotated[StoredWebhook, Depends(RequireWebhookPermission(Action.CHANGE))]

_EXAMPLE = {"url": "https://hooks.example.com/spotfed", "kinds": ["noticed", "evicted"], "origins": ["north"]}
_ENTRY = re.compile(r"\d{1,19}-\d{1,19}")


@router.post(
    "",
    summary="Have events posted to a URL",
    status_code=201,
    response_model=NewWebhook,
    responses=problem_responses(400, 409, 413, 415, 422),
    openapi_extra=body_of("WebhookWish", example=_EXAMPLE),
)
async def create(request: Request, who: Changer) -> Response:
    """201 with the webhook and its secret, which is shown this once. It begins with what happens from now on.

    The URL must be https, and its host must be at public addresses. 409 (problem:webhook-exists) when the
    caller has one for this URL.
    """
    wish = _narrowed(parsing.parse(WebhookWish, await parsing.read_json(request)), who)
    try:
        made = await broker_of(request).webhooks.create(who.holder, wish)
    except TargetError as error:
        raise problems.invalid_field("url", str(error)) from None
    except WebhookExistsError as error:
        detail = f"{error}: delete it first, or rotate its secret if that was lost"
        raise problems.conflict("webhook-exists", "There is one for this URL", detail) from None
    except TooManyWebhooksError:
        detail = f"you have {MOST_WEBHOOKS} webhooks, which is as many as one may have: delete one first"
        raise problems.conflict("too-many-webhooks", "Too many webhooks", detail) from None
    reply = answer(made, 201)
    reply.headers["Location"] = f"/v1/webhooks/{made.webhook.id}"
    return reply


@router.get("", summary="Your webhooks", response_model=Webhooks)
async def listed(request: Request, who: Reader) -> Response:
    """Oldest first."""
    found = await broker_of(request).webhooks.of(who.holder)
    return answer(Webhooks(webhooks=[one.view() for one in found]))


@router.get("/{webhook}", summary="One webhook", response_model=Webhook, responses=problem_responses(404))
async def shown(webhook: str, stored: ReadWebhook) -> Response:
    """As it is now: where it is, and whether and why it does not deliver."""
    del webhook  # found already
    return answer(stored.view())


@router.delete("/{webhook}", summary="Delete a webhook", status_code=204, responses=problem_responses(404))
async def deleted(request: Request, webhook: str, stored: OwnWebhook) -> Response:
    """With its log of deliveries. A delivery that is under way is the last one."""
    del webhook  # found already
    await broker_of(request).webhooks.delete(stored)
    return Response(status_code=204)


@router.patch(
    "/{webhook}",
    summary="Pause or resume a webhook",
    response_model=Webhook,
    responses=problem_responses(400, 404, 413, 415, 422),
    openapi_extra=body_of("WebhookChange", example={"paused": False}),
)
async def changed(request: Request, webhook: str, stored: OwnWebhook) -> Response:
    """Resumed, it goes on from where it was, at once. Where events were trimmed meanwhile, a message of the
    type spotfed.webhook.gap comes first."""
    del webhook  # found already
    wish = parsing.parse(WebhookChange, await parsing.read_json(request))
    state = WebhookState.PAUSED if wish.paused else WebhookState.ACTIVE
    now = await broker_of(request).webhooks.set_state(stored, state)
    if now is None:
        raise problems.not_found("webhook")
    return answer(now.view())


@router.post(
    "/{webhook}/test",
    summary="Send a test",
    response_model=Delivery,
    responses=problem_responses(404, 409),
)
async def tested(request: Request, webhook: str, stored: OwnWebhook) -> Response:
    """At once, paused or not; the answer is what came of it. No body is read."""
    del webhook  # found already
    return await _sent(request, stored, None)


@router.post(
    "/{webhook}/rotate-secret",
    summary="Replace the secret",
    response_model=NewSecret,
    responses=problem_responses(404, 409),
)
async def rotated(request: Request, webhook: str, stored: OwnWebhook) -> Response:
    """The new secret, which is shown this once. For 24 hours deliveries carry signatures of both, so that
    receivers can change over in between. No body is read."""
    del webhook  # found already
    made = await broker_of(request).webhooks.rotate(stored)
    if made is None:
        detail = "its secret was replaced by another call at the same time: look which one you want"
        raise problems.conflict("webhook-changed", "Changed meanwhile", detail)
    return answer(made)


@router.get(
    "/{webhook}/deliveries",
    summary="The last attempts to deliver",
    response_model=Deliveries,
    responses=problem_responses(404, 422),
)
async def deliveries(
    request: Request,
    webhook: str,
    stored: ReadWebhook,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
    before: Annotated[str | None, Query(description="older than this delivery")] = None,
) -> Response:
    """Newest first; the last 500 are kept."""
    del webhook  # found already
    if before is not None and not _ENTRY.fullmatch(before):
        raise problems.invalid_field("before", "is no id of a delivery", "the id of a delivery")
    return answer(await broker_of(request).webhooks.deliveries(stored, limit, before))


@router.post(
    "/{webhook}/deliveries/{delivery}/redeliver",
    summary="Deliver an event again",
    response_model=Delivery,
    responses=problem_responses(404, 409),
)
async def redelivered(request: Request, webhook: str, delivery: str, stored: OwnWebhook) -> Response:
    """At once and out of order, under the same webhook-id; the answer is what came of it. No body is read.

    409 (problem:not-kept) when the event was trimmed, or the delivery was none of an event.
    """
    del webhook  # found already
    if not _ENTRY.fullmatch(delivery):
        raise problems.not_found("delivery")
    return await _sent(request, stored, delivery)


def _narrowed(wish: WebhookWish, who: Principal) -> WebhookWish:
    """To the caller's own events. Raises ProblemError (422)."""
    if who.origins is None:
        return wish
    own = tuple(sorted(who.origins))
    if wish.origins is not None and not who.origins.issuperset(wish.origins):
        raise problems.invalid_field("origins", "not all are yours", f"null, or some of {', '.join(own)}")
    return wish.model_copy(update={"origins": wish.origins or own})


async def _sent(request: Request, stored: StoredWebhook, delivery: str | None) -> Response:
    """A test, or a redelivery."""
    desk = broker_of(request).webhooks
    try:
        done = await (desk.test(stored) if delivery is None else desk.redeliver(stored, delivery))
    except WebhookBusyError:
        raise problems.not_ready("too many tests and redeliveries at the same time: ask again") from None
    except (NotKeptError, MemberGoneError) as error:
        raise problems.conflict("not-kept", "Cannot be delivered again", str(error)) from None
    except SecretError as error:
        raise problems.conflict("secret-sealed", "The secret cannot be read", str(error)) from None
    if done is None:
        raise problems.not_found("webhook" if delivery is None else "delivery")
    return answer(done)
