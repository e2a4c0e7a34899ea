"""Owners of small clouds, commands for them, and what must hold of any owner."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from broker.contract import (
    Acknowledge,
    Ask,
    Cancel,
    Confirm,
    Done,
    Drain,
    Event,
    EventKind,
    Extend,
    Gone,
    Lease,
    LeaseGranted,
    LeaseState,
    Release,
    Reopen,
    Reserve,
    Show,
    StartOnDemand,
    StopOnDemand,
)
from cloudsim.cloud.spec import CloudSpec
from cloudsim.history.event_log import START_ON_DEMAND, STOP
from cloudsim.model.instances import Instance, Placement
from cloudsim.model.requests import Kind, Request
from cloudsim.prediction.history_chunks import HistoryCutter
from cloudsim.prediction.samples import Samples
from cloudsim.prediction.tables import QuantileTable
from cloudsim.scheduling.inventory import Inventory
from cloudsim.scheduling.lineups import YOUNGEST_JOB_FIRST
from cloudsim.scheduling.pipeline import plan
from cloudsim.traces.trace import Trace
from workers.owner.event_writer import Decisions
from workers.owner.owner import Owner
from workers.owner.state import OwnerSpec

NOW = "2026-01-01T00:00:00+00:00"
FOREVER_S = 1e9
_ids = itertools.count()


def spec(nodes: tuple[int, ...] = (4, 4), grace_s: float = 0.0, **changes: Any) -> OwnerSpec:
    """A cloud called A."""
    return OwnerSpec(CloudSpec("A", nodes, grace_s=grace_s), **changes)


def load(*rows: tuple[float, float, int]) -> Trace:
    """An own load of (start, stop, cores)."""
    start, stop, cores = zip(*rows, strict=True)
    return Trace.checked(
        name="own",
        instance=[f"vm-{row}" for row in range(len(rows))],
        start_s=np.array(start, dtype=np.float64),
        stop_s=np.array(stop, dtype=np.float64),
        cores=np.array(cores, dtype=np.int64),
    )


def command_id() -> dict[str, Any]:
    return {"id": f"c{next(_ids)}", "reply_to": "me"}


def reserve(attempt: str, cores: int = 1, lifetime_s: float = 100.0, sla: float | None = None) -> Reserve:
    return Reserve(
        **command_id(),
        attempt=attempt,
        request=attempt.partition(".")[0],
        origin="B",
        cores=cores,
        lifetime_s=lifetime_s,
        sla=sla,
    )


def ask(cores: int = 1, lifetime_s: float = 100.0, sla: float | None = None) -> Ask:
    return Ask(**command_id(), request="q", origin="B", cores=cores, lifetime_s=lifetime_s, sla=sla)


def confirm(attempt: str) -> Confirm:
    return Confirm(**command_id(), attempt=attempt)


def release(attempt: str) -> Release:
    return Release(**command_id(), attempt=attempt)


def cancel(lease: str) -> Cancel:
    return Cancel(**command_id(), lease=lease, by="holder")


def gone(lease: str, how: Literal["evicted", "failed"] = "evicted", why: str = "terminated") -> Gone:
    return Gone(**command_id(), lease=lease, how=how, by="instances", why=why)


def extend(lease: str, until_s: float, name: str = "x", sla: float | None = None) -> Extend:
    return Extend(**command_id(), lease=lease, extension=name, until_s=until_s, sla=sla)


def acknowledge(lease: str) -> Acknowledge:
    return Acknowledge(**command_id(), lease=lease, by="holder")


def drain(*nodes: int, dry_run: bool = False) -> Drain:
    """None: the whole cloud."""
    return Drain(**command_id(), nodes=nodes or None, by="admin", dry_run=dry_run)


def reopen(*nodes: int) -> Reopen:
    return Reopen(**command_id(), nodes=nodes or None, by="admin")


def show(instance: str) -> Show:
    return Show(**command_id(), instance=instance)


def start(instance: str, cores: int = 1, lifetime_s: float | None = None) -> StartOnDemand:
    return StartOnDemand(**command_id(), instance=instance, cores=cores, lifetime_s=lifetime_s)


def stop(instance: str) -> StopOnDemand:
    return StopOnDemand(**command_id(), instance=instance)


def harmless_table(node_cores: tuple[int, ...]) -> QuantileTable:
    """By which nobody is ever evicted, whatever the size, the room and the lifetime."""
    slots = np.arange(1, sum(node_cores) + 1, dtype=np.int32)
    samples = [
        replace(
            Samples.empty(cores, FOREVER_S),
            number=np.arange(len(slots)),
            birth_s=np.zeros(len(slots)),
            free_slots=slots,
            duration_s=np.full(len(slots), FOREVER_S),
            evicted=np.zeros(len(slots), np.bool_),
            span_s=np.zeros(len(slots)),
        )
        for cores in range(1, max(node_cores) + 1)
    ]
    return QuantileTable.from_samples(samples, node_cores, FOREVER_S)


class Live:
    """An owner and the journal of all it ever did. ``table``: what it quotes by, also after a crash."""

    def __init__(self, owner_spec: OwnerSpec, table: QuantileTable | None = None):
        self.spec = owner_spec
        self.table = table
        self.owner = Owner(owner_spec, epoch=1)
        self.owner.cloud.table = table
        self.events: list[Event] = []
        self.offers: list[dict[str, Any]] = []

    def take(self, outcome: Decisions) -> Decisions:
        self.events += outcome.events
        self.offers += outcome.overflow
        return outcome

    def tell(self, command: Any, at_s: float = 0.0) -> Any:
        """Handles a command and returns the answer."""
        (reply,) = self.take(self.owner.handle(command, at_s, NOW)).replies
        assert reply[0] == "me"
        assert reply[1].command == command.id
        return reply[1].answer

    def advance(self, at_s: float) -> None:
        self.take(self.owner.advance(at_s, NOW))

    def crash(self) -> None:
        """The next owner, from the journal alone."""
        stored = [Event.model_validate_json(event.model_dump_json()) for event in self.events]
        recovered = Owner.recover(self.spec, self.owner.epoch + 1, stored)
        assert not recovered.take_nodes(NOW), "they are what they were"
        recovered.validate()
        recovered.cloud.history.cut(self.owner.cloud.history.cut_s)  # that has been handed out
        assert snapshot(recovered) == snapshot(self.owner)
        self.owner = recovered
        self.owner.cloud.table = self.table

    def kinds(self) -> list[EventKind]:
        return [event.kind for event in self.events]


def lease_state(answer: Any) -> LeaseState:
    assert isinstance(answer, LeaseGranted), answer
    return answer.lease.state


def not_found(answer: Any) -> bool:
    return isinstance(answer, Done) and not answer.found


def snapshot(owner: Owner) -> dict[str, Any]:
    """All that recovery must bring back."""
    state, cloud = owner.state, owner.cloud
    history = copy.deepcopy(cloud.history)
    cut = history.cut(FOREVER_S)
    return {
        "running": list(cloud.inventory),
        "waiting": cloud.inventory.booked(),
        "free": cloud.inventory.free.tolist(),
        "closed_nodes": cloud.inventory.closed.tolist(),
        "noticed_for": cloud.noticed_for,
        "promises": list(cloud.ledger),
        "take_backs": cloud.take_backs,
        "considered": cloud.considered,
        "request_logs": {
            sla: (log.count, log.recent, log.threshold) for sla, log in cloud.request_logs.items()
        },
        "own_load_next": cloud.own_load_next,
        "history": [column.tolist() for column in (cut.time_s, cut.kind, cut.instance, cut.cores)],
        "instances": cloud.history.instances,
        "open": state.answer_log._open,
        "closed": state.answer_log._closed,
        "offers": state.offers._open,
        "orders": list(state.orders),
        "counts": (state.sequence, state.admitted, state.evicted),
        "booked": state.booked,
        "place": (state.place, state.waited_s),
        "opened": state.opened,
    }


def check_journal(events: Sequence[Event]) -> None:
    """Public events count without gaps; a lease begins once and ends at most once, in the whole journal and
    for those who read its public events only."""
    sequences = [event.sequence for event in events if event.sequence is not None]
    assert sequences == list(range(1, len(sequences) + 1))
    states: dict[str, LeaseState] = {}
    lapsed: set[str] = set()
    check_public(event for event in events if event.sequence is not None)
    for event in events:
        lease = event.lease
        if lease is None:
            continue
        secret = event.kind is EventKind.RELEASED or lease.state is LeaseState.RESERVED
        assert (event.sequence is not None) == (lease.kind is Kind.SPOT and not secret)
        if event.kind is EventKind.RELEASED and event.attempt is None:
            lapsed.add(lease.id)
        elif event.kind is EventKind.ADMITTED and lease.id in lapsed:
            lapsed.remove(lease.id)
            states[lease.id] = LeaseState.RESERVED
        before = states.get(lease.id)
        if event.kind in (EventKind.EXTENDED, EventKind.WARNED, EventKind.OFFERED):
            assert before is lease.state is LeaseState.RUNNING
        elif event.kind is EventKind.NOTICED:
            assert before is lease.state
            assert lease.evict_at_s is not None
        elif lease.state.is_open:
            waited = before in (LeaseState.RESERVED, LeaseState.BOOKED)
            assert before is None or (waited and lease.state is LeaseState.RUNNING)
        else:
            assert before is not None, f"{lease.id}: {lease.state} before anything else"
            assert before.is_open, f"{lease.id}: {lease.state} after {before}"
        states[lease.id] = lease.state


def check_public(events: Iterable[Event]) -> None:
    """Each lease is admitted before anything else is told of it, and nothing is told after its one end."""
    runs: dict[str, bool] = {}
    for event in events:
        assert event.lease is not None
        name = event.lease.id
        if event.kind is EventKind.ADMITTED:
            assert name not in runs
        else:
            assert runs[name], f"{event.kind} after the end of {name}"
        runs[name] = event.lease.state.is_open


def check_history_replays(owner: Owner, events: Iterable[Event]) -> None:
    """The recorded history, replayed from an empty cloud, gives the cloud's own trajectory again; provided
    that no instance without a promise was ever in the way."""
    log = copy.deepcopy(owner.cloud.history).cut(FOREVER_S)
    HistoryCutter().cut(log, 0.0, FOREVER_S)  # in order, and nothing stops that does not run
    recorded, played = _nodes(events), dict[int, int]()
    inventory = Inventory(owner.spec.cloud.node_cores)
    rows = zip(log.time_s.tolist(), log.kind.tolist(), log.instance.tolist(), log.cores.tolist(), strict=True)
    for time_s, kind, number, cores in rows:
        if kind == STOP:
            if str(number) in inventory:  # else it was evicted
                inventory.remove(str(number))
            continue
        own = kind == START_ON_DEMAND
        whose, sla = (Kind.ON_DEMAND, None) if own else (Kind.SPOT, 0.5)  # only promises are recorded
        request = Request(str(number), whose, cores, 0.0, sla)
        placement = plan(inventory, request, YOUNGEST_JOB_FIRST)
        assert isinstance(placement, Placement), f"number {number} finds no room in the replay"
        played[number] = placement.node
        for victim in placement.victims:
            inventory.remove(victim.id)
        inventory.place(Instance(request.id, whose, cores, placement.node, time_s, math.inf, number, sla=sla))
    members = {member for number, nodes in recorded.items() for member in range(number, number + len(nodes))}
    assert played.keys() <= members
    for number, nodes in recorded.items():  # the members of a gang are alike
        there = [played[member] for member in range(number, number + len(nodes)) if member in played]
        assert sorted(there) == (sorted(nodes) if there else [])


def _nodes(events: Iterable[Event]) -> dict[int, list[int]]:
    """The node of each member, by the number of the first."""
    leases: list[Lease] = [event.lease for event in events if event.lease is not None]
    return {
        lease.number: [node for node, cores in lease.parts for _ in range(cores)] or [lease.node]
        for lease in leases
    }
