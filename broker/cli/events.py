"""``events``: what happened to spot leases, and what happens now."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from broker.cli import formatting
from broker.cli.connection import connected
from broker.cli.console import JsonOption, coloured, console, print_json
from broker.cli.options import CloudFilter, OriginFilter
from broker.contract import Event, EventKind, Lease
from cloudsim.model.refusals import RefusalReason

_COLOURS = {"bad": "red", "good": "green", "busy": "green", "warn": "yellow"}


def events(
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more until Ctrl-C.")] = False,
    cloud: CloudFilter = None,
    origin: OriginFilter = None,
    after: Annotated[
        str | None,
        typer.Option(
            help="Begin after the event with this id.",
            show_default="the oldest kept; with --follow: what is to come",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show what happened to spot leases; with --follow also what happens from now on, as it happens.

    With --json there is a line for each event.

    Example: spotfed events --follow
    """
    out = console()
    with connected() as client:
        for sent in client.events.stream(follow=follow, last_event_id=after, cloud=cloud, origin=origin):
            if as_json:
                print_json(sent, lines=True)
            else:
                out.print(event_line(sent.event))


def event_line(event: Event) -> str:
    """Return an event as one line, with colours as markup."""
    lease = event.lease
    assert lease is not None, "public events are about leases"
    kind = coloured(event.kind.value, _COLOURS.get(event.kind.tone or "none"))
    what = f"{lease.id} ({formatting.cores(lease.cores)}, from {lease.origin})"
    return f"{event.at[11:19]}  {event.cloud:<10} {kind} {what} {_detail(event, lease)}"


def _detail(event: Event, lease: Lease) -> str:
    cause = escape(event.cause or "")
    risk = formatting.risk(lease.eviction_probability)
    left = formatting.duration((lease.ends_at_s or event.at_s) - event.at_s)
    match event.kind:
        case EventKind.EXTENDED:
            return f"for {left} from now, risk {risk}"
        case EventKind.WARNED:
            return f"is not renewed ({RefusalReason(event.cause or '').text}): ends in {left}"
        case EventKind.NOTICED:
            notice_s = (lease.evict_at_s or event.at_s) - event.at_s
            return f"must leave in {formatting.duration(notice_s)}, because of {cause}"
        case EventKind.OFFERED:
            clouds = [
                f"{offer.cloud} (risk {formatting.risk(offer.eviction_probability)})"
                for offer in event.offers
            ]
            return f"would be taken by {', '.join(clouds) or 'nobody else'}"
        case EventKind.ADMITTED:
            planned_s = None if lease.ends_at_s is None else lease.ends_at_s - lease.starts_at_s
            return f"for {formatting.duration(planned_s)}, risk {risk}"
        case _:
            lived = formatting.duration(event.at_s - lease.starts_at_s)
            return f"after {lived}" + (f", because of {cause}" if cause else "")
