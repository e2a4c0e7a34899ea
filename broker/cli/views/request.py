"""Answers to requests for spot instances: as text, as a table of quotes, and as JSON types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from broker.cli import formatting
from broker.cli.console import make_table, number
from broker.cli.errors import ExitCode
from broker.client import GrantedRequest, ProblemAnswer, RefusedRequest
from broker.contract import CounterOffers, Lease, QuoteView, RefusalView, SpotRequest
from broker.schemas.on_demand import OnDemandOffer
from cloudsim.model.refusals import RefusalReason

#: What a refusal says about the nodes that a filter removed, by the filter's name.
REMOVED = {
    "cordon": "closed",
    "labels": "without the labels",
    "affinity": "away from its group",
    "anti_affinity": "with some of its group",
    "room": "without room",
}


@dataclass(frozen=True)
class Bought:
    """An on-demand lease that was bought because spot was refused."""

    lease: Lease
    offer: OnDemandOffer
    refused: RefusedRequest


Answer = GrantedRequest | RefusedRequest | ProblemAnswer | Bought


def exit_code_of_answer(answer: Answer) -> ExitCode:
    """Return the exit code that an answer stands for."""
    match answer:
        case GrantedRequest():
            return ExitCode.DONE
        case Bought():
            return ExitCode.ON_DEMAND
        case RefusedRequest():
            return ExitCode.REFUSED
        case _:
            return ExitCode.FAILED


def answer_dict(answer: Answer) -> dict[str, Any]:
    """Return an answer as ``print_json`` takes it."""
    match answer:
        case Bought():
            return {**answer_dict(answer.refused), "lease": answer.lease, "taken": answer.offer}
        case GrantedRequest():
            return {"lease": answer.lease, "refusals": answer.refusals}
        case RefusedRequest():
            return {
                "lease": None,
                "refusals": answer.refusals,
                "counter_offers": answer.counter_offers,
                "on_demand": answer.on_demand,
            }
        case _:
            problem = answer.problem.model_dump(mode="json", exclude_none=True)
            return {"lease": None, "refusals": [], "problem": problem}


def answer_text(request: SpotRequest, answer: Answer) -> str:
    """Return an answer as one or more lines with markup."""
    match answer:
        case GrantedRequest():
            lease = answer.lease
            over = f"; [red]{lease.state} already[/red]" if lease.ended_at_s is not None else ""
            return (
                f"[green]admitted[/green] lease [bold]{lease.id}[/bold] on {lease.cloud}, node {lease.node}: "
                f"{formatting.cores(lease.cores)}{_amounts_text(lease.amounts)} for "
                f"{_lifetime_text(request, lease)}, "
                f"risk of eviction {formatting.risk(lease.eviction_probability)}{over}"
            )
        case RefusedRequest():
            return "\n".join(["[red]refused[/red]", *(f"  {line}" for line in _refused_lines(answer))])
        case Bought():
            lease, offer = answer.lease, answer.offer
            lasts = (
                "until it is stopped"
                if request.lifetime_s is None
                else f"for {formatting.duration(request.lifetime_s)}"
            )
            return (
                f"[yellow]refused as spot[/yellow], started on-demand [bold]{lease.id}[/bold] on "
                f"{lease.cloud} instead: {formatting.cores(lease.cores)}{_amounts_text(lease.amounts)} "
                f"{lasts}, {_cost_text(offer)}"
            )
        case _:
            return f"[red]failed[/red] {answer}"


def on_demand_lines(offers: Sequence[OnDemandOffer], *, with_sizes: bool = False) -> list[str]:
    """Return a line for each on-demand offer; ``with_sizes`` where several sizes were asked about."""
    lines = []
    for offer in offers:
        size = f" of {formatting.cores(offer.cores)}" if with_sizes else ""
        lines.append(f"on-demand{size} on {offer.cloud}: {_cost_text(offer)}, never taken back")
    return lines


def quotes_table(
    request: SpotRequest, sizes: Sequence[int], answers: Sequence[QuoteView | RefusalView]
) -> Table:
    """Return a table of what the clouds would promise, in the order of ``sizes``."""
    lifetime = "a renewal period" if request.lifetime_s is None else formatting.duration(request.lifetime_s)
    amounts = _amounts_text(request.resources)
    what = ", ".join(map(str, sizes)) + (" core" if sizes == (1,) else " cores") + amounts
    headings = (
        "free slots",
        "risk of eviction",
        "survives at this SLA",
        "other sizes promised",
        "table made",
    )
    shown = ("cores", *headings) if len(sizes) > 1 else headings
    table = make_table(
        f"{what} for {lifetime} at SLA {formatting.sla(request.sla)}", "cloud", "answer", *map(number, shown)
    )
    for answer in sorted(answers, key=lambda answer: sizes.index(answer.cores or sizes[0])):
        if answer.answer == "quote":
            verdict = _promise_text(answer, request.lifetime_s)
            risk, survives_s = answer.eviction_probability, answer.survives_s
        else:
            verdict = f"[red]no[/red], {_reason_text(answer)}"
            risk, survives_s = answer.counter_offers.sla, answer.counter_offers.lifetime_s
        table.add_row(
            answer.cloud,
            verdict,
            *([str(answer.cores)] if len(sizes) > 1 else []),
            "–" if answer.free_slots is None else str(answer.free_slots),
            formatting.risk(risk),
            formatting.duration(survives_s),
            formatting.sizes([other.cores for other in answer.other_sizes if other.admitted]),
            "–" if answer.table_age_s is None else f"{formatting.duration(answer.table_age_s)} ago",
        )
    return table


def _promise_text(quote: QuoteView, lifetime_s: float | None) -> str:
    text = "[green]yes[/green]"
    if lifetime_s is not None and quote.survives_s is not None and quote.survives_s < lifetime_s:
        text += f", {formatting.duration(quote.survives_s)} of it at first"
    if quote.pool is not None:
        text += f", pool {quote.pool}"
    if quote.admission == "population" and quote.eviction_probability is not None:
        text += ", its SLA is a mean"
    if quote.broken_promise:
        text += f", but [yellow]{quote.broken_promise.detail}[/yellow]"
    return text


def _refused_lines(answer: RefusedRequest) -> list[str]:
    lines = []
    for refusal in answer.refusals:
        if refusal.reason is not RefusalReason.NOT_A_TARGET:
            detail = f" ({refusal.detail})" if refusal.detail else ""
            lines.append(f"{refusal.cloud}: {_reason_text(refusal)}{detail}")
    return [*lines, _offers_text(answer.counter_offers), *on_demand_lines(answer.on_demand)]


def _reason_text(refusal: RefusalView) -> str:
    """Return why a cloud refused, which nodes were ruled out, and whether evicting would help."""
    text = refusal.reason.text
    removed = [f"{count} {REMOVED.get(name, f'by {name}')}" for name, count in refusal.removed.items()]
    if removed:
        text += f"; nodes: {', '.join(removed)}"
    if refusal.eviction_would_help:
        text += "; there would be room without spot instances"
    return text + (f"; {refusal.broken_promise.detail}" if refusal.broken_promise else "")


def _amounts_text(resources: Mapping[str, int]) -> str:
    text = ", ".join(f"{name} {amount}" for name, amount in resources.items())
    return f" with {text}" if text else ""


def _lifetime_text(request: SpotRequest, lease: Lease) -> str:
    if lease.ends_at_s is None:
        return formatting.duration(request.lifetime_s)
    granted = formatting.duration(lease.ends_at_s - lease.starts_at_s)  # a whole slice, where slices are sold
    if request.lifetime_s is None:
        return f"{granted} at a time"
    if lease.wanted_until_s is None or lease.wanted_until_s <= lease.ends_at_s:
        return granted
    return (
        f"{granted} of the {formatting.duration(request.lifetime_s)} that it wants, renewed before that ends"
    )


def _offers_text(offers: CounterOffers) -> str:
    """Return what would be accepted instead of a refused request."""
    instead = []
    if offers.lifetime_s is not None:
        instead.append(f"{formatting.duration(offers.lifetime_s)} at this SLA")
    if offers.sla is not None and offers.sla < 1:
        instead.append(f"SLA {formatting.rounded_up(offers.sla):g} at this lifetime")
    if offers.cores is not None:
        instead.append(f"{formatting.cores(offers.cores)} at both")
    return "accepted instead: " + (", or ".join(instead) if instead else "nothing at this size for now")


def _cost_text(offer: OnDemandOffer) -> str:
    price = f"{_dollars(offer.usd_per_core_hour)} a core-hour"
    return price if offer.usd is None else f"{price}, {_dollars(offer.usd)} in all"


def _dollars(usd: float) -> str:
    """Return US dollars to the cent, or with two digits below ten cents."""
    return f"{usd:.2f} $" if usd >= 0.1 else f"{usd:.2g} $"
