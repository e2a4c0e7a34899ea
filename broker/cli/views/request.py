"""Answers to requests for spot instances, for people and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from broker.cli import formatting
from broker.cli.console import ExitCode, console

if TYPE_CHECKING:
    from broker.api.schemas.on_demand import OnDemandOffer
    from broker.client import GrantedRequest, ProblemAnswer, RefusedRequest
    from broker.contract import CounterOffers, Lease, QuoteView, RefusalView, SpotRequest

#: What a refusal says that a filter removed nodes for. Kept equal to the filters' names by a test.
REMOVED = {
    "cordon": "closed",
    "labels": "without the labels",
    "affinity": "away from its group",
    "anti_affinity": "with some of its group",
    "room": "without room",
}


@dataclass(frozen=True)
class Bought:
    """Refused as spot, and started on-demand."""

    lease: Lease
    offer: OnDemandOffer
    refused: RefusedRequest


if TYPE_CHECKING:
    Answer = GrantedRequest | RefusedRequest | ProblemAnswer | Bought


def code_of(answer: Answer) -> ExitCode:
    """What it means for the command."""
    from broker.client import GrantedRequest, RefusedRequest

    if isinstance(answer, GrantedRequest):
        return ExitCode.DONE
    if isinstance(answer, Bought):
        return ExitCode.ON_DEMAND
    return ExitCode.REFUSED if isinstance(answer, RefusedRequest) else ExitCode.FAILED


def as_dict(answer: Answer) -> dict[str, Any]:
    """As JSON types."""
    from broker.client import GrantedRequest, RefusedRequest

    if isinstance(answer, Bought):
        taken = answer.offer.model_dump(mode="json")
        return {**as_dict(answer.refused), "lease": answer.lease.model_dump(mode="json"), "taken": taken}

    if isinstance(answer, GrantedRequest | RefusedRequest):
        refusals = [refusal.model_dump(mode="json") for refusal in answer.refusals]
        if isinstance(answer, GrantedRequest):
            return {"lease": answer.lease.model_dump(mode="json"), "refusals": refusals}
        offers = answer.counter_offers.model_dump(mode="json")
        on_demand = [one.model_dump(mode="json") for one in answer.on_demand]
        return {"lease": None, "refusals": refusals, "counter_offers": offers, "on_demand": on_demand}
    problem = answer.problem.model_dump(mode="json", exclude_none=True)
    return {"lease": None, "refusals": [], "problem": problem}


def in_words(request: SpotRequest, answer: Answer) -> str:
    """For people."""
    from broker.client import GrantedRequest, RefusedRequest

    if isinstance(answer, GrantedRequest):
        lease = answer.lease
        over = f"; [red]{lease.state} already[/red]" if lease.ended_at_s is not None else ""
        return (
            f"[green]admitted[/green] lease [bold]{lease.id}[/bold] on {lease.cloud}, node {lease.node}: "
            f"{formatting.cores(lease.cores)}{_with(lease.amounts)} for {_lifetime(request, lease)}, "
            f"risk of eviction {formatting.risk(lease.eviction_probability)}{over}"
        )
    if isinstance(answer, RefusedRequest):
        lines = ["[red]refused[/red]"]
        for refusal in answer.refusals:
            if refusal.reason != "not_a_target":
                detail = f" ({refusal.detail})" if refusal.detail else ""
                lines.append(f"  {refusal.cloud}: {_why(refusal)}{detail}")
        instead = [f"  {text}" for text in on_demand_in_words(answer.on_demand)]
        return "\n".join([*lines, f"  {_offer(answer.counter_offers)}", *instead])
    if isinstance(answer, Bought):
        lease, offer = answer.lease, answer.offer
        lasts = (
            "until it is stopped"
            if request.lifetime_s is None
            else f"for {formatting.duration(request.lifetime_s)}"
        )
        return (
            f"[yellow]refused as spot[/yellow], started on-demand [bold]{lease.id}[/bold] on {lease.cloud} "
            f"instead: {formatting.cores(lease.cores)}{_with(lease.amounts)} {lasts}, {_cost(offer)}"
        )
    return f"[red]failed[/red] {answer}"


def _why(refusal: RefusalView) -> str:
    """The reason, which nodes were out of the question for what, and whether evicting would help."""
    why = refusal.reason.text
    told = [f"{count} {REMOVED.get(name, f'by {name}')}" for name, count in refusal.removed.items()]
    if told:
        why += f"; nodes: {', '.join(told)}"
    if refusal.eviction_would_help:
        why += "; there would be room without spot instances"
    return why + (f"; {refusal.broken_promise.detail}" if refusal.broken_promise else "")


def _with(resources: Mapping[str, int]) -> str:
    told = ", ".join(f"{name} {amount}" for name, amount in resources.items())
    return f" with {told}" if told else ""


def _lifetime(request: SpotRequest, lease: Lease) -> str:
    if lease.ends_at_s is None:
        return formatting.duration(request.lifetime_s)
    granted = formatting.duration(lease.ends_at_s - lease.starts_at_s)  # a whole slice, where slices are sold
    return granted if request.lifetime_s is not None else f"{granted} at a time"


def _offer(offers: CounterOffers) -> str:
    """What would be accepted instead, in words."""
    instead = []
    if offers.lifetime_s is not None:
        instead.append(f"{formatting.duration(offers.lifetime_s)} at this SLA")
    if offers.sla is not None and offers.sla < 1:
        instead.append(f"SLA {formatting.rounded_up(offers.sla):g} at this lifetime")
    if offers.cores is not None:
        instead.append(f"{formatting.cores(offers.cores)} at both")
    return "accepted instead: " + (", or ".join(instead) if instead else "nothing at this size for now")


def on_demand_in_words(offers: Sequence[OnDemandOffer], *, sizes: bool = False) -> list[str]:
    """Where it could be had on-demand, a line each; ``sizes``: several are asked about."""
    found = []
    for one in offers:
        size = f" of {formatting.cores(one.cores)}" if sizes else ""
        found.append(f"on-demand{size} on {one.cloud}: {_cost(one)}, never taken back")
    return found


def _cost(offer: OnDemandOffer) -> str:
    each = f"{_dollars(offer.usd_per_core_hour)} a core-hour"
    return each if offer.usd is None else f"{each}, {_dollars(offer.usd)} in all"


def _dollars(usd: float) -> str:
    """To the cent, or two digits of what is less."""
    return f"{usd:.2f} $" if usd >= 0.1 else f"{usd:.2g} $"


def show_quotes(
    request: SpotRequest, counts: Sequence[int], answers: Sequence[QuoteView | RefusalView]
) -> None:
    """A table of what the clouds say, in the order of ``counts``."""
    from rich.table import Table

    lifetime = "a renewal period" if request.lifetime_s is None else formatting.duration(request.lifetime_s)
    promise = formatting.sla(request.sla)
    asked = ", ".join(map(str, counts)) + (" core" if counts == (1,) else " cores") + _with(request.resources)
    table = Table(title=f"{asked} for {lifetime} at SLA {promise}", title_justify="left")
    table.add_column("cloud")
    table.add_column("answer")
    numbers = ("free slots", "risk of eviction", "survives at this SLA", "other sizes promised", "table made")
    for name in ("cores", *numbers) if len(counts) > 1 else numbers:
        table.add_column(name, justify="right")
    for one in sorted(answers, key=lambda answer: counts.index(answer.cores or counts[0])):
        if one.answer == "quote":
            verdict, risk, survives_s = "[green]yes[/green]", one.eviction_probability, one.survives_s
            if one.pool is not None:
                verdict += f", pool {one.pool}"
            if one.admission == "population" and risk is not None:
                verdict += ", its SLA is a mean"
            if one.broken_promise:
                verdict += f", but [yellow]{one.broken_promise.detail}[/yellow]"
        else:
            verdict = f"[red]no[/red], {_why(one)}"
            risk, survives_s = one.counter_offers.sla, one.counter_offers.lifetime_s
        row = [
            "–" if one.free_slots is None else str(one.free_slots),
            formatting.risk(risk),
            formatting.duration(survives_s),
            formatting.sizes([other.cores for other in one.other_sizes if other.admitted]),
            "–" if one.table_age_s is None else f"{formatting.duration(one.table_age_s)} ago",
        ]
        size = [str(one.cores)] if len(counts) > 1 else []
        table.add_row(one.cloud, verdict, *size, *row)
    console().print(table)
