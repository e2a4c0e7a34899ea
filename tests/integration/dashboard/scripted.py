"""Clouds without owners: what they say is written as their journals would, so many of them cost little."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from broker.contract import Advert, CloudInfo, Event, EventKind, Lease, LeaseState
from broker.contract.convert import to_node_kinds
from broker.journal.journal import Commit, Journal
from cloudsim.model.nodes import CORES_ONLY
from tests.contract.harness import Federation, serving

HOUR_S = 3600.0
SLAS = (0.01, 0.05, 0.25, None)
LEVELS = (0.01, 0.05, 0.1, 0.25, 0.5)
TOKEN = "scripted"
SILENT_S = 600.0
_KINDS = {
    LeaseState.COMPLETED: EventKind.COMPLETED,
    LeaseState.EVICTED: EventKind.EVICTED,
    LeaseState.CANCELLED: EventKind.CANCELLED,
}


@contextmanager
def scripted_federation(redis_url: str, clouds: int = 0, down: int | None = None) -> Iterator[Federation]:
    """An API that believes unsigned clouds, and that many of them, see ``busy``."""
    told = {"trust": None, "signing_key": None, "advert_max_age_s": SILENT_S, "calls_per_s": 0}
    federation = Federation(redis_url, **told)
    busy(federation, clouds, down)
    with serving(federation):
        yield federation


class ScriptedCloud:
    """One cloud; ``now_s`` is its time, ``nodes`` the cores of each of its nodes."""

    def __init__(self, federation: Federation, cloud: str, order: int, nodes: Sequence[int], **info: Any):
        self.cloud, self.nodes, self.now_s = cloud, tuple(nodes), 400 * HOUR_S
        self._journal = Journal(federation.redis, federation.keys, cloud)
        epoch = self._journal.acquire(TOKEN, 3600)
        assert epoch is not None
        self._epoch, self._events, self._sequence = epoch, 0, 0
        self._table = f"{0x7C294B215A2914FB + order:x}"
        described = info | {"node_kinds": to_node_kinds(self.nodes, CORES_ONLY)}
        self._journal.publish_info(
            CloudInfo(
                id=cloud,
                order=order,
                nodes=f"{len(nodes)}x{max(nodes)}",
                cores=sum(nodes),
                largest_node=max(nodes),
                time="wall",
                **described,
            )
        )

    def tell(self, own: int, spot: int = 0, leases: int = 0, age_s: float = 0.0, **more: Any) -> None:
        """What it says of itself; ``age_s``: it said so long ago."""
        cores = sum(self.nodes)
        free = cores - own - spot - more.get("closed_nodes", 0) * max(self.nodes)
        told = {
            "free_cores": free,
            "free_slots": {size: free // size for size in (1, 2, 4)},
            "on_demand_cores": own,
            "spot_cores": spot,
            "spot_leases": leases,
            "table_version": self._table,
            "table_made_at_s": self.now_s - 3 * HOUR_S,
            "evicted": 0,
            "admitted": leases,
        } | more
        at = datetime.fromtimestamp(time.time() - age_s, UTC).isoformat()
        self._commit((), advert=Advert(cloud=self.cloud, at=at, at_s=self.now_s, epoch=self._epoch, **told))

    def lease(self, number: int, state: LeaseState, **more: Any) -> Lease:
        """The lease of that number; when it began, and for whom, follows from the number."""
        began_s = self.now_s - (number * 137 % 4000) * 10.0 - 60
        planned_s = 1800.0 + number % 7 * 1500
        ended_s = None if state is LeaseState.RUNNING else min(began_s + planned_s, self.now_s)
        if state is LeaseState.RUNNING:
            began_s = self.now_s - number % 1700
        elif state is LeaseState.EVICTED:
            ended_s = min(began_s + planned_s * 0.4, self.now_s)
        sla = SLAS[number % len(SLAS)]
        if state is LeaseState.EVICTED and number % 12:
            sla = None  # they go first
        told: dict[str, Any] = {
            "id": f"{self.cloud}-r{number}.1",
            "request": f"{self.cloud}-r{number}",
            "cloud": self.cloud,
            "origin": f"origin-{number % 9}",
            "kind": "spot",
            "cores": 1 + number % 3,
            "node": number % len(self.nodes),
            "starts_at_s": began_s,
            "ends_at_s": began_s + planned_s,
            "promised_sla": sla,
            "eviction_probability": None if sla is None else sla / 2,
            "table_version": None if sla is None else "1",
            "fence": self._epoch,
            "number": number,
            "state": state,
            "ended_at_s": ended_s,
            "cause": f"{self.cloud}/own-{number}" if state is LeaseState.EVICTED else None,
        }
        return Lease(**(told | more))

    def happen(self, leases: Sequence[Lease]) -> None:
        """An event for each lease: its admission where it runs, else its end."""
        events = []
        for lease in leases:
            self._sequence += 1
            kind = _KINDS.get(lease.state, EventKind.ADMITTED)
            at_s = lease.ended_at_s if lease.ended_at_s is not None else lease.starts_at_s
            events.append(
                Event(
                    cloud=self.cloud,
                    kind=kind,
                    at_s=at_s,
                    at=datetime.now(UTC).isoformat(),
                    sequence=self._sequence,
                    lease=lease,
                    cause=lease.cause,
                )
            )
        for start in range(0, len(events), 500):
            self._commit(events[start : start + 500], leases=leases[start : start + 500])

    def show_table(self) -> None:
        """A table in which more free slots and a larger risk let an instance live longer."""
        rows = []
        for cores in (1, 2, 4):
            most = sum(self.nodes) // cores
            ends = sorted({max(most * share // 6, 1) for share in range(1, 7)})
            for first, last in zip([0, *ends[:-1]], ends, strict=True):
                quantiles = {
                    level: 0.0 if last * level < 0.05 else 90.0 * last**1.4 * math.sqrt(level * 100)
                    for level in LEVELS
                }
                rows.append(
                    {
                        "cores": cores,
                        "free_slots_from": first + 1,
                        "free_slots_to": max(last, first + 1),
                        "samples": 400 + 37 * last,
                        "evictions": 300 // last,
                        "followed_up_s": 40 * HOUR_S,
                        "quantiles_s": quantiles,
                        "risk_intervals": {level: (0.0, level) for level in LEVELS},
                    }
                )
        made_at_s = self.now_s - 3 * HOUR_S
        shown = {"version": self._table, "made_at_s": made_at_s, "rows": rows}
        self._journal.set_table(json.dumps(shown))

    def _commit(
        self, events: Sequence[Event], leases: Sequence[Lease] = (), advert: Advert | None = None
    ) -> None:
        first = self._events + 1
        self._journal.commit(
            Commit(self._epoch, TOKEN, 3600, first, events=events, leases=leases, advert=advert)
        )
        self._events += len(events)


#: Of the large cloud: 10,000 leases on 100 nodes.
LARGE = {
    LeaseState.RUNNING: 1200,
    LeaseState.COMPLETED: 5000,
    LeaseState.EVICTED: 2500,
    LeaseState.CANCELLED: 1300,
}
#: Of each of the others: 124 or so.
SMALL = {
    LeaseState.RUNNING: 40,
    LeaseState.COMPLETED: 60,
    LeaseState.EVICTED: 14,
    LeaseState.CANCELLED: 10,
}
NAMES = ("harbour", "meadow", "forge", "quarry", "orchard", "lantern", "mill", "bridge", "summit", "delta")


def busy(federation: Federation, clouds: int, down: int | None = None) -> list[ScriptedCloud]:
    """So many clouds and, with 50 of them, 16,000 leases: one large cloud, others of several sizes.

    ``down``: the number of one that has been silent for a while.
    """
    made = []
    for order in range(clouds):
        sizes, states = ([16] * 100, LARGE) if order == 0 else ([8 + order % 3 * 4] * (6 + order % 7), SMALL)
        cloud = ScriptedCloud(federation, f"{NAMES[order % 10]}-{order // 10 + 1}", order, sizes)
        number = 0
        leases = []
        for state, count in states.items():
            leases += [cloud.lease(number + one, state) for one in range(count)]
            number += count
        cloud.happen(leases)
        spot = min(sum(one.cores for one in leases if one.state is LeaseState.RUNNING), sum(sizes) // 2)
        own = int((sum(sizes) - spot) * (0.25 + order % 6 / 10))
        more = {"evicted": states[LeaseState.EVICTED], "admitted": number}
        if order == 7:
            more["closed_nodes"] = 1
        silent_s = SILENT_S + 154 if order == down else 0.0
        cloud.tell(own, spot, states[LeaseState.RUNNING], silent_s, **more)
        cloud.show_table()
        made.append(cloud)
    return made
