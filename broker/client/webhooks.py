"""The calls about webhooks, as part of ``broker.client.Client``."""

from __future__ import annotations

from urllib.parse import quote

from broker.client.results import ClientCalls, parse
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


class WebhookCalls(ClientCalls):
    """A member's own webhooks. All but the first two raise NotFoundError."""

    def add_webhook(self, wish: WebhookWish) -> NewWebhook:
        """A webhook and its secret, which is told this once. Raises ProblemAnswer (409) when there is one."""
        return parse(NewWebhook, self._send("POST", "/v1/webhooks", wish))

    def webhooks(self) -> list[Webhook]:
        """Oldest first."""
        return parse(Webhooks, self._send("GET", "/v1/webhooks")).webhooks

    def webhook(self, webhook: str) -> Webhook:
        """As it is now."""
        return parse(Webhook, self._send("GET", _path(webhook)))

    def pause_webhook(self, webhook: str, paused: bool = True) -> Webhook:
        """Pauses it; or, with ``paused`` False, resumes it from where it was."""
        return parse(Webhook, self._send("PATCH", _path(webhook), WebhookChange(paused=paused)))

    def remove_webhook(self, webhook: str) -> None:
        """With its log."""
        self._send("DELETE", _path(webhook))

    def test_webhook(self, webhook: str) -> Delivery:
        """Sends a test; what came of it."""
        return parse(Delivery, self._send("POST", f"{_path(webhook)}/test"))

    def rotate_webhook(self, webhook: str) -> NewSecret:
        """A new secret, which is told this once; the old one signs as well for a day."""
        return parse(NewSecret, self._send("POST", f"{_path(webhook)}/rotate-secret"))

    def deliveries(self, webhook: str, *, limit: int = 100, before: str | None = None) -> Deliveries:
        """The log, newest first; with ``before`` what is older than that delivery."""
        parameters = {"limit": limit, "before": before}
        return parse(Deliveries, self._send("GET", f"{_path(webhook)}/deliveries", parameters=parameters))

    def redeliver(self, webhook: str, delivery: str) -> Delivery:
        """Sends the event of a delivery again; what came of it. Raises ProblemAnswer (409): gone."""
        path = f"{_path(webhook)}/deliveries/{quote(delivery, safe='')}/redeliver"
        return parse(Delivery, self._send("POST", path))


def _path(webhook: str) -> str:
    return f"/v1/webhooks/{quote(webhook, safe='')}"
