"""``clouds``, ``leases``, ``extend``, ``release`` and ``events``: what a running federation is doing."""

from __future__ import annotations

from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from broker.cli import formatting
from broker.cli.connection import connected
from broker.cli.console import JsonOption, coloured, console, next_step, print_json
from cloudsim.model.refusals import RefusalReason

if TYPE_CHECKING:
    from broker.api.schemas.clouds import CloudView
    from broker.contract import Advert, Event, Lease


class StateOption(StrEnum):
    """As ``broker.contract.LeaseState``, which is heavy to import; a test keeps them equal."""

    BOOKED = "booked"
    RESERVED = "reserved"
    RUNNING = "running"
    COMPLETED = "completed"
    EVICTED = "evicted"
    CANCELLED = "cancelled"
    FAILED = "failed"


CloudOption = Annotated[str | None, typer.Option(help="Of this cloud only.")]
OriginOption = Annotated[str | None, typer.Option(help="Of this origin only.")]


def clouds(as_json: JsonOption = False) -> None:
    """Show the members of the federation: room, load and how old their tables are.

    Example: spotfed clouds
    """
    with connected() as client:
        views = client.clouds.list()
    if as_json:
        print_json({"clouds": [view.model_dump(mode="json") for view in views]})
    else:
        _show_clouds(views)
        next_step("spotfed quote --cores 1 --lifetime 2h --sla 0.05")


def leases(
    state: Annotated[StateOption | None, typer.Option(help="In this state only.")] = None,
    cloud: CloudOption = None,
    origin: OriginOption = None,
    limit: Annotated[int, typer.Option(min=1, help="Show at most so many.")] = 100,
    everything: Annotated[bool, typer.Option("--all", help="Show all, however many there are.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show spot leases: those that have not ended, then the others, the latest first.

    Example: spotfed leases --state running
    """
    with connected() as client:
        from broker.client import MOST_LEASES
        from broker.contract import LeaseState

        wanted = None if state is None else LeaseState(state.value)
        page = MOST_LEASES if everything else min(limit + 1, MOST_LEASES)
        told = client.leases.list_all(state=wanted, cloud=cloud, origin=origin, page=page)
        listed = list(told if everything else islice(told, limit + 1))
        more = not everything and len(listed) > limit
        found = listed[:limit] if more else listed
        now_s = (
            {}
            if as_json
            else {view.info.id: view.advert.at_s for view in client.clouds.list() if view.advert}
        )
    if as_json:
        print_json({"leases": [one.model_dump(mode="json") for one in found], "more": more})
        return
    _show_leases(found, now_s)
    if more:
        console().print(f"there are more than {limit}: see --limit and --all")
    running = next((one.id for one in found if one.state == LeaseState.RUNNING), None)
    if running is not None:
        next_step(f"spotfed extend {running} --by 2h, or spotfed release {running}")
    elif not found:
        next_step("spotfed submit --cores 1 --lifetime 2h --sla 0.05")


def extend(
    lease: Annotated[str, typer.Argument(help="Id of the lease.")],
    by: Annotated[str, typer.Option(help="How much later it is to end, in the cloud's time: 40m, 2h.")],
    sla: Annotated[
        str | None,
        typer.Option(
            help="Largest acceptable probability of eviction from now on.", show_default="the lease's"
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Ask for a later end of a spot lease. A refusal says why, and what would be accepted instead.

    The risk counts that the instance has lived until now. Exit code 3 when the extension is refused; then
    the lease stays as it is.

    Example: spotfed extend 4f1c9a.1 --by 2h
    """
    from broker.cli.extension import extend_lease

    extend_lease(lease, by, sla, as_json=as_json)


def release(
    lease: Annotated[str, typer.Argument(help="Id of the lease.")], as_json: JsonOption = False
) -> None:
    """Give a spot instance back before its time.

    Example: spotfed release 4f1c9a.1
    """
    with connected() as client:
        answer = client.leases.cancel(lease)
    if as_json:
        print_json(answer.model_dump(mode="json"))
    elif not answer.done:
        console().print(f"noted: {answer.lease.cloud} does not answer; it ends {lease} when it is back")
    elif answer.lease.state == "cancelled":
        console().print(f"released {lease} on {answer.lease.cloud}")
    else:
        console().print(f"{lease} had already ended: {answer.lease.state}")


def events(
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more until Ctrl-C.")] = False,
    cloud: CloudOption = None,
    origin: OriginOption = None,
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
                print_json(sent.model_dump(mode="json"), lines=True)
            else:
                out.print(in_words(sent.event))


_COLOURS = {
    "evicted": "red",
    "admitted": "green",
    "extended": "green",
    "warned": "yellow",
    "noticed": "yellow",
}


def in_words(event: Event) -> str:
    """On one line, with colours as markup."""
    from rich.markup import escape

    lease, cause = event.lease, escape(event.cause or "")
    assert lease is not None, "public events are about leases"
    kind = coloured(event.kind.value, _COLOURS.get(event.kind.value))
    what = f"{lease.id} ({formatting.cores(lease.cores)}, from {lease.origin})"
    ran_s = event.at_s - lease.starts_at_s
    if event.kind == "extended":
        more_s = (lease.ends_at_s or event.at_s) - event.at_s
        detail = (
            f"for {formatting.duration(more_s)} from now, risk {formatting.risk(lease.eviction_probability)}"
        )
    elif event.kind == "warned":
        left_s = (lease.ends_at_s or event.at_s) - event.at_s
        why = RefusalReason(event.cause or "").text
        detail = f"is not renewed ({why}): ends in {formatting.duration(left_s)}"
    elif event.kind == "noticed":
        left_s = (lease.evict_at_s or event.at_s) - event.at_s
        detail = f"must leave in {formatting.duration(left_s)}, because of {cause}"
    elif event.kind == "offered":
        clouds = [f"{one.cloud} (risk {formatting.risk(one.eviction_probability)})" for one in event.offers]
        detail = f"would be taken by {', '.join(clouds) or 'nobody else'}"
    elif event.kind == "admitted":
        planned = None if lease.ends_at_s is None else lease.ends_at_s - lease.starts_at_s
        detail = f"for {formatting.duration(planned)}, risk {formatting.risk(lease.eviction_probability)}"
    else:
        detail = f"after {formatting.duration(ran_s)}" + (f", because of {cause}" if cause else "")
    return f"{event.at[11:19]}  {event.cloud:<10} {kind} {what} {detail}"


def _show_clouds(views: list[CloudView]) -> None:
    from rich.table import Table

    table = Table(title="Clouds", title_justify="left")
    table.add_column("cloud")
    table.add_column("nodes")
    table.add_column("state")
    for name in (
        "cloud time",
        "free cores",
        "on-demand",
        "spot",
        "spot leases",
        "admitted",
        "evicted",
        "table made",
    ):
        table.add_column(name, justify="right")
    for view in views:
        info, advert = view.info, view.advert
        state = "[green]reachable[/green]" if view.reachable else "[red]unreachable[/red]"
        if advert is not None and advert.closed_nodes:
            count = advert.closed_nodes
            state += f", [yellow]{count} {'node' if count == 1 else 'nodes'} closed[/yellow]"
        if view.broken_promises:
            at = ", ".join(formatting.sla(broken.sla) for broken in view.broken_promises)
            state += f", [yellow]asked last at SLA {at}[/yellow]"
        if advert is None:
            table.add_row(info.id, info.nodes, state)
            continue
        made_s = advert.table_made_at_s
        table.add_row(
            info.id,
            info.nodes,
            state,
            formatting.duration(advert.at_s),
            *_load(advert, info.cores),
            "none yet" if made_s is None else f"{formatting.duration(advert.at_s - made_s)} ago",
        )
    out = console()
    out.print(table)
    for view in views:
        for broken in view.broken_promises:
            out.print(f"{view.info.id} {broken.detail}")


def _load(advert: Advert, cores: int) -> tuple[str, ...]:
    """Room, and what runs, where the cloud tells it."""
    if advert.disclosure != "full":
        return ("some" if advert.free_cores else "none", *"–––––")
    counts = (advert.on_demand_cores, advert.spot_cores, advert.spot_leases, advert.admitted, advert.evicted)
    return (f"{advert.free_cores} of {cores}", *map(str, counts))


def _show_leases(found: list[Lease], now_s: dict[str, float]) -> None:
    from rich.table import Table

    table = Table(title="Spot leases", title_justify="left")
    for name in ("lease", "cloud", "from", "state"):
        table.add_column(name)
    for name in ("cores", "promised SLA", "risk", "started", "ends"):
        table.add_column(name, justify="right")
    for lease in found:
        now = now_s.get(lease.cloud)
        table.add_row(
            lease.id,
            lease.cloud,
            lease.origin,
            lease.state.value,
            str(lease.cores),
            formatting.sla(lease.promised_sla),
            formatting.risk(lease.eviction_probability),
            "–" if now is None else f"{formatting.duration(now - lease.starts_at_s)} ago",
            _end_in_words(lease, now),
        )
    console().print(table)


def _end_in_words(lease: Lease, now_s: float | None) -> str:
    if lease.ended_at_s is not None:
        return f"after {formatting.duration(lease.ended_at_s - lease.starts_at_s)}"
    if lease.ends_at_s is None or now_s is None:
        return "–"
    if lease.evict_at_s is not None:
        return f"must leave in {formatting.duration(max(0.0, lease.evict_at_s - now_s))}"
    return f"in {formatting.duration(max(0.0, lease.ends_at_s - now_s))}"
