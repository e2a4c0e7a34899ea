"""A federation to be replayed: clouds with their own load, and the workloads they offer to each other."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field

from cloudsim.cloud import CloudSpec
from cloudsim.errors import SpecError
from cloudsim.requests import Kind, Request
from cloudsim.traces.trace import Trace


@dataclass(frozen=True)
class FederatedCloud:
    """A member: what it is and the on-demand load that it plays."""

    spec: CloudSpec
    nodes: str  # the shape as written, e.g. "7x12"
    own_load: Trace
    overflow: bool = False  # live: offers what it must refuse to the federation


@dataclass(frozen=True)
class Workload:
    """A trace that one member offers to others as spot requests, ``delay_s`` later than recorded (P2 §3.1:
    24 h)."""

    origin: str
    trace: Trace
    delay_s: float
    sla: float | None
    targets: tuple[str, ...]


@dataclass(frozen=True)
class Federation:
    """Clouds and workloads in their order, which breaks ties, and the time after which requests are left
    out."""

    clouds: tuple[FederatedCloud, ...]
    workloads: tuple[Workload, ...]
    until_s: float = field(default=float("inf"))

    def __post_init__(self) -> None:
        ids = [cloud.spec.id for cloud in self.clouds]
        if len(set(ids)) != len(ids):
            raise SpecError(f"cloud ids must differ: {', '.join(ids)}", field="cloud.id")
        for workload in self.workloads:
            for target in workload.targets:
                if target not in ids:
                    known = ", ".join(ids)
                    raise SpecError(
                        f"no cloud is called {target!r}; there are: {known}", field="workload.targets"
                    )

    @property
    def ends_s(self) -> float:
        """The earliest last on-demand stop of its clouds, or ``until_s`` if that is earlier."""
        return min(self.until_s, *(cloud.own_load.last_stop_s for cloud in self.clouds))

    def spot_sizes(self, cloud: FederatedCloud) -> tuple[int, ...]:
        """Sizes of spot request, smallest first, that ``cloud`` may be asked for and could hold."""
        largest = max(cloud.spec.node_cores)
        return tuple(
            sorted(
                {
                    int(cores)
                    for workload in self.workloads
                    if cloud.spec.id in workload.targets
                    for cores in set(workload.trace.cores.tolist())
                    if cores <= largest
                }
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
        for row in range(len(trace)):
            at_s = float(trace.start_s[row]) + workload.delay_s
            if at_s > ends_s:
                return
            request = Request(
                id=f"{workload.origin}-w{order}-{row}",
                kind=Kind.SPOT,
                cores=int(trace.cores[row]),
                lifetime_s=float(trace.stop_s[row] - trace.start_s[row]),
                sla=workload.sla,
                origin=workload.origin,
            )
            yield at_s, request, workload.targets
