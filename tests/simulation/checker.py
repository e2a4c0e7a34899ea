"""The invariants of docs/design/reliability.md over the federation: as entries are written, and when all is
calm.
"""

from __future__ import annotations

import copy
import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from broker.contract import Event
from broker.requests.models import RequestAnswer
from tests.simulation.book import CloudBook
from tests.simulation.options import POISON, CloudOptions
from tests.simulation.processes import KEYS, OwnerProcess
from tests.simulation.store import Id, Store, Stream, parsed
from tests.unit.workers.owners import snapshot
from workers.owner.nodes import NodesError
from workers.owner.owner import Owner

#: What of a checker is not about what was written.
_NOT_WRITTEN = ("_store", "_breach", "lost", "digest")


class Checker:
    """Looks at every entry of every stream as it is appended, and never asks the product anything."""

    def __init__(self, clouds: Sequence[CloudOptions], store: Store, breach: Callable[[str], None]):
        self._store, self._breach = store, breach
        self.books = {cloud.id: CloudBook(cloud, breach) for cloud in clouds}
        self.lost: set[str] = set()  # requests whose record Redis lost
        self.events: dict[str, int] = {}  # entries of the journals, by kind
        self._merged: list[bytes] = []
        self._public: dict[str, list[bytes]] = {cloud.id: [] for cloud in clouds}
        self._winner: dict[str, str] = {}  # request: the lease that was admitted for it
        self._answers: dict[str, dict[str, Any]] = {}  # by attempt or instance, as first answered
        self._releases: dict[str, tuple[str, Id]] = {}  # by attempt: where the broker gave it up first
        self._unreadable: dict[str, set[Id]] = {cloud.id: set() for cloud in clouds}
        prefix = KEYS.prefix
        self._inboxes = {KEYS.inbox(cloud.id): cloud.id for cloud in clouds}
        self._journals = {f"{prefix}journal:{cloud.id}": cloud.id for cloud in clouds}
        self._streams = {f"{prefix}events:{cloud.id}": cloud.id for cloud in clouds}
        store.appended = self._appended
        self.digest = 0  # of all that was ever appended, in order

    def copy(self) -> dict[str, Any]:
        """What was written so far, for ``put_back``."""
        kept = {name: value for name, value in vars(self).items() if name not in _NOT_WRITTEN}
        return copy.deepcopy(kept, {id(self._breach): self._breach})

    def put_back(self, books: dict[str, Any]) -> None:
        """Forget what was written since ``copy``: a failover has lost it."""
        for cloud, book in books["books"].items():
            book.shapes |= self.books[cloud].shapes  # owners tell of these later than they write
        vars(self).update(books)

    # -- while it runs ---------------------------------------------------------------------------------------

    def opens(self, cloud: str, epoch: int, node_cores: tuple[int, ...]) -> None:
        """An owner has opened an epoch, with the nodes of its file."""
        self.books[cloud].shapes[epoch] = node_cores

    def refused(self, cloud: str, node_cores: tuple[int, ...]) -> None:
        """An owner says that what runs does not fit its nodes."""
        if self.books[cloud].fits(node_cores):
            self._breach(f"I8: an owner of {cloud} does not open on {node_cores}, where all has room")

    def _appended(self, key: str, entry: Id, fields: dict[bytes, bytes]) -> None:
        for value in fields.values():
            self.digest = zlib.crc32(value, self.digest)
        if key in self._journals:
            self._journaled(self._journals[key], entry, fields[b"e"])
        elif key in self._streams:
            cloud = self._streams[key]
            self._public[cloud].append(fields[b"e"])
            if entry != (0, len(self._public[cloud])):
                self._breach(f"I5: public event {entry} of {cloud} where {len(self._public[cloud])} was due")
        elif key in self._inboxes:
            self._sent(self._inboxes[key], entry, fields[b"c"])
        elif key == KEYS.all_events:
            self._merged.append(fields[b"e"])
        elif key.startswith(f"{KEYS.prefix}replies:"):
            for reply in json.loads(fields[b"r"]):
                self._replied(reply["command"], reply["answer"])

    def _sent(self, cloud: str, entry: Id, body: bytes) -> None:
        if body in POISON:
            self._unreadable[cloud].add(entry)
        elif b'"release"' in body:
            for command in json.loads(body):
                if command["kind"] == "release":
                    self._releases.setdefault(command["attempt"], (cloud, entry))

    def _journaled(self, cloud: str, entry: Id, text: bytes) -> None:
        standing = self._store.peek(KEYS.epoch(cloud))
        if int(standing) != entry[0]:
            self._breach(f"I4: entry {entry} of {cloud} is written in epoch {standing!r}")
        event = self.books[cloud].entry(entry, text)
        kind, lease = event["kind"], event["lease"]
        self.events[kind] = self.events.get(kind, 0) + 1
        if lease is None or lease["kind"] != "spot":
            return
        record = self._record(lease["request"])
        committed = record.get(b"state") == b"committed" and self._attempt(lease, record) == lease["id"]
        given_up = self._releases.get(lease["id"])
        if kind == "reserved" and given_up is not None:
            passed = parsed(self._store.peek(KEYS.cursor(cloud)) or b"0-0")
            if given_up[0] == cloud and given_up[1] <= passed:
                self._breach(f"I6: {lease['id']} is reserved after its owner has read that it was given up")
        if kind == "admitted":
            won = self._winner.setdefault(lease["request"], lease["id"])
            elsewhere = [name for name in self.runs(lease["request"]) if name != cloud]
            if elsewhere:
                self._breach(f"I3: request {lease['request']} runs at {cloud}, and at {elsewhere}")
            if won != lease["id"] and lease["request"] not in self.lost:
                self._breach(f"I3: request {lease['request']} runs as {won} and as {lease['id']}")
            if not committed:
                self._breach(f"I3: {lease['id']} is admitted, its request is {record.get(b'state')!r}")
        elif kind == "released" and committed and (event["attempt"] or event["cause"] == "expired"):
            self._breach(f"I3: {lease['id']} is given up ({event['cause']}) though its request was answered")

    def runs(self, request: str) -> list[str]:
        """The clouds where a lease of a request runs that was confirmed."""
        return [
            name
            for name, book in self.books.items()
            if any(
                lease["request"] == request and lease["state"] == "running" and lease["kind"] == "spot"
                for lease in book.held.values()
            )
        ]

    def _record(self, request: str) -> dict[bytes, bytes]:
        return self._store.peek(KEYS.request(request)) or {}

    @staticmethod
    def _attempt(lease: dict[str, Any], record: dict[bytes, bytes]) -> str:
        return f"{lease['request']}.{record[b'attempt'].decode()}"

    def _replied(self, command: str, answer: dict[str, Any]) -> None:
        """The same command gets the same answer, but for what has happened to a lease since."""
        about, _, what = command.rpartition(":")
        if what in ("reserve", "start"):
            told = _gist(answer)
        elif ":extend:" in command:
            about, told = command, _granted(answer)
            cloud, wish = self._wish(command)
            if cloud is None or (told["answer"] == "lease" and wish not in self.books[cloud].granted):
                return  # it had that already, which is not written down
        else:
            return
        request = about.rpartition(".")[0]
        first = self._answers.setdefault(about, told)
        book = self.books.get(first.get("cloud") or "")
        if request in self.lost and (book is None or first["id"] not in book.held):
            return  # nobody knows any more that it was answered, and it has ended: it is a new one
        # Gone: it was released, and a late copy of its reservation hears so.
        if told != first and told != {"answer": "done"}:
            self._breach(f"I6: {command} was answered {first}, and now {told}")

    def _wish(self, command: str) -> tuple[str | None, str]:
        """Cloud and name in the journal of a wish for a later end."""
        lease, _, name = command.split(":")
        cloud = next((one for one, book in self.books.items() if lease in book.last), None)
        return cloud, f"{lease}#{name}"

    # -- when all is calm ------------------------------------------------------------------------------------

    def is_settled(self) -> bool:
        """Whether nothing is on its way any more; asked to end a run early."""
        reserved = any(
            lease["state"] == "reserved" for book in self.books.values() for lease in book.held.values()
        )
        left = sum(self._store.call("XLEN", KEYS.inbox(cloud)) for cloud in self.books)
        return not reserved and not left and not self._store.call("ZCARD", KEYS.open_requests)

    def settled(self, owners: dict[str, OwnerProcess]) -> None:
        """After the faults: everything is decided, known, and the fold of the journals."""
        if left := self._store.call("ZCARD", KEYS.open_requests):
            self._breach(f"I8: {left} requests are still open")
        merged = sorted(self._merged)
        if merged != sorted(text for book in self.books.values() for text in book.public):
            self._breach("I5: the merged stream is not what the journals published")
        for cloud, book in self.books.items():
            self._settled_cloud(cloud, book)
            runtime = owners[cloud].runtime if cloud in owners else None
            if runtime is None:
                self._breach(f"I8: {cloud} has no owner that is open")
            else:
                self._equals_fold(cloud, runtime._owner)

    def answered(self, answers: Mapping[str, RequestAnswer]) -> None:
        """What users were told is what stands, and what was promised them has run."""
        for request, told in answers.items():
            if request in self.lost:
                continue
            record = self._record(request)
            if (
                RequestAnswer.model_validate_json(record.get(b"answer", b'{"lease":null,"refusals":[]}'))
                != told
            ):
                self._breach(f"I6: {request} was answered {told}, its record says {record.get(b'answer')!r}")
            runs, promised = self._winner.get(request), told.lease.id if told.lease else None
            if runs != promised:
                self._breach(f"I3: {request} was promised {promised}, and {runs} was admitted")

    def together(self, lists: Sequence[tuple[str, ...]]) -> None:
        """Of a list that asked for all or nothing, all were admitted or none was."""
        for requests in lists:
            admitted = [request for request in requests if request in self._winner]
            if len(admitted) not in (0, len(requests)) and self.lost.isdisjoint(requests):
                self._breach(f"I10: of {requests}, which are admitted together or not at all, run {admitted}")

    def _settled_cloud(self, cloud: str, book: CloudBook) -> None:
        if self._public[cloud] != book.public:
            self._breach(f"I5: the public stream of {cloud} is not what its journal published")
        dead: Stream | None = self._store.peek(KEYS.dead_letters(cloud))
        lost = self._unreadable[cloud] - set(dead.ids if dead else ())
        if lost:
            self._breach(f"I8: {cloud} has not put aside what it could not read: {sorted(lost)}")
        inbox = self._store.call("XLEN", KEYS.inbox(cloud))
        if inbox > 1:  # a heartbeat may be on its way
            self._breach(f"I8: {inbox} entries are left in the inbox of {cloud}")
        spot = {name: lease for name, lease in book.held.items() if lease["kind"] == "spot"}
        for name, lease in spot.items():
            record = self._record(lease["request"])
            if lease["state"] == "reserved":
                self._breach(f"I8: {name} is reserved at {cloud} and nobody knows of it")
            elif not record and lease["request"] in self.lost:
                continue
            elif record.get(b"state") != b"committed" or self._attempt(lease, record) != name:
                self._breach(f"I3: {name} runs at {cloud}, its request is {record.get(b'state')!r}")
        for name, lease in book.lapsed.items():
            record = self._record(lease["request"])
            # A record that was lost and made again counts its attempts anew, perhaps on other clouds.
            is_here = record.get(b"cloud") == cloud.encode()
            if record.get(b"state") == b"committed" and is_here and self._attempt(lease, record) == name:
                self._breach(f"I2: {name} was promised and has lapsed, and nobody was told")
        running = {name.decode() for name in self._store.call("SMEMBERS", KEYS.running(cloud))}
        if running != set(spot):
            self._breach(f"I7: {cloud} shows {sorted(running)} as running, the journal {sorted(spot)}")
        for name, lease in book.last.items():
            if (
                lease["kind"] == "spot"
                and json.loads(self._store.peek(KEYS.lease(cloud, name)) or b"0") != lease
            ):
                self._breach(f"I7: {name} is shown as something else than the journal's last word")
        advert = json.loads(self._store.peek(KEYS.advert(cloud)))
        evicted = sum(end == "evicted" for end in book.ended.values())
        told = [advert["epoch"], advert["spot_leases"], advert["evicted"]]
        found = [book.epoch, len(spot), evicted]
        if not book.booked:  # what others wait for is not free
            told.append(advert["free_cores"])
            found.append(book.free_cores())
        if told != found:
            self._breach(f"I7: {cloud} advertises {told}, its journal says {found}")

    def _equals_fold(self, cloud: str, live: Owner) -> None:
        """The owner is what its journal makes of a new one (no calls are under way when this is asked)."""
        stream: Stream = self._store.peek(KEYS.journal(cloud))
        events = [Event.model_validate_json(fields[b"e"]) for fields in stream.fields]
        try:
            live.validate()
            fold = Owner.recover(live.spec, live.epoch, events)
            assert not fold.take_nodes(""), "its nodes are not those of its owner"
            fold.validate()
        except (AssertionError, NodesError) as error:
            self._breach(f"I7: the journal of {cloud} does not fold: {error}")
            return
        fold.cloud.history.cut(live.cloud.history.cut_s)
        one, other = snapshot(live), snapshot(fold)
        differing = [name for name in one if one[name] != other[name]]
        if differing:
            self._breach(f"I7: the owner of {cloud} is not the fold of its journal in {differing}")


#: What may not change of a lease that was answered.
_SAME = ("id", "node", "parts", "cores", "number", "cloud")


def _gist(answer: dict[str, Any]) -> dict[str, Any]:
    """What may not change of an answer to a wish for an instance."""
    lease = answer.get("lease")
    if lease is None:
        return {"answer": answer["answer"]} | {key: answer[key] for key in ("reason",) if key in answer}
    return {"answer": "lease"} | {
        key: lease.get(key) for key in ("id", "node", "parts", "cores", "number", "cloud")
    }


def _granted(answer: dict[str, Any]) -> dict[str, Any]:
    if answer["answer"] == "lease":
        return {"answer": "lease"}
    return _gist(answer)
