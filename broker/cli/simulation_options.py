"""Options of ``replay`` and ``table``, and the one cloud that they describe."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path

import typer

from broker.cli.errors import warn
from broker.settings import settings
from cloudsim.admission.rule import PAPERS_ADMISSION, AdmissionRule
from cloudsim.cloud.spec import CloudSpec
from cloudsim.federation.model import FederatedCloud, Federation, Workload
from cloudsim.model.durations import parse_duration_s
from cloudsim.model.errors import SpecError
from cloudsim.model.requests import Mode
from cloudsim.prediction.kernels.line_up_replays import is_compiled
from cloudsim.prediction.rule import (
    AGED_RULE,
    CAREFUL_RULE,
    INFORMED_RULE,
    OUR_RULE,
    PAPERS_RULE,
    PredictionRule,
)
from cloudsim.prediction.samplers.plain import PLAIN_BIRTHS
from cloudsim.scheduling import lineups
from cloudsim.scheduling.inventory import parse_nodes
from cloudsim.scheduling.lineups import LineUp
from cloudsim.traces.formats import read
from cloudsim.traces.formats.source import STANDARD_INPUT
from cloudsim.traces.trace import Trace

CLOUD, SPOT = "cloud", "spot"

NODES_HELP = "Shape of the cloud: 7x12 is 7 nodes of 12 cores; 4x8,2x16 two kinds of node."
SAMPLES = typer.Option(
    min=1, max=2**31, help="Monte-Carlo samples a size.", show_default="SPOTFED_SAMPLES, else 10000"
)
SEED = typer.Option(min=0, help="Seed of all random streams.", show_default="SPOTFED_SEED, else 0")


def read_trace(path: Path, *, field: str, capacity_cores: int | None = None) -> Trace:
    """Read a trace in any known format, and warn on standard error of what is odd about it.

    Raises
    ------
    SpecError
        When there is no file at ``path``; it names ``field``.
    TraceError
        When the file cannot be read; it names file and line.
    """
    if path.is_dir() or not (path.exists() or str(path) == STANDARD_INPUT):
        raise SpecError(f"no such file: {path}", field=field)
    trace, report = read(path, capacity_cores=capacity_cores)
    for warning in report.warnings:
        warn(f"{path}: {warning}")
    return trace


class Rule(StrEnum):
    """Rules by which a studied cloud predicts and admits."""

    STRICT = "strict"
    POPULATION = "population"
    INFORMED = "informed"
    AGED = "aged"
    PAPERS = "papers"

    @property
    def admission(self) -> AdmissionRule:
        """The rule by which the cloud admits."""
        if self is Rule.PAPERS:
            return PAPERS_ADMISSION
        return AdmissionRule(Mode.POPULATION if self is Rule.POPULATION else Mode.STRICT)

    @property
    def prediction(self) -> PredictionRule:
        """The rule by which the cloud predicts."""
        return {
            Rule.STRICT: OUR_RULE,
            Rule.POPULATION: CAREFUL_RULE,
            Rule.INFORMED: INFORMED_RULE,
            Rule.AGED: AGED_RULE,
            Rule.PAPERS: PAPERS_RULE,
        }[self]


RULE = typer.Option(
    help="To whom the SLA is a promise: to each admitted request (strict), to all of them together "
    "(population), to each by the requested ends of running spot instances too (informed, one size only), "
    "and by the ages of on-demand instances (aged, one size only), or by the papers' text, taken literally "
    "(papers), which does not give their Table IV: see 'spotfed experiment readings'."
)


def single_cloud(
    nodes: str,
    on_demand: Path,
    on_demand_field: str,
    spot: Path | None,
    delay: str,
    sla: float | None,
    rule: Rule = Rule.STRICT,
    lineup: str | None = None,
    least_s: float | None = None,
) -> Federation:
    """Build a federation of one cloud that plays one trace and is offered another one as spot.

    Parameters
    ----------
    nodes
        Shape of the cloud, such as ``7x12``.
    on_demand, on_demand_field
        Trace of the cloud's own requests, and the option that names it.
    spot, delay
        Trace of the spot requests, and how much later it is played.
    lineup
        Name of the policy of placement and eviction; None: youngest job first.
    least_s
        Least seconds that renewable spot requests begin with; None: they are not renewable.

    Raises
    ------
    SpecError
        When an option is wrong; it names the option.
    """
    node_cores = parse_nodes(nodes, field="--nodes")
    delay_s = parse_duration_s(delay, field="--spot-delay")
    own_load = read_trace(on_demand, field=on_demand_field, capacity_cores=sum(node_cores))
    spec = CloudSpec(
        CLOUD,
        node_cores,
        lineup=lineups.YOUNGEST_JOB_FIRST if lineup is None else lineups.lineup(lineup, field="--lineup"),
        admission=rule.admission,
        prediction=rule.prediction,
    )
    member = FederatedCloud(spec, nodes, own_load)
    workloads = []
    if spot is not None:
        trace = read_trace(spot, field="--spot")
        workloads.append(Workload(SPOT, trace, delay_s, sla, (CLOUD,), least_s=least_s))
    federation = Federation((member,), tuple(workloads))
    for warning in (*federation.own_misfits(), *federation.spot_misfits()):
        warn(warning)
    return federation


def warn_of_plain_line_ups(line_ups: Iterable[LineUp]) -> None:
    """Say which line-ups have parts that no compiled replay knows: their tables are slow and coarse."""
    for line_up in dict.fromkeys(line_ups):
        if line_up != lineups.LIFO_POOLS and not is_compiled(line_up):
            warn(
                f"line-up {line_up.name} has parts in plain Python: its promises come from {PLAIN_BIRTHS} "
                "samples a size at most, and each takes hundreds of times as long"
            )


def samples_and_seed(samples: int | None, seed: int | None) -> tuple[int, int]:
    """Return the number of samples and the seed from the options, else from the settings."""
    config = settings()
    return (config.samples if samples is None else samples, config.seed if seed is None else seed)
