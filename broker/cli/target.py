"""``target``: which lifetime to ask for, by what the clouds disclose."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from broker.cli import formatting
from broker.cli.connection import connected
from broker.cli.console import CommandError, ExitCode, JsonOption, console, print_json

if TYPE_CHECKING:
    from broker.client import LifetimeTarget


class Worth(StrEnum):
    """As ``cloudsim.disclosure.targeting.VALUES``, which is heavy to import; a test keeps them equal."""

    LINEAR = "linear"
    POLYNOMIAL = "polynomial"
    SLICES = "slices"
    CHECKPOINTED = "checkpointed"


def target(
    cloud: Annotated[
        list[str] | None, typer.Option(help="Of this cloud; may be repeated.", show_default="all")
    ] = None,
    everywhere: Annotated[bool, typer.Option("--all", help="Of all clouds, the best first.")] = False,
    cores: Annotated[int, typer.Option(min=1, help="Cores of the instance.")] = 1,
    value: Annotated[
        Worth,
        typer.Option(
            help="What a job is worth: its hours (linear), hours^1.5 (polynomial), whole slices of 1 to 6 h "
            "(slices), or what was saved every half hour (checkpointed)."
        ),
    ] = Worth.LINEAR,
    as_json: JsonOption = False,
) -> None:
    """Choose the lifetime to ask for, from what the clouds disclose of the lifetimes of their instances.

    Clouds disclose nothing, the mean, the median with the 10th or the 90th percentile, or all of it. Shown
    are the lifetime that is worth most, the chance to reach it as far as that tells, and what to submit.
    With --json there is one object with a list. Exit code 3 when none of the clouds tells enough.

    Example: spotfed target --all --cores 2 --value polynomial
    """
    if cloud and everywhere:
        raise CommandError("--all goes without --cloud: leave one of them out", ExitCode.BAD_INPUT)
    with connected() as client:
        names = cloud or [view.info.id for view in client.clouds.list()]
        found = [client.targets.choose(name, cores=cores, value=value.value) for name in names]
    if not cloud:
        found.sort(key=lambda one: -(one.value_h or 0.0))
    if as_json:
        print_json({"targets": [asdict(one) for one in found]})
    else:
        _show(found)
    if all(one.lifetime_s is None for one in found):
        raise typer.Exit(ExitCode.REFUSED)


def _show(found: list[LifetimeTarget]) -> None:
    from rich.table import Table

    chosen = [one for one in found if one.lifetime_s is not None]
    pooled = any(one.pool is not None for one in chosen)
    out = console()
    if chosen:
        table = Table(title="Lifetimes to ask for", title_justify="left")
        table.add_column("cloud")
        table.add_column("discloses")
        if pooled:
            table.add_column("pool", justify="right")
        for name in ("cores", "lifetime", "chance", "value (h)", "value per core-hour", "promised at SLA"):
            table.add_column(name, justify="right")
        for one in chosen:
            table.add_row(
                one.cloud,
                one.disclosure,
                *(["–" if one.pool is None else str(one.pool)] if pooled else []),
                str(one.cores),
                formatting.duration(one.lifetime_s),
                _figure(one.chance),
                _figure(one.value_h),
                _figure(one.value_per_core_hour),
                formatting.sla(one.sla),
            )
        out.print(table)
    for one in found:
        if one.why is not None:
            out.print(f"{one.cloud} {one.why}")
    if chosen:
        out.print(f"next: {_next(chosen[0])}")


def _next(one: LifetimeTarget) -> str:
    minutes = round((one.lifetime_s or 0.0) / 60)
    asked = f"--cores {one.cores} --lifetime {minutes}m --sla {formatting.sla(one.sla)} --cloud {one.cloud}"
    pool = "" if one.pool is None or one.sla is None else f" --pool {one.pool}"
    return f"spotfed submit {asked}{pool}"


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"
