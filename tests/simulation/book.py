"""What one cloud's journal says, folded by other code than the owner's, and the rules an entry can break.

It reads plain JSON and keeps its own books. Each breach is a sentence that begins with the invariant's name.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.options import LONGEST_PROMISE_S, CloudOptions

ENDS = frozenset({"completed", "evicted", "cancelled", "failed"})
NEWS = frozenset({"extended", "warned", "offered", "noticed"})
PUBLIC = ENDS | NEWS | {"admitted"}
_EPS_S = 1e-6

Lease = dict[str, Any]


@dataclass
class Shortage:
    """Those who left their nodes, or were told to, for one instance."""

    cause: str
    free: list[int]  # by node, before anybody left
    there: list[Lease]  # spot that may leave, before
    victims: list[Lease] = field(default_factory=list)


class CloudBook:
    """One cloud. ``breach`` is told of what must not be."""

    def __init__(self, cloud: CloudOptions, breach: Callable[[str], None]):
        self.cloud, self._breach = cloud, breach
        self.node_cores = cloud.node_cores  # of the owner that wrote the latest entry
        self.shapes: dict[int, tuple[int, ...]] = {}  # those of each epoch's owner
        self._closes_new = False  # all nodes were closed at once
        self.epoch = self.number = self.sequence = 0
        self.at_s = 0.0
        self.held: dict[str, Lease] = {}  # on a node
        self.booked: dict[str, Lease] = {}
        self.last: dict[str, Lease] = {}  # by lease, as the journal left it
        self.ended: dict[str, str] = {}
        self.admitted: set[str] = set()  # spot
        self.gone: set[str] = set()  # attempts that were declined or released
        self.wishes: set[str] = set()  # extensions that were answered, and those of them that were granted
        self.granted: set[str] = set()
        self.turned_away: set[str] = set()
        self.closed: set[int] = set()
        self.lapsed: dict[str, Lease] = {}  # reservations that ended before the broker's word came
        self.public: list[bytes] = []
        self._told_late: str | None = None  # it had lapsed, and was just admitted
        self._unheard: set[str] = set()  # notices that were given before the broker's word came
        self._shortage: Shortage | None = None
        self._emptied = False  # a node was drained, and they leave with the next entries

    # -- entries ---------------------------------------------------------------------------------------------

    def entry(self, entry: tuple[int, int], text: bytes) -> dict[str, Any]:
        """The next entry of the journal. Returns the event."""
        event: dict[str, Any] = json.loads(text)
        epoch, number = entry
        self._must(epoch >= self.epoch, f"I4: epoch {epoch} after {self.epoch}")
        due = self.number + 1 if epoch == self.epoch else 1
        self._must(number == due, f"I4: entry {epoch}-{number} where {due} was due")
        if epoch != self.epoch:
            self._change_nodes(self.shapes[epoch])
        self.epoch, self.number = epoch, number
        self._must(event["at_s"] >= self.at_s - _EPS_S, f"I7: time goes back from {self.at_s}")
        self.at_s = max(self.at_s, event["at_s"])
        self._count(event, text)
        kind, lease = event["kind"], event["lease"]
        if self._emptied and kind not in ("evicted", "noticed", "released"):
            self._emptied = False
            stay = [one["id"] for one in self._spot() if one["node"] in self.closed and not one["evict_at_s"]]
            self._must(not stay, f"I2: {stay} stay on nodes that were drained")
        if kind == "opened":
            self._must(self.fits(self.node_cores), f"I1: what runs does not fit the nodes {self.node_cores}")
        else:
            self._nobody_overstays(event)
        if lease is None:
            self._without_lease(event)
        else:
            self._about(kind, lease, event)
            self.last[lease["id"]] = lease
        return event

    def _change_nodes(self, node_cores: tuple[int, ...]) -> None:
        """Another owner may have others. A node is known by its number."""
        if self._closes_new:
            self.closed |= set(range(len(self.node_cores), len(node_cores)))
        self.node_cores = node_cores

    def fits(self, node_cores: tuple[int, ...]) -> bool:
        """Whether what runs has room on nodes, and what waits will have it in time."""
        there = [*self.held.values(), *self.booked.values()]
        if any(max(_parts(lease)) >= len(node_cores) for lease in there):
            return False
        if any(self.used(node) > cores for node, cores in enumerate(node_cores)):
            return False
        ahead: list[tuple[Lease, float]] = []  # who waits, and when each starts
        for waiting in self.booked.values():
            starts_s = max([self.at_s, *(at_s for other, at_s in ahead if _share_node(other, waiting))])
            for node in _parts(waiting):
                free = node_cores[node] - self.used(node)
                free -= sum(_on(other, node) for other, _ in ahead) + _on(waiting, node)
                leaving = sorted((one["evict_at_s"], one["cores"]) for one in self._told(node))
                while free < 0 and leaving:
                    left_s, left = leaving.pop(0)
                    starts_s, free = max(starts_s, left_s), free + left
                if free < 0:
                    return False
            if starts_s > waiting["starts_by_s"] + _EPS_S:
                return False
            ahead.append((waiting, starts_s))
        return True

    def _must(self, holds: bool, else_: str) -> None:
        if not holds:
            self._breach(f"{else_} (cloud {self.cloud.id}, entry {self.epoch}-{self.number})")

    def _count(self, event: dict[str, Any], text: bytes) -> None:
        lease = event["lease"]
        spot = lease is not None and lease["kind"] == "spot" and lease["state"] != "reserved"
        public = event["kind"] in PUBLIC and spot
        self._must(public == (event["sequence"] is not None), f"I5: {event['kind']} is numbered wrongly")
        if public:
            self.sequence += 1
            self._must(
                event["sequence"] == self.sequence, f"I5: sequence {event['sequence']} is out of order"
            )
            self.public.append(text)

    def _nobody_overstays(self, event: dict[str, Any]) -> None:
        about = (event["lease"] or {}).get("id")
        for lease in self.held.values():
            ends_s = [one for one in (lease["ends_at_s"], lease["evict_at_s"]) if one is not None]
            if lease["id"] != about and ends_s and min(ends_s) < event["at_s"] - _EPS_S:
                self._must(
                    False, f"I2: {lease['id']} is still there at {event['at_s']}, due at {min(ends_s)}"
                )

        for lease in self.booked.values():
            late = lease["id"] != about and lease["starts_by_s"] < event["at_s"] - _EPS_S
            self._must(not late, f"I2: {lease['id']} waits at {event['at_s']}, due at {lease['starts_by_s']}")

    def _spot(self) -> list[Lease]:
        return [one for one in self.held.values() if one["kind"] == "spot"]

    def _without_lease(self, event: dict[str, Any]) -> None:
        kind = event["kind"]
        if kind == "released":
            self._must(
                event["attempt"] not in self.held, f"I2: {event['attempt']} is released without a lease"
            )
            self.gone.add(event["attempt"])
        elif kind == "declined":
            wish = event["attempt"]
            self._must(wish not in self.gone | self.wishes, f"I6: {wish} is declined twice")
            self._must(wish not in self.last, f"I6: {wish} is declined after it was granted")
            (self.wishes if "#" in wish else self.gone).add(wish)
        elif kind == "turned_away":
            instance = event["request"]["id"]
            known = self.turned_away | set(self.last)
            self._must(instance not in known, f"I6: {instance} is turned away after an answer")
            self._must(
                not self._fits_without_spot(event["request"]["cores"]),
                f"I2: {instance} is turned away, and has room",
            )
            self.turned_away.add(instance)
        elif kind == "cordoned":
            nodes = range(len(self.node_cores)) if event["nodes"] is None else event["nodes"]
            self._closes_new = event["closed"] if event["nodes"] is None else self._closes_new
            if event["closed"]:
                self.closed = self.closed | set(nodes)
            else:  # all at once: also those that are gone, should they come back
                self.closed = set() if event["nodes"] is None else self.closed - set(nodes)
            self._emptied = event["closed"]

    def _about(self, kind: str, lease: Lease, event: dict[str, Any]) -> None:
        name = lease["id"]
        self._must(name not in self.ended, f"I2: {name} {kind} after it {self.ended.get(name)}")
        late, self._told_late = self._told_late, None
        self._must(late in (None, name), f"I2: {late} is admitted after it lapsed, and its end is not told")
        if name in self.lapsed:
            self._after_lapse(kind, lease)
        elif kind in ("reserved", "admitted"):
            self._start(kind, lease)
        elif kind == "booked":
            self._must(name not in self.last, f"I2: {name} is booked twice")
            self._places(lease)
            self._judge(lease)
            self.booked[name] = lease
        elif kind in NEWS:
            self._news(kind, lease, event)
        elif kind == "withdrawn":
            self._must(self.booked.pop(name, None) is not None, f"I2: {name} is withdrawn but not booked")
            self.ended[name] = kind
        else:
            self._end(kind, lease, event)

    def _after_lapse(self, kind: str, lease: Lease) -> None:
        """It was to run: its beginning and its end are told, one after the other."""
        name = lease["id"]
        if kind == "admitted":
            self._must(name not in self.admitted, f"I2: {name} is admitted twice")
            self._must(self.lapsed[name]["cause"] != "expired", f"I3: {name} was promised, and expired")
            self.admitted.add(name)
            self._told_late = name
            return
        lapsed = self.lapsed.pop(name)
        self._must(name in self.admitted, f"I2: {name} {kind} in public and was never admitted")
        told = kind == lease["state"] and lease == lapsed
        self._must(told, f"I7: {name} lapsed as {lapsed['state']}, and is told as {kind}")
        self.ended[name] = kind

    # -- starts ----------------------------------------------------------------------------------------------

    def _start(self, kind: str, lease: Lease) -> None:
        name = lease["id"]
        if lease["kind"] == "spot" and kind == "admitted":
            before = self.held.get(name)
            self._must(name not in self.admitted, f"I2: {name} is admitted twice")
            self._must(
                before is not None and before["state"] == "reserved", f"I3: {name} is admitted from nowhere"
            )
            self.admitted.add(name)
            self.held[name] = lease
            return
        waited = self.booked.get(name)
        self._must(waited is not None or name not in self.last, f"I2: {name} starts twice")
        self._must(
            waited is not None or name not in self.turned_away, f"I6: {name} starts after it was turned away"
        )
        self._must(name not in self.gone, f"I6: {name} is reserved after it was declined or released")
        if waited is None:
            self._places(lease)
        else:
            self._takes_its_turn(waited, lease)
        self._judge(lease)
        self._is_borne(lease)
        self.held[name] = lease
        for node in _parts(lease):
            used = self.used(node)
            self._must(
                used <= self.node_cores[node],
                f"I1: node {node} holds {used} of {self.node_cores[node]} cores with {name}",
            )

    def _places(self, lease: Lease) -> None:
        """Whole on open nodes: on several of them what is wider than each, on one all others."""
        name, parts, of_gang = lease["id"], _parts(lease), lease.get("parts", ())
        self._must(
            sum(parts.values()) == lease["cores"]
            and min(parts.values()) > 0
            and lease["node"] == next(iter(parts))
            and len(parts) == max(len(of_gang), 1),
            f"I1: {name} of {lease['cores']} cores is placed as {of_gang or parts}",
        )
        self._must(self.closed.isdisjoint(parts), f"I1: {name} starts, or is booked, on a closed node")
        wide = lease["kind"] == "on_demand" and lease["cores"] > max(self.node_cores)
        self._must(bool(of_gang) == wide, f"I1: {name} of {lease['cores']} cores is placed as {of_gang}")

    def _takes_its_turn(self, waited: Lease, lease: Lease) -> None:
        """It starts where it was booked, after those who were booked there before it."""
        name, ahead = lease["id"], []
        for other in self.booked.values():
            if other["id"] == name:
                break
            if _share_node(other, waited):
                ahead.append(other["id"])
        self._must(not ahead, f"I2: {name} starts before {ahead}, who wait for the same node")
        self._must(_parts(waited) == _parts(lease), f"I1: {name} starts elsewhere than it was booked")
        del self.booked[name]

    def used(self, node: int) -> int:
        """Cores on a node that are taken."""
        return sum(_on(one, node) for one in self.held.values())

    def _fits_without_spot(self, cores: int) -> bool:
        """Whether an instance of the cloud's own users would find room if all spot left."""
        theirs = [one for one in self.held.values() if one["kind"] != "spot"] + list(self.booked.values())
        room = [
            cores_there - sum(_on(one, node) for one in theirs)
            for node, cores_there in enumerate(self.node_cores)
            if node not in self.closed
        ]
        return (sum(room) if cores > max(self.node_cores) else max(room, default=0)) >= cores

    def free_cores(self) -> int:
        """Of the nodes that are open."""
        nodes = enumerate(self.node_cores)
        return sum(cores - self.used(node) for node, cores in nodes if node not in self.closed)

    # -- on the way ------------------------------------------------------------------------------------------

    def _news(self, kind: str, lease: Lease, event: dict[str, Any]) -> None:
        name = lease["id"]
        before = self.held.get(name)
        if before is None:
            self._must(False, f"I2: {name} {kind} but is not there")
            return
        if kind == "extended":
            self._must(before["evict_at_s"] is None, f"I2: {name} is extended after its notice")
            self._must(before["state"] == "running", f"I2: {name} is extended while {before['state']}")
            self._must(before["ends_at_s"] < lease["ends_at_s"], f"I2: {name} is extended to an earlier end")
            self._is_borne(lease)
            if event["cause"] == "renewal":
                self._is_renewed_in_time(before, lease)
            wish = event["attempt"]
            self._must(wish is None or wish not in self.wishes, f"I6: {wish} is granted twice")
            self.wishes.add(wish or "")
            self.granted.add(wish or "")
        elif name in self._unheard:
            self._unheard.remove(name)
            again = before["state"] == "running" and lease["evict_at_s"] == before["evict_at_s"]
            self._must(again, f"I7: {name} {kind}, and its notice was another one")
        elif kind == "noticed":
            if before["state"] == "reserved":
                self._unheard.add(name)
            due_s = event["at_s"] + self.cloud.grace_s
            self._must(before["evict_at_s"] is None, f"I2: {name} is noticed twice")
            self._must(
                lease["evict_at_s"] is not None and abs(lease["evict_at_s"] - due_s) < _EPS_S,
                f"I2: {name} is told to leave at {lease['evict_at_s']}, not {due_s}",
            )
            self._leaves_for(before, event["cause"])
        self.held[name] = lease

    def _is_borne(self, lease: Lease) -> None:
        """A renewable lease is promised no more at a time than its SLA bears."""
        if lease.get("wanted_until_s") is not None:
            promised_s = lease["ends_at_s"] - _promised_at_s(lease)
            self._must(
                promised_s <= LONGEST_PROMISE_S + _EPS_S, f"I11: {lease['id']} is promised {promised_s} s"
            )

    def _is_renewed_in_time(self, before: Lease, lease: Lease) -> None:
        """In the last quarter of its promise, and never for more than it wants."""
        name, wanted_s = lease["id"], lease.get("wanted_until_s")
        beyond = wanted_s is not None and lease["ends_at_s"] > wanted_s + _EPS_S
        self._must(not beyond, f"I11: {name} is renewed beyond what it wants")
        left_s = before["ends_at_s"] - lease["promised_at_s"]
        quarter_s = (before["ends_at_s"] - _promised_at_s(before)) / 4
        self._must(left_s <= quarter_s + _EPS_S, f"I11: {name} is renewed {left_s} s before its end")

    def _was_warned(self, before: Lease, lease: Lease) -> None:
        """Who is promised no more of what it wants hears of it before it ends."""
        wanted_s = math.inf if before["renewal_s"] is not None else before.get("wanted_until_s")
        if wanted_s is not None and before["evict_at_s"] is None:
            cut = before["warned_at_s"] is None and lease["ended_at_s"] < wanted_s - _EPS_S
            self._must(not cut, f"I11: {lease['id']} ends before it has what it wants, and nobody was told")

    # -- ends ------------------------------------------------------------------------------------------------

    def _end(self, kind: str, lease: Lease, event: dict[str, Any]) -> None:
        name = lease["id"]
        before = self.held.get(name)
        if before is None:
            self._must(False, f"I2: {name} {kind} but is not there")
            return
        # A reservation that is given up after its notice counts as evicted.
        states = {"cancelled", "evicted" if before["evict_at_s"] else ""} if kind == "released" else {kind}
        released, lapses = kind == "released", kind == "released" and event["attempt"] is None
        self._must(lapses or lease["state"] in states, f"I7: {name} {kind} as {lease['state']}")
        reserved = before["state"] == "reserved"
        self._must(reserved == released, f"I3: {name} {kind} while {before['state']}")
        if lapses:
            kind = lease["state"]  # and the same rules hold
        if kind == "released":
            self.gone.add(name)
        elif kind == "completed":
            early = before["ends_at_s"] is None or lease["ended_at_s"] < before["ends_at_s"] - _EPS_S
            self._must(not early, f"I2: {name} completed before its end")
            if not reserved:
                self._was_warned(before, lease)
        elif kind == "cancelled":
            self._must(before["evict_at_s"] is None, f"I2: {name} is cancelled after its notice")
            self._must(reserved or event["cause"] != "expired", f"I3: {name} runs, and expires")
        elif kind == "evicted":
            self._must(lease["kind"] == "spot", f"I2: {name} of the cloud's own users is evicted")
            self._evicted(before, event)
        del self.held[name]
        self._unheard.discard(name)
        if lapses:
            self.lapsed[name] = lease
        else:
            self.ended[name] = kind

    def _evicted(self, before: Lease, event: dict[str, Any]) -> None:
        cause, name = event["cause"] or "", before["id"]
        self._must(bool(cause), f"I7: nobody knows why {name} was evicted")
        if before["evict_at_s"] is not None:
            return  # judged when it was told
        by_own = not cause.startswith("s-")
        self._must(not (by_own and self.cloud.grace_s), f"I2: {name} is evicted without a notice")
        if not by_own:
            self._must(_yields(before), f"I2: {name} gives way to spot though it was promised something")
        self._leaves_for(before, cause)

    # -- who had to leave ------------------------------------------------------------------------------------

    def _leaves_for(self, victim: Lease, cause: str | None) -> None:
        if not cause or cause.startswith("drain by"):
            return
        shortage = self._shortage
        if shortage is None or shortage.cause != cause:
            # Spot starts at once, and not where others wait; own instances wait for those who leave.
            room = self._spare if cause.startswith("s-") else self._soon
            free = [room(node) for node in range(len(self.node_cores))]
            there = [one for one in self._spot() if one["evict_at_s"] is None]
            shortage = self._shortage = Shortage(cause, free, there)
        shortage.victims.append(victim)

    def _soon(self, node: int) -> int:
        """Cores that are free once all have left who were told to, and all have started who wait."""
        leaving = sum(one["cores"] for one in self._told(node))
        waiting = sum(_on(one, node) for one in self.booked.values())
        return self._idle(node) + leaving - waiting

    def _spare(self, node: int) -> int:
        """Cores that are free now and until the last of those who wait has started: in the order of their
        booking, each as soon as enough have left."""
        spare = then = self._idle(node)
        leaving = sorted(self._told(node), key=lambda one: (one["evict_at_s"], one["number"]))
        for waiting in self.booked.values():
            if node in _parts(waiting):
                then -= _on(waiting, node)
                while then < 0 and leaving:
                    then += leaving.pop(0)["cores"]
                spare = min(spare, then)
        return spare

    def _idle(self, node: int) -> int:
        return self.node_cores[node] - self.used(node)

    def _told(self, node: int) -> list[Lease]:
        return [one for one in self.held.values() if one["node"] == node and one["evict_at_s"] is not None]

    def _judge(self, taker: Lease) -> None:
        """Had they to leave, and were they the right ones? Youngest job first, and nobody without need."""
        shortage, self._shortage = self._shortage, None
        if shortage is None:
            return
        name = taker["id"]
        self._must(shortage.cause == name, f"I2: somebody left for {shortage.cause}, and {name} came")
        if taker.get("parts"):
            self._judge_gang(taker, shortage)
            return
        node = taker["node"]
        elsewhere = [one["id"] for one in shortage.victims if one["node"] != node]
        self._must(not elsewhere, f"I2: {elsewhere} leave another node for {name}")
        needed = taker["cores"] - shortage.free[node]
        there = [one for one in shortage.there if one["node"] == node]
        freed = sum(one["cores"] for one in shortage.victims)
        for one in shortage.victims:
            self._must(freed - one["cores"] < needed, f"I2: {one['id']} left for {name} without need")
            if _yields(one):
                continue
            cheap = sum(other["cores"] for other in there if _yields(other))
            self._must(cheap < needed, f"I2: {one['id']} was promised something, others on its node were not")
        if len(shortage.victims) == 1:
            (only,) = shortage.victims
            better = [
                other["id"]
                for other in there
                if other["number"] > only["number"]
                and other["cores"] >= only["cores"]
                and _yields(other) == _yields(only)
            ]
            self._must(not better, f"I2: {only['id']} left for {name}, younger ones stayed: {better}")

    def _judge_gang(self, gang: Lease, shortage: Shortage) -> None:
        """A gang takes what is free on all open nodes, then the room of the youngest, one by one."""
        open_nodes = [node for node in range(len(self.node_cores)) if node not in self.closed]
        left = gang["cores"] - sum(shortage.free[node] for node in open_nodes)
        due = []
        for one in sorted(shortage.there, key=lambda one: (not _yields(one), -one["number"])):
            if left > 0 and one["node"] in open_nodes:
                due.append(one["id"])
                left -= one["cores"]
        gone = sorted(one["id"] for one in shortage.victims)
        self._must(gone == sorted(due), f"I2: {gone} left for the gang {gang['id']}, not {sorted(due)}")


def _promised_at_s(lease: Lease) -> float:
    return float(lease["starts_at_s"] if lease["promised_at_s"] is None else lease["promised_at_s"])


def _parts(lease: Lease) -> dict[int, int]:
    """The nodes of a lease, each with its cores there."""
    return dict(lease.get("parts", ())) or {lease["node"]: lease["cores"]}


def _on(lease: Lease, node: int) -> int:
    return _parts(lease).get(node, 0)


def _share_node(one: Lease, other: Lease) -> bool:
    return not _parts(one).keys().isdisjoint(_parts(other))


def _yields(lease: Lease) -> bool:
    return lease["kind"] == "spot" and (lease["promised_sla"] is None or lease["promised_sla"] >= 1)
