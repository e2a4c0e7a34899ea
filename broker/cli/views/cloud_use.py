"""Folds a cloud's journal into the step functions that a picture of its cores shows."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from broker.contract import Event, EventKind
from cloudsim.model.requests import Kind
from cloudsim.plots import CloudUse


def cloud_use(name: str, capacity: int, events: Iterable[Event]) -> CloudUse:
    """Return the cores of a cloud that own users and spot instances used over time.

    Only what was admitted counts: reservations last an instant. ``capacity``: cores of the cloud.
    """
    changes: list[tuple[float, int, int]] = []  # time, on-demand cores, spot cores
    evictions_s: list[float] = []
    running: set[str] = set()
    for event in events:
        lease, is_admission = event.lease, event.kind is EventKind.ADMITTED
        if lease is None or not (is_admission or (event.kind.ends_lease and lease.id in running)):
            continue
        running ^= {lease.id}
        cores = lease.cores if is_admission else -lease.cores
        on_demand = cores if lease.kind is Kind.ON_DEMAND else 0
        changes.append((lease.starts_at_s if is_admission else event.at_s, on_demand, cores - on_demand))
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
