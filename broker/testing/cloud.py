"""A cloud that keeps its leases in memory and promises what its test tells it to."""

from __future__ import annotations

from collections.abc import Sequence

from broker.contract import (
    Advert,
    CloudInfo,
    CounterOffers,
    Event,
    EventKind,
    Lease,
    LeaseState,
    QuoteView,
    RefusalView,
    SpotRequest,
)
from cloudsim.model.refusals import RefusalReason
from cloudsim.model.requests import Kind

_TABLE = "in-memory"
_OPENED_AT = "2000-01-01T00:00:00+00:00"


class FakeCloud:
    """One cloud of an ``InMemoryFederation``: nodes with cores, a promise, and leases.

    A spot request is admitted on the node with the fewest free cores that has room, if its lifetime is at
    most ``survives_s`` or it wants no promise. On-demand instances evict the youngest spot leases of a node;
    those with more cores than a node are on several, and evict the youngest of all.

    Attributes
    ----------
    id
        The cloud's id.
    nodes
        Cores of each node.
    survives_s
        The longest lifetime in seconds that is promised, at any SLA. Assign to it to change the promise.
    reachable
        Assign False to let the cloud fall silent: nothing new is routed to it, and what runs goes on.
    leases
        All leases by id, the oldest first, ended ones included.
    """

    def __init__(self, cloud: str, nodes: Sequence[int], survives_s: float, order: int = 0) -> None:
        self.id, self.nodes, self.survives_s, self.reachable = cloud, tuple(nodes), survives_s, True
        self.leases: dict[str, Lease] = {}
        self.order, self._events = order, 0
        self._own: dict[str, dict[int, int]] = {}  # cores on each of its nodes, by on-demand instance

    @property
    def info(self) -> CloudInfo:
        """The cloud as it describes itself to the broker."""
        nodes = ",".join(map(str, self.nodes))
        total, largest = sum(self.nodes), max(self.nodes)
        return CloudInfo(
            id=self.id, order=self.order, nodes=nodes, cores=total, largest_node=largest, time="wall"
        )

    def advert(self, now_s: float) -> Advert:
        """Return what the cloud says of its room at ``now_s``."""
        free = self._free()
        running = self._running()
        return Advert(
            cloud=self.id,
            at=_OPENED_AT,
            at_s=now_s,
            epoch=1,
            free_cores=sum(free),
            on_demand_cores=sum(sum(parts.values()) for parts in self._own.values()),
            spot_cores=sum(lease.cores for lease in running),
            spot_leases=len(running),
            free_slots={size: self._slots(size) for size in range(1, max(self.nodes) + 1)},
            table_version=_TABLE,
            table_made_at_s=0.0,
            evicted=sum(lease.state is LeaseState.EVICTED for lease in self.leases.values()),
            admitted=len(self.leases),
        )

    def quote(self, request: SpotRequest, now_s: float) -> QuoteView | RefusalView:
        """Return what the cloud would answer to a request at ``now_s``; nothing changes."""
        promised = request.sla is not None and request.sla < 1
        slots = self._slots(request.cores)
        offers = CounterOffers()
        if request.cores > max(self.nodes):
            reason = RefusalReason.TOO_LARGE
        elif not slots:
            reason = RefusalReason.NO_CAPACITY
        elif promised and (request.lifetime_s or 0.0) > self.survives_s:
            reason = RefusalReason.NO_EVIDENCE
            offers = CounterOffers(lifetime_s=self.survives_s)
        else:
            return QuoteView(
                cloud=self.id,
                cores=request.cores,
                free_slots=slots,
                eviction_probability=0.0 if promised else None,
                survives_s=self.survives_s,
                table_version=_TABLE,
                table_made_at_s=0.0,
                cloud_time_s=now_s,
            )
        return RefusalView(
            cloud=self.id, reason=reason, cores=request.cores, free_slots=slots, counter_offers=offers
        )

    def grant(self, lease: str, request: SpotRequest, now_s: float) -> Event:
        """Start a lease for a request that ``quote`` did not refuse; return its ``admitted`` event."""
        free = self._free()
        node = min((cores, number) for number, cores in enumerate(free) if cores >= request.cores)[1]
        promised = request.sla is not None and request.sla < 1
        ends_at_s = None if request.lifetime_s is None else now_s + request.lifetime_s
        self.leases[lease] = Lease(
            id=lease,
            request=request.id or lease,
            cloud=self.id,
            origin=request.origin,
            kind=Kind.SPOT,
            cores=request.cores,
            node=node,
            starts_at_s=now_s,
            ends_at_s=ends_at_s,
            promised_sla=request.sla if promised else None,
            eviction_probability=0.0 if promised else None,
            table_version=_TABLE if promised else None,
            fence=1,
            number=len(self.leases),
            state=LeaseState.RUNNING,
        )
        return self._event(EventKind.ADMITTED, lease, now_s)

    def end(self, lease: str, state: LeaseState, now_s: float, cause: str | None = None) -> Event | None:
        """End a lease that runs and return the event; return None if it has ended already."""
        if self.leases[lease].state is not LeaseState.RUNNING:
            return None
        change = {"state": state, "ended_at_s": now_s, "cause": cause}
        self.leases[lease] = self.leases[lease].model_copy(update=change)
        return self._event(EventKind(state.value), lease, now_s, cause)

    def extend(self, lease: str, ends_at_s: float, now_s: float) -> Event:
        """Give a lease that runs a later end and return the ``extended`` event."""
        before = self.leases[lease]
        change = {"ends_at_s": ends_at_s, "extensions": before.extensions + 1, "promised_at_s": now_s}
        self.leases[lease] = before.model_copy(update=change)
        return self._event(EventKind.EXTENDED, lease, now_s)

    def complete_due(self, now_s: float) -> list[Event]:
        """End the leases whose end is not after ``now_s``; return their events in order of time."""
        due = sorted(
            (lease.ends_at_s, lease.number, lease.id)
            for lease in self._running()
            if lease.ends_at_s is not None and lease.ends_at_s <= now_s
        )
        events = [self.end(lease, LeaseState.COMPLETED, ends_at_s) for ends_at_s, _, lease in due]
        return [event for event in events if event is not None]

    def start_on_demand(self, instance: str, cores: int, now_s: float) -> list[Event]:
        """Start an instance of the cloud's own users; return the evictions that it needs.

        Raises
        ------
        ValueError
            When it has no room, even without spot instances.
        """
        nodes = self._nodes_for(instance, cores)
        events = []
        while sum(self._free()[node] for node in nodes) < cores:
            youngest = max(
                (lease for lease in self._running() if lease.node in nodes), key=lambda lease: lease.number
            )
            event = self.end(youngest.id, LeaseState.EVICTED, now_s, instance)
            assert event is not None
            events.append(event)
        free, parts = self._free(), dict[int, int]()
        for node in nodes:
            parts[node] = min(free[node], cores - sum(parts.values()))
        self._own[instance] = parts
        return events

    def _nodes_for(self, instance: str, cores: int) -> list[int]:
        """Return the nodes on which an on-demand instance may be: one, or all if it is wider than each."""
        room = list(self.nodes)
        for parts in self._own.values():
            for node, taken in parts.items():
                room[node] -= taken
        if cores > max(self.nodes):
            if sum(room) < cores:
                raise ValueError(f"{self.id}: not {cores} cores are there for {instance}, even without spot")
            return list(range(len(self.nodes)))
        free = self._free()
        fitting = [(-free[node], node) for node, most in enumerate(room) if most >= cores]
        if not fitting:
            raise ValueError(f"{self.id}: no node has {cores} cores for {instance}, even without spot")
        return [min(fitting)[1]]

    def stop_on_demand(self, instance: str) -> None:
        """Stop an instance of the cloud's own users.

        Raises
        ------
        KeyError
            When no such instance runs.
        """
        del self._own[instance]

    def _running(self) -> list[Lease]:
        return [lease for lease in self.leases.values() if lease.state is LeaseState.RUNNING]

    def _free(self) -> list[int]:
        free = list(self.nodes)
        for lease in self._running():
            free[lease.node] -= lease.cores
        for parts in self._own.values():
            for node, cores in parts.items():
                free[node] -= cores
        return free

    def _slots(self, cores: int) -> int:
        return sum(free // cores for free in self._free())

    def _event(self, kind: EventKind, lease: str, now_s: float, cause: str | None = None) -> Event:
        self._events += 1
        return Event(
            cloud=self.id,
            kind=kind,
            at_s=now_s,
            at=_OPENED_AT,
            sequence=self._events,
            lease=self.leases[lease],
            cause=cause,
        )
