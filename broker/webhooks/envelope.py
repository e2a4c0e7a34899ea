"""What is sent: CloudEvents 1.0 in JSON, signed as Standard Webhooks says."""

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
    """A message: its id (the webhook-id), its type, and its body."""

    id: str
    type: str
    why: Literal["event", "gap", "test", "redelivery"]
    body: str


def of_event(
    entry: str,
    text: bytes,
    wish: WebhookWish,
    scope: Collection[str] | None = None,
    why: Literal["event", "redelivery"] = "event",
) -> WebhookMessage | None:
    """The message for an event of the merged stream; None when it is not wanted, or no event at all.

    ``scope``: the origins whose leases are the holder's business; None: all. ``data`` is the event as it is
    there: kinds and fields of a later version are passed on.
    """
    try:
        event = json.loads(text)
        cloud, kind, at = event["cloud"], event["kind"], event["at"]
        lease = event.get("lease") or {}
        origin, subject = lease.get("origin"), lease.get("id")
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    if (scope is not None and origin not in scope) or not is_wanted(wish, cloud, origin, kind):
        return None
    return _sending(
        entry, f"spotfed.lease.{kind}", why, event, at=at, source=f"/v1/clouds/{cloud}", subject=subject
    )


def of_gap(after: str, goes_on_after: str) -> WebhookMessage:
    """Says that events between two places of the merged stream were trimmed before they were delivered."""
    data = {
        "after": after,
        "goes_on_after": goes_on_after,
        "detail": "events in between are no longer kept: read GET /v1/leases for what is true now",
    }
    return _sending(f"gap-{after}", "spotfed.webhook.gap", "gap", data)


def of_test(number: str, webhook: str) -> WebhookMessage:
    """Proves that deliveries arrive and that signatures are understood."""
    data = {"webhook": webhook, "detail": "a test; nothing has happened"}
    return _sending(f"test-{number}", "spotfed.webhook.test", "test", data)


def _sending(
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


def headers(sending: WebhookMessage, secrets: Iterable[str], now: datetime) -> dict[str, str]:
    """The headers of Standard Webhooks, with one signature a secret."""
    from standardwebhooks.webhooks import Webhook as Signer

    signatures = [Signer(secret).sign(sending.id, now, sending.body) for secret in secrets]
    return {
        "webhook-id": sending.id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": " ".join(signatures),
        "content-type": CONTENT_TYPE,
    }
