"""Bodies of the webhook calls; the server and the client share them."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, Field, StringConstraints

from broker.contract import CloudId, Message

Several = Annotated[tuple[CloudId, ...], Field(min_length=1, max_length=128)]
#: The public ones of ``contract.EventKind``.
Kind = Literal[
    "admitted", "cancelled", "completed", "evicted", "extended", "failed", "noticed", "offered", "warned"
]  # fmt: skip


class WebhookWish(Message):
    """Where events are to go, and which: all, or those of these clouds, of leases of these origins, of these
    kinds. What is null does not narrow."""

    url: Annotated[str, StringConstraints(min_length=1, max_length=2048)]
    description: Annotated[str, StringConstraints(max_length=200)] = ""
    clouds: Several | None = None
    origins: Several | None = None
    kinds: Annotated[tuple[Kind, ...], Field(min_length=1, max_length=16)] | None = None


class WebhookState(StrEnum):
    """``paused``: by its holder, or after too many failures. ``disabled``: its receiver said that it is gone.
    Both lose nothing that is kept when the webhook is resumed."""

    ACTIVE = "active"
    PAUSED = "paused"
    DISABLED = "disabled"


class WebhookChange(Message):
    """Pauses a webhook, or resumes it from where it was."""

    paused: bool


class Webhook(BaseModel):
    """A webhook as it is now.

    ``reason``: why it is not active. ``position``: id of the last event of the merged stream that is done
    with. ``failed_attempts``: to deliver the event after it; the next is not before ``next_attempt_at``.
    ``delivered``, ``failed``: attempts so far, tests and redeliveries not among them; ``given_up``: so often
    it was paused or disabled because they failed. ``lag_s``: age of the oldest event that is not done with.
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
    """``secret`` is shown this once. Deliveries are signed with it."""

    webhook: Webhook
    secret: str


class Webhooks(BaseModel):
    """By time of creation."""

    webhooks: list[Webhook]


class NewSecret(BaseModel):
    """``secret`` is shown this once. Deliveries are signed with it, and until ``old_until`` with the one
    before as well."""

    secret: str
    old_until: str


class Delivery(BaseModel):
    """One attempt to deliver something.

    ``message`` is its webhook-id: that of the event in the merged stream, or of a test or notice. ``status``:
    what the receiver answered; ``error``: why there is no answer, or none that counts. ``attempt`` counts
    from 1; a redelivery, which its holder asked for, and a test are not repeated by themselves.
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
    """Newest first. ``more``: there are older ones, see ``before``."""

    deliveries: list[Delivery]
    more: bool = False


def is_wanted(wish: WebhookWish, cloud: object, origin: object, kind: object) -> bool:
    """Whether an event passes the filters of the holder."""
    return (
        (wish.clouds is None or cloud in wish.clouds)
        and (wish.origins is None or origin in wish.origins)
        and (wish.kinds is None or kind in wish.kinds)
    )
