"""A federation in memory: clouds with their own load, and the workloads they offer to each other."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from cloudsim.cloud.spec import CloudSpec
from cloudsim.model.durations import parse_duration_s
from cloudsim.model.errors import SpecError
from cloudsim.model.requests import Amounts, Kind, Labels, Request, Spread, promises
from cloudsim.prediction.samples import Flavour
from cloudsim.scheduling.inventory import Inventory
from cloudsim.traces.trace import Trace

#: Seconds that an instance of a real cloud takes to start its node agent, if nobody says more.
BOOT_S = 120.0


@dataclass(frozen=True)
class Prices:
    """Prices of a cloud's cores for batch jobs, US dollars an hour of wall time."""

    spot_usd_per_core_hour: float
    on_demand_usd_per_core_hour: float


@dataclass(frozen=True)
class PlannedDrain:
    """A drain of nodes (None: all) in a replay, and when they open again (None: never)."""

    at_s: float
    nodes: tuple[int, ...] | None = None
    until_s: float | None = None


@dataclass(frozen=True)
class FederatedCloud:
    """A member: its cloud, and the on-demand load that it plays."""

    spec: CloudSpec
    nodes: str  # shape for display, such as "7x12"
    own_load: Trace
    #: Offers own requests that it must turn away to the others, as spot requests with ``overflow_sla``, and
    #: offers the rest again when they are evicted there: live in wall time and in replays, but not in a live
    #: federation in trace time.
    overflow: bool = False
    overflow_sla: float | None = None
    #: ``process`` runs commands on the machine of its node agent; None is a simulated cloud, which runs none.
    driver: Literal["process"] | None = None
    prices: Prices | None = None
    #: The table ``instances`` of a cloud whose leases are instances of a real cloud; None if it is simulated.
    instances: Mapping[str, object] | None = None
    #: Lets other members start on-demand instances too, at its on-demand price.
    sells_on_demand: bool = False
    #: Seconds after which its users, who call it directly, come again when it has no room; None if they ask
    #: its owner, who evicts for them at once. Replays only.
    retry_s: float | None = None
    #: Replays only: in a live federation operators drain nodes.
    drains: tuple[PlannedDrain, ...] = ()

    @property
    def boot_s(self) -> float | None:
        """Seconds that an instance of the real cloud takes before it runs a batch job; None if it runs none.

        Raises
        ------
        SpecError
            When the table ``instances.jobs`` is malformed.
        """
        jobs = (self.instances or {}).get("jobs")
        return parse_duration_s(jobs.get("boot", BOOT_S), field="boot") if isinstance(jobs, Mapping) else None


@dataclass(frozen=True)
class Workload:
    """A trace that one member offers to others as spot requests (P2 §3.1).

    Attributes
    ----------
    origin
        The member that offers it.
    delay_s
        Seconds by which requests are later than recorded; 24 h in the papers.
    sla
        The promise asked for; None for no guarantee.
    targets
        Clouds that are asked.
    asks_requested
        Requests name the lifetime that the trace's user requested, or the actual one if there is none; the
        user stops an instance at its actual end if that is earlier. Replays only.
    pool
        Pool to ask for, of targets that sell pools.
    least_s
        Requests are renewable, and begin with a promise of at least so long, in seconds; None: they are not.
    """

    origin: str
    trace: Trace
    delay_s: float
    sla: float | None
    targets: tuple[str, ...]
    asks_requested: bool = False
    labels: Labels = frozenset()
    group: str | None = None
    spread: Spread | None = None
    pool: int | None = None
    least_s: float | None = None


@dataclass(frozen=True)
class Federation:
    """Clouds and workloads in their order, which breaks ties.

    Attributes
    ----------
    until_s
        Requests after this time are left out, in seconds.
    flavours
        Amounts of other resources that requests of the workloads need, by cores; none for sizes that are
        missing.

    Raises
    ------
    SpecError
        When ids are not unique, only some clouds have prices, or a target is unknown.
    """

    clouds: tuple[FederatedCloud, ...]
    workloads: tuple[Workload, ...]
    until_s: float = field(default=float("inf"))
    flavours: Mapping[int, Amounts] = field(default_factory=dict)

    def __post_init__(self) -> None:
        ids = [cloud.spec.id for cloud in self.clouds]
        if len(set(ids)) != len(ids):
            raise SpecError(f"cloud ids must differ: {', '.join(ids)}", field="cloud.id")
        priced = [number for number, cloud in enumerate(self.clouds) if cloud.prices]
        if priced and len(priced) < len(self.clouds):
            number = next(number for number in range(len(self.clouds)) if number not in priced)
            raise SpecError(
                f"is missing, while {ids[priced[0]]} has one: all clouds have prices, or none has",
                field=f"cloud[{number}].spot_usd_per_core_hour",
            )
        for workload in self.workloads:
            for target in workload.targets:
                if target not in ids:
                    known = ", ".join(ids)
                    raise SpecError(
                        f"no cloud is called {target!r}; there are: {known}", field="workload.targets"
                    )

    @property
    def ends_s(self) -> float:
        """Time in seconds at which the first own load ends, or ``until_s`` if that is earlier.

        A load ends with its last stop; clouds without a load do not count.
        """
        loads = (cloud.own_load.last_stop_s for cloud in self.clouds if len(cloud.own_load))
        return min((self.until_s, *loads))

    def spot_sizes(self, cloud: FederatedCloud) -> tuple[int, ...]:
        """Return the sizes of spot request that ``cloud`` may be asked for and could hold, smallest first.

        Overflow counts if it asks for a promise: nothing else needs a table.
        """
        return tuple(sorted({cores for cores, _ in self.spot_flavours(cloud)}))

    def spot_flavours(self, cloud: FederatedCloud) -> tuple[Flavour, ...]:
        """Return the flavours of spot request that ``cloud`` may be asked for and could hold.

        Amounts are of resources that the cloud has. If the cloud sells pools, the flavours are those of its
        pools' tables.
        """
        if cloud.spec.products.pools:
            return cloud.spec.products.pools.flavours
        loads = [
            (workload.trace, self.flavours)
            for workload in self.workloads
            if cloud.spec.id in workload.targets
        ]
        loads += [
            (other.own_load, dict(other.spec.details.flavours))
            for other in self.clouds
            if other.overflow and promises(Kind.SPOT, other.overflow_sla)
        ]
        known = set(cloud.spec.details.resources)
        requested = {
            (cores, flavours.get(cores, ()))
            for trace, flavours in loads
            for cores in set(trace.cores.tolist())
        }
        largest = max(cloud.spec.node_cores)
        return tuple(
            sorted(
                (cores, amounts)
                for cores, amounts in requested
                if cores <= largest and {name for name, _ in amounts} <= known
            )
        )

    def own_misfits(self) -> Iterator[str]:
        """Yield a sentence on each own load that has a part which fits on no empty cloud, with its share."""
        for cloud in self.clouds:
            flavours, inventory = dict(cloud.spec.details.flavours), _empty(cloud.spec)
            share = _misfitting(cloud.own_load, flavours, Kind.ON_DEMAND, (inventory,))
            if share is not None:
                yield (
                    f"{share} of the own load of {cloud.spec.id} need more than its nodes have: "
                    "they are turned away."
                )

    def spot_misfits(self) -> Iterator[str]:
        """Yield a sentence on each workload that has a part which fits on no node, with its share."""
        inventories = {cloud.spec.id: _empty(cloud.spec) for cloud in self.clouds}
        for workload in self.workloads:
            targets = [inventories[target] for target in workload.targets]
            share = _misfitting(workload.trace, self.flavours, Kind.SPOT, targets)
            if targets and share is not None:
                yield (
                    f"{share} of the spot that {workload.origin} asks for fit on no node of "
                    f"{' or '.join(workload.targets)}: they are refused, because spot is placed on one node."
                )

    def requests(self) -> Iterator[tuple[float, Request, tuple[str, ...]]]:
        """Yield spot requests with their time in seconds and their targets.

        They come by time, then by workload order, then by file order.
        """
        return heapq.merge(
            *(self._requests_of(order, workload) for order, workload in enumerate(self.workloads)),
            key=lambda item: item[0],
        )

    def _requests_of(
        self, order: int, workload: Workload
    ) -> Iterator[tuple[float, Request, tuple[str, ...]]]:
        trace, ends_s = workload.trace, self.ends_s
        actual_s = trace.lifetime_s
        requested_s = np.where(np.isnan(trace.requested_s), actual_s, trace.requested_s)
        if not workload.asks_requested:
            requested_s = actual_s
        rows = zip(
            (trace.start_s + workload.delay_s).tolist(), trace.cores.tolist(), requested_s.tolist(),
            actual_s.tolist(), strict=True,
        )  # fmt: skip
        for row, (at_s, cores, requested, actual) in enumerate(rows):
            if at_s > ends_s:
                return
            request = Request(
                id=f"{workload.origin}-w{order}-{row}",
                kind=Kind.SPOT,
                cores=cores,
                lifetime_s=requested,
                sla=workload.sla,
                origin=workload.origin,
                actual_lifetime_s=actual if actual < requested else None,
                amounts=self.flavours.get(cores, ()),
                labels=workload.labels,
                group=workload.group,
                spread=workload.spread,
                pool=workload.pool,
                least_s=None if workload.least_s is None else min(workload.least_s, requested),
            )
            yield at_s, request, workload.targets


def _empty(spec: CloudSpec) -> Inventory:
    return Inventory(spec.node_cores, spec.details)


def _misfitting(
    trace: Trace, flavours: Mapping[int, Amounts], kind: Kind, clouds: Sequence[Inventory]
) -> str | None:
    """Return how much of a trace no cloud could place if it were empty, as text; None where all fits."""
    core_s = trace.cores * trace.lifetime_s
    misfit = np.zeros(len(trace), np.bool_)
    for cores in np.unique(trace.cores).tolist():
        for parallel in (False, True):
            request = Request("", kind, cores, None, amounts=flavours.get(cores, ()), parallel=parallel)
            if all(cloud.lacks(request) for cloud in clouds):
                misfit |= (trace.cores == cores) & (trace.parallel == parallel)
    if not misfit.any():
        return None
    share = core_s[misfit].sum() / core_s.sum() if core_s.any() else 0.0
    return f"{misfit.sum():,} of {len(trace):,} instances ({share:.1%} of the core-hours)"
