"""``quote`` and ``submit``: asking a running federation for spot instances."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from broker.cli import words
from broker.cli.connection import connected
from broker.cli.output import CommandError, ExitCode, JsonOption, console, print_json

if TYPE_CHECKING:
    from broker.client import GrantedRequest, ProblemAnswer, RefusedRequest
    from broker.contract import CounterOffers, QuoteView, RefusalView, SpotRequest

    Answer = GrantedRequest | RefusedRequest | ProblemAnswer

CoresOption = Annotated[int, typer.Option(min=1, help="Cores of the instance, all on one node.")]
LifetimeOption = Annotated[
    str, typer.Option(help="How long it is to run, in the cloud's time: 90s, 40m, 2h, 3d.")
]
SlaOption = Annotated[
    str, typer.Option(help="Largest acceptable probability of eviction before that; 'none': no guarantee.")
]
OriginOption = Annotated[str, typer.Option(help="On whose behalf; that member itself is not asked.")]
CloudOption = Annotated[
    list[str] | None,
    typer.Option(help="Ask this cloud only; may be repeated.", show_default="all but the origin"),
]
_MOST = 5000


def quote(
    cores: CoresOption,
    lifetime: LifetimeOption,
    sla: SlaOption = "0.05",
    origin: OriginOption = "user",
    cloud: CloudOption = None,
    as_json: JsonOption = False,
) -> None:
    """Ask what the clouds would promise now, without any effect. Exit code 3 when all of them refuse.

    Example: spotfed quote --cores 2 --lifetime 2h --sla 0.05
    """
    request = _request(cores, lifetime, sla, origin, cloud)
    with connected() as client:
        answer = client.quote(request)
    if as_json:
        print_json(answer.model_dump(mode="json"))
    else:
        _show_quotes(request, answer.quotes, answer.refusals)
    if not answer.quotes:
        raise typer.Exit(ExitCode.REFUSED)


def submit(
    cores: CoresOption,
    lifetime: LifetimeOption,
    sla: SlaOption = "0.05",
    origin: OriginOption = "user",
    cloud: CloudOption = None,
    count: Annotated[int, typer.Option(min=1, max=_MOST, help="Submit so many requests like this.")] = 1,
    request_id: Annotated[
        str | None, typer.Option("--id", help="Id of the request: submitting it again changes nothing.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Ask the federation for spot instances. A refusal says why, and what would be accepted instead.

    Exit code 3 when a request is refused. With --json there is a line for each request.

    Example: spotfed submit --cores 2 --lifetime 2h --sla 0.05
    """
    if count > 1 and request_id is not None:
        raise CommandError("--id: one id is one request; leave it out with --count", ExitCode.BAD_INPUT)
    request = _request(cores, lifetime, sla, origin, cloud, request_id)
    answers: list[Answer]
    with connected() as client:
        answers = [client.submit(request)] if count == 1 else client.submit_many([request] * count)
    codes = [_code(answer) for answer in answers]
    if as_json:
        for answer in answers:
            print_json(_as_dict(answer), lines=True)
    else:
        out = console()
        for text, times in Counter(_in_words(request, answer) for answer in answers).items():
            out.print(text if times == 1 else f"{times} times: {text}")
        if count > 1:
            out.print(f"{codes.count(ExitCode.DONE)} of {count} admitted")
    failed = [code for code in (ExitCode.FAILED, ExitCode.REFUSED) if code in codes]
    if failed:
        raise typer.Exit(failed[0])


def _request(
    cores: int, lifetime: str, sla: str, origin: str, clouds: list[str] | None, request_id: str | None = None
) -> SpotRequest:
    from pydantic import ValidationError

    from broker.contract import SpotRequest
    from cloudsim.durations import parse_duration_s
    from cloudsim.errors import SpecError

    lifetime_s = parse_duration_s(lifetime, field="--lifetime")
    if lifetime_s <= 0:
        raise SpecError(f"{lifetime!r} is no time at all", field="--lifetime")
    promise = words.parse_sla(sla, field="--sla")
    try:
        return SpotRequest(
            id=request_id,
            origin=origin,
            cores=cores,
            lifetime_s=lifetime_s,
            sla=promise,
            targets=tuple(clouds) if clouds else None,
        )
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        option = {"targets": "cloud", "lifetime_s": "lifetime"}.get(
            str(first["loc"][0]), str(first["loc"][0])
        )
        raise SpecError(first["msg"], field=f"--{option}") from None


def _code(answer: Answer) -> ExitCode:
    from broker.client import GrantedRequest, RefusedRequest

    if isinstance(answer, GrantedRequest):
        return ExitCode.DONE
    return ExitCode.REFUSED if isinstance(answer, RefusedRequest) else ExitCode.FAILED


def _as_dict(answer: Answer) -> dict[str, Any]:
    from broker.client import GrantedRequest, RefusedRequest

    if isinstance(answer, GrantedRequest | RefusedRequest):
        refusals = [refusal.model_dump(mode="json") for refusal in answer.refusals]
        if isinstance(answer, GrantedRequest):
            return {"lease": answer.lease.model_dump(mode="json"), "refusals": refusals}
        offers = answer.counter_offers.model_dump(mode="json")
        return {"lease": None, "refusals": refusals, "counter_offers": offers}
    problem = answer.problem.model_dump(mode="json", exclude_none=True)
    return {"lease": None, "refusals": [], "problem": problem}


def _in_words(request: SpotRequest, answer: Answer) -> str:
    from broker.client import GrantedRequest, RefusedRequest

    if isinstance(answer, GrantedRequest):
        lease = answer.lease
        over = f"; [red]{lease.state} already[/red]" if lease.ended_at_s is not None else ""
        return (
            f"[green]admitted[/green] lease [bold]{lease.id}[/bold] on {lease.cloud}, node {lease.node}: "
            f"{words.cores(lease.cores)} for {words.duration(request.lifetime_s)}, "
            f"risk of eviction {words.risk(lease.eviction_probability)}{over}"
        )
    if isinstance(answer, RefusedRequest):
        lines = ["[red]refused[/red]"]
        for refusal in answer.refusals:
            if refusal.reason != "not_a_target":
                detail = f" ({refusal.detail})" if refusal.detail else ""
                lines.append(f"  {refusal.cloud}: {words.REASONS[refusal.reason]}{detail}")
        return "\n".join([*lines, f"  {_offer(answer.counter_offers)}"])
    return f"[red]failed[/red] {answer}"


def _offer(offers: CounterOffers) -> str:
    """What would be accepted instead, in words."""
    instead = []
    if offers.lifetime_s is not None:
        instead.append(f"{words.duration(offers.lifetime_s)} at this SLA")
    if offers.sla is not None and offers.sla < 1:
        instead.append(f"SLA {_rounded_up(offers.sla):g} at this lifetime")
    return "accepted instead: " + (", or ".join(instead) if instead else "nothing at this size for now")


def _rounded_up(probability: float) -> float:
    """To four digits, never below: a request with the SLA that was shown must be accepted."""
    import math

    return math.ceil(probability * 10_000 - 1e-9) / 10_000


def _show_quotes(request: SpotRequest, quotes: list[QuoteView], refusals: list[RefusalView]) -> None:
    from rich.table import Table

    lifetime, promise = words.duration(request.lifetime_s), words.sla(request.sla)
    asked = f"{words.cores(request.cores)} for {lifetime} at SLA {promise}"
    table = Table(title=asked, title_justify="left")
    table.add_column("cloud")
    table.add_column("answer")
    for name in ("free slots", "risk of eviction", "survives at this SLA", "table made"):
        table.add_column(name, justify="right")
    for one in quotes:
        age_s = None if one.table_made_at_s is None else one.cloud_time_s - one.table_made_at_s
        table.add_row(
            one.cloud,
            "[green]yes[/green]",
            str(one.free_slots),
            words.risk(one.eviction_probability),
            words.duration(one.survives_s),
            "–" if age_s is None else f"{words.duration(age_s)} ago",
        )
    for refusal in refusals:
        slots = "–" if refusal.free_slots is None else str(refusal.free_slots)
        offers = refusal.counter_offers
        table.add_row(
            refusal.cloud,
            f"[red]no[/red], {words.REASONS[refusal.reason]}",
            slots,
            words.risk(offers.sla),
            words.duration(offers.lifetime_s),
            "–",
        )
    console().print(table)
