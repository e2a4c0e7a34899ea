"""What a cloud's cores did, from its journal: the step functions that a picture shows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from broker.contract import Event, EventKind
from cloudsim.model.requests import Kind

if TYPE_CHECKING:
    from cloudsim.plots import CloudUse


def cloud_use(name: str, capacity: int, events: Iterable[Event]) -> CloudUse:
    """Folds a journal. Only what was admitted counts: reservations last an instant."""
    import numpy as np

    from cloudsim.plots import CloudUse

    changes: list[tuple[float, int, int]] = []  # time, on-demand cores, spot cores
    evictions_s: list[float] = []
    running: set[str] = set()
    for event in events:
        lease, admitted = event.lease, event.kind is EventKind.ADMITTED
        if lease is None or not (admitted or (event.kind.ends_lease and lease.id in running)):
            continue
        running ^= {lease.id}
        cores = lease.cores if admitted else -lease.cores
        on_demand = cores if lease.kind is Kind.ON_DEMAND else 0
        changes.append((lease.starts_at_s if admitted else event.at_s, on_demand, cores - on_demand))
        if event.kind is EventKind.EVICTED:
            evictions_s.append(event.at_s)
    changes.sort(key=lambda change: change[0])
    columns = np.array([(0.0, 0, 0), *changes], dtype=np.float64)
    return CloudUse(
        name,
        capacity,
        columns[:, 0],
        np.cumsum(columns[:, 1]),
        np.cumsum(columns[:, 2]),
        np.array(evictions_s, dtype=np.float64),
    )
