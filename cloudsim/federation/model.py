"""A federation to be replayed: clouds with their own load, and the workloads they offer to each other."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from cloudsim.cloud.spec import CloudSpec
from cloudsim.model.errors import SpecError
from cloudsim.model.requests import Amounts, Kind, Labels, Request, Spread, promises
from cloudsim.prediction.samples import Flavour
from cloudsim.traces.trace import Trace


@dataclass(frozen=True)
class Prices:
    """What batch jobs pay for a core of a cloud, US dollars an hour of wall time."""

    spot_usd_per_core_hour: float
    on_demand_usd_per_core_hour: float


@dataclass(frozen=True)
class FederatedCloud:
    """A member: what it is and the on-demand load that it plays."""

    spec: CloudSpec
    nodes: str  # the shape for people, e.g. "7x12"
    own_load: Trace
    #: Offers own requests that it must turn away to the others, as spot requests with ``overflow_sla``, and
    #: again for what remains when they are evicted there. Live in wall time, and in a replay; a live
    #: federation in trace time sends what its workloads say and nothing else.
    overflow: bool = False
    overflow_sla: float | None = None
    #: ``process``: commands run on the machine of its node agent; None: it is simulated and runs none.
    driver: Literal["process"] | None = None
    prices: Prices | None = None
    #: The table ``instances``: its leases are instances of a real cloud; None: it is simulated.
    instances: Mapping[str, object] | None = None
    #: Lets other members start on-demand instances too, at its on-demand price.
    sells_on_demand: bool = False
    #: Its users call it directly, and come again after so long when it has no room for them; None: they ask
    #: its owner, who evicts for them at once. Replays only.
    retry_s: float | None = None


@dataclass(frozen=True)
class Workload:
    """A trace that one member offers to others as spot requests, ``delay_s`` later than recorded (P2 §3.1:
    24 h).

    asks_requested: requests name the lifetime that the trace's user requested (its actual one where it has
    none); an instance is stopped by its user at its actual end if that is earlier. Replays only.
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
    pool: int | None = None  # of targets that sell pools


@dataclass(frozen=True)
class Federation:
    """Clouds and workloads in their order, which breaks ties, and the time after which requests are left
    out.

    flavours: what requests of the workloads need beside so many cores; nothing where a size is missing.
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
        """The earliest last on-demand stop of its clouds with a load, or ``until_s`` if that is earlier."""
        loads = (cloud.own_load.last_stop_s for cloud in self.clouds if len(cloud.own_load))
        return min((self.until_s, *loads))

    def spot_sizes(self, cloud: FederatedCloud) -> tuple[int, ...]:
        """Sizes of spot request, smallest first, that ``cloud`` may be asked for and could hold.

        Overflow counts where it asks for a promise: nothing else needs a table.
        """
        return tuple(sorted({cores for cores, _ in self.spot_flavours(cloud)}))

    def spot_flavours(self, cloud: FederatedCloud) -> tuple[Flavour, ...]:
        """The same with what these requests need beside cores, of resources that the cloud has. Of a cloud
        that sells pools, what their tables are made of."""
        if cloud.spec.products.pools:
            return cloud.spec.products.pools.flavours
        loads = [(one.trace, self.flavours) for one in self.workloads if cloud.spec.id in one.targets]
        loads += [
            (other.own_load, dict(other.spec.details.flavours))
            for other in self.clouds
            if other.overflow and promises(Kind.SPOT, other.overflow_sla)
        ]
        known = set(cloud.spec.details.resources)
        found = {
            (cores, flavours.get(cores, ()))
            for trace, flavours in loads
            for cores in set(trace.cores.tolist())
        }
        largest = max(cloud.spec.node_cores)
        return tuple(
            sorted(
                (cores, amounts)
                for cores, amounts in found
                if cores <= largest and {name for name, _ in amounts} <= known
            )
        )

    def requests(self) -> Iterator[tuple[float, Request, tuple[str, ...]]]:
        """Spot requests with their time and targets: by time, then workload order, then file order."""
        return heapq.merge(
            *(self._requests_of(order, workload) for order, workload in enumerate(self.workloads)),
            key=lambda item: item[0],
        )

    def _requests_of(
        self, order: int, workload: Workload
    ) -> Iterator[tuple[float, Request, tuple[str, ...]]]:
        trace, ends_s = workload.trace, self.ends_s
        actual_s = trace.lifetime_s
        asked_s = np.where(np.isnan(trace.requested_s), actual_s, trace.requested_s)
        if not workload.asks_requested:
            asked_s = actual_s
        rows = zip(
            (trace.start_s + workload.delay_s).tolist(), trace.cores.tolist(), asked_s.tolist(),
            actual_s.tolist(), strict=True,
        )  # fmt: skip
        for row, (at_s, cores, asked, actual) in enumerate(rows):
            if at_s > ends_s:
                return
            request = Request(
                id=f"{workload.origin}-w{order}-{row}",
                kind=Kind.SPOT,
                cores=cores,
                lifetime_s=asked,
                sla=workload.sla,
                origin=workload.origin,
                actual_lifetime_s=actual if actual < asked else None,
                amounts=self.flavours.get(cores, ()),
                labels=workload.labels,
                group=workload.group,
                spread=workload.spread,
                pool=workload.pool,
            )
            yield at_s, request, workload.targets
