"""Federation files: clouds, their own load and the workloads they offer to each other, in TOML.

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
or "lifo-pools", with ``pools = 5`` or another number of them (``cloudsim.pools``).

With ``driver = "process"`` the commands of batch jobs run on the machine of the cloud's node agent
(``python -m workers.agent``), as many as instances have room in the cloud; without it a cloud is simulated
and runs none.

A cloud with a table ``instances`` is a real one: ``python -m workers.instances`` makes its leases instances,
and counts those that its own users start; ``workers.instances.options`` says what the table holds. Its
trace is optional: a record of its load, which the first tables are made of and which ends when it begins.

Overflow is offered by clouds that live in wall time and by those of a replay; a live federation in trace time
(``spotfed federate --live``) leaves it out, so its report then differs from the replay's.

Synthetic traces: ``table-1`` (P1 Table I; ``hours``) and ``production-A`` to ``production-D`` (modelled on
the published statistics of the production traces; ``days``). Both take ``seed``. The own load of a public
cloud is made of its price history or of preemptions: see ``cloudsim.federation_traces``.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from cloudsim.admission import AdmissionRule
from cloudsim.cloud_spec import CloudSpec
from cloudsim.direct import RETRY_S
from cloudsim.durations import parse_duration_s
from cloudsim.errors import SpecError
from cloudsim.fair_share import fair_share_of
from cloudsim.federation import FederatedCloud, Federation, Prices, Workload
from cloudsim.federation_fields import at_least_0, only, positive, sla, tables, text, whole
from cloudsim.federation_traces import NO_LOAD, Told, Traces
from cloudsim.headroom import headroom_of
from cloudsim.inventory import parse_nodes
from cloudsim.nodes import (
    CORES,
    NodeDetails,
    NodeGroup,
    checked_amounts,
    checked_labels,
    checked_name,
    groups_of,
    nodes_of,
    shape_of,
)
from cloudsim.policies import policies_of, pool_of
from cloudsim.prediction.rule import rule_for
from cloudsim.requests import Amounts, Mode, Spread
from cloudsim.scheduling.lineups import LIFO_POOLS, LineUp
from cloudsim.spot_caps import spot_caps_of
from cloudsim.volatile.veil import disclosure_of

_MOST_NODES = 100_000
_MOST_CORES = 1_000_000
_MOST_OVERCOMMIT = 1000

_PRICES = ("spot_usd_per_core_hour", "on_demand_usd_per_core_hour")

Flavours = dict[int, Amounts]  # by cores


def load(
    path: Path,
    data_dir: Path | None,
    *,
    until_s: float | None = None,
    told: Told = lambda _file, _warning: None,
) -> Federation:
    """Reads a federation file. Traces are looked up in ``data_dir``, then beside the file.

    ``told`` hears what is odd about the traces: quarantined lines, drop-outs and the like.

    Raises SpecError naming file and field, and TraceError naming file and line of a trace.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f"cannot read it: {error}", file=str(path)) from error
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SpecError(f"not TOML: {error}", file=str(path)) from error
    try:
        return _Reader(Traces(path.parent, data_dir, told)).federation(document, until_s)
    except SpecError as error:
        if error.file is not None:
            raise
        raise SpecError(error.message, file=str(path), field=error.field) from error


class _Reader:
    """Turns a parsed document into a Federation; a trace named twice is read once."""

    def __init__(self, traces: Traces):
        self._traces = traces
        self._flavours: Flavours = {}

    def federation(self, document: Mapping[str, Any], until_s: float | None) -> Federation:
        only(document, {"cloud", "workload", "until", "flavours"}, "")
        self._flavours = _flavours(document.get("flavours", {}))
        clouds = tuple(self._cloud(n, table) for n, table in enumerate(tables(document, "cloud")))
        if not clouds:
            raise SpecError("a federation needs at least one [[cloud]]", field="cloud")
        ids = tuple(cloud.spec.id for cloud in clouds)
        workloads = tuple(
            self._workload(n, table, ids) for n, table in enumerate(tables(document, "workload"))
        )
        limit_s = until_s
        if limit_s is None:
            limit_s = parse_duration_s(document["until"], field="until") if "until" in document else math.inf
        return Federation(clouds, workloads, limit_s, self._flavours)

    def _cloud(self, number: int, table: Mapping[str, Any]) -> FederatedCloud:
        where = f"cloud[{number}]"
        known = {"id", "nodes", "trace", "admission", "lineup", "grace", "overflow", "overflow_sla"}
        known |= {"eviction", "pools", "slices_h", "disclosure", "driver", "sells_on_demand", *_PRICES}
        known |= {"spot_cap_cores", "spot_caps", "fair_share", "fair_share_weights", "instances"}
        known |= {"headroom", "direct", "retry"}
        only(table, known, where)
        overflow = table.get("overflow", False)
        if not isinstance(overflow, bool):
            raise SpecError(f"{overflow!r} is not true or false", field=f"{where}.overflow")
        if "overflow_sla" in table and not overflow:
            raise SpecError("goes with overflow = true", field=f"{where}.overflow_sla")
        nodes, node_cores, details = self._nodes(table, f"{where}.nodes")
        instances = _instances(table, where)
        return FederatedCloud(
            _spec(text(table, "id", where), node_cores, details, table, where),
            nodes,
            NO_LOAD
            if instances is not None and "trace" not in table
            else self._traces.of(table, where, node_cores),
            overflow,
            sla(table.get("overflow_sla"), f"{where}.overflow_sla"),
            _driver(table.get("driver"), f"{where}.driver"),
            _prices(table, where),
            instances,
            _sells_on_demand(table, where),
            _retry_s(table, where),
        )

    def _nodes(self, table: Mapping[str, Any], where: str) -> tuple[str, tuple[int, ...], NodeDetails]:
        """The shape for people, cores of each node, and what they have beside."""
        written = table.get("nodes")
        if isinstance(written, str) and written:
            shape, cores, details = written, parse_nodes(written, field=where), NodeDetails()
        elif isinstance(written, list) and written:
            groups = [_node_group(one, f"{where}[{number}]") for number, one in enumerate(written)]
            if sum(group.nodes for group in groups) > _MOST_NODES:
                raise SpecError(f"more than {_MOST_NODES} nodes", field=where)
            cores, details = nodes_of(groups)
            shape = shape_of(groups_of(cores, details))
        else:
            raise SpecError('write a shape such as "7x12", or a list of groups of nodes', field=where)
        return shape, cores, replace(details, flavours=self._own_flavours(details.resources))

    def _own_flavours(self, resources: tuple[str, ...]) -> tuple[tuple[int, Amounts], ...]:
        """As far as a cloud counts resources: its own load runs where these are not counted too."""
        counted = (
            (cores, tuple(one for one in amounts if one[0] in resources))
            for cores, amounts in sorted(self._flavours.items())
        )
        return tuple((cores, amounts) for cores, amounts in counted if amounts)

    def _workload(self, number: int, table: Mapping[str, Any], ids: tuple[str, ...]) -> Workload:
        where = f"workload[{number}]"
        only(
            table, {"origin", "trace", "delay", "sla", "targets", "labels", "group", "spread", "pool"}, where
        )
        origin = text(table, "origin", where)
        targets = table.get("targets", [cloud for cloud in ids if cloud != origin])
        if not isinstance(targets, list) or not all(isinstance(target, str) for target in targets):
            raise SpecError(f"{targets!r} is not a list of cloud ids", field=f"{where}.targets")
        group, spread = _group(table, where)
        return Workload(
            origin,
            self._traces.of(table, where),
            parse_duration_s(table.get("delay", 0), field=f"{where}.delay"),
            sla(table.get("sla"), f"{where}.sla"),
            tuple(targets),
            labels=checked_labels(table.get("labels", {}), field=f"{where}.labels"),
            group=group,
            spread=spread,
            pool=pool_of(table, where),
        )


def _spec(
    cloud: str, node_cores: tuple[int, ...], details: NodeDetails, table: Mapping[str, Any], where: str
) -> CloudSpec:
    mode = table.get("admission", Mode.STRICT.value)
    if mode not in list(Mode):
        raise SpecError(f"{mode!r} is not {' or '.join(Mode)}", field=f"{where}.admission")
    policies = policies_of(table, where, node_cores, details)
    return CloudSpec(
        cloud,
        node_cores,
        details,
        policies.lineup,
        parse_duration_s(table.get("grace", 0), field=f"{where}.grace"),
        admission=AdmissionRule(Mode(mode)),
        prediction=rule_for(Mode(mode)),
        spot_caps=spot_caps_of(table, where),
        fair_share=fair_share_of(table, where),
        disclosure=disclosure_of(table, Mode(mode), where),
        pools=policies.pools,
        headroom=_headroom(table, where, policies.lineup, node_cores, details),
        slices_s=policies.slices_s,
    )


def _headroom(
    table: Mapping[str, Any], where: str, lineup: LineUp, node_cores: tuple[int, ...], details: NodeDetails
) -> tuple[int, ...]:
    blocks = headroom_of(table.get("headroom"), node_cores, details, f"{where}.headroom")
    if blocks and lineup == LIFO_POOLS:
        raise SpecError("a cloud that sells pools keeps none: pool 0 is that room", field=f"{where}.headroom")
    return blocks


def _retry_s(table: Mapping[str, Any], where: str) -> float | None:
    direct = table.get("direct", False)
    if not isinstance(direct, bool):
        raise SpecError(f"{direct!r} is not true or false", field=f"{where}.direct")
    if not direct:
        if "retry" in table:
            raise SpecError("goes with direct = true", field=f"{where}.retry")
        return None
    retry_s = parse_duration_s(table.get("retry", RETRY_S), field=f"{where}.retry")
    if retry_s <= 0:
        raise SpecError("must be longer than nothing", field=f"{where}.retry")
    return retry_s


def _driver(value: object, where: str) -> Literal["process"] | None:
    if value is None or value == "process":
        return value
    raise SpecError(f'{value!r} is not "process", and simulated clouds leave it out', field=where)


def _instances(table: Mapping[str, Any], where: str) -> Mapping[str, object] | None:
    """What it says of a driver is for who runs it to check."""
    found = table.get("instances")
    if found is None:
        return None
    if not isinstance(found, Mapping):
        raise SpecError(f"{found!r} is not a table with a driver", field=f"{where}.instances")
    for other in ("driver", "overflow", "sells_on_demand"):
        if table.get(other):
            raise SpecError(
                "goes not with instances: what a real cloud's own users start is its own load, and counted",
                field=f"{where}.{other}",
            )
    return dict(found)


def _prices(table: Mapping[str, Any], where: str) -> Prices | None:
    told = [name for name in _PRICES if name in table]
    if len(told) == 1:
        (missing,) = set(_PRICES) - set(told)
        raise SpecError(f"goes with {told[0]}", field=f"{where}.{missing}")
    return Prices(*(at_least_0(table[name], f"{where}.{name}") for name in told)) if told else None


def _sells_on_demand(table: Mapping[str, Any], where: str) -> bool:
    sells = table.get("sells_on_demand", False)
    if not isinstance(sells, bool):
        raise SpecError(f"{sells!r} is not true or false", field=f"{where}.sells_on_demand")
    if sells and "on_demand_usd_per_core_hour" not in table:
        raise SpecError("is needed to sell on-demand", field=f"{where}.on_demand_usd_per_core_hour")
    return sells


def _node_group(table: object, where: str) -> NodeGroup:
    if not isinstance(table, Mapping):
        raise SpecError(f"{table!r} is not a table such as {{ count = 8, cores = 8 }}", field=where)
    named = {"count", "cores", "labels", "overcommit"}
    amounts = checked_amounts({name: table[name] for name in table if name not in named}, field=where)
    group = NodeGroup(
        whole(table, "count", where, _MOST_NODES),
        whole(table, "cores", where, _MOST_CORES),
        amounts,
        checked_labels(table.get("labels", {}), field=f"{where}.labels"),
        _overcommit(table.get("overcommit", {}), {CORES, *dict(amounts)}, f"{where}.overcommit"),
    )
    if group.sold(CORES, group.cores) < 1:
        raise SpecError("leaves no core to sell", field=f"{where}.overcommit.{CORES}")
    return group


def _overcommit(value: object, resources: set[str], where: str) -> Mapping[str, float]:
    if not isinstance(value, Mapping):
        raise SpecError(f"{value!r} is not a table such as {{ cores = 2.0 }}", field=where)
    for name, factor in value.items():
        if name not in resources:
            known = ", ".join(sorted(resources))
            raise SpecError(f"these nodes have no such resource; they have: {known}", field=f"{where}.{name}")
        if positive(factor, f"{where}.{name}") > _MOST_OVERCOMMIT:
            raise SpecError(f"{factor!r} is more than {_MOST_OVERCOMMIT}", field=f"{where}.{name}")
    return value


def _flavours(table: object) -> Flavours:
    """By cores, as traces tell nothing else."""
    if not isinstance(table, Mapping):
        raise SpecError("write each as name = { cores = 1, memory_mb = 2000 }", field="flavours")
    flavours: Flavours = {}
    names: dict[int, str] = {}
    for name, flavour in table.items():
        where = f"flavours.{name}"
        if not isinstance(flavour, Mapping):
            raise SpecError(
                f"{flavour!r} is not a table such as {{ cores = 1, memory_mb = 2000 }}", field=where
            )
        cores = whole(flavour, "cores", where, _MOST_CORES)
        if cores in names:
            other = names[cores]
            raise SpecError(f"{other} has {cores} cores already, and traces tell nothing else", field=where)
        names[cores] = name
        amounts = {resource: flavour[resource] for resource in flavour if resource != CORES}
        flavours[cores] = checked_amounts(amounts, field=where)
    return flavours


def _group(table: Mapping[str, Any], where: str) -> tuple[str | None, Spread | None]:
    if "group" not in table and "spread" not in table:
        return None, None
    spread = table.get("spread")
    if spread not in list(Spread):
        accepted = " or ".join(Spread)
        raise SpecError(f"a group needs to be spread: {accepted}", field=f"{where}.spread")
    return checked_name(table.get("group"), field=f"{where}.group"), Spread(spread)
