"""``quote`` and ``submit``: asking a running federation for spot instances."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from broker.cli import words
from broker.cli.connection import connected
from broker.cli.output import CommandError, ExitCode, JsonOption, console, next_step, print_json

if TYPE_CHECKING:
    from pydantic import ValidationError

    from broker.client import GrantedRequest, ProblemAnswer, RefusedRequest
    from broker.contract import CounterOffers, Lease, QuoteView, RefusalView, SpotRequest
    from cloudsim.errors import SpecError

    Answer = GrantedRequest | RefusedRequest | ProblemAnswer

SizesOption = Annotated[str, typer.Option(help="Cores of the instance, all on one node; or several: 1,2,4.")]
CoresOption = Annotated[int, typer.Option(min=1, help="Cores of the instance, all on one node.")]
LifetimeOption = Annotated[
    str,
    typer.Option(
        help="How long it is to run, in the cloud's time: 90s, 40m, 2h, 3d; none: renewed while it can be."
    ),
]
SlaOption = Annotated[
    str, typer.Option(help="Largest acceptable probability of eviction before that; 'none': no guarantee.")
]
OriginOption = Annotated[str, typer.Option(help="On whose behalf; that member itself is not asked.")]
CloudOption = Annotated[
    list[str] | None,
    typer.Option(help="Ask this cloud only; may be repeated.", show_default="all but the origin"),
]
ResourceOption = Annotated[
    list[str] | None,
    typer.Option("--resource", help="What it needs beside cores: memory_mb=4000; may be repeated."),
]
LabelOption = Annotated[
    list[str] | None,
    typer.Option("--label", help="Only on nodes with this label: zone=north; may be repeated."),
]
GroupOption = Annotated[
    str | None, typer.Option(help="Group of instances that --apart or --together speaks of.")
]
ApartOption = Annotated[
    bool | None,
    typer.Option("--apart/--together", help="Away from all of its group, or on the node where they run."),
]
PoolOption = Annotated[
    int | None,
    typer.Option(
        help="Of clouds that sell pools: 0 is evicted first.", show_default="uppermost that keeps the SLA"
    ),
]
_MOST = 5000

#: What a refusal says that a filter removed nodes for. Kept equal to the filters' names by a test.
REMOVED = {
    "cordon": "closed",
    "labels": "without the labels",
    "affinity": "away from its group",
    "anti_affinity": "with some of its group",
    "room": "without room",
}


class Needs(NamedTuple):
    """What an instance needs beside cores, as it was written."""

    resources: list[str] | None
    labels: list[str] | None
    group: str | None
    apart: bool | None
    pool: int | None

    def fields(self) -> dict[str, Any]:
        """As ``broker.contract.SpotRequest`` takes it. Raises SpecError naming the option."""
        from cloudsim.requests import Spread

        return {
            "resources": {
                name: _whole(text, "--resource")
                for name, text in _pairs(self.resources, "--resource").items()
            },
            "labels": _pairs(self.labels, "--label"),
            "group": self.group,
            "spread": None if self.apart is None else Spread.APART if self.apart else Spread.TOGETHER,
            "pool": self.pool,
        }


def quote(
    cores: SizesOption,
    lifetime: LifetimeOption,
    sla: SlaOption = "0.05",
    origin: OriginOption = "user",
    cloud: CloudOption = None,
    resource: ResourceOption = None,
    label: LabelOption = None,
    group: GroupOption = None,
    apart: ApartOption = None,
    pool: PoolOption = None,
    as_json: JsonOption = False,
) -> None:
    """Ask what the clouds would promise now, without any effect. Exit code 3 when all of them refuse.

    Beside its own risk a cloud tells how long the SLA would be kept, and which other sizes it would promise.

    Example: spotfed quote --cores 1,2,4 --lifetime 2h --sla 0.05
    """
    counts = words.parse_sizes(cores, field="--cores")
    needs = Needs(resource, label, group, apart, pool)
    request = _request(counts[0], lifetime, sla, origin, cloud, needs)
    with connected() as client:
        from pydantic import ValidationError

        from broker.contract import QuoteRequest

        shared = request.model_dump(exclude={"cores"})
        try:
            wish = QuoteRequest(**shared, cores=list(counts))
        except ValidationError as error:
            raise _named_option(error) from None
        answer = client.quote(wish)
    if as_json:
        print_json(answer.model_dump(mode="json"))
    else:
        _show_quotes(request, counts, [*answer.quotes, *answer.refusals])
        if answer.quotes:
            next_step("spotfed submit with the same options takes it")
    if not answer.quotes:
        raise typer.Exit(ExitCode.REFUSED)


def submit(
    cores: CoresOption,
    lifetime: LifetimeOption,
    sla: SlaOption = "0.05",
    origin: OriginOption = "user",
    cloud: CloudOption = None,
    resource: ResourceOption = None,
    label: LabelOption = None,
    group: GroupOption = None,
    apart: ApartOption = None,
    pool: PoolOption = None,
    count: Annotated[int, typer.Option(min=1, max=_MOST, help="Submit so many requests like this.")] = 1,
    request_id: Annotated[
        str | None, typer.Option("--id", help="Id of the request: submitting it again changes nothing.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Ask the federation for spot instances. A refusal says why, and what would be accepted instead.

    Exit code 3 when a request is refused. With --json there is a line for each request.

    Example: spotfed submit --cores 2 --lifetime 2h --sla 0.05

    Example: spotfed submit --cores 2 --resource memory_mb=4000 --label zone=north --lifetime 2h
    """
    if count > 1 and request_id is not None:
        raise CommandError("--id: one id is one request; leave it out with --count", ExitCode.BAD_INPUT)
    needs = Needs(resource, label, group, apart, pool)
    request = _request(cores, lifetime, sla, origin, cloud, needs, request_id)
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
        _next(answers)
    failed = [code for code in (ExitCode.FAILED, ExitCode.REFUSED) if code in codes]
    if failed:
        raise typer.Exit(failed[0])


def _pairs(written: list[str] | None, option: str) -> dict[str, str]:
    """``["memory_mb=4000"]`` → ``{"memory_mb": "4000"}``. Raises SpecError naming the option."""
    from cloudsim.errors import SpecError

    pairs: dict[str, str] = {}
    for text in written or ():
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name and equals and value):
            raise SpecError(f"{text!r} is not NAME=VALUE", field=option)
        if name in pairs:
            raise SpecError(f"{name} is given twice", field=option)
        pairs[name] = value
    return pairs


def _whole(text: str, option: str) -> int:
    from cloudsim.errors import SpecError

    if not (text.isascii() and text.isdecimal()):
        raise SpecError(f"{text!r} is not a whole number", field=option)
    return int(text)


def _request(
    cores: int,
    lifetime: str,
    sla: str,
    origin: str,
    clouds: list[str] | None,
    needs: Needs,
    request_id: str | None = None,
) -> SpotRequest:
    from pydantic import ValidationError

    from broker.contract import SpotRequest
    from cloudsim.durations import parse_duration_s
    from cloudsim.errors import SpecError

    renewed = lifetime.strip().lower() == "none"
    lifetime_s = None if renewed else parse_duration_s(lifetime, field="--lifetime")
    if lifetime_s is not None and lifetime_s <= 0:
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
            **needs.fields(),
        )
    except ValidationError as error:
        raise _named_option(error) from None


def _named_option(error: ValidationError) -> SpecError:
    """What a message says of its field, said of the option it came from."""
    from cloudsim.errors import SpecError

    first = error.errors(include_url=False)[0]
    name = str(first["loc"][0])
    options = {
        "targets": "cloud",
        "lifetime_s": "lifetime",
        "resources": "resource",
        "labels": "label",
        "spread": "apart/--together",
    }
    option = options.get(name, name)
    return SpecError(first["msg"], field=f"--{option}")


def _code(answer: Answer) -> ExitCode:
    from broker.client import GrantedRequest, RefusedRequest

    if isinstance(answer, GrantedRequest):
        return ExitCode.DONE
    return ExitCode.REFUSED if isinstance(answer, RefusedRequest) else ExitCode.FAILED


def _next(answers: Sequence[Answer]) -> None:
    from broker.client import GrantedRequest

    lease = next((one.lease for one in answers if isinstance(one, GrantedRequest)), None)
    if lease is not None:
        next_step(f"spotfed events --follow --cloud {lease.cloud}, or spotfed release {lease.id}")


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
            f"{words.cores(lease.cores)}{_with(lease.amounts)} for {_lifetime(request, lease)}, "
            f"risk of eviction {words.risk(lease.eviction_probability)}{over}"
        )
    if isinstance(answer, RefusedRequest):
        lines = ["[red]refused[/red]"]
        for refusal in answer.refusals:
            if refusal.reason != "not_a_target":
                detail = f" ({refusal.detail})" if refusal.detail else ""
                lines.append(f"  {refusal.cloud}: {_why(refusal)}{detail}")
        return "\n".join([*lines, f"  {_offer(answer.counter_offers)}"])
    return f"[red]failed[/red] {answer}"


def _why(refusal: RefusalView) -> str:
    """The reason, which nodes were out of the question for what, and whether evicting would help."""
    why = words.REASONS[refusal.reason]
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
        return words.duration(request.lifetime_s)
    granted = words.duration(lease.ends_at_s - lease.starts_at_s)  # a whole slice, where slices are sold
    return granted if request.lifetime_s is not None else f"{granted} at a time"


def _offer(offers: CounterOffers) -> str:
    """What would be accepted instead, in words."""
    instead = []
    if offers.lifetime_s is not None:
        instead.append(f"{words.duration(offers.lifetime_s)} at this SLA")
    if offers.sla is not None and offers.sla < 1:
        instead.append(f"SLA {words.rounded_up(offers.sla):g} at this lifetime")
    if offers.cores is not None:
        instead.append(f"{words.cores(offers.cores)} at both")
    return "accepted instead: " + (", or ".join(instead) if instead else "nothing at this size for now")


def _show_quotes(
    request: SpotRequest, counts: Sequence[int], answers: Sequence[QuoteView | RefusalView]
) -> None:
    from rich.table import Table

    lifetime = "a renewal period" if request.lifetime_s is None else words.duration(request.lifetime_s)
    promise = words.sla(request.sla)
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
            words.risk(risk),
            words.duration(survives_s),
            words.sizes([other.cores for other in one.other_sizes if other.admitted]),
            "–" if one.table_age_s is None else f"{words.duration(one.table_age_s)} ago",
        ]
        size = [str(one.cores)] if len(counts) > 1 else []
        table.add_row(one.cloud, verdict, *size, *row)
    console().print(table)
