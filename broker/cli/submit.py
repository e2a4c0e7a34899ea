"""``quote`` and ``submit``: asking a running federation for spot instances."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from broker.cli import formatting
from broker.cli.connection import connected
from broker.cli.console import CommandError, ExitCode, JsonOption, console, next_step, print_json
from broker.cli.views.request import Bought, as_dict, code_of, in_words, on_demand_in_words, show_quotes

if TYPE_CHECKING:
    from pydantic import ValidationError

    from broker.cli.views.request import Answer
    from broker.client import Client
    from broker.contract import SpotRequest
    from cloudsim.model.errors import SpecError

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


class NeedsOptions(NamedTuple):
    """What an instance needs beside cores, as it was written."""

    resources: list[str] | None
    labels: list[str] | None
    group: str | None
    apart: bool | None
    pool: int | None

    def fields(self) -> dict[str, Any]:
        """As ``broker.contract.SpotRequest`` takes it. Raises SpecError naming the option."""
        from cloudsim.model.requests import Spread

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
    counts = formatting.parse_sizes(cores, field="--cores")
    needs = NeedsOptions(resource, label, group, apart, pool)
    request = request_of(counts[0], lifetime, sla, origin, cloud, needs)
    with connected() as client:
        from pydantic import ValidationError

        from broker.contract import QuoteRequest

        shared = request.model_dump(exclude={"cores"})
        try:
            wish = QuoteRequest(**shared, cores=list(counts))
        except ValidationError as error:
            raise _named_option(error) from None
        answer = client.requests.quote(wish)
    if as_json:
        print_json(answer.model_dump(mode="json"))
    else:
        show_quotes(request, counts, [*answer.quotes, *answer.refusals])
        for text in on_demand_in_words(answer.on_demand, sizes=len(counts) > 1):
            console().print(text)
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
    or_on_demand: Annotated[
        bool,
        typer.Option("--or-on-demand", help="When refused, take the cheapest on-demand that a cloud sells."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Ask the federation for spot instances. A refusal says why, and what would be accepted instead.

    Exit code 3 when a request is refused, 5 when on-demand was taken instead. With --json there is a line for
    each request.

    Example: spotfed submit --cores 2 --lifetime 2h --sla 0.05

    Example: spotfed submit --cores 2 --resource memory_mb=4000 --label zone=north --lifetime 2h
    """
    if count > 1 and request_id is not None:
        raise CommandError("--id: one id is one request; leave it out with --count", ExitCode.BAD_INPUT)
    needs = NeedsOptions(resource, label, group, apart, pool)
    request = request_of(cores, lifetime, sla, origin, cloud, needs, request_id)
    answers: list[Answer]
    with connected() as client:
        answers = (
            [client.requests.submit(request)]
            if count == 1
            else [*client.requests.submit_many([request] * count)]
        )
        if or_on_demand:
            answers = [_or_on_demand(client, request, answer) for answer in answers]
    codes = [code_of(answer) for answer in answers]
    if as_json:
        for answer in answers:
            print_json(as_dict(answer), lines=True)
    else:
        out = console()
        for text, times in Counter(in_words(request, answer) for answer in answers).items():
            out.print(text if times == 1 else f"{times} times: {text}")
        if count > 1:
            out.print(f"{codes.count(ExitCode.DONE)} of {count} admitted")
        _next(answers)
    worst_first = (ExitCode.FAILED, ExitCode.REFUSED, ExitCode.ON_DEMAND)
    failed = [code for code in worst_first if code in codes]
    if failed:
        raise typer.Exit(failed[0])


def _or_on_demand(client: Client, request: SpotRequest, answer: Answer) -> Answer:
    from broker.client import RefusedRequest

    if not isinstance(answer, RefusedRequest):
        return answer
    taken = client.on_demand.take_first(request, answer.on_demand)
    return answer if taken is None else Bought(*taken, answer)


def _pairs(written: list[str] | None, option: str) -> dict[str, str]:
    """``["memory_mb=4000"]`` → ``{"memory_mb": "4000"}``. Raises SpecError naming the option."""
    from cloudsim.model.errors import SpecError

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
    from cloudsim.model.errors import SpecError

    if not (text.isascii() and text.isdecimal()):
        raise SpecError(f"{text!r} is not a whole number", field=option)
    return int(text)


def request_of(
    cores: int,
    lifetime: str,
    sla: str,
    origin: str,
    clouds: list[str] | None,
    needs: NeedsOptions,
    request_id: str | None = None,
) -> SpotRequest:
    """What the options say. Raises SpecError naming one."""
    from pydantic import ValidationError

    from broker.contract import SpotRequest
    from cloudsim.model.durations import parse_duration_s
    from cloudsim.model.errors import SpecError

    renewed = lifetime.strip().lower() == "none"
    lifetime_s = None if renewed else parse_duration_s(lifetime, field="--lifetime")
    if lifetime_s is not None and lifetime_s <= 0:
        raise SpecError(f"{lifetime!r} is no time at all", field="--lifetime")
    promise = formatting.parse_sla(sla, field="--sla")
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
    from cloudsim.model.errors import SpecError

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


def _next(answers: Sequence[Answer]) -> None:
    from broker.client import GrantedRequest, RefusedRequest

    lease = next((one.lease for one in answers if isinstance(one, GrantedRequest)), None)
    if lease is not None:
        next_step(f"spotfed events --follow --cloud {lease.cloud}, or spotfed release {lease.id}")
    elif any(isinstance(one, RefusedRequest) and one.on_demand for one in answers):
        next_step("--or-on-demand takes the cheapest of these")
