"""What an owner writes and reads: its lease, its journal, its inbox. Each change is one Lua script.

**Why sending the same commit again is harmless.** After a lost connection nobody knows whether a commit was
written. Redis runs a script whole and never two at once, and `commit.lua` checks everything before it writes,
so a commit is there or it is not. Then:

* Nobody else can have written in between. An epoch belongs to one token, opening a later one changes the
  epoch in Redis, and a commit of another epoch is refused (`Fenced`).
* The owner sends a commit only when it knows what became of the one before. So if the journal's last id in
  this epoch is at or beyond the commit's last event, then this commit was written: nothing is written again.
* A commit without events changes no lease and offers nothing (`Commit` sees to that). If the cursor in Redis
  is beyond its own, a later commit was written: nothing is written. Otherwise it is carried out again; cursor
  and advert get the value they have, and an asker may read a reply twice, of which it takes the first.
* A duplicate that Redis reads late, from a connection that was given up, meets the same checks, whatever was
  committed since. The most it does is extend the owner's lease once more, or show an advert for a moment that
  the next commit replaces.

An entry of the inbox may thus be read twice, by the next owner too, but its effects and the cursor that
passes it are one write. Replies are written with them; they are lost only with the asker's stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Any, cast

import redis
from pydantic import TypeAdapter, ValidationError

from broker.contract import (
    VERSION,
    Advert,
    CloudInfo,
    Command,
    Event,
    Lease,
    LeaseState,
    Reply,
    commands,
    replies,
)
from broker.keys import Keys

DEAD_ENTRIES_KEPT = 1_000
DEAD_BYTES_KEPT = 65_536
HISTORY_KEPT_S = 86_400
_PAGE = 1_000
_NOT_ENDED = frozenset({LeaseState.RESERVED, LeaseState.RUNNING})
_anything: TypeAdapter[list[Any]] = TypeAdapter(list[Any])


class JournalError(Exception):
    """The journal and the owner disagree, or an entry cannot be read: a bug, or Redis lost data."""


class Fenced(Exception):  # noqa: N818 (the design's word)
    """Another owner has opened a later epoch: stop, and do nothing more for this cloud."""


@dataclass(frozen=True)
class Malformed:
    """A command that could not be read. The entry it came in is in the cloud's dead-letter stream."""

    why: str


@dataclass(frozen=True)
class Commit:
    """What an owner decided for a group of commands.

    Attributes:
        epoch: of this owner.
        token: of this owner.
        ttl_s: how long the owner's lease shall last from now on.
        first: number of the first event in this epoch; an epoch begins with 1 and has no gaps.
        events: in order. Those with a `sequence` are published; it counts them from 1, over all epochs.
        cursor: id of the last inbox entry these events answer for; None leaves it where it is.
        replies: by name of the asker's reply stream (`reply_to`).
        leases: spot leases as they are after these events.
        advert: what the cloud now says of itself.
        overflow: JSON bodies of on-demand requests that are offered to the federation.
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

    def __post_init__(self) -> None:
        if not self.events and (self.leases or self.overflow):
            raise ValueError("a change without an event: nothing would tell its retry from the first try")


def read_script(name: str) -> str:
    """The text of `broker/scripts/<name>.lua`."""
    return resources.files("broker").joinpath("scripts", f"{name}.lua").read_text(encoding="utf-8")


class Journal:
    """One cloud's journal, inbox and owner's lease.

    Every method may raise `redis.RedisError` and may then be called again with the same arguments: what was
    written is recognised and not written twice, but for the commands of `send` (which carry an id).
    """

    def __init__(self, client: redis.Redis, keys: Keys, cloud: str) -> None:
        self.redis = client
        self.keys = keys
        self.cloud = cloud
        self._acquire = client.register_script(read_script("acquire"))
        self._renew = client.register_script(read_script("renew"))
        self._give_up = client.register_script(read_script("give_up"))
        self._commit = client.register_script(read_script("commit"))
        self._append_history = client.register_script(read_script("append_history"))

    # -- the owner's lease -------------------------------------------------------------------------------

    def acquire(self, token: str, ttl_s: float, floor: int = 0) -> int | None:
        """Become the owner and open the next epoch, unless another's lease stands.

        Args:
            token: names this process; no other may use it.
            ttl_s: how long the lease lasts without renewal.
            floor: an epoch known to be in the past, from a local file; the new one is larger.

        Returns:
            The new epoch, or None while another process is the owner.
        """
        keys = [self.keys.owner(self.cloud), self.keys.epoch(self.cloud), self.keys.journal(self.cloud)]
        opened = cast("list[int] | None", self._acquire(keys, [token, _ms(ttl_s), floor]))
        if opened is None:
            return None
        epoch, before = opened
        # Samplers may still be reading the history of the epoch before; nobody will append to it again.
        self.redis.expire(self.keys.history(self.cloud, before), HISTORY_KEPT_S)
        return epoch

    def renew(self, token: str, epoch: int, ttl_s: float) -> None:
        """Extend the lease; one that ran out is taken again if nobody else took it.

        Raises:
            Fenced: another owner has opened a later epoch.
        """
        keys = [self.keys.owner(self.cloud), self.keys.epoch(self.cloud)]
        if self._renew(keys, [token, epoch, _ms(ttl_s)]) == b"fenced":
            raise self._fenced(epoch)

    def give_up(self, token: str, epoch: int) -> None:
        """Let the next owner in at once. Nothing happens if the lease is no longer ours."""
        self._give_up([self.keys.owner(self.cloud), self.keys.epoch(self.cloud)], [token, epoch])

    def _fenced(self, epoch: int) -> Fenced:
        return Fenced(f"cloud {self.cloud}: epoch {epoch} is over, another owner opened a later one")

    # -- writing -----------------------------------------------------------------------------------------

    def commit(self, commit: Commit) -> bool:
        """Write everything of `commit`, or nothing. See the module's head for calling it again.

        Returns:
            True if this call wrote it, False if an earlier one had.

        Raises:
            Fenced: another owner has opened a later epoch; nothing was written.
            JournalError: events, sequence or cursor do not follow what is written; nothing was written.
        """
        keys, cloud = self.keys, self.cloud
        names = [
            *(keys.owner(cloud), keys.epoch(cloud), keys.journal(cloud), keys.events(cloud), keys.all_events),
            *(keys.inbox(cloud), keys.cursor(cloud), keys.advert(cloud), keys.running(cloud), keys.overflow),
            *(keys.lease(lease.id) for lease in commit.leases),
            *(keys.replies(asker) for asker in commit.replies),
        ]
        arguments: list[str | bytes | int] = [
            *(commit.token, commit.epoch, _ms(commit.ttl_s), commit.first, commit.cursor or ""),
            *(commit.advert.model_dump_json() if commit.advert else "", keys.channel(cloud)),
            *(len(commit.events), len(commit.leases), len(commit.replies), len(commit.overflow)),
        ]
        for event in commit.events:
            arguments += [event.model_dump_json(), "" if event.sequence is None else event.sequence]
        for lease in commit.leases:
            arguments += [lease.id, lease.model_dump_json(), "0" if lease.state in _NOT_ENDED else "1"]
        arguments += [replies.dump_json(answers) for answers in commit.replies.values()]
        arguments += commit.overflow
        try:
            outcome = self._commit(names, arguments)
        except redis.ResponseError as error:
            if str(error).startswith("BROKEN"):
                raise JournalError(f"cloud {cloud}: {error}") from error
            raise
        if outcome == b"fenced":
            raise self._fenced(commit.epoch)
        return bool(outcome == b"ok")

    def send(self, cloud: str, batch: Sequence[Command]) -> str:
        """Append commands to a cloud's inbox, as one entry. Returns the entry's id."""
        entry = self.redis.xadd(self.keys.inbox(cloud), {"c": commands.dump_json(list(batch))})
        return cast("bytes", entry).decode()

    def publish_info(self, info: CloudInfo) -> None:
        """Say what this member is."""
        self.redis.hset(self.keys.clouds, info.id, info.model_dump_json())

    def set_table(self, table: str) -> None:
        """Show people the quantile table in use: JSON with version, made_at_s and rows."""
        self.redis.set(self.keys.table(self.cloud), table)

    # -- reading -----------------------------------------------------------------------------------------

    def cursor(self) -> str:
        """Id of the last inbox entry that was handled, ``0-0`` if none was."""
        stored = cast("bytes | None", self.redis.get(self.keys.cursor(self.cloud)))
        return "0-0" if stored is None else stored.decode()

    def read_inbox(self, after: str, count: int = 64) -> list[tuple[str, list[Command | Malformed]]]:
        """The next entries of the inbox, without waiting.

        What cannot be read stands in its place as `Malformed`, and its entry is put aside in the dead-letter
        stream at once; the other commands of the entry are delivered. Pass it over: the cursor of the next
        commit removes it.

        Args:
            after: id of the last entry already read.
            count: at most so many entries.
        """
        found: list[tuple[str, list[Command | Malformed]]] = []
        for entry, fields in self._range(self.keys.inbox(self.cloud), after, count):
            body = fields.get(b"c", b"")
            parsed = _parse(body)
            if wrong := [command for command in parsed if isinstance(command, Malformed)]:
                self._put_aside(entry, body, wrong)
            found.append((entry, parsed))
        return found

    def _put_aside(self, entry: str, body: bytes, wrong: Iterable[Malformed]) -> None:
        fields: dict[Any, Any] = {
            "c": body[:DEAD_BYTES_KEPT],
            "why": "; ".join(command.why for command in wrong)[:DEAD_BYTES_KEPT],
        }
        try:
            # Under its inbox id, so that it is there once, however often it is read.
            self.redis.xadd(self.keys.dead(self.cloud), fields, id=entry, maxlen=DEAD_ENTRIES_KEPT)
        except redis.ResponseError as error:
            if "equal or smaller" not in str(error):
                raise

    def read(self, after: str = "0-0") -> Iterator[tuple[str, Event]]:
        """The journal from `after` (exclusive) to its present end, as pairs of id and event.

        Raises:
            JournalError: an entry is not an event of this version or an older one.
        """
        while page := self._range(self.keys.journal(self.cloud), after, _PAGE):
            for entry, fields in page:
                try:
                    event = Event.model_validate_json(fields[b"e"])
                except (KeyError, ValidationError) as error:
                    raise JournalError(f"cloud {self.cloud}: journal entry {entry}: {error}") from error
                yield entry, event
            after = page[-1][0]

    def _range(self, stream: str, after: str, count: int) -> list[tuple[str, dict[bytes, bytes]]]:
        entries = cast(
            "list[tuple[bytes, dict[bytes, bytes]]]", self.redis.xrange(stream, f"({after}", "+", count)
        )
        return [(entry.decode(), fields) for entry, fields in entries]

    # -- history for the Monte-Carlo workers -------------------------------------------------------------

    def append_history(self, epoch: int, chunk: bytes, index: int) -> None:
        """Append the `index`-th chunk (from 0) of this epoch's event log. A second call changes nothing.

        Raises:
            JournalError: the chunks before it are missing.
        """
        length = cast("int", self._append_history([self.keys.history(self.cloud, epoch)], [index, chunk]))
        if length < index:
            raise JournalError(
                f"cloud {self.cloud}: history has {length} chunks, cannot append number {index}"
            )

    def history(self, epoch: int, after: int = 0) -> list[bytes]:
        """The chunks of an epoch's event log but for the first `after`."""
        return cast("list[bytes]", self.redis.lrange(self.keys.history(self.cloud, epoch), after, -1))


def _parse(body: bytes) -> list[Command | Malformed]:
    """The commands of an inbox entry; what cannot be read is a value in its place."""
    try:
        parsed: list[Command | Malformed] = list(commands.validate_json(body))
    except ValidationError:
        parsed = _parse_singly(body)
    return [
        Malformed(f"unknown version {command.version}")
        if not isinstance(command, Malformed) and not 1 <= command.version <= VERSION
        else command
        for command in parsed
    ]


def _ms(seconds: float) -> int:
    return max(1, round(seconds * 1000))


def _parse_singly(body: bytes) -> list[Command | Malformed]:
    """One command that cannot be read must not take the others of its entry along."""
    try:
        items = _anything.validate_json(body)
    except ValidationError as error:
        return [Malformed(_summary(error))]
    parsed: list[Command | Malformed] = []
    for item in items:
        try:
            parsed += commands.validate_python([item])
        except ValidationError as error:
            parsed.append(Malformed(_summary(error)))
    return parsed


def _summary(error: ValidationError) -> str:
    # Not the values: they are somebody's, and may be long.
    details = error.errors(include_url=False, include_input=False, include_context=False)[:3]
    return "; ".join(
        f"{'.'.join(map(str, detail['loc'])) or 'entry'}: {detail['msg']}"[:200] for detail in details
    )
