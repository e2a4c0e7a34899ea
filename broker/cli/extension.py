"""What ``spotfed extend`` does: a later end for a spot lease."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from broker.cli import formatting
from broker.cli.connection import connected
from broker.cli.console import CommandError, ExitCode, console, print_json
from cloudsim.model.durations import parse_duration_s
from cloudsim.model.errors import SpecError

if TYPE_CHECKING:
    from broker.client import RefusedRequest
    from broker.contract import Lease


def extend_lease(lease_id: str, by: str, sla: str | None, *, as_json: bool) -> None:
    """Asks and tells the answer. Raises SpecError for what cannot be asked."""
    more_s = parse_duration_s(by, field="--by")
    if more_s <= 0:
        raise SpecError(f"{by!r} is no time at all", field="--by")
    promise = None if sla is None else formatting.parse_sla(sla, field="--sla")
    if sla is not None and (promise is None or promise >= 1):
        raise SpecError("an extension keeps its promise: name a probability below 1", field="--sla")
    from broker.client import RefusedRequest
    from broker.contract import ExtensionRequest

    with connected() as client:
        lease = client.leases.get(lease_id)
        if lease.ends_at_s is None or lease.ended_at_s is not None:
            raise CommandError(f"{lease_id} has ended: {lease.state}", ExitCode.REFUSED)
        present_s = lease.ends_at_s - lease.starts_at_s
        answer = client.leases.extend(lease_id, ExtensionRequest(lifetime_s=present_s + more_s, sla=promise))
    refused = isinstance(answer, RefusedRequest)
    if as_json:
        print_json(_as_dict(answer))
    else:
        console().print(_in_words(lease_id, present_s, more_s, answer))
    if refused:
        raise typer.Exit(ExitCode.REFUSED)


def _as_dict(answer: Lease | RefusedRequest) -> dict[str, object]:
    from broker.client import RefusedRequest

    if not isinstance(answer, RefusedRequest):
        return {"lease": answer.model_dump(mode="json"), "refusals": []}
    return {
        "lease": None,
        "refusals": [refusal.model_dump(mode="json") for refusal in answer.refusals],
        "counter_offers": answer.counter_offers.model_dump(mode="json"),
    }


def _in_words(lease_id: str, present_s: float, more_s: float, answer: Lease | RefusedRequest) -> str:
    from broker.client import RefusedRequest

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
