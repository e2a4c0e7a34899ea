"""Calls about a member's webhooks: ``client.webhooks``."""

from __future__ import annotations

import builtins
from urllib.parse import quote

from broker.client.transport import Resource, parse
from broker.webhooks.models import (
    Deliveries,
    Delivery,
    NewSecret,
    NewWebhook,
    Webhook,
    WebhookChange,
    Webhooks,
    WebhookWish,
)


class WebhooksResource(Resource):
    """Manages a member's own webhooks. Unknown webhooks raise NotFoundError."""

    def add(self, webhook: WebhookWish) -> NewWebhook:
        """Add a webhook. Its secret is in this answer only.

        Raises
        ------
        ProblemAnswer
            When the member has a webhook for this URL (status 409).
        """
        return parse(NewWebhook, self._transport.send("POST", "/v1/webhooks", webhook))

    def list(self) -> builtins.list[Webhook]:
        """Return all webhooks, oldest first."""
        return parse(Webhooks, self._transport.send("GET", "/v1/webhooks")).webhooks

    def get(self, webhook: str) -> Webhook:
        """Return one webhook by its id."""
        return parse(Webhook, self._transport.send("GET", _path(webhook)))

    def pause(self, webhook: str, paused: bool = True) -> Webhook:
        """Pause a webhook; with ``paused`` False, resume it after the last event that it got."""
        return parse(Webhook, self._transport.send("PATCH", _path(webhook), WebhookChange(paused=paused)))

    def remove(self, webhook: str) -> None:
        """Remove a webhook and its log of deliveries."""
        self._transport.send("DELETE", _path(webhook))

    def test(self, webhook: str) -> Delivery:
        """Send a test event and return its delivery."""
        return parse(Delivery, self._transport.send("POST", f"{_path(webhook)}/test"))

    def rotate_secret(self, webhook: str) -> NewSecret:
        """Make a new secret, which is in this answer only; the old one signs as well for a day."""
        return parse(NewSecret, self._transport.send("POST", f"{_path(webhook)}/rotate-secret"))

    def list_deliveries(self, webhook: str, *, limit: int = 100, before: str | None = None) -> Deliveries:
        """Return the latest deliveries, newest first; with ``before``, those older than that delivery."""
        parameters = {"limit": limit, "before": before}
        path = f"{_path(webhook)}/deliveries"
        return parse(Deliveries, self._transport.send("GET", path, parameters=parameters))

    def redeliver(self, webhook: str, delivery: str) -> Delivery:
        """Send the event of a delivery again and return the new delivery.

        Raises
        ------
        ProblemAnswer
            When the event is no longer kept (status 409).
        """
        path = f"{_path(webhook)}/deliveries/{quote(delivery, safe='')}/redeliver"
        return parse(Delivery, self._transport.send("POST", path))


def _path(webhook: str) -> str:
    return f"/v1/webhooks/{quote(webhook, safe='')}"
