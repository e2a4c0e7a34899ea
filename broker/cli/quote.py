"""``quote``: what the clouds would promise now."""

from __future__ import annotations

from typing import Annotated

import typer

from broker.cli.connection import connected
from broker.cli.console import JsonOption, next_step, show_one
from broker.cli.errors import ExitCode
from broker.cli.formatting import parse_sizes
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
from broker.cli.options import build_model
from broker.cli.request_options import (
    OPTION_OF_FIELD,
    ApartOption,
    CloudOption,
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
from broker.cli.views.request import on_demand_lines, quotes_table
from broker.contract import QuoteRequest

SizesOption = Annotated[str, typer.Option(help="Cores of the instance, all on one node; or several: 1,2,4.")]


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
    least: LeastOption = None,
    image: ImageOption = None,
    instance_type: InstanceTypeOption = None,
    key: KeyOption = None,
    user_data: UserDataOption = None,
    network: NetworkOption = None,
    security_group: SecurityGroupOption = None,
    tag: TagOption = None,
    argument: ArgumentOption = None,
    environment: EnvironmentOption = None,
    as_json: JsonOption = False,
) -> None:
    """Ask what the clouds would promise now, without any effect. Exit code 3 when all of them refuse.

    Beside its own risk a cloud tells how long the SLA would be kept, and which other sizes it would promise.
    A real cloud tells whether it has a flavour for it, and whether it allows the image and the like.

    Example: spotfed quote --cores 1,2,4 --lifetime 2h --sla 0.05

    Example: spotfed quote --cores 2 --lifetime 30d --least 1h --sla 0.01
    """
    sizes = parse_sizes(cores, field="--cores")
    needs = NeedsOptions(resource, label, group, apart, pool)
    launch = LaunchOptions(
        image, instance_type, key, user_data, network, security_group, tag, argument, environment
    ).launch()
    request = build_request(sizes[0], lifetime, sla, origin, cloud, needs, least=least)
    fields = {**request.model_dump(exclude={"cores"}), "cores": list(sizes), "launch": launch}
    question = build_model(QuoteRequest, fields, OPTION_OF_FIELD)
    with connected() as client:
        answer = client.requests.quote(question)
    show_one(
        answer,
        quotes_table(request, sizes, [*answer.quotes, *answer.refusals]),
        *on_demand_lines(answer.on_demand, with_sizes=len(sizes) > 1),
        as_json=as_json,
    )
    if not answer.quotes:
        raise typer.Exit(ExitCode.REFUSED)
    if not as_json:
        next_step("spotfed submit with the same options takes it")
