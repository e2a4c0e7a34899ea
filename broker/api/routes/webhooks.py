"""Serves webhooks. A webhook of another holder is answered as if it did not exist."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Query, Request
from starlette.responses import Response

from broker.api import problems
from broker.api.container import ApiServices
from broker.api.dependencies import (
    Caller,
    Changer,
    PermissionDependency,
    Reader,
    Services,
    json_response,
    require,
    v1_router,
)
from broker.api.openapi import document_body, problem_responses
from broker.api.parsing import JsonBody
from broker.identity.permissions import Action, Principal, ProtectedObject
from broker.storage.streams import is_entry_id
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

router = v1_router("/webhooks", tags=["webhooks"])

_EXAMPLE = {"url": "https://hooks.example.com/spotfed", "kinds": ["noticed", "evicted"], "origins": ["north"]}


class RequireWebhookPermission(PermissionDependency):
    """Checks that the caller may perform the action with the webhook in the path.

    Raises ProblemError (401, 403, 404, 429).
    """

    async def __call__(self, request: Request, services: Services, who: Caller) -> StoredWebhook:
        """Return the webhook."""
        webhook_id = request.path_params["webhook"]
        stored = await services.webhooks.get(webhook_id) if webhook_id.isalnum() else None
        if stored is None:
            raise problems.not_found("webhook")
        require(who, self.action, ProtectedObject(holder=stored.holder), "webhook")
        return stored


ReadWebhook = Annotated[StoredWebhook, Depends(RequireWebhookPermission(Action.READ))]
OwnWebhook = Annotated[StoredWebhook, Depends(RequireWebhookPermission(Action.CHANGE))]


@router.post(
    "",
    summary="Have events posted to a URL",
    status_code=201,
    response_model=NewWebhook,
    responses=problem_responses(400, 408, 409, 413, 415, 422),
    openapi_extra=document_body(WebhookWish, example=_EXAMPLE),
)
async def create(
    services: Services, who: Changer, body: Annotated[WebhookWish, JsonBody.of(WebhookWish)]
) -> Response:
    """Create a webhook: 201 with it and its secret, which is shown only here. It begins with the next event.

    The URL must be https, and its host must be at public addresses. 409 (problem:webhook-exists) if the
    caller has a webhook for this URL.
    """
    try:
        created = await services.webhooks.create(who.holder, _narrowed(body, who))
    except TargetError as error:
        raise problems.invalid_field("url", str(error)) from None
    except WebhookExistsError as error:
        detail = f"{error}: delete it first, or rotate its secret if that was lost"
        raise problems.conflict("webhook-exists", "Duplicate webhook", detail) from None
    except TooManyWebhooksError:
        detail = f"you have {MOST_WEBHOOKS} webhooks, which is as many as one may have: delete one first"
        raise problems.conflict("too-many-webhooks", "Too many webhooks", detail) from None
    return json_response(created, 201, location=f"/v1/webhooks/{created.webhook.id}")


@router.get("", summary="Your webhooks", response_model=Webhooks)
async def listed(services: Services, who: Reader) -> Response:
    """List your webhooks, the oldest first."""
    stored = await services.webhooks.list_webhooks(who.holder)
    return json_response(Webhooks(webhooks=[webhook.view() for webhook in stored]))


@router.get("/{webhook}", summary="One webhook", response_model=Webhook, responses=problem_responses(404))
async def shown(webhook: str, stored: ReadWebhook) -> Response:
    """Return a webhook: its position in the stream, and whether and why it does not deliver."""
    del webhook  # stored holds it
    return json_response(stored.view())


@router.delete("/{webhook}", summary="Delete a webhook", status_code=204, responses=problem_responses(404))
async def deleted(services: Services, webhook: str, stored: OwnWebhook) -> Response:
    """Delete a webhook and its log of deliveries. A delivery that is under way is the last one."""
    del webhook  # stored holds it
    await services.webhooks.delete(stored)
    return Response(status_code=204)


@router.patch(
    "/{webhook}",
    summary="Pause or resume a webhook",
    response_model=Webhook,
    responses=problem_responses(400, 404, 408, 413, 415, 422),
    openapi_extra=document_body(WebhookChange, example={"paused": False}),
)
async def changed(
    services: Services,
    webhook: str,
    stored: OwnWebhook,
    change: Annotated[WebhookChange, JsonBody.of(WebhookChange)],
) -> Response:
    """Pause a webhook, or resume it from where it was.

    If events were trimmed meanwhile, a message of the type spotfed.webhook.gap comes first.
    """
    del webhook  # stored holds it
    state = WebhookState.PAUSED if change.paused else WebhookState.ACTIVE
    now = await services.webhooks.set_state(stored, state)
    if now is None:
        raise problems.not_found("webhook")
    return json_response(now.view())


@router.post(
    "/{webhook}/test",
    summary="Send a test",
    response_model=Delivery,
    responses=problem_responses(404, 409),
)
async def tested(services: Services, webhook: str, stored: OwnWebhook) -> Response:
    """Send a test at once, paused or not, and return what came of it. No body is read."""
    del webhook  # stored holds it
    return await _send(services, stored, None)


@router.post(
    "/{webhook}/rotate-secret",
    summary="Replace the secret",
    response_model=NewSecret,
    responses=problem_responses(404, 409),
)
async def rotated(services: Services, webhook: str, stored: OwnWebhook) -> Response:
    """Replace the secret, and return the new one, which is shown only here. No body is read.

    For 24 hours deliveries carry signatures of both, so that receivers can change over in between.
    """
    del webhook  # stored holds it
    new_secret = await services.webhooks.rotate(stored)
    if new_secret is None:
        detail = "its secret was replaced by another call at the same time: look which one you want"
        raise problems.conflict("webhook-changed", "Concurrent change", detail)
    return json_response(new_secret)


@router.get(
    "/{webhook}/deliveries",
    summary="The last attempts to deliver",
    response_model=Deliveries,
    responses=problem_responses(404, 422),
)
async def deliveries(
    services: Services,
    webhook: str,
    stored: ReadWebhook,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
    before: Annotated[str | None, Query(description="older than this delivery")] = None,
) -> Response:
    """List the last attempts to deliver, newest first; 500 are kept."""
    del webhook  # stored holds it
    if before is not None and not is_entry_id(before):
        raise problems.invalid_field("before", "is no id of a delivery", "the id of a delivery")
    return json_response(await services.webhooks.deliveries(stored, limit, before))


@router.post(
    "/{webhook}/deliveries/{delivery}/redeliver",
    summary="Deliver an event again",
    response_model=Delivery,
    responses=problem_responses(404, 409),
)
async def redelivered(services: Services, webhook: str, delivery: str, stored: OwnWebhook) -> Response:
    """Deliver an event again, at once and out of order, and return what came of it. No body is read.

    Its webhook-id stays the same. 409 (problem:not-kept) if the event was trimmed, or the delivery was none
    of an event.
    """
    del webhook  # stored holds it
    if not is_entry_id(delivery):
        raise problems.not_found("delivery")
    return await _send(services, stored, delivery)


def _narrowed(webhook: WebhookWish, who: Principal) -> WebhookWish:
    """Return the webhook, narrowed to the caller's own events. Raises ProblemError (422)."""
    if who.origins is None:
        return webhook
    own = tuple(sorted(who.origins))
    if webhook.origins is not None and not who.origins.issuperset(webhook.origins):
        raise problems.invalid_field("origins", "not all are yours", f"null, or some of {', '.join(own)}")
    return webhook.model_copy(update={"origins": webhook.origins or own})


async def _send(services: ApiServices, stored: StoredWebhook, delivery: str | None) -> Response:
    """Send the event of a delivery again, or a test if there is none."""
    try:
        if delivery is None:
            attempt = await services.webhooks.test(stored)
        else:
            attempt = await services.webhooks.redeliver(stored, delivery)
    except WebhookBusyError:
        raise problems.not_ready("too many tests and redeliveries at the same time: ask again") from None
    except (NotKeptError, MemberGoneError) as error:
        raise problems.conflict("not-kept", "Unrepeatable delivery", str(error)) from None
    except SecretError as error:
        raise problems.conflict("secret-sealed", "Unreadable secret", str(error)) from None
    if attempt is None:
        raise problems.not_found("webhook" if delivery is None else "delivery")
    return json_response(attempt)
