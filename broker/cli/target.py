"""``target``: which lifetime to ask for, by what the clouds disclose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import RenderableType

from broker.cli import formatting
from broker.cli.connection import connected
from broker.cli.console import JsonOption, make_table, number, show_one
from broker.cli.errors import CommandError, ExitCode
from broker.client import LifetimeTarget
from cloudsim.disclosure.targeting import VALUES


def _check_value(name: str) -> str:
    if name not in VALUES:
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(VALUES)}")
    return name


def target(
    cloud: Annotated[
        list[str] | None, typer.Option(help="Of this cloud; may be repeated.", show_default="all")
    ] = None,
    everywhere: Annotated[bool, typer.Option("--all", help="Of all clouds, the best first.")] = False,
    cores: Annotated[int, typer.Option(min=1, help="Cores of the instance.")] = 1,
    value: Annotated[
        str,
        typer.Option(
            metavar=f"<{'|'.join(VALUES)}>",
            callback=_check_value,
            autocompletion=lambda: list(VALUES),
            help="What a job is worth: its hours (linear), hours^1.5 (polynomial), whole slices of 1 to 6 h "
            "(slices), or what was saved every half hour (checkpointed).",
        ),
    ] = "linear",
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
        targets = [client.targets.choose(name, cores=cores, value=value) for name in names]
    if not cloud:
        targets.sort(key=lambda target: -(target.value_h or 0.0))
    show_one({"targets": targets}, *_targets_text(targets), as_json=as_json)
    if all(target.lifetime_s is None for target in targets):
        raise typer.Exit(ExitCode.REFUSED)


def _targets_text(targets: Sequence[LifetimeTarget]) -> list[RenderableType]:
    chosen = [target for target in targets if target.lifetime_s is not None]
    with_pools = any(target.pool is not None for target in chosen)
    text: list[RenderableType] = []
    if chosen:
        numbers = ("cores", "lifetime", "chance", "value (h)", "value per core-hour", "promised at SLA")
        shown = ("pool", *numbers) if with_pools else numbers
        table = make_table("Lifetimes to ask for", "cloud", "discloses", *map(number, shown))
        for target in chosen:
            table.add_row(
                target.cloud,
                target.disclosure,
                *(["–" if target.pool is None else str(target.pool)] if with_pools else []),
                str(target.cores),
                formatting.duration(target.lifetime_s),
                _figure(target.chance),
                _figure(target.value_h),
                _figure(target.value_per_core_hour),
                formatting.sla(target.sla),
            )
        text.append(table)
    text += [f"{target.cloud} {target.why}" for target in targets if target.why is not None]
    if chosen:
        text.append(f"next: {_submit_command(chosen[0])}")
    return text


def _submit_command(target: LifetimeTarget) -> str:
    minutes = round((target.lifetime_s or 0.0) / 60)
    options = f"--cores {target.cores} --lifetime {minutes}m --sla {formatting.sla(target.sla)}"
    pool = "" if target.pool is None or target.sla is None else f" --pool {target.pool}"
    return f"spotfed submit {options} --cloud {target.cloud}{pool}"


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"
