"""``spotfed federate``: a federation from a file, replayed in this process or live."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from broker.cli.console import JsonOption, console, print_json, progress, warn
from broker.cli.live_run import LiveRun, drive, running
from broker.cli.simulation_options import SAMPLES, SEED, samples_and_seed
from broker.cli.views.federation import show_report

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloudsim.federation.model import Federation


def federate(
    file: Annotated[Path, typer.Argument(help="Federation file; see README, 'Federation files'.")],
    live: Annotated[
        bool, typer.Option("--live", help="Through HTTP, Celery and Redis, with an owner process a cloud.")
    ] = False,
    until: Annotated[
        str | None,
        typer.Option(help="Leave out later requests: 10d.", show_default="the end of the shortest trace"),
    ] = None,
    samples: Annotated[int | None, SAMPLES] = None,
    seed: Annotated[int | None, SEED] = None,
    monte_carlo: Annotated[int, typer.Option(min=1, help="Monte-Carlo workers of a live run.")] = 1,
    as_json: JsonOption = False,
) -> None:
    """Run a federation: clouds with their own load that offer each other workloads as spot requests.

    With --live the same traces go through the real broker and workers; the report is the same.

    Example: spotfed federate deploy/federations/production.toml --until 10d --samples 1000
    """
    births, key = samples_and_seed(samples, seed)
    federation = load(file, until, told=lambda trace, warning: warn(f"{trace}: {warning}"))
    began = time.perf_counter()
    if live:
        report = _live(LiveRun(file, federation, until, births, key, monte_carlo))
    else:
        from cloudsim.federation.replay import replay

        with progress("replaying", federation.ends_s) as reached:
            report = replay(federation, seed=key, births=births, progress=reached)
    report = {
        **report,
        "mode": "live" if live else "in-process",
        "samples": births,
        "seed": key,
        "seconds": round(time.perf_counter() - began, 3),
    }
    if as_json:
        print_json(report)
    else:
        show_report(console(), report, slas_of(federation))


def load(
    file: Path, until: str | None, told: Callable[[Path, str], None] = lambda _file, _warning: None
) -> Federation:
    """The federation in a file, its traces looked up in SPOTFED_DATA and beside it.

    ``told`` hears what is odd about the traces.
    """
    from broker.settings import settings
    from cloudsim.federation.file import load_federation as read
    from cloudsim.model.durations import parse_duration_s

    until_s = None if until is None else parse_duration_s(until, field="--until")
    return read(file, settings().data, until_s=until_s, on_warning=told)


def slas_of(federation: Federation) -> dict[str, float | None]:
    """What each origin asks for: the strictest promise among its workloads."""
    slas: dict[str, float | None] = {}
    for workload in federation.workloads:
        asked = [sla for sla in (slas.get(workload.origin), workload.sla) if sla is not None]
        slas[workload.origin] = min(asked, default=None)
    return slas


def _live(run: LiveRun) -> dict[str, Any]:
    with running(run, warn) as local, progress("driving", run.federation.ends_s) as reached:
        return drive(run, local, lambda at_s, *_: reached(at_s))
