"""``table``: what a cloud's recorded load says about the lifetime of spot instances."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from broker.cli import formatting
from broker.cli.console import JsonOption, check_picture, console, make_table, number, print_json, progress
from broker.cli.errors import warn
from broker.cli.simulation_options import NODES_HELP, SAMPLES, SEED, samples_and_seed, single_cloud
from cloudsim.cloud.cloud import Cloud
from cloudsim.cloud.spec import sampler_spec
from cloudsim.federation.model import Federation
from cloudsim.history.event_log import PHASE_STOP
from cloudsim.model.changes import Change, Started, TurnedAway
from cloudsim.model.durations import parse_duration_s
from cloudsim.model.errors import SpecError
from cloudsim.model.requests import Kind
from cloudsim.plots import save, table_figure
from cloudsim.prediction.predictor import LocalPredictor
from cloudsim.prediction.tables import QuantileTable

SCHEMA = "spotfed.table/1"
SLAS = (0.01, 0.05, 0.10, 0.25)


def table(
    trace: Annotated[Path, typer.Option(help="Trace of the cloud's own, on-demand requests.")],
    nodes: Annotated[str, typer.Option(help=NODES_HELP)],
    spot: Annotated[
        Path | None, typer.Option(help="Trace that the cloud also hosts as spot instances.")
    ] = None,
    spot_delay: Annotated[str, typer.Option(help="How much later the spot trace is played.")] = "24h",
    spot_sla: Annotated[str, typer.Option(help="At which SLA the spot trace is admitted, or none.")] = "0.01",
    sla: Annotated[
        list[str] | None,
        typer.Option(help="Quantile to show; may be repeated.", show_default="0.01, 0.05, 0.1 and 0.25"),
    ] = None,
    sizes: Annotated[
        str | None,
        typer.Option(
            help="Sizes of instance in cores: 1,2,8.", show_default="those of the spot trace, else the trace"
        ),
    ] = None,
    samples: Annotated[int | None, SAMPLES] = None,
    seed: Annotated[int | None, SEED] = None,
    at: Annotated[
        str | None,
        typer.Option(help="Time of the table: what happened before it counts.", show_default="the end"),
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Save a picture instead: .png, .svg or .pdf by its ending.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Make a cloud's quantile table: how long a spot instance survives, by size and free slots.

    A quantile is the longest lifetime whose risk of eviction is at most the SLA; 0 where no lifetime is.

    Example: spotfed table --trace DS2-trace.txt --nodes 7x12 --sizes 1,2,4 --picture table.png
    """
    births, key = samples_and_seed(samples, seed)
    levels = _parse_levels(sla)
    if picture is not None:
        check_picture(picture, field="--picture")
    federation = single_cloud(
        nodes, trace, "--trace", spot, spot_delay, formatting.parse_sla(spot_sla, field="--spot-sla")
    )
    counts = _parse_sizes(federation, sizes)
    at_s = _parse_time(federation, at)
    began_s = time.perf_counter()
    with progress("replaying", at_s) as reached:
        quantiles = _make_table(federation, counts, at_s, births, key, reached)
    result = {
        "schema": SCHEMA,
        "trace": trace.name,
        "nodes": nodes,
        "at_s": at_s,
        "samples": births,
        "seed": key,
        "version": quantiles.version,
        "rows": quantiles.rows(levels),
        "seconds": round(time.perf_counter() - began_s, 3),
    }
    if picture is not None:
        _save_picture(picture, result, levels)
    if as_json:
        print_json(result)
    elif picture is None:
        _show(result, levels)


def _parse_levels(texts: list[str] | None) -> tuple[float, ...]:
    levels = []
    for text in texts or ():
        level = formatting.parse_sla(text, field="--sla")
        if level is None:
            raise SpecError("a quantile needs a probability from 0 to 1", field="--sla")
        levels.append(level)
    return tuple(sorted(set(levels))) or SLAS


def _parse_sizes(federation: Federation, text: str | None) -> tuple[int, ...]:
    member = federation.clouds[0]
    largest = max(member.spec.node_cores)
    if text is not None:
        sizes = formatting.parse_sizes(text, field="--sizes")
        if sizes[-1] > largest:
            raise SpecError(
                f"an instance of {sizes[-1]} cores fits on no node of {member.nodes}", field="--sizes"
            )
        return sizes
    if federation.workloads:
        return federation.spot_sizes(member)
    return tuple(sorted({int(cores) for cores in member.own_load.cores.tolist() if cores <= largest}))


def _parse_time(federation: Federation, text: str | None) -> float:
    ends_s = federation.ends_s
    if text is None:
        return ends_s
    at_s = parse_duration_s(text, field="--at")
    if not 0 < at_s <= ends_s:
        raise SpecError(f"the trace runs from 0 to {ends_s:g} s; {text} is outside", field="--at")
    return at_s


def _make_table(
    federation: Federation,
    sizes: tuple[int, ...],
    at_s: float,
    births: int,
    seed: int,
    reached: Callable[[float], None],
) -> QuantileTable:
    """Make the table that ``cloudsim.federation.replay`` would make if it refreshed tables at ``at_s``."""
    member = federation.clouds[0]
    cloud = Cloud(member.spec, member.own_load, federation.ends_s)
    flavours = {(cores, federation.flavours.get(cores, ())) for cores in sizes}
    predictor = LocalPredictor(
        sampler_spec(member.spec, seed, births), sorted(flavours | {*federation.spot_flavours(member)})
    )
    changes: list[Change] = []
    for now_s, request, _ in federation.requests():
        if now_s >= at_s:
            break
        changes += cloud.advance(now_s)
        boundary_s = cloud.table_due_s(now_s) if cloud.needs_table(request) else None
        if boundary_s is not None:
            cloud.table = predictor.table(cloud.history.cut(boundary_s), boundary_s)
        cloud.admit(request, now_s)
        reached(now_s)
    changes += cloud.advance(at_s, PHASE_STOP)
    _warn_of_turned_away(changes)
    return predictor.table(cloud.history.cut(at_s), at_s)


def _warn_of_turned_away(changes: list[Change]) -> None:
    """Warn of own requests that found no room, because a table knows nothing of them."""
    turned_away = [change.request for change in changes if isinstance(change, TurnedAway)]
    started = [change.instance for change in changes if isinstance(change, Started)]
    lost_s = sum(request.cores * (request.lifetime_s or 0.0) for request in turned_away)
    placed_s = sum(one.cores * (one.end_s - one.start_s) for one in started if one.kind is Kind.ON_DEMAND)
    if turned_away:
        warn(
            f"own requests that found no room and count as no load: {len(turned_away):,} "
            f"({lost_s / ((lost_s + placed_s) or 1.0):.1%} of the core-hours)"
        )


def _save_picture(path: Path, result: dict[str, Any], levels: tuple[float, ...]) -> None:
    title = f"{result['trace']} on {result['nodes']}, {formatting.duration(result['at_s'])} of history"
    save(table_figure(result["rows"], levels, title=title), path)
    console(stderr=True).print(f"saved {path}", soft_wrap=True)


def _show(result: dict[str, Any], levels: tuple[float, ...]) -> None:
    title = f"{result['trace']} on {result['nodes']}: longest lifetime at an SLA (table {result['version']})"
    headings = ("cores", "free slots", "samples", "evicted", "followed up")
    view = make_table(title, *map(number, (*headings, *(f"SLA {level:g}" for level in levels))))
    previous = None
    for row in result["rows"]:
        if previous not in {None, row["cores"]}:
            view.add_section()
        previous = row["cores"]
        low, high = row["free_slots_from"], row["free_slots_to"]
        view.add_row(
            str(row["cores"]),
            f"{low}–{high}" if high > low else str(low),
            str(row["samples"]),
            str(row["evictions"]),
            formatting.duration(row["followed_up_s"]),
            *(formatting.duration(row["quantiles_s"][level]) for level in levels),
        )
    console().print(view)
