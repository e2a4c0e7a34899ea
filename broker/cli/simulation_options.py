"""One cloud made from files named on the command line: what ``replay`` and ``table`` study."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from broker.cli.console import warn

if TYPE_CHECKING:
    from cloudsim.admission.rule import AdmissionRule
    from cloudsim.federation.model import Federation
    from cloudsim.prediction.rule import PredictionRule
    from cloudsim.traces.trace import Trace

CLOUD, SPOT = "cloud", "spot"

NODES_HELP = "Shape of the cloud: 7x12 is 7 nodes of 12 cores; 4x8,2x16 two kinds of node."
SAMPLES = typer.Option(min=1, help="Monte-Carlo samples a size.", show_default="SPOTFED_SAMPLES, else 10000")
SEED = typer.Option(min=0, help="Seed of all random streams.", show_default="SPOTFED_SEED, else 0")


def read_trace(path: Path, *, field: str, capacity_cores: int | None = None) -> Trace:
    """The trace in a file of any known format; what is odd about it is said on standard error.

    Raises SpecError naming ``field`` where there is no such file, TraceError naming file and line.
    """
    from cloudsim.model.errors import SpecError
    from cloudsim.traces.formats import read

    if not path.is_file():
        raise SpecError(f"no such file: {path}", field=field)
    trace, report = read(path, capacity_cores=capacity_cores)
    for warning in report.warnings:
        warn(f"{path}: {warning}")
    return trace


class Rule(StrEnum):
    """By which rule a studied cloud predicts and admits."""

    STRICT = "strict"
    POPULATION = "population"
    INFORMED = "informed"
    AGED = "aged"
    PAPERS = "papers"

    @property
    def admission(self) -> AdmissionRule:
        """How it admits."""
        from cloudsim.admission.rule import PAPERS_ADMISSION, AdmissionRule
        from cloudsim.model.requests import Mode

        if self is Rule.PAPERS:
            return PAPERS_ADMISSION
        return AdmissionRule(Mode.POPULATION if self is Rule.POPULATION else Mode.STRICT)

    @property
    def prediction(self) -> PredictionRule:
        """How it predicts."""
        from cloudsim.prediction.rule import AGED_RULE, CAREFUL_RULE, INFORMED_RULE, OUR_RULE, PAPERS_RULE

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
    "and by the ages of on-demand instances (aged, one size only), or as the papers have it (papers)."
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
) -> Federation:
    """A federation of one cloud that plays one trace and is offered, ``delay`` later, another one as spot.

    Raises SpecError naming the option.
    """
    from cloudsim.cloud.inventory import parse_nodes
    from cloudsim.cloud.spec import CloudSpec
    from cloudsim.federation.model import FederatedCloud, Federation, Workload
    from cloudsim.model.durations import parse_duration_s
    from cloudsim.scheduling.lineups import YOUNGEST_JOB_FIRST
    from cloudsim.scheduling.lineups import lineup as lineup_of

    node_cores = parse_nodes(nodes, field="--nodes")
    delay_s = parse_duration_s(delay, field="--spot-delay")
    own_load = read_trace(on_demand, field=on_demand_field, capacity_cores=sum(node_cores))
    spec = CloudSpec(
        CLOUD,
        node_cores,
        lineup=YOUNGEST_JOB_FIRST if lineup is None else lineup_of(lineup, field="--lineup"),
        admission=rule.admission,
        prediction=rule.prediction,
    )
    member = FederatedCloud(spec, nodes, own_load)
    workloads = []
    if spot is not None:
        workloads.append(Workload(SPOT, read_trace(spot, field="--spot"), delay_s, sla, (CLOUD,)))
    return Federation((member,), tuple(workloads))


def samples_and_seed(samples: int | None, seed: int | None) -> tuple[int, int]:
    """What was asked for on the command line, else what the settings say."""
    from broker.settings import settings

    return (
        settings().samples if samples is None else samples,
        settings().seed if seed is None else seed,
    )
