"""Reads federation files: TOML that names clouds, their own load and the workloads they offer to each other.

    until = "10d"                               # optional

    [flavours]                                  # optional: what instances need beside cores. Traces tell
    small = { cores = 1, memory_mb = 2000 }     # cores only: those of 1 core need 2000 MB here, and those of
    large = { cores = 4, memory_mb = 8000 }     # a size that no flavour has need nothing else

    [[cloud]]
    id = "A"
    nodes = "7x12"                              # or "4x8,2x16"
    trace = "eucalyptus/DS2-trace.txt"          # its on-demand load: a file in the data directory or beside
                                                # this one
    admission = "population"                    # optional: the SLA is a mean over all that is admitted, not
                                                # a promise to each ("strict")
    lineup = "partial-hour"                     # optional: who goes where, and who is evicted for whom
    headroom = "2x4"                            # optional: blocks of cores kept free of spot for own users
    direct = true                               # optional: own users call the cloud itself; where it has no
    retry = "1m"                                # room they come again after so long, and it was freed
    slices_h = [1, 6, 24]                       # optional: spot is sold for so many hours and nothing between
    grace = "2m"                                # optional: so long before it must leave an instance is told
    overflow = true                             # optional: offer what it must turn away to the others
    overflow_sla = 0.05                         # with what promise; left out: no guarantee
    spot_cap_cores = 24                         # optional: the most spot cores that one origin may hold here
    spot_caps = { C = 48 }                      # optional: those of single origins, instead
    fair_share = "10m"                          # optional: nobody takes more spot than its share while an
                                                # origin waits: was refused for want of room so lately
    fair_share_weights = { C = 2.0 }            # optional: of single origins; 1 of all others
    driver = "process"                          # optional: its instances may run commands, see below
    spot_usd_per_core_hour = 0.01               # optional: what its cores cost batch jobs, in wall time:
    on_demand_usd_per_core_hour = 0.05          # both prices of all clouds, or none of any

    [[cloud]]
    id = "B"
    trace = "eucalyptus/DS3-trace.txt"
    nodes = [                                   # groups of nodes that have more than cores, in node order
        { count = 8, cores = 8, memory_mb = 16000, labels = { zone = "a" }, overcommit = { cores = 2.0 } },
        { count = 2, cores = 16, memory_mb = 64000, gpus = 4 },
    ]
    eviction = "fifo"                           # optional, instead of a line-up: who is evicted
    disclosure = "p90"                          # optional: what is told of the lifetimes of spot: "nothing",
                                                # "mttr" (the mean), "p10" or "p90" (the median and that
                                                # percentile) or "full"; less is promised where less is told
    spot_usd_per_core_hour = 0.02
    on_demand_usd_per_core_hour = 0.05
    sells_on_demand = true                      # optional: others may start on-demand here, at that price;
                                                # whose request for spot is refused is told so

    [[workload]]
    origin = "A"
    trace = { synthetic = "table-1", hours = 240, seed = 1 }
    delay = "24h"
    sla = 0.01                                  # left out: no guarantee
    targets = ["B"]                             # left out: all but the origin
    labels = { zone = "a" }                     # optional: only on nodes that have them
    group = "web"                               # optional, with spread = "apart" (each on a node of its own)
    spread = "apart"                            # or "together" (all on one node)
    pool = 0                                    # optional: of targets that sell pools; 0 is evicted first

In a group of nodes and in a flavour every further field is a resource, of which there are so many whole
units. A cloud's own load needs of a flavour what its nodes have any of; requests of a workload need all of
it, and fit on no node without. Overcommit sells more of a resource than a node really has: 16 cores of 8
above. Line-ups: see ``cloudsim.scheduling.lineups``; ``eviction`` is "lifo", "lifo-recency", "fifo", "random"
or "lifo-pools", with ``pools = 5`` or another number of them (``cloudsim.admission.pools``).

With ``driver = "process"`` the commands of batch jobs run on the machine of the cloud's node agent
(``python -m workers.node_agent``), as many as instances have room in the cloud; without it a cloud is
simulated and runs none.

A cloud with a table ``instances`` is a real one: ``python -m workers.cloud_agent`` makes its leases
instances,
and counts those that its own users start; ``workers.cloud_agent.drivers`` says what the table
holds. Its
trace is optional: a record of its load, which the first tables are made of and which ends when it begins.

Overflow is offered by clouds that live in wall time and by those of a replay; a live federation in trace time
(``spotfed federate --live``) leaves it out, so its report then differs from the replay's.

Synthetic traces: ``table-1`` (P1 Table I; ``hours``) and ``production-A`` to ``production-D`` (modelled on
the published statistics of the production traces; ``days``). Both take ``seed``. The own load of a public
cloud is made of its price history or of preemptions: see ``cloudsim.federation.traces``.
"""

from __future__ import annotations

import math
import tomllib
from dataclasses import replace
from pathlib import Path

from pydantic import ValidationError

from cloudsim.admission.fair_share import FairShare
from cloudsim.admission.origin_caps import SpotCaps
from cloudsim.admission.pools import POOLS, Pools
from cloudsim.admission.rule import AdmissionRule
from cloudsim.cloud.headroom import headroom_of
from cloudsim.cloud.inventory import parse_nodes
from cloudsim.cloud.spec import CloudSpec
from cloudsim.federation.file_schema import CloudTable, FederationFile, WorkloadTable, spec_error
from cloudsim.federation.model import FederatedCloud, Federation, Prices, Workload
from cloudsim.federation.traces import NO_LOAD, Told, Traces
from cloudsim.model.errors import SpecError
from cloudsim.model.nodes import NodeDetails, groups_of, nodes_of, shape_of
from cloudsim.model.requests import Amounts
from cloudsim.prediction.rule import rule_for
from cloudsim.scheduling.lineups import YOUNGEST_JOB_FIRST, LineUp, eviction_lineup, lineup

Flavours = dict[int, Amounts]  # by cores


def load(
    path: Path,
    data_dir: Path | None,
    *,
    until_s: float | None = None,
    told: Told = lambda _file, _warning: None,
) -> Federation:
    """Read a federation file. Traces are looked up in ``data_dir``, then beside the file.

    ``until_s`` replaces the file's own limit. ``told`` hears what is odd about the traces: quarantined lines,
    drop-outs and the like.

    Raises SpecError naming file and field, and TraceError naming file and line of a trace.
    """
    file = read_file(path)
    try:
        return _federation(file, Traces(path.parent, data_dir, told), until_s)
    except SpecError as error:
        if error.file is not None:
            raise
        raise SpecError(error.message, file=str(path), field=error.field) from error


def read_file(path: Path) -> FederationFile:
    """Read the tables of a federation file, without the traces that they name.

    Raises SpecError naming file and field.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise SpecError(f"not TOML: {error}", file=str(path)) from error
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f"cannot read it: {error}", file=str(path)) from error
    try:
        return FederationFile.model_validate(document)
    except ValidationError as error:
        raise spec_error(error, str(path)) from error


def _federation(file: FederationFile, traces: Traces, until_s: float | None) -> Federation:
    flavours = {flavour.cores: flavour.amounts for flavour in file.flavours.values()}
    clouds = tuple(
        _cloud(table, f"cloud[{number}]", traces, flavours) for number, table in enumerate(file.cloud)
    )
    ids = tuple(cloud.spec.id for cloud in clouds)
    workloads = tuple(
        _workload(table, f"workload[{number}]", traces, ids) for number, table in enumerate(file.workload)
    )
    limit_s = file.until_s if until_s is None else until_s
    return Federation(clouds, workloads, math.inf if limit_s is None else limit_s, flavours)


def _cloud(table: CloudTable, where: str, traces: Traces, flavours: Flavours) -> FederatedCloud:
    shape, node_cores, details = _nodes(table, f"{where}.nodes")
    details = replace(details, flavours=_counted(flavours, details.resources))
    prices = None
    if table.spot_usd_per_core_hour is not None and table.on_demand_usd_per_core_hour is not None:
        prices = Prices(table.spot_usd_per_core_hour, table.on_demand_usd_per_core_hour)
    return FederatedCloud(
        spec=_spec(table, where, node_cores, details),
        nodes=shape,
        own_load=NO_LOAD if table.trace is None else traces.of(table.trace, f"{where}.trace", node_cores),
        overflow=table.overflow,
        overflow_sla=table.overflow_sla,
        driver=table.driver,
        prices=prices,
        instances=table.instances,
        sells_on_demand=table.sells_on_demand,
        retry_s=table.retry_s if table.direct else None,
    )


def _nodes(table: CloudTable, where: str) -> tuple[str, tuple[int, ...], NodeDetails]:
    """Return the shape for people, the cores of each node, and what nodes have beside cores."""
    if isinstance(table.nodes, str):
        return table.nodes, parse_nodes(table.nodes, field=where), NodeDetails()
    cores, details = nodes_of(group.node_group for group in table.nodes)
    return shape_of(groups_of(cores, details)), cores, details


def _counted(flavours: Flavours, resources: tuple[str, ...]) -> tuple[tuple[int, Amounts], ...]:
    """Return the flavours of a cloud's own load, which may use what the cloud does not count."""
    counted = (
        (cores, tuple((name, amount) for name, amount in amounts if name in resources))
        for cores, amounts in sorted(flavours.items())
    )
    return tuple((cores, amounts) for cores, amounts in counted if amounts)


def _spec(table: CloudTable, where: str, node_cores: tuple[int, ...], details: NodeDetails) -> CloudSpec:
    pools = POOLS if table.pools is None else table.pools
    if table.sells_pools:
        Pools.cut(sum(node_cores), pools, field=f"{where}.pools")
        if details.amounts or details.labels:
            raise SpecError(
                "pools are bands of cores: leave out what its nodes have beside cores",
                field=f"{where}.eviction",
            )
    fair_share = None
    if table.fair_share_s is not None:
        fair_share = FairShare(table.fair_share_s, tuple(sorted(table.fair_share_weights.items())))
    return CloudSpec(
        table.id,
        node_cores,
        details,
        _lineup(table),
        table.grace_s,
        admission=AdmissionRule(table.admission),
        prediction=rule_for(table.admission),
        spot_caps=SpotCaps(table.spot_cap_cores, tuple(sorted(table.spot_caps.items()))),
        fair_share=fair_share,
        disclosure=table.disclosure,
        pools=pools,
        headroom=headroom_of(table.headroom, node_cores, details, f"{where}.headroom"),
        slices_s=tuple(hours * 3600.0 for hours in table.slices_h),
    )


def _lineup(table: CloudTable) -> LineUp:
    if table.eviction is not None:
        return eviction_lineup(table.eviction)
    return YOUNGEST_JOB_FIRST if table.lineup is None else lineup(table.lineup)


def _workload(table: WorkloadTable, where: str, traces: Traces, ids: tuple[str, ...]) -> Workload:
    others = [cloud for cloud in ids if cloud != table.origin]
    return Workload(
        table.origin,
        traces.of(table.trace, f"{where}.trace"),
        table.delay_s,
        table.sla,
        tuple(others if table.targets is None else table.targets),
        labels=table.labels,
        group=table.group,
        spread=table.spread,
        pool=table.pool,
    )
