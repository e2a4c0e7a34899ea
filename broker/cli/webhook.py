"""``webhook``: have events posted to a URL, and see what became of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from broker.cli import formatting
from broker.cli.connection import connected
from broker.cli.console import CommandError, ExitCode, JsonOption, console, print_json

if TYPE_CHECKING:
    from broker.webhooks.models import Delivery, Webhook

webhook = typer.Typer(no_args_is_help=True, help="Have events posted to a URL, signed and at least once.")

_STATES = {
    "active": "[green]active[/green]",
    "paused": "[yellow]paused[/yellow]",
    "disabled": "[red]disabled[/red]",
}

IdArgument = Annotated[str, typer.Argument(metavar="ID", help="As `spotfed webhook list` shows it.")]


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
    from pydantic import ValidationError

    from broker.webhooks.models import WebhookWish

    told = {"clouds": cloud, "origins": origin, "kinds": kind}
    try:
        wish = WebhookWish.model_validate(
            {"url": url, "description": description, **{name: some for name, some in told.items() if some}}
        )
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        name = {"clouds": "--cloud", "origins": "--origin", "kinds": "--kind"}.get(str(first["loc"][0]))
        raise CommandError(f"{name or first['loc'][0]}: {first['msg']}", ExitCode.BAD_INPUT) from None
    with connected() as client:
        made = client.webhooks.add(wish)
    if as_json:
        print_json(made.model_dump(mode="json"))
        return
    out = console()
    out.print(f"webhook {made.webhook.id} begins with what happens from now on")
    out.print(f"secret, shown this once: {made.secret}", soft_wrap=True)
    out.print(f"try it: spotfed webhook test {made.webhook.id}")


@webhook.command("list")
def list_webhooks(as_json: JsonOption = False) -> None:
    """Show your webhooks.

    Example: spotfed webhook list
    """
    with connected() as client:
        found = client.webhooks.list()
    if as_json:
        print_json({"webhooks": [one.model_dump(mode="json") for one in found]})
        return
    from rich.markup import escape
    from rich.table import Table

    table = Table(title="Webhooks", title_justify="left")
    for name in ("id", "state", "URL", "kinds", "clouds", "origins"):
        table.add_column(name)
    for name in ("delivered", "failed", "lag"):
        table.add_column(name, justify="right")
    for one in found:
        counted = (str(one.delivered), str(one.failed), formatting.duration(one.lag_s))
        filters = (", ".join(some) if some else "all" for some in (one.kinds, one.clouds, one.origins))
        table.add_row(one.id, _STATES[one.state], escape(one.url), *filters, *counted)
    console().print(table)
    if not found:
        console().print("none yet: spotfed webhook add URL")


@webhook.command()
def show(webhook_id: IdArgument, as_json: JsonOption = False) -> None:
    """Show a webhook: where it is, and whether and why it does not deliver.

    Example: spotfed webhook show 4f1c9a
    """
    with connected() as client:
        found = client.webhooks.get(webhook_id)
    _tell(found, as_json)


@webhook.command("test")
def send_test(webhook_id: IdArgument, as_json: JsonOption = False) -> None:
    """Send a test, and show what came of it. Exit code 1 when it did not arrive.

    Example: spotfed webhook test 4f1c9a
    """
    with connected() as client:
        done = client.webhooks.test(webhook_id)
    _judge(done, as_json)


@webhook.command()
def pause(webhook_id: IdArgument, as_json: JsonOption = False) -> None:
    """Send nothing until it is resumed; what happens meanwhile is kept for it.

    Example: spotfed webhook pause 4f1c9a
    """
    with connected() as client:
        found = client.webhooks.pause(webhook_id)
    _tell(found, as_json)


@webhook.command()
def resume(webhook_id: IdArgument, as_json: JsonOption = False) -> None:
    """Go on from where it was, also after it was paused for too many failures.

    Example: spotfed webhook resume 4f1c9a
    """
    with connected() as client:
        found = client.webhooks.pause(webhook_id, False)
    _tell(found, as_json)


@webhook.command()
def rotate(webhook_id: IdArgument, as_json: JsonOption = False) -> None:
    """Replace the secret. For a day events carry signatures of the old and of the new one.

    Example: spotfed webhook rotate 4f1c9a
    """
    with connected() as client:
        made = client.webhooks.rotate_secret(webhook_id)
    if as_json:
        print_json(made.model_dump(mode="json"))
        return
    out = console()
    out.print(f"new secret, shown this once: {made.secret}", soft_wrap=True)
    out.print(f"the old one signs as well until {made.old_until}")


@webhook.command()
def remove(webhook_id: IdArgument, as_json: JsonOption = False) -> None:
    """Delete a webhook and its log.

    Example: spotfed webhook remove 4f1c9a
    """
    with connected() as client:
        client.webhooks.remove(webhook_id)
    if as_json:
        print_json({"removed": webhook_id})
    else:
        console().print(f"removed {webhook_id}")


@webhook.command()
def deliveries(
    webhook_id: IdArgument,
    limit: Annotated[int, typer.Option(min=1, max=500, help="Show at most so many.")] = 20,
    as_json: JsonOption = False,
) -> None:
    """Show the last attempts to deliver, newest first.

    Example: spotfed webhook deliveries 4f1c9a --limit 5
    """
    with connected() as client:
        found = client.webhooks.list_deliveries(webhook_id, limit=limit)
    if as_json:
        print_json(found.model_dump(mode="json"))
        return
    from rich.table import Table

    table = Table(title="Deliveries", title_justify="left")
    for name in ("delivery", "event", "type", "why", "at"):
        table.add_column(name)
    for name in ("attempt", "took"):
        table.add_column(name, justify="right")
    for name in ("result", "next attempt"):
        table.add_column(name)
    for one in found.deliveries:
        table.add_row(
            *(one.id, one.message, one.type.removeprefix("spotfed."), one.why, one.at),
            *(str(one.attempt), f"{one.duration_s:.2f} s", _result(one), one.next_attempt_at or "–"),
        )
    console().print(table)
    if found.more:
        console().print("there is more: --limit")


@webhook.command()
def redeliver(
    webhook_id: IdArgument,
    delivery: Annotated[str, typer.Argument(help="As `spotfed webhook deliveries` shows it.")],
    as_json: JsonOption = False,
) -> None:
    """Send the event of a delivery again, at once. Exit code 1 when it did not arrive.

    Example: spotfed webhook redeliver 4f1c9a 1795862400000-0
    """
    with connected() as client:
        done = client.webhooks.redeliver(webhook_id, delivery)
    _judge(done, as_json)


def _tell(found: Webhook, as_json: bool) -> None:
    if as_json:
        print_json(found.model_dump(mode="json"))
        return
    from rich.text import Text

    out = console()
    for name, value in found.model_dump(mode="json").items():
        if value not in (None, ""):
            text = ", ".join(value) if isinstance(value, list) else str(value)
            out.print(Text.assemble((f"{name}: ", "bold"), text), soft_wrap=True)


def _judge(done: Delivery, as_json: bool) -> None:
    if as_json:
        print_json(done.model_dump(mode="json"))
    else:
        console().print(f"{done.message}: {_result(done)} after {done.duration_s:.2f} s")
    if not done.delivered:
        raise typer.Exit(ExitCode.FAILED)


def _result(one: Delivery) -> str:
    return f"delivered, {one.status}" if one.delivered else str(one.error)
