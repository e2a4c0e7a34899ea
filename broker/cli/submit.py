"""``submit``: ask a running federation for spot instances."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated

import typer

from broker.cli.connection import connected
from broker.cli.console import JsonOption, next_step, print_json, print_text
from broker.cli.errors import CommandError, ExitCode
from broker.cli.launch_options import (
    ArgumentOption,
    EnvironmentOption,
    ImageOption,
    InstanceTypeOption,
    KeyOption,
    LaunchOptions,
    NetworkOption,
    SecurityGroupOption,
    TagOption,
    UserDataOption,
)
from broker.cli.request_options import (
    ApartOption,
    CloudOption,
    CoresOption,
    GroupOption,
    LabelOption,
    LeastOption,
    LifetimeOption,
    NeedsOptions,
    OriginOption,
    PoolOption,
    ResourceOption,
    SlaOption,
    build_request,
)
from broker.cli.views.request import Answer, Bought, answer_dict, answer_text, exit_code_of_answer
from broker.client import Client, GrantedRequest, RefusedRequest
from broker.contract import SpotRequest

_MOST = 5000
_MOST_TOGETHER = 100


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
    least: LeastOption = None,
    count: Annotated[int, typer.Option(min=1, max=_MOST, help="Number of requests like this to submit.")] = 1,
    all_or_nothing: Annotated[
        bool,
        typer.Option("--all-or-nothing", help="With --count: admit all of the requests, or none."),
    ] = False,
    request_id: Annotated[
        str | None, typer.Option("--id", help="Id of the request: submitting it again changes nothing.")
    ] = None,
    image: ImageOption = None,
    instance_type: InstanceTypeOption = None,
    key: KeyOption = None,
    user_data: UserDataOption = None,
    network: NetworkOption = None,
    security_group: SecurityGroupOption = None,
    tag: TagOption = None,
    argument: ArgumentOption = None,
    environment: EnvironmentOption = None,
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

    Example: spotfed submit --cores 2 --lifetime 30d --least 1h --sla 0.01

    Example: spotfed submit --cores 2 --lifetime 2h --count 8 --all-or-nothing

    Example: spotfed submit --cores 2 --resource memory_mb=4000 --label zone=north --lifetime 2h

    Example: spotfed submit --cores 2 --lifetime 2h --image debian-12 --key id_ed25519.pub --user-data run.sh
    """
    if count > 1 and request_id is not None:
        raise CommandError("--id: one id is one request; leave it out with --count", ExitCode.BAD_INPUT)
    if all_or_nothing and (or_on_demand or count > _MOST_TOGETHER):
        message = f"--all-or-nothing: at most {_MOST_TOGETHER} requests, without --or-on-demand"
        raise CommandError(message, ExitCode.BAD_INPUT)
    needs = NeedsOptions(resource, label, group, apart, pool)
    request = build_request(cores, lifetime, sla, origin, cloud, needs, request_id, least)
    launch = LaunchOptions(
        image, instance_type, key, user_data, network, security_group, tag, argument, environment
    ).launch()
    request = request.model_copy(update={"launch": launch})
    answers: list[Answer]
    with connected() as client:
        answers = _ask(client, [request] * count, together=all_or_nothing)
        if or_on_demand:
            answers = [_buy_if_refused(client, request, answer) for answer in answers]
    codes = [exit_code_of_answer(answer) for answer in answers]
    if as_json:
        for answer in answers:
            print_json(answer_dict(answer), lines=True)
    else:
        for text, times in Counter(answer_text(request, answer) for answer in answers).items():
            print_text(text if times == 1 else f"{times} times: {text}")
        if count > 1:
            print_text(f"{codes.count(ExitCode.DONE)} of {count} admitted")
        _suggest(answers)
    worst_first = (ExitCode.FAILED, ExitCode.REFUSED, ExitCode.ON_DEMAND)
    failures = [code for code in worst_first if code in codes]
    if failures:
        raise typer.Exit(failures[0])


def _ask(client: Client, requests: Sequence[SpotRequest], *, together: bool) -> list[Answer]:
    """Return an answer for each request; if none of all together was admitted, they share a refusal."""
    if together:
        leases = client.requests.submit_together(requests)
        if isinstance(leases, RefusedRequest):
            return [leases] * len(requests)
        return [GrantedRequest(lease) for lease in leases]
    if len(requests) == 1:
        return [client.requests.submit(requests[0])]
    return [*client.requests.submit_many(requests)]


def _buy_if_refused(client: Client, request: SpotRequest, answer: Answer) -> Answer:
    if not isinstance(answer, RefusedRequest):
        return answer
    bought = client.on_demand.take_first(request, answer.on_demand)
    return answer if bought is None else Bought(*bought, answer)


def _suggest(answers: Sequence[Answer]) -> None:
    lease = next((answer.lease for answer in answers if isinstance(answer, GrantedRequest)), None)
    if lease is not None:
        next_step(f"spotfed events --follow --cloud {lease.cloud}, or spotfed release {lease.id}")
    elif any(isinstance(answer, RefusedRequest) and answer.on_demand for answer in answers):
        next_step("--or-on-demand takes the cheapest of these")
