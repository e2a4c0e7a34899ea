"""``leases``, ``instance``, ``extend``, ``release`` and ``acknowledge``: the spot leases of a federation."""

from __future__ import annotations

import time
from collections.abc import Mapping
from itertools import islice
from typing import Annotated, Any

import typer
from rich.markup import escape

from broker.cli import formatting
from broker.cli.connection import connected
from broker.cli.console import JsonOption, console, next_step, number, show_list, show_one
from broker.cli.errors import CommandError, ExitCode
from broker.cli.options import CloudFilter, LeaseArgument, OriginFilter
from broker.client import MOST_LEASES, NOT_NOTICED, ProblemAnswer, RefusedRequest
from broker.contract import ExtensionRequest, Lease, LeaseState
from cloudsim.model.durations import parse_duration_s
from cloudsim.model.errors import SpecError


def leases(
    state: Annotated[LeaseState | None, typer.Option(help="In this state only.")] = None,
    cloud: CloudFilter = None,
    origin: OriginFilter = None,
    limit: Annotated[int, typer.Option(min=1, help="Largest number of leases to show.")] = 100,
    everything: Annotated[bool, typer.Option("--all", help="Show all, however many there are.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show spot leases: those that have not ended, then the others, the latest first.

    Example: spotfed leases --state running
    """
    page = MOST_LEASES if everything else min(limit + 1, MOST_LEASES)
    with connected() as client:
        matches = client.leases.list_all(state=state, cloud=cloud, origin=origin, page=page)
        listed = list(matches if everything else islice(matches, limit + 1))
        now_s = (
            {}
            if as_json
            else {view.info.id: view.advert.at_s for view in client.clouds.list() if view.advert}
        )
    more = not everything and len(listed) > limit
    if more:
        listed = listed[:limit]
    numbers = ("cores", "promised SLA", "risk", "started", "ends")
    show_list(
        "leases",
        listed,
        *("lease", "cloud", "from", "state"),
        *map(number, numbers),
        row=lambda lease: _lease_row(lease, now_s),
        as_json=as_json,
        title="Spot leases",
        more={"more": more},
    )
    if as_json:
        return
    if more:
        console().print(f"there are more than {limit}: see --limit and --all")
    running = next((lease.id for lease in listed if lease.state is LeaseState.RUNNING), None)
    if running is not None:
        next_step(f"spotfed extend {running} --by 2h, or spotfed release {running}")
    elif not listed:
        next_step("spotfed submit --cores 1 --lifetime 2h --sla 0.05")


def instance(
    lease: LeaseArgument,
    cloud: Annotated[
        str | None, typer.Option(help="Cloud on which it was bought on-demand.", show_default="a spot lease")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show the instance of a lease on a real cloud: its name there, addresses, state.

    Example: spotfed instance 4f1c9a.1
    """
    with connected() as client:
        if cloud is None:
            view = client.leases.get_instance(lease)
        else:
            view = client.on_demand.get_instance(cloud, lease)
    lasts = formatting.duration(max(0.0, time.time() - view.since))
    text = [f"{lease}: {escape(view.own_id or 'no instance yet')}, {view.state} for {lasts}"]
    if view.addresses:
        text.append(escape(f"addresses: {', '.join(view.addresses)}"))
    if view.why:
        text.append(escape(f"why: {view.why}"))
    show_one(view, *text, as_json=as_json)


def extend(
    lease: LeaseArgument,
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
    more_s = parse_duration_s(by, field="--by")
    if more_s <= 0:
        raise SpecError(f"{by!r} is no time at all", field="--by")
    promise = None if sla is None else formatting.parse_sla(sla, field="--sla")
    if sla is not None and (promise is None or promise >= 1):
        raise SpecError("an extension keeps its promise: name a probability below 1", field="--sla")
    with connected() as client:
        current = client.leases.get(lease)
        if current.ends_at_s is None or current.ended_at_s is not None:
            raise CommandError(f"{lease} has ended: {current.state}", ExitCode.REFUSED)
        present_s = current.ends_at_s - current.starts_at_s
        answer = client.leases.extend(lease, ExtensionRequest(lifetime_s=present_s + more_s, sla=promise))
    show_one(_extension_dict(answer), _extension_text(lease, present_s, more_s, answer), as_json=as_json)
    if isinstance(answer, RefusedRequest):
        raise typer.Exit(ExitCode.REFUSED)


def release(lease: LeaseArgument, as_json: JsonOption = False) -> None:
    """Give a spot instance back before its time.

    Example: spotfed release 4f1c9a.1
    """
    with connected() as client:
        answer = client.leases.cancel(lease)
    cloud = answer.lease.cloud
    if not answer.done:
        text = f"noted: {cloud} does not answer; it ends {lease} when it is back"
    elif answer.lease.state is LeaseState.CANCELLED:
        text = f"released {lease} on {cloud}"
    else:
        text = f"{lease} had already ended: {answer.lease.state}"
    show_one(answer, text, as_json=as_json)


def acknowledge(lease: LeaseArgument, as_json: JsonOption = False) -> None:
    """Leave before the notice ends: a request that waits for the room of this instance can start at once.

    Exit code 3 when the lease is not under notice; then it stays as it is.

    Example: spotfed acknowledge 4f1c9a.1
    """
    with connected() as client:
        try:
            ended = client.leases.acknowledge(lease)
        except ProblemAnswer as answer:
            if answer.problem.type != NOT_NOTICED:
                raise
            raise CommandError(
                f"{lease} was not told to leave; spotfed release gives it back", ExitCode.REFUSED
            ) from answer
    show_one({"lease": ended}, _departure_text(ended), as_json=as_json)


def _lease_row(lease: Lease, now_s: Mapping[str, float]) -> tuple[str, ...]:
    """Return the cells of a lease. ``now_s``: the time of each cloud that answers."""
    cloud_now_s = now_s.get(lease.cloud)
    return (
        lease.id,
        lease.cloud,
        lease.origin,
        lease.state.value,
        str(lease.cores),
        formatting.sla(lease.promised_sla),
        formatting.risk(lease.eviction_probability),
        "–" if cloud_now_s is None else f"{formatting.duration(cloud_now_s - lease.starts_at_s)} ago",
        _end_text(lease, cloud_now_s),
    )


def _end_text(lease: Lease, now_s: float | None) -> str:
    if lease.ended_at_s is not None:
        return f"after {formatting.duration(lease.ended_at_s - lease.starts_at_s)}"
    if lease.ends_at_s is None or now_s is None:
        return "–"
    if lease.evict_at_s is not None:
        return f"must leave in {formatting.duration(max(0.0, lease.evict_at_s - now_s))}"
    return f"in {formatting.duration(max(0.0, lease.ends_at_s - now_s))}"


def _departure_text(lease: Lease) -> str:
    if lease.state is not LeaseState.EVICTED or lease.ended_at_s is None:
        return f"{lease.id} had already ended: {lease.state}"
    early_s = (lease.evict_at_s or lease.ended_at_s) - lease.ended_at_s
    early = f", {formatting.duration(early_s)} before it had to" if early_s > 0 else ""
    return f"{lease.id} on {lease.cloud} has left{early}"


def _extension_dict(answer: Lease | RefusedRequest) -> dict[str, Any]:
    if isinstance(answer, RefusedRequest):
        return {"lease": None, "refusals": answer.refusals, "counter_offers": answer.counter_offers}
    return {"lease": answer, "refusals": []}


def _extension_text(lease_id: str, present_s: float, more_s: float, answer: Lease | RefusedRequest) -> str:
    """Return the answer to an extension as a sentence. ``present_s``: the lifetime without it."""
    if not isinstance(answer, RefusedRequest):
        return (
            f"[green]extended[/green] {lease_id} on {answer.cloud} by {formatting.duration(more_s)}, "
            f"risk of eviction from now on {formatting.risk(answer.eviction_probability)}"
        )
    why = "; ".join(refusal.reason.text for refusal in answer.refusals)
    offers, instead = answer.counter_offers, []
    if offers.lifetime_s is not None and offers.lifetime_s - present_s >= 1:
        instead.append(f"--by {int(offers.lifetime_s - present_s)}s")
    if offers.sla is not None and offers.sla < 1:
        instead.append(f"--sla {formatting.rounded_up(offers.sla):g}")
    return f"[red]refused[/red] {why}; accepted instead: {', or '.join(instead) or 'nothing for now'}"
