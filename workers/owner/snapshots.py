"""An owner's state as bytes: what recovery begins with in place of the journal up to an entry.

The first line is JSON (``SnapshotHead``); a compressed part follows with what is long and only ever grows:
the closed entries of the answer log, and the calls that made the history. Both are lines that the state has
at hand, so that taking a snapshot is short (``take``, under the owner's lock), and writing it may take its
time (``pack``).
"""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, ValidationError

from broker.contract import Event, Lease, OverflowState
from broker.journal.hash_chain import parse_entry_id
from cloudsim.admission.promise_ledger import Account
from cloudsim.cloud.cloud import Cloud
from cloudsim.history.event_log import PHASE_ON_DEMAND
from cloudsim.history.take_backs import TakeBacks
from cloudsim.model.instances import Instance
from workers.owner.state import OwnerSpec, OwnerState

#: Snapshots of another format are not read; recovery then takes the whole journal.
FORMAT = 1


class SnapshotError(Exception):
    """The bytes are no snapshot, or none that this version of spotfed reads."""


class SnapshotHead(BaseModel):
    """Everything a state holds but the two long lists. ``id`` and ``hash``: of the last entry in it."""

    model_config = ConfigDict(frozen=True, ser_json_inf_nan="constants")

    format: int = FORMAT
    id: str
    hash: str
    sequence: int
    admitted: int
    evicted: int
    opened: Event | None
    now_s: float
    own_load_next: int
    running: tuple[Instance, ...]
    waiting: tuple[Instance, ...]
    closed_nodes: tuple[int, ...]
    noticed_for: dict[str, str | None]
    promises: tuple[tuple[float, int, int, int, float], ...]
    leases: tuple[Lease, ...]
    booked: tuple[Lease, ...]
    offers: tuple[OverflowState, ...]
    place: tuple[float, int]
    waited_s: float
    instances: int
    waits: dict[str, float] = {}
    orders: tuple[str, ...] = ()
    take_backs: TakeBacks = TakeBacks()
    closed_from: int | None = None  # nodes that are added from this number on are closed too
    closed: int = 0  # lines of the answer log; those of the history follow

    @property
    def after(self) -> tuple[int, int]:
        """Place of the last entry in the snapshot."""
        return parse_entry_id(self.id)


@dataclass(frozen=True)
class Snapshot:
    """A state on its way into a snapshot.

    ``closed`` and ``calls`` are lines of JSON, see ``AnswerLog.closed_lines`` and ``RecordedHistory.calls``.
    """

    head: SnapshotHead
    closed: list[bytes]
    calls: list[bytes]


def take(state: OwnerState, entry_id: str, hashed: str) -> Snapshot:
    """Take a snapshot of the state after an entry. ``hashed``: the hash of that entry."""
    cloud = state.cloud
    closed = state.answer_log.closed_lines()
    head = SnapshotHead(
        id=entry_id,
        hash=hashed,
        sequence=state.sequence,
        admitted=state.admitted,
        evicted=state.evicted,
        opened=state.opened,
        now_s=cloud.now_s,
        own_load_next=cloud.own_load_next,
        running=tuple(cloud.inventory),
        waiting=cloud.inventory.booked(),
        closed_nodes=tuple(cloud.inventory.closed.nonzero()[0].tolist()),
        noticed_for=dict(cloud.noticed_for),
        promises=tuple(
            (sla, account.running, account.completed, account.evicted, account.pending)
            for sla, account in cloud.ledger
        ),
        leases=state.answer_log.open_leases(),
        booked=tuple(state.booked.values()),
        offers=state.offers.open(),
        orders=tuple(state.orders),
        place=state.place,
        waited_s=state.waited_s,
        instances=state.history.instances,
        waits=cloud.contention.refused_at_s,
        take_backs=cloud.take_backs,
        closed_from=len(cloud.inventory.node_cores) if cloud.inventory.closes_new else None,
        closed=len(closed),
    )
    return Snapshot(head, closed, list(state.history.calls))


def pack(snapshot: Snapshot) -> bytes:
    """Return a snapshot as bytes."""
    lines = b"\n".join((*snapshot.closed, *snapshot.calls))
    return snapshot.head.model_dump_json().encode() + b"\n" + zlib.compress(lines, 1)


def head_of(packed: bytes) -> SnapshotHead:
    """Read the head of a snapshot. Raises SnapshotError."""
    line = packed.partition(b"\n")[0]
    if not line.startswith(b'{"format":%d,' % FORMAT):
        raise SnapshotError(f"it does not begin as snapshots of format {FORMAT} do")
    try:
        return SnapshotHead.model_validate_json(line, extra="ignore")
    except ValidationError as error:
        raise SnapshotError(f"a snapshot has {error.error_count()} errors") from error


def unpack(packed: bytes) -> Snapshot:
    """Read a snapshot that ``pack`` wrote. Raises SnapshotError."""
    head = head_of(packed)
    try:
        lines = zlib.decompress(packed.partition(b"\n")[2]).split(b"\n")
    except zlib.error as error:
        raise SnapshotError(f"a snapshot is damaged: {error}") from error
    lines = [line for line in lines if line]
    return Snapshot(head, lines[: head.closed], lines[head.closed :])


def restored(spec: OwnerSpec, snapshot: Snapshot) -> OwnerState:
    """Return the state that a snapshot was taken of."""
    head, state = snapshot.head, OwnerState(spec)
    state.history.replay(snapshot.calls, head.instances)
    _restore_cloud(state.cloud, head)
    state.answer_log.restore(head.leases, snapshot.closed)
    for lease in head.leases:
        state.renewals.note(lease)
    for offer in head.offers:
        state.offers.apply(offer)
    state.orders = dict.fromkeys(head.orders)
    state.booked = {lease.id: lease for lease in head.booked}
    state.sequence, state.admitted, state.evicted = head.sequence, head.admitted, head.evicted
    state.place, state.waited_s = head.place, head.waited_s
    if head.opened is not None:
        state.note_opening(head.opened)
    return state


def _restore_cloud(cloud: Cloud, head: SnapshotHead) -> None:
    # The nodes may have been others: those that it tells of are there until ``Owner.take_nodes``.
    waited_on = (node for booked in head.waiting for node in booked.nodes)
    told = (*head.closed_nodes, *waited_on, (head.closed_from or 0) - 1)
    cloud.widen(max(told) + 1)
    if head.closed_from is not None:
        cloud.inventory.close(None, closed=True)
        cloud.inventory.close(tuple(range(head.closed_from)), closed=False)
    if head.closed_nodes:
        cloud.inventory.close(head.closed_nodes, closed=True)
    for instance in head.running:
        cloud.widen(max(instance.nodes) + 1, instance)
        cloud.inventory.place(instance)
        cloud.expect_end(instance)
    for instance in head.waiting:
        cloud.inventory.book(instance)
    cloud.noticed_for.update(head.noticed_for)
    cloud.take_backs = head.take_backs
    for sla, running, completed, evicted, pending in head.promises:
        cloud.ledger._accounts[sla] = Account(running, completed, evicted, pending)
    cloud.contention.refused_at_s = head.waits
    cloud.now_s = head.now_s
    cloud.continue_own_load(head.own_load_next)
    at_s, phase = head.place
    started_s = at_s if phase >= PHASE_ON_DEMAND else -math.inf
    cloud.headroom.restore(cloud.inventory, head.now_s, max(started_s, head.waited_s))
