"""Bodies of the calls about webhooks; the server and the client share them."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, Field, StringConstraints

from broker.contract import CloudId, EventKind, Message

Ids = Annotated[tuple[CloudId, ...], Field(min_length=1, max_length=128)]
if TYPE_CHECKING:
    Kind = str
else:
    #: The public kinds of events.
    Kind = Literal[tuple(sorted(kind.value for kind in EventKind if kind.is_public))]


class WebhookWish(Message):
    """A new webhook: the URL that events are posted to, and filters of the events.

    Only events of these clouds, of leases of these origins, and of these kinds are posted; null does not
    filter.
    """

    url: Annotated[str, StringConstraints(min_length=1, max_length=2048)]
    description: Annotated[str, StringConstraints(max_length=200)] = ""
    clouds: Ids | None = None
    origins: Ids | None = None
    kinds: Annotated[tuple[Kind, ...], Field(min_length=1, max_length=16)] | None = None


class WebhookState(StrEnum):
    """The state of a webhook.

    A webhook is paused by its holder, or after too many failures, and disabled when its receiver answers that
    it is gone. Resumed, it delivers all events that are still kept.
    """

    ACTIVE = "active"
    PAUSED = "paused"
    DISABLED = "disabled"


class WebhookChange(Message):
    """A change of a webhook: it is paused, or resumed from where it was."""

    paused: bool


class Webhook(BaseModel):
    """One webhook as it is now.

    reason: why it is not active. position: the id of the last event of the merged stream that is delivered or
    filtered. failed_attempts: attempts to deliver the event after it; the next one is not before
    next_attempt_at. delivered, failed: numbers of attempts so far, without tests and redeliveries. given_up:
    how often it was paused or disabled because attempts failed. lag_s: the age of the oldest event after its
    position, in seconds.
    """

    id: str
    holder: str
    url: str
    description: str
    clouds: tuple[str, ...] | None
    origins: tuple[str, ...] | None
    kinds: tuple[str, ...] | None
    created_at: str
    state: WebhookState
    reason: str | None
    position: str
    failed_attempts: int
    next_attempt_at: str | None
    delivered: int = 0
    failed: int = 0
    given_up: int = 0
    last_delivered_at: str | None = None
    last_error: str | None = None
    lag_s: float = 0.0


class NewWebhook(BaseModel):
    """A new webhook, and the secret that its deliveries are signed with, which is shown only here."""

    webhook: Webhook
    secret: str


class Webhooks(BaseModel):
    """The webhooks of a holder, by time of creation."""

    webhooks: list[Webhook]


class NewSecret(BaseModel):
    """A new secret of a webhook, which is shown only here.

    Deliveries are signed with it, and until old_until with the previous one as well.
    """

    secret: str
    old_until: str


class Delivery(BaseModel):
    """One attempt to deliver a message.

    message: its webhook-id, which is the id of the event in the merged stream, or that of a test or a gap.
    attempt: its number, from 1; a redelivery and a test are not repeated. status: the HTTP status that the
    receiver answered. error: why there is no answer, or none that counts. duration_s: seconds.
    """

    id: str = ""
    message: str
    type: str
    why: Literal["event", "gap", "test", "redelivery"]
    attempt: int
    at: str
    delivered: bool
    status: int | None = None
    error: str | None = None
    duration_s: float
    next_attempt_at: str | None = None


class Deliveries(BaseModel):
    """The last deliveries of a webhook, newest first. more: whether there are older ones."""

    deliveries: list[Delivery]
    more: bool = False


def is_wanted(filters: WebhookWish, cloud: object, origin: object, kind: object) -> bool:
    """Return whether an event passes the filters of a webhook."""
    return (
        (filters.clouds is None or cloud in filters.clouds)
        and (filters.origins is None or origin in filters.origins)
        and (filters.kinds is None or kind in filters.kinds)
    )
