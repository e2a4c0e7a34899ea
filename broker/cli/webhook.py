"""``webhook``: have events posted to a URL, and see which of them arrived."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape
from rich.text import Text

from broker.cli import formatting
from broker.cli.connection import connected
from broker.cli.console import JsonOption, number, print_text, show_list, show_one
from broker.cli.errors import ExitCode
from broker.cli.options import build_model
from broker.webhooks.models import Delivery, Webhook, WebhookWish

webhook = typer.Typer(no_args_is_help=True, help="Have events posted to a URL, signed and at least once.")

_STATES = {
    "active": "[green]active[/green]",
    "paused": "[yellow]paused[/yellow]",
    "disabled": "[red]disabled[/red]",
}

IdArgument = Annotated[
    str, typer.Argument(metavar="ID", help="Id of the webhook, see `spotfed webhook list`.")
]


@webhook.command()
def add(
    url: Annotated[str, typer.Argument(help="https://… at public addresses.", show_default=False)],
    kind: Annotated[
        list[str] | None, typer.Option(help="Only events of this kind, such as evicted; may be repeated.")
    ] = None,
    cloud: Annotated[
        list[str] | None, typer.Option(help="Only events of this cloud; may be repeated.")
    ] = None,
    origin: Annotated[
        list[str] | None, typer.Option(help="Only events of this origin's leases; may be repeated.")
    ] = None,
    description: Annotated[str, typer.Option(help="A note for people.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Post events from now on to a URL. Prints the secret that signs them, this once.

    Example: spotfed webhook add https://hooks.example.com/spotfed --kind noticed --kind evicted
    """
    filters = {"clouds": cloud, "origins": origin, "kinds": kind}
    fields = {"url": url, "description": description}
    options = {"url": "URL", "clouds": "--cloud", "origins": "--origin", "kinds": "--kind"}
    request = build_model(
        WebhookWish, {**fields, **{name: values for name, values in filters.items() if values}}, options
    )
    with connected() as client:
        made = client.webhooks.add(request)
    show_one(
        made,
        f"webhook {made.webhook.id} begins with what happens from now on",
        f"secret, shown this once: {made.secret}",
        f"try it: spotfed webhook test {made.webhook.id}",
        as_json=as_json,
    )


@webhook.command("list")
def list_webhooks(as_json: JsonOption = False) -> None:
    """Show your webhooks.

    Example: spotfed webhook list
    """
    with connected() as client:
        webhooks = client.webhooks.list()
    show_list(
        "webhooks",
        webhooks,
        *("id", "state", "URL", "kinds", "clouds", "origins"),
        *map(number, ("delivered", "failed", "lag")),
        row=_webhook_row,
        as_json=as_json,
        title="Webhooks",
        none="none yet: spotfed webhook add URL",
    )


@webhook.command()
def show(webhook_id: IdArgument, as_json: JsonOption = False) -> None:
    """Show a webhook: its URL, its state, and why it does not deliver if it does not.

    Example: spotfed webhook show 4f1c9a
    """
    with connected() as client:
        _show_webhook(client.webhooks.get(webhook_id), as_json=as_json)


@webhook.command("test")
def send_test(webhook_id: IdArgument, as_json: JsonOption = False) -> None:
    """Send a test event, and show the result. Exit code 1 when it did not arrive.

    Example: spotfed webhook test 4f1c9a
    """
    with connected() as client:
        _show_delivery(client.webhooks.test(webhook_id), as_json=as_json)


@webhook.command()
def pause(webhook_id: IdArgument, as_json: JsonOption = False) -> None:
    """Send nothing until it is resumed; what happens meanwhile is kept for it.

    Example: spotfed webhook pause 4f1c9a
    """
    with connected() as client:
        _show_webhook(client.webhooks.pause(webhook_id), as_json=as_json)


@webhook.command()
def resume(webhook_id: IdArgument, as_json: JsonOption = False) -> None:
    """Go on from where it was, also after it was paused for too many failures.

    Example: spotfed webhook resume 4f1c9a
    """
    with connected() as client:
        _show_webhook(client.webhooks.pause(webhook_id, False), as_json=as_json)


@webhook.command()
def rotate(webhook_id: IdArgument, as_json: JsonOption = False) -> None:
    """Replace the secret. For a day events carry signatures of the old and of the new one.

    Example: spotfed webhook rotate 4f1c9a
    """
    with connected() as client:
        made = client.webhooks.rotate_secret(webhook_id)
    show_one(
        made,
        f"new secret, shown this once: {made.secret}",
        f"the old one signs as well until {made.old_until}",
        as_json=as_json,
    )


@webhook.command()
def remove(webhook_id: IdArgument, as_json: JsonOption = False) -> None:
    """Delete a webhook and its log.

    Example: spotfed webhook remove 4f1c9a
    """
    with connected() as client:
        client.webhooks.remove(webhook_id)
    show_one({"removed": webhook_id}, f"removed {webhook_id}", as_json=as_json)


@webhook.command()
def deliveries(
    webhook_id: IdArgument,
    limit: Annotated[int, typer.Option(min=1, max=500, help="Largest number of attempts to show.")] = 20,
    as_json: JsonOption = False,
) -> None:
    """Show the last attempts to deliver, newest first.

    Example: spotfed webhook deliveries 4f1c9a --limit 5
    """
    with connected() as client:
        page = client.webhooks.list_deliveries(webhook_id, limit=limit)
    show_list(
        "deliveries",
        page.deliveries,
        *("delivery", "event", "type", "why", "at"),
        *map(number, ("attempt", "took")),
        *("result", "next attempt"),
        row=_delivery_row,
        as_json=as_json,
        title="Deliveries",
        more={"more": page.more},
    )
    if page.more and not as_json:
        print_text("there is more: --limit")


@webhook.command()
def redeliver(
    webhook_id: IdArgument,
    delivery: Annotated[str, typer.Argument(help="Id of the delivery, see `spotfed webhook deliveries`.")],
    as_json: JsonOption = False,
) -> None:
    """Send the event of a delivery again, at once. Exit code 1 when it did not arrive.

    Example: spotfed webhook redeliver 4f1c9a 1795862400000-0
    """
    with connected() as client:
        _show_delivery(client.webhooks.redeliver(webhook_id, delivery), as_json=as_json)


def _show_webhook(hook: Webhook, *, as_json: bool) -> None:
    lines = []
    for name, value in hook.model_dump(mode="json").items():
        if value not in (None, ""):
            text = ", ".join(value) if isinstance(value, list) else str(value)
            lines.append(Text.assemble((f"{name}: ", "bold"), text))
    show_one(hook, *lines, as_json=as_json)


def _show_delivery(delivery: Delivery, *, as_json: bool) -> None:
    text = f"{delivery.message}: {_result_text(delivery)} after {delivery.duration_s:.2f} s"
    show_one(delivery, text, as_json=as_json)
    if not delivery.delivered:
        raise typer.Exit(ExitCode.FAILED)


def _webhook_row(hook: Webhook) -> tuple[str, ...]:
    filters = (", ".join(values) if values else "all" for values in (hook.kinds, hook.clouds, hook.origins))
    counts = (str(hook.delivered), str(hook.failed), formatting.duration(hook.lag_s))
    return (hook.id, _STATES[hook.state], escape(hook.url), *filters, *counts)


def _delivery_row(delivery: Delivery) -> tuple[str, ...]:
    return (
        delivery.id,
        delivery.message,
        delivery.type.removeprefix("spotfed."),
        delivery.why,
        delivery.at,
        str(delivery.attempt),
        f"{delivery.duration_s:.2f} s",
        _result_text(delivery),
        delivery.next_attempt_at or "–",
    )


def _result_text(delivery: Delivery) -> str:
    return f"delivered, {delivery.status}" if delivery.delivered else str(delivery.error)
