"""``replay``: one cloud, its own load and a spot workload, replayed in this process."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import RenderableType

from broker.cli import formatting
from broker.cli.console import JsonOption, make_table, number, progress, show_one
from broker.cli.simulation_options import (
    CLOUD,
    NODES_HELP,
    RULE,
    SAMPLES,
    SEED,
    SPOT,
    Rule,
    samples_and_seed,
    single_cloud,
    warn_of_plain_line_ups,
)
from broker.cli.trace.convert import check_output, replace_file
from cloudsim.federation import replay as simulation
from cloudsim.federation.report import work_shares
from cloudsim.federation.request_outcomes import RequestOutcomes
from cloudsim.model.durations import parse_duration_s
from cloudsim.model.errors import SpecError
from cloudsim.model.refusals import RefusalReason
from cloudsim.model.requests import LEAST_S

SCHEMA = "spotfed.replay/1"

_ENDINGS = (".csv", ".csv.gz", ".parquet")

_COLUMNS = (
    "requests", "admitted", "share", "work", "of baseline's", "completed", "evicted", "evicted / admitted",
)  # fmt: skip
_COUNTS = (
    "requests", "admitted", "completed", "evicted", "evicted_share", "evicted_low", "evicted_high",
)  # fmt: skip


def replay(
    on_demand: Annotated[Path, typer.Option(help="Trace of the cloud's own, on-demand requests.")],
    spot: Annotated[Path, typer.Option(help="Trace that is offered to the cloud as spot requests.")],
    nodes: Annotated[str, typer.Option(help=NODES_HELP)],
    sla: Annotated[
        str,
        typer.Option(help="Largest acceptable probability of eviction; 'none' admits whatever fits."),
    ] = "0.01",
    rule: Annotated[Rule, RULE] = Rule.STRICT,
    lineup: Annotated[
        str | None,
        typer.Option(
            help="Policy of placement and eviction; a wrong name lists the known ones.",
            show_default="youngest-job-first",
        ),
    ] = None,
    renew: Annotated[
        bool,
        typer.Option("--renew", help="Promise bit by bit what cannot be promised at once."),
    ] = False,
    least: Annotated[
        str | None,
        typer.Option(help="With --renew, the least that a request begins with.", show_default="1h"),
    ] = None,
    spot_delay: Annotated[str, typer.Option(help="How much later the spot trace is played.")] = "24h",
    samples: Annotated[int | None, SAMPLES] = None,
    seed: Annotated[int | None, SEED] = None,
    requests: Annotated[
        Path | None,
        typer.Option(help="Write one row a spot request, with its outcome: .csv, .csv.gz or .parquet."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Replay a cloud's own load together with a spot workload, and show what is admitted and what is evicted.

    Traces: Eucalyptus START/STOP, Standard Workload Format, Azure CSV, or our own CSV; gzipped or not.

    Example: spotfed replay --on-demand DS2-trace.txt --spot DS3-trace.txt --nodes 7x12 --sla 0.01
    """
    ending = check_output(requests, "--requests", _ENDINGS) if requests else ""
    births, key = samples_and_seed(samples, seed)
    promise = formatting.parse_sla(sla, field="--sla")
    federation = single_cloud(
        nodes, on_demand, "--on-demand", spot, spot_delay, promise, rule, lineup,
        _least_s(least, promise) if renew or least is not None else None,
    )  # fmt: skip
    warn_of_plain_line_ups(member.spec.lineup for member in federation.clouds)
    outcomes = RequestOutcomes() if requests else None
    began_s = time.perf_counter()
    with progress("replaying", federation.ends_s) as reached:
        report = simulation.replay(federation, seed=key, births=births, progress=reached, outcomes=outcomes)
    if requests and outcomes:
        _write(outcomes, requests, ending)
    baseline = report["origins"][SPOT]["spot_core_hours"]["completed"]
    if promise is not None:
        baseline = simulation.complete_without_promise(federation)[SPOT]
    result = _summarise(report, promise, rule, baseline, time.perf_counter() - began_s)
    show_one(result, *_result_text(result, nodes), as_json=as_json)


def _least_s(least: str | None, sla: float | None) -> float:
    if sla is None or sla == 1:
        raise SpecError("goes with an SLA below 1: without a promise nothing needs renewal", field="--renew")
    return LEAST_S if least is None else parse_duration_s(least, field="--least")


def _write(outcomes: RequestOutcomes, path: Path, ending: str) -> None:
    frame = outcomes.to_frame()
    with replace_file(path, ending) as draft:
        if ending == ".parquet":
            frame.to_parquet(draft, index=False)
        else:
            frame.to_csv(draft, index=False)


def _summarise(
    report: dict[str, Any], sla: float | None, rule: Rule, baseline: float, seconds: float
) -> dict[str, Any]:
    cloud, origin = report["clouds"][CLOUD], report["origins"][SPOT]
    hours = origin["spot_core_hours"]
    return {
        "schema": SCHEMA,
        "on_demand": cloud["on_demand"],
        "spot": {name: origin[name] for name in _COUNTS},
        "sla": sla,
        "rule": rule.value,
        "utilisation": cloud["utilisation"],
        "seconds": round(seconds, 3),
        "spot_core_hours": {**hours, "baseline": baseline, **work_shares(hours, baseline)},
        **({"promises": origin["promises"]} if "promises" in origin else {}),
        "by_size": origin["by_size"],
        "refusals": origin["refusals"],
        "until_s": report["until_s"],
    }


def _result_text(result: dict[str, Any], nodes: str) -> list[RenderableType]:
    on_demand, spot, hours = result["on_demand"], result["spot"], result["spot_core_hours"]
    table = make_table(
        f"Replay on {nodes}, SLA {formatting.sla(result['sla'])}, rule {result['rule']}",
        "",
        *map(number, _COLUMNS),
    )
    table.add_row(
        "on-demand",
        str(on_demand["requests"]),
        str(on_demand["admitted"]),
        formatting.share(on_demand["admitted"], on_demand["requests"]),
    )
    table.add_row(
        "spot",
        *(str(spot[name]) for name in ("requests", "admitted")),
        formatting.share(spot["admitted"], spot["requests"]),
        formatting.share(hours["completed"], hours["requested"]),
        formatting.share(hours["completed"], hours["baseline"]),
        *(str(spot[name]) for name in ("completed", "evicted")),
        formatting.share(spot["evicted"], spot["admitted"]),
    )
    core_hours = (
        f"Spot core-hours: {hours['requested']:,.0f} requested, {hours['completed']:,.0f} completed, "
        f"{hours['lost']:,.0f} lost to evictions; {hours['baseline']:,.0f} complete where all that fits is "
        "admitted and nothing promised (the baseline)."
    )
    text: list[RenderableType] = [table, core_hours]
    if "promises" in result:
        promises = result["promises"]
        text.append(
            f"Promises: {promises['made']} made, {promises['evicted']} broken "
            f"({formatting.share(promises['evicted'], promises['made'])}); "
            f"{promises['not_renewed']} instances were not renewed to the end that they wanted."
        )
    if spot["admitted"]:
        text.append(
            f"Evicted with 95 % confidence: {spot['evicted_low']:.4f} to {spot['evicted_high']:.4f} "
            f"of the admitted (Clopper–Pearson). Utilisation {result['utilisation']:.3f}."
        )
    if result["refusals"]:
        refusals = [f"{count} {RefusalReason(reason).text}" for reason, count in result["refusals"].items()]
        text.append(f"Refused: {', '.join(refusals)}.")
    return [*text, f"{result['seconds']:.1f} s"]
