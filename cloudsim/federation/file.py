"""Read federation files: TOML that names clouds, their own load and the workloads they offer to each other.

docs/reference/federation-file.md describes all fields, and ``cloudsim.federation.file_schema`` checks them.
``cloudsim.federation.traces`` says what a field ``trace`` may hold.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from pydantic import ValidationError

from cloudsim.admission.fair_share import FairShare
from cloudsim.admission.origin_caps import SpotCaps
from cloudsim.admission.pools import POOLS, Pools
from cloudsim.admission.rule import AdmissionRule
from cloudsim.cloud.headroom import headroom_of
from cloudsim.cloud.spec import CloudSpec
from cloudsim.federation.file_schema import CloudTable, FederationFile, PriceTrace, WorkloadTable, spec_error
from cloudsim.federation.model import FederatedCloud, Federation, PlannedDrain, Prices, Workload
from cloudsim.federation.traces import NO_LOAD, Traces, WarningHandler
from cloudsim.model.errors import SpecError
from cloudsim.model.nodes import NodeDetails, groups_of, nodes_of, shape_of
from cloudsim.model.requests import Amounts
from cloudsim.prediction.rule import rule_for
from cloudsim.scheduling.inventory import parse_nodes
from cloudsim.scheduling.lineups import YOUNGEST_JOB_FIRST, LineUp, eviction_lineup, lineup
from cloudsim.traces.trace import Trace

Flavours = dict[int, Amounts]  # by cores


def load_federation(
    path: Path,
    data_dir: Path | None,
    *,
    until_s: float | None = None,
    on_warning: WarningHandler = lambda _file, _warning: None,
    played: Collection[str] | None = None,
) -> Federation:
    """Read a federation file with the traces that it names.

    Parameters
    ----------
    path
        The file.
    data_dir
        Directory in which traces are looked up first; then beside the file.
    until_s
        Replaces the file's own limit, in seconds.
    on_warning
        Called with a trace file and a sentence for anything odd in it: quarantined lines, drop-outs and the
        like; and with this file for load that can never be placed.
    played
        Ids of the clouds whose own load is wanted. The others then have none, and there are no workloads: of
        many clouds, the process of a few would spend most of its start and its memory on their traces.

    Raises
    ------
    SpecError
        When the file is wrong; names file and field.
    TraceError
        When a trace is wrong; names its file and line.
    """
    file = read_file(path)
    if played is not None:
        clouds = [
            table if table.id in played else table.model_copy(update={"trace": None}) for table in file.cloud
        ]
        file = file.model_copy(update={"cloud": clouds, "workload": []})
    try:
        federation = _federation(file, Traces(path.parent, data_dir, on_warning), until_s)
    except SpecError as error:
        if error.file is not None:
            raise
        raise SpecError(error.message, file=str(path), field=error.field) from error
    for warning in (*federation.own_misfits(), *federation.spot_misfits()):
        on_warning(path, warning)
    return federation


def read_file(path: Path) -> FederationFile:
    """Read the tables of a federation file, without the traces that they name.

    Raises
    ------
    SpecError
        When the file is wrong; names file and field.
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
        own_load=_own_load(table, where, traces, node_cores),
        overflow=table.overflow,
        overflow_sla=table.overflow_sla,
        driver=table.driver,
        prices=prices,
        instances=table.instances,
        sells_on_demand=table.sells_on_demand,
        retry_s=table.retry_s if table.direct else None,
        drains=_drains(table, where, len(node_cores)),
    )


def _drains(table: CloudTable, where: str, node_count: int) -> tuple[PlannedDrain, ...]:
    for number, drain in enumerate(table.drains):
        if drain.nodes is not None and max(drain.nodes) >= node_count:
            raise SpecError(
                f"the cloud has nodes 0 to {node_count - 1}", field=f"{where}.drains[{number}].nodes"
            )
    return tuple(
        PlannedDrain(drain.at_s, None if drain.nodes is None else tuple(drain.nodes), drain.until_s)
        for drain in table.drains
    )


def _own_load(table: CloudTable, where: str, traces: Traces, node_cores: tuple[int, ...]) -> Trace:
    if table.trace is None:
        return NO_LOAD
    if table.instances is not None and traces.awaits_prices(table.trace):
        return NO_LOAD
    return traces.of(table.trace, f"{where}.trace", node_cores)


def _nodes(table: CloudTable, where: str) -> tuple[str, tuple[int, ...], NodeDetails]:
    """Return the shape for display, the cores of each node, and what nodes have beside cores."""
    if isinstance(table.nodes, str):
        return table.nodes, parse_nodes(table.nodes, field=where), NodeDetails()
    cores, details = nodes_of(group.node_group for group in table.nodes)
    return shape_of(groups_of(cores, details)), cores, details


def _counted(flavours: Flavours, resources: tuple[str, ...]) -> tuple[tuple[int, Amounts], ...]:
    """Return the flavours of a cloud's own load, without resources that the cloud does not count."""
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
                "pools are bands of cores: remove labels, and what the nodes have beside cores",
                field=f"{where}.eviction",
            )
    fair_share = None
    if table.fair_share_s is not None:
        fair_share = FairShare(table.fair_share_s, tuple(sorted(table.fair_share_weights.items())))
    # A rise of the price evicts all spot at once, and nothing before the first rise tells of it.
    peaks = 1.0 if isinstance(table.trace, PriceTrace) else 0.0
    return CloudSpec(
        table.id,
        node_cores,
        details,
        _lineup(table),
        table.grace_s,
        admission=AdmissionRule(table.admission, peaks=peaks),
        prediction=rule_for(table.admission),
        spot_caps=SpotCaps(table.spot_cap_cores, tuple(sorted(table.spot_caps.items()))),
        fair_share=fair_share,
        disclosure=table.disclosure,
        pools=pools,
        headroom=headroom_of(table.headroom, node_cores, details, f"{where}.headroom"),
        slices_s=tuple(hours * 3600.0 for hours in table.slices_h),
        takes_back=(table.instances or {}).get("spot") is True,
        predictor=table.predictor,
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
        least_s=table.least_s if table.renew else None,
    )
