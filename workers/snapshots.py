"""An owner's state as bytes: what recovery begins with in place of the journal up to an entry.

The first line is JSON (``Held``); a compressed part follows with what is long and only ever grows: the
closed entries of the book, and the calls that made the history. Both are lines that the state has at hand, so
that taking a snapshot is short (``take``, while nothing else happens), and writing it may take its time
(``pack``).
"""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, ValidationError

from broker.contract import Event, Lease, OverflowState
from broker.journal.hash_chain import place_of
from cloudsim.admission.promise_ledger import Account
from cloudsim.cloud.cloud import Cloud
from cloudsim.history.event_log import PHASE_ON_DEMAND
from cloudsim.model.instances import Instance
from workers.state import OwnerSpec, State

#: Snapshots of another format are not read; recovery then takes the whole journal.
FORMAT = 1


class SnapshotError(Exception):
    """Not a snapshot, or none that this spotfed reads."""


class Held(BaseModel):
    """What a state holds, but for the two long lists. ``id`` and ``hash``: of the last entry in it."""

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
    closed: int = 0  # lines of the book; those of the history follow

    @property
    def after(self) -> tuple[int, int]:
        """Place of the last entry in it."""
        return place_of(self.id)


@dataclass(frozen=True)
class Snapshot:
    """``closed`` and ``calls``: lines of JSON, see ``Book.closed_lines`` and ``KeptHistory.calls``."""

    held: Held
    closed: list[bytes]
    calls: list[bytes]


def take(state: State, entry_id: str, hashed: str) -> Snapshot:
    """The state after that entry."""
    cloud, book = state.cloud, state.book
    closed = book.closed_lines()
    held = Held(
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
        promises=tuple((sla, a.running, a.completed, a.evicted, a.pending) for sla, a in cloud.ledger),
        leases=book.open_leases(),
        booked=tuple(state.booked.values()),
        offers=state.offers.open(),
        orders=tuple(state.orders),
        place=state.place,
        waited_s=state.waited_s,
        instances=state.history.instances,
        waits=cloud.contention.refused_at_s,
        closed=len(closed),
    )
    return Snapshot(held, closed, list(state.history.calls))


def pack(snapshot: Snapshot) -> bytes:
    """As bytes."""
    lines = b"\n".join((*snapshot.closed, *snapshot.calls))
    return snapshot.held.model_dump_json().encode() + b"\n" + zlib.compress(lines, 1)


def head_of(packed: bytes) -> Held:
    """What a snapshot says of itself. Raises SnapshotError."""
    head = packed.partition(b"\n")[0]
    if not head.startswith(b'{"format":%d,' % FORMAT):
        raise SnapshotError(f"it does not begin as snapshots of format {FORMAT} do")
    try:
        return Held.model_validate_json(head, extra="ignore")
    except ValidationError as error:
        raise SnapshotError(f"a snapshot has {error.error_count()} errors") from error


def unpack(packed: bytes) -> Snapshot:
    """The inverse of ``pack``. Raises SnapshotError."""
    held = head_of(packed)
    try:
        lines = zlib.decompress(packed.partition(b"\n")[2]).split(b"\n")
    except zlib.error as error:
        raise SnapshotError(f"a snapshot is damaged: {error}") from error
    lines = [line for line in lines if line]
    return Snapshot(held, lines[: held.closed], lines[held.closed :])


def restored(spec: OwnerSpec, snapshot: Snapshot) -> State:
    """The state that a snapshot was taken of."""
    held, state = snapshot.held, State(spec)
    state.history.replay(snapshot.calls, held.instances)
    _restore_cloud(state.cloud, held)
    state.book.restore(held.leases, snapshot.closed)
    for lease in held.leases:
        state.renewals.note(lease)
    for offer in held.offers:
        state.offers.apply(offer)
    state.orders = dict.fromkeys(held.orders)
    state.booked = {lease.id: lease for lease in held.booked}
    state.sequence, state.admitted, state.evicted = held.sequence, held.admitted, held.evicted
    state.opened, state.place, state.waited_s = held.opened, held.place, held.waited_s
    return state


def _restore_cloud(cloud: Cloud, held: Held) -> None:
    if held.closed_nodes:
        cloud.inventory.close(held.closed_nodes, closed=True)
    for instance in held.running:
        cloud.inventory.place(instance)
        cloud.expect_end(instance)
    for instance in held.waiting:
        cloud.inventory.book(instance)
    cloud.noticed_for.update(held.noticed_for)
    for sla, running, completed, evicted, pending in held.promises:
        cloud.ledger._accounts[sla] = Account(running, completed, evicted, pending)
    cloud.contention.refused_at_s = held.waits
    cloud.now_s = held.now_s
    cloud.continue_own_load(held.own_load_next)
    at_s, phase = held.place
    started_s = at_s if phase >= PHASE_ON_DEMAND else -math.inf
    cloud.headroom.restore(cloud.inventory, held.now_s, max(started_s, held.waited_s))
