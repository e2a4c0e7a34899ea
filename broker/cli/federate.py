"""``federate``: a federation from a file, replayed in this process or run live."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from broker.cli.console import JsonOption, console, print_json, progress
from broker.cli.errors import warn
from broker.cli.live_run import LiveRun, drive, start
from broker.cli.simulation_options import SAMPLES, SEED, samples_and_seed, warn_of_plain_line_ups
from broker.cli.views.federation import show_report
from broker.settings import settings
from cloudsim.federation import file as federation_file
from cloudsim.federation.model import Federation
from cloudsim.federation.replay import replay
from cloudsim.model.durations import parse_duration_s
from cloudsim.model.errors import SpecError


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
    monte_carlo: Annotated[int, typer.Option(min=1, help="Number of Monte-Carlo workers of a live run.")] = 1,
    as_json: JsonOption = False,
) -> None:
    """Run a federation: clouds with their own load that offer each other workloads as spot requests.

    With --live the same traces go through the real broker and workers; the report is the same.

    Example: spotfed federate deploy/federations/production.toml --until 10d --samples 1000
    """
    births, key = samples_and_seed(samples, seed)
    federation = load_federation(file, until, warned=lambda trace, text: warn(f"{trace}: {text}"))
    warn_of_plain_line_ups(member.spec.lineup for member in federation.clouds)
    if not federation.workloads and not any(len(cloud.own_load) for cloud in federation.clouds):
        raise SpecError("no cloud has a trace and none offers a workload: nothing happens", file=str(file))
    began_s = time.perf_counter()
    if live:
        report = _run_live(LiveRun(file, federation, until, births, key, monte_carlo))
    else:
        with progress("replaying", federation.ends_s) as reached:
            report = replay(federation, seed=key, births=births, progress=reached)
    report = {
        **report,
        "mode": "live" if live else "in-process",
        "samples": births,
        "seed": key,
        "seconds": round(time.perf_counter() - began_s, 3),
    }
    if as_json:
        print_json(report)
    else:
        show_report(console(), report, strictest_slas(federation))


def load_federation(
    file: Path, until: str | None, warned: Callable[[Path, str], None] = lambda _file, _warning: None
) -> Federation:
    """Load the federation in a file; its traces are looked up in SPOTFED_DATA and beside the file.

    ``until``: a duration after which requests are left out. ``warned`` is called with what is odd about a
    trace. Raises SpecError, TraceError.
    """
    until_s = None if until is None else parse_duration_s(until, field="--until")
    return federation_file.load_federation(file, settings().data, until_s=until_s, on_warning=warned)


def strictest_slas(federation: Federation) -> dict[str, float | None]:
    """Return the strictest SLA among the workloads of each origin; None where none asks for a guarantee."""
    slas: dict[str, float | None] = {}
    for workload in federation.workloads:
        known = [sla for sla in (slas.get(workload.origin), workload.sla) if sla is not None]
        slas[workload.origin] = min(known, default=None)
    return slas


def _run_live(run: LiveRun) -> dict[str, Any]:
    with start(run, warn) as local, progress("driving", run.federation.ends_s) as reached:
        return drive(run, local, lambda at_s, *_: reached(at_s))
