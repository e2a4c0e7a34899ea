"""Messages to receivers: CloudEvents 1.0 in JSON, signed as Standard Webhooks specifies."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from broker.webhooks.models import WebhookWish, is_wanted

CONTENT_TYPE = "application/cloudevents+json; charset=utf-8"
_SOURCE = "/v1/events"


@dataclass(frozen=True)
class WebhookMessage:
    """One message to a receiver. id: its webhook-id. why: the occasion. body: a CloudEvent in JSON."""

    id: str
    type: str
    why: Literal["event", "gap", "test", "redelivery"]
    body: str


def build_event_message(
    entry: str,
    text: bytes,
    webhook: WebhookWish,
    scope: Collection[str] | None = None,
    why: Literal["event", "redelivery"] = "event",
) -> WebhookMessage | None:
    """Return the message for an event of the merged stream; None if it is not wanted, or is no event.

    The ``data`` of the message is the event as the stream has it, also its kinds and fields of a later
    version.

    Parameters
    ----------
    entry
        The id of the event in the merged stream.
    text
        The event as JSON.
    webhook
        The filters of the webhook.
    scope
        The origins whose leases the holder of the webhook may see; None: all.
    why
        The occasion of the message.
    """
    try:
        event = json.loads(text)
        cloud, kind, at = event["cloud"], event["kind"], event["at"]
        lease = event.get("lease") or {}
        origin, subject = lease.get("origin"), lease.get("id")
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    if (scope is not None and origin not in scope) or not is_wanted(webhook, cloud, origin, kind):
        return None
    return _message(
        entry, f"spotfed.lease.{kind}", why, event, at=at, source=f"/v1/clouds/{cloud}", subject=subject
    )


def build_gap_message(after: str, goes_on_after: str) -> WebhookMessage:
    """Return the message that events between two ids of the merged stream were trimmed undelivered."""
    data = {
        "after": after,
        "goes_on_after": goes_on_after,
        "detail": "events in between are no longer kept: read GET /v1/leases for what is true now",
    }
    return _message(f"gap-{after}", "spotfed.webhook.gap", "gap", data)


def build_test_message(number: str, webhook: str) -> WebhookMessage:
    """Return a test message, which proves that deliveries arrive and signatures are understood."""
    data = {"webhook": webhook, "detail": "a test; nothing has happened"}
    return _message(f"test-{number}", "spotfed.webhook.test", "test", data)


def _message(
    number: str,
    kind: str,
    why: Literal["event", "gap", "test", "redelivery"],
    data: Any,
    *,
    at: str | None = None,
    source: str = _SOURCE,
    subject: str | None = None,
) -> WebhookMessage:
    envelope = {
        "specversion": "1.0",
        "id": number,
        "source": source,
        "type": kind,
        "time": at or datetime.now(UTC).isoformat(),
        "datacontenttype": "application/json",
        "data": data,
    }
    if subject is not None:
        envelope["subject"] = subject
    return WebhookMessage(number, kind, why, json.dumps(envelope, separators=(",", ":")))


def build_headers(message: WebhookMessage, secrets: Iterable[str], now: datetime) -> dict[str, str]:
    """Return the headers of Standard Webhooks for a message, with one signature a secret."""
    from standardwebhooks.webhooks import Webhook as Signer

    signatures = [Signer(secret).sign(message.id, now, message.body) for secret in secrets]
    return {
        "webhook-id": message.id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": " ".join(signatures),
        "content-type": CONTENT_TYPE,
    }
