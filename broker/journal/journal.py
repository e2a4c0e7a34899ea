"""The journal of a cloud, as its owner writes and reads it, with its inbox and its ownership lease.

Each change is one Lua script.

**Why sending the same commit again is harmless.** After a lost connection nobody knows whether a commit was
written. Redis runs a script whole and never two at once, and ``commit.lua`` checks everything before it
writes, so a commit is there or it is not. Then:

* Nobody else can have written in between. An epoch belongs to one token, opening a later one changes the
  epoch in Redis, and a commit of another epoch is refused (``FencedError``).
* The owner sends a commit only when it knows what became of the one before. So if the journal's last id in
  this epoch is at or beyond the commit's last event, then this commit was written: nothing is written again.
* A commit without events changes no lease and offers nothing (``Commit`` sees to that). If the cursor in
Redis
  is beyond its own, a later commit was written: nothing is written. Otherwise it is carried out again; cursor
  and advert get the value they have, and a caller may read a reply twice, of which it takes the first.
* A duplicate that Redis reads late, from a connection that was given up, meets the same checks, whatever was
  committed since. The most it does is extend the owner's lease once more, or show an advert for a moment that
  the next commit replaces.

An entry of the inbox may thus be read twice, by the next owner too, but its effects and the cursor that
passes it are one write. Replies are written with them; they are lost only with the caller's stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import redis
from pydantic import ValidationError

from broker.contract import (
    VERSION,
    Advert,
    CloudInfo,
    Command,
    Event,
    Lease,
    Reply,
    current_version,
    write_message,
    write_messages,
)
from broker.journal.dead_letters import DeadLetterKind, DeadLetters
from broker.journal.entries import EVENTS_KEPT, JournalEntries
from broker.journal.hash_chain import BEGINNING, ChainedEntry, hash_entry
from broker.journal.inbox import InboxVerifier, MalformedCommand, parse_entry
from broker.leases.store import lease_arguments
from broker.signing.signer import UNSIGNED, MessageSigner
from broker.storage.keys import RedisKeys
from broker.storage.replication import Replication
from broker.storage.scripts import read_script
from broker.storage.streams import Entry, parse_id, parse_pages

HISTORY_KEPT_S = 86_400


class JournalError(Exception):
    """The journal and the owner disagree, or an entry cannot be read: a bug, or Redis lost data."""


class FencedError(Exception):
    """Another owner has opened a later epoch: stop, and do nothing more for this cloud."""


@dataclass(frozen=True)
class Commit:
    """The decisions of an owner on a group of commands.

    Attributes
    ----------
    epoch, token:
        Those of this owner.
    ttl_s:
        How long the ownership lease lasts from now on, in seconds.
    first:
        The number of the first event in this epoch; an epoch begins with 1 and has no gaps.
    events:
        The events in order. Those with a ``sequence`` are published; it counts from 1, over all epochs.
    cursor:
        The id of the last inbox entry that these events answer; None leaves it where it is.
    replies:
        The replies by name of the caller's reply stream (``reply_to``).
    leases:
        Spot leases as they are after these events.
    advert:
        The new advert of the cloud.
    overflow:
        The JSON bodies of on-demand requests that are offered to the federation.
    after:
        The hash of the entry that this continues, see ``broker.journal.hash_chain``. None: of the latest
        entry, for a writer that has read nothing of the journal.
    """

    epoch: int
    token: str
    ttl_s: float
    first: int
    events: Sequence[Event] = ()
    cursor: str | None = None
    replies: dict[str, list[Reply]] = field(default_factory=dict)
    leases: Sequence[Lease] = ()
    advert: Advert | None = None
    overflow: Sequence[str] = ()
    after: str | None = None

    def __post_init__(self) -> None:
        if not self.events and (self.leases or self.overflow):
            raise ValueError("a change without an event: nothing would tell its retry from the first try")


class Journal:
    """Writes and reads the journal, the inbox and the ownership lease of one cloud.

    Every method may raise ``redis.RedisError`` and may then be called again with the same arguments: what was
    written is recognised and not written twice, but for the commands of ``send`` (which carry an id).
    """

    def __init__(
        self,
        client: redis.Redis,
        keys: RedisKeys,
        cloud: str,
        signing: MessageSigner = UNSIGNED,
        *,
        speaks: Callable[[], int] = current_version,
        events_kept: int = EVENTS_KEPT,
        replication: Replication | None = None,
    ) -> None:
        """Load the scripts.

        Parameters
        ----------
        signing:
            Signs what is written, and says who is believed.
        speaks:
            Returns the version of the contract to write, see ``broker.storage.negotiation``.
        events_kept:
            The number of public events that the merged stream keeps.
        replication:
            Waits after each commit until replicas have it; None does not wait.
        """
        self.redis = client
        self._replication = replication
        self._place: object = None  # of the primary, before the inbox was read last
        self._settled = ""  # the id of an entry up to which replicas have the inbox
        self.keys = keys
        self.cloud = cloud
        self.signing = signing
        self._inbox = InboxVerifier(signing, keys.inbox(cloud), cloud)
        self._events_kept = events_kept
        #: The version of the contract to write.
        self.speaks = speaks
        self.entries = JournalEntries(client, keys, cloud, speaks=speaks)
        self._latest: tuple[Commit, str, list[ChainedEntry]] | None = None
        # The entries of the inbox that were last read, as they came and as they were parsed.
        self._read: dict[str, tuple[dict[bytes, bytes], list[Command | MalformedCommand]]] = {}
        self.dead_letters = DeadLetters(client, keys, cloud, self._durably)
        self._acquire = client.register_script(read_script("acquire"))
        self._renew = client.register_script(read_script("renew"))
        self._give_up = client.register_script(read_script("give_up"))
        self._commit = client.register_script(read_script("commit"))
        self._append_history = client.register_script(read_script("append_history"))

    # -- the owner's lease -------------------------------------------------------------------------------

    def acquire(self, token: str, ttl_s: float, floor: int = 0, dead: str = "") -> int | None:
        """Become the owner and open the next epoch, unless another process holds the ownership lease.

        Parameters
        ----------
        token:
            Names this process; no other may use it.
        ttl_s:
            How long the lease lasts without renewal, in seconds.
        floor:
            An epoch known to be in the past, from a local file; the new one is larger.
        dead:
            The token of a process that is dead, whose lease is not waited for.

        Returns
        -------
        int or None
            The new epoch, or None while another process is the owner. Called again, it returns the epoch that
            it opened, as long as no later one has been opened.
        """
        keys = [self.keys.owner(self.cloud), self.keys.epoch(self.cloud), self.keys.journal(self.cloud)]
        keys.append(self.keys.owner_version(self.cloud))
        arguments = [token, _ms(ttl_s), floor, VERSION, dead]
        opened = cast("list[int] | None", self._run(self._acquire, keys, arguments))
        if opened is None:
            return None
        epoch, before = opened
        # Samplers may still be reading the history of the epoch before; nobody will append to it again.
        self.redis.expire(self.keys.history(self.cloud, before), HISTORY_KEPT_S)
        return epoch

    def renew(self, token: str, epoch: int, ttl_s: float) -> None:
        """Extend the ownership lease; one that ran out is taken again if no other process took it.

        Raises
        ------
        FencedError
            When another owner has opened a later epoch.
        """
        keys = [self.keys.owner(self.cloud), self.keys.epoch(self.cloud)]
        if self._renew(keys, [token, epoch, _ms(ttl_s)]) == b"fenced":
            raise self._fenced(epoch)

    def give_up(self, token: str, epoch: int) -> None:
        """Give up the ownership lease, so that the next owner need not wait; no effect if it is not ours."""
        self._give_up([self.keys.owner(self.cloud), self.keys.epoch(self.cloud)], [token, epoch])

    def _fenced(self, epoch: int) -> FencedError:
        return FencedError(f"cloud {self.cloud}: epoch {epoch} is over, another owner opened a later one")

    # -- writing -----------------------------------------------------------------------------------------

    def commit(self, commit: Commit) -> bool:
        """Write the whole of a commit, or nothing. The module's docstring says why it may be called again.

        Returns
        -------
        bool
            True if this call wrote it, False if an earlier one had.

        Raises
        ------
        FencedError
            When another owner has opened a later epoch; nothing was written.
        JournalError
            When events, sequence or cursor do not follow what is written; nothing was written.
        """
        keys, cloud, speaks = self.keys, self.cloud, self.speaks()
        before, entries = self._link(commit)
        names = [
            *(keys.owner(cloud), keys.epoch(cloud), keys.journal(cloud), keys.events(cloud), keys.all_events),
            *(keys.inbox(cloud), keys.cursor(cloud), keys.advert(cloud), keys.running(cloud), keys.overflow),
            *(keys.lease(cloud, lease.id) for lease in commit.leases),
            *(keys.replies(name) for name in commit.replies),
            *(keys.advert_signature(cloud), keys.handled_messages(cloud)),
        ]
        advert = write_message(commit.advert, speaks) if commit.advert else ""
        position = self._inbox.position_at(commit.cursor)
        arguments: list[str | bytes | int] = [
            *(commit.token, commit.epoch, _ms(commit.ttl_s), commit.first, commit.cursor or ""),
            *(advert, keys.channel(cloud)),
            *(len(commit.events), len(commit.leases), len(commit.replies), len(commit.overflow)),
            *(before, self._events_kept),
        ]
        for event, entry in zip(commit.events, entries, strict=True):
            arguments += [entry.body, "" if event.sequence is None else event.sequence, entry.hash]
        for lease in commit.leases:
            arguments += lease_arguments(lease, speaks)
        for name, replies in commit.replies.items():
            arguments += self._sign(write_messages(replies, speaks), keys.replies(name))
        for offer in commit.overflow:
            arguments += self._sign(offer, keys.overflow)
        arguments.append(self.signing.sign(advert.encode(), keys.advert(cloud)) if advert else "")
        arguments += [part for pair in position.changes.items() for part in pair]
        try:
            outcome = self._run(self._commit, names, arguments)
        except redis.ResponseError as error:
            if str(error).startswith("BROKEN"):
                raise JournalError(f"cloud {cloud}: {error}") from error
            raise
        if outcome == b"fenced":
            raise self._fenced(commit.epoch)
        self._inbox.mark_stored(position)
        return bool(outcome == b"ok")

    def _note_place(self) -> None:
        self._place = None if self._replication is None else self._replication.place

    def _settle(self) -> None:
        """Wait until replicas have what was read: what is decided must not outlive the command that asked."""
        if self._replication is not None:
            self._replication.settle(self.keys.replication_channel, self._place)

    def _durably(self, call: Callable[[], None]) -> None:
        if self._replication is None:
            call()
        else:
            self._replication.durably(call, self.keys.replication_channel)

    def _run(self, script: Any, keys: list[str], arguments: list[Any]) -> Any:
        if self._replication is None:
            return script(keys, arguments)
        return self._replication.run_script(script, keys, arguments)

    def link(self, commit: Commit) -> list[ChainedEntry]:
        """Return the entries that a commit writes; they are hashed once, however often it is sent."""
        return self._link(commit)[1]

    def _link(self, commit: Commit) -> tuple[str, list[ChainedEntry]]:
        if self._latest is None or self._latest[0] is not commit:
            before = self._head_hash() if commit.after is None else commit.after
            entries: list[ChainedEntry] = []
            hashed, speaks = before, self.speaks()
            for number, event in enumerate(commit.events, commit.first):
                body, entry = write_message(event, speaks).encode(), f"{commit.epoch}-{number}"
                hashed = hash_entry(hashed, entry, body)
                entries.append(ChainedEntry(entry, hashed, body))
            self._latest = commit, before, entries
        return self._latest[1:]

    def _head_hash(self) -> str:
        newest = self.entries.head()
        return BEGINNING if newest is None else newest.hash

    @property
    def refused(self) -> Mapping[str, int]:
        """The numbers of inbox entries that were not believed, by reason (see ``SignatureError``)."""
        return self._inbox.refused

    def _sign(self, message: str, audience: str) -> tuple[str, bytes]:
        return message, self.signing.sign(message.encode(), audience)

    def send(self, cloud: str, batch: Sequence[Command]) -> str:
        """Append commands to a cloud's inbox, as one entry, and return the id of the entry."""
        inbox, body = self.keys.inbox(cloud), write_messages(batch, self.speaks()).encode()
        entry = self.redis.xadd(inbox, cast("dict[Any, Any]", self.signing.fields("c", body, inbox)))
        return cast("bytes", entry).decode()

    def publish_info(self, info: CloudInfo) -> None:
        """Publish the description of this member."""
        self._durably(lambda: self._write_info(info))

    def _write_info(self, info: CloudInfo) -> None:
        text = write_message(info, self.speaks())
        signature = self.signing.sign(text.encode(), self.keys.clouds)
        if not signature:
            self.redis.hset(self.keys.clouds, info.id, text)
            return
        with self.redis.pipeline(transaction=True) as pipeline:
            pipeline.hset(self.keys.cloud_signatures, info.id, cast("Any", signature))
            pipeline.hset(self.keys.clouds, info.id, text)
            pipeline.execute()

    def set_table(self, table: str) -> None:
        """Publish the quantile table in use: JSON with version, made_at_s and rows."""
        self._durably(lambda: self._write_table(table))

    def _write_table(self, table: str) -> None:
        name = self.keys.table(self.cloud)
        with self.redis.pipeline() as pipeline:
            pipeline.set(name, table)
            pipeline.set(self.keys.table_signature(self.cloud), self.signing.sign(table.encode(), name))
            pipeline.execute()

    def withdraw_table(self) -> None:
        """Publish no table until the next one is made."""
        self.redis.delete(self.keys.table(self.cloud), self.keys.table_signature(self.cloud))

    # -- reading -----------------------------------------------------------------------------------------

    def cursor(self) -> str:
        """Return the id of the last inbox entry that was handled, ``0-0`` if none was.

        The signatures seen by then are read too: call this before the inbox is read from there.
        """
        if self.signing.verifies:
            window = self.redis.hgetall(self.keys.handled_messages(self.cloud))
            self._inbox.begin(cast("dict[bytes, bytes]", window))
        self._read = {}
        stored = cast("bytes | None", self.redis.get(self.keys.cursor(self.cloud)))
        return "0-0" if stored is None else stored.decode()

    def await_inbox(self, after: str, timeout_s: float) -> list[Entry]:
        """Wait for entries of the inbox after an id, and return them as they came; none if none came."""
        inbox = self.keys.inbox(self.cloud)
        self._note_place()
        answer = self.redis.xread({inbox: after}, block=_ms(timeout_s))
        return [entry for page in parse_pages(answer) for entry in page.entries]

    def read_inbox(
        self, after: str, count: int = 64, came: Sequence[Entry] | None = None
    ) -> list[tuple[str, list[Command | MalformedCommand]]]:
        """Return the next entries of the inbox, without waiting.

        A command that cannot be read is a ``MalformedCommand`` in its place, and its entry is put into the
        dead-letter stream at once; the other commands of the entry are delivered. Pass it over: the cursor of
        the next commit removes it.

        Parameters
        ----------
        after:
            The id of the last entry already read.
        count:
            The largest number of entries.
        came:
            What ``await_inbox`` returned; those of these entries that are not handled yet are taken instead
            of reading.
        """
        before, self._read = self._read, {}
        if came is None:
            self._note_place()
            came = self._range(self.keys.inbox(self.cloud), after, count)
        else:
            last = parse_id(after)
            came = [entry for entry in came if parse_id(entry[0]) > last][:count]
        if came and came[-1][0] != self._settled:
            self._settle()
            self._settled = came[-1][0]
        for entry, fields in came:
            earlier = before.get(entry)
            if earlier is not None and earlier[0] == fields:  # a group left it over
                self._read[entry] = earlier
                continue
            body = fields.get(b"c", b"")
            refusal = self._inbox.refusal(entry, fields)
            commands: list[Command | MalformedCommand] = (
                parse_entry(body)
                if refusal is None
                else [MalformedCommand(str(refusal), DeadLetterKind.SIGNATURE)]
            )
            if any(isinstance(command, MalformedCommand) for command in commands):
                self._put_aside(entry, body, commands)
            self._read[entry] = fields, commands
        return [(entry, commands) for entry, (_, commands) in self._read.items()]

    def _put_aside(self, entry: str, body: bytes, commands: Sequence[Command | MalformedCommand]) -> None:
        malformed = {
            place: command for place, command in enumerate(commands) if isinstance(command, MalformedCommand)
        }
        why = "; ".join(command.why for command in malformed.values())
        kind = next(iter(malformed.values())).kind
        # Under its inbox id, so that it is there once, however often it is read.
        self.dead_letters.put(entry, kind, why, body, items=tuple(malformed), entry=entry)

    def read(self, after: str = "0-0") -> Iterator[tuple[str, Event]]:
        """Yield the id and the event of each entry after an id (exclusive), to the present end.

        Raises
        ------
        JournalError
            When an entry is not an event of this version or an older one.
        """
        for entry in self.entries.after(after):
            yield entry.id, self.event_of(entry)

    def event_of(self, entry: ChainedEntry) -> Event:
        """Return the event of an entry.

        Raises
        ------
        JournalError
            When it is not an event of this version or an older one.
        """
        try:
            event = entry.event()
        except ValidationError as error:
            raise JournalError(f"cloud {self.cloud}: journal entry {entry.id}: {error}") from error
        if event.version > VERSION:
            raise JournalError(
                f"cloud {self.cloud}: journal entry {entry.id} is of version {event.version} of the "
                f"contract, and this spotfed reads up to {VERSION}: install the one that wrote it"
            )
        return event

    def _range(self, stream: str, after: str, count: int) -> list[tuple[str, dict[bytes, bytes]]]:
        entries = cast(
            "list[tuple[bytes, dict[bytes, bytes]]]", self.redis.xrange(stream, f"({after}", "+", count)
        )
        return [(entry.decode(), fields) for entry, fields in entries]

    # -- history for the Monte-Carlo workers -------------------------------------------------------------

    def append_history(self, epoch: int, chunk: bytes, index: int) -> None:
        """Append chunk ``index`` (from 0) to this epoch's event log; a second call changes nothing.

        Raises
        ------
        JournalError
            When the chunks before it are missing.
        """
        keys: list[str] = [self.keys.history(self.cloud, epoch)]
        length = cast("int", self._run(self._append_history, keys, [index, chunk]))
        if length < index:
            raise JournalError(
                f"cloud {self.cloud}: history has {length} chunks, cannot append number {index}"
            )

    def history(self, epoch: int, after: int = 0) -> list[bytes]:
        """Return the chunks of an epoch's event log but for the first ``after``."""
        return cast("list[bytes]", self.redis.lrange(self.keys.history(self.cloud, epoch), after, -1))


def _ms(seconds: float) -> int:
    return max(1, round(seconds * 1000))
