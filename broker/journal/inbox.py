"""The inbox of a cloud's owner: whose entries are believed, and which commands are in them.

Entries are verified before they are read (``broker.signing``). What is not believed, and what cannot be read,
is a value in its place: nobody who can write to Redis may stop a cloud with it.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError

from broker.contract import VERSION, Command, commands
from broker.journal.dead_letters import LARGEST_ENTRY_BYTES, DeadLetterKind, summarise_error
from broker.signing.parties import BROKER, cloud_party
from broker.signing.replay_window import ReplayWindow
from broker.signing.signer import MessageSigner, Signature, SignatureError, written_ms

log = logging.getLogger(__name__)

_anything: TypeAdapter[list[Any]] = TypeAdapter(list[Any])


@dataclass(frozen=True)
class MalformedCommand:
    """A command that could not be read. The entry it came in is in the cloud's dead-letter stream."""

    why: str
    kind: DeadLetterKind = DeadLetterKind.UNREADABLE


def parse_entry(body: bytes) -> list[Command | MalformedCommand]:
    """The commands of an inbox entry; what cannot be read is a value in its place."""
    if len(body) > LARGEST_ENTRY_BYTES:
        return [
            MalformedCommand(
                f"{len(body)} bytes, more than {LARGEST_ENTRY_BYTES}: not parsed", DeadLetterKind.TOO_LARGE
            )
        ]
    try:
        parsed: list[Command | MalformedCommand] = list(commands.validate_json(body, extra="ignore"))
    except ValidationError:
        parsed = _parse_singly(body)
    return [
        MalformedCommand(f"unknown version {command.version}", DeadLetterKind.UNKNOWN_VERSION)
        if not isinstance(command, MalformedCommand) and not 1 <= command.version <= VERSION
        else command
        for command in parsed
    ]


def _parse_singly(body: bytes) -> list[Command | MalformedCommand]:
    """One command that cannot be read must not take the others of its entry along."""
    try:
        items = _anything.validate_json(body)
    except ValidationError as error:
        return [MalformedCommand(summarise_error(error))]
    parsed: list[Command | MalformedCommand] = []
    for item in items:
        try:
            parsed += commands.validate_python([item], extra="ignore")
        except ValidationError as error:
            parsed.append(MalformedCommand(summarise_error(error)))
    return parsed


@dataclass(frozen=True)
class InboxPosition:
    """What is known when the inbox has been passed up to ``cursor``; ``changes`` are to be stored with it."""

    cursor: str | None
    seen: ReplayWindow
    changes: dict[str, str]


class InboxVerifier:
    """The inbox of one cloud, as far as its signatures go: who may write there, and what came already.

    An entry may be read several times before the commit that passes it. So each is judged once, and counts as
    seen in the store only with that commit: the next owner reads what was not committed, and finds it new.
    """

    def __init__(self, signing: MessageSigner, inbox: str, cloud: str):
        self._signing, self._inbox = signing, inbox
        self._issuers = frozenset({BROKER, cloud_party(cloud)})
        self._stored, self._seen = ReplayWindow(), ReplayWindow()
        self._judged: dict[str, Signature | SignatureError] = {}
        #: How many entries were refused, by reason.
        self.refused: Counter[str] = Counter()

    def begin(self, stored: Mapping[bytes, bytes]) -> None:
        """Begins with what is stored; what was read since is judged anew. Raises ValueError."""
        self._stored = ReplayWindow.parse(stored)
        self._seen = self._stored.copy()
        self._judged.clear()

    def refusal(self, entry: str, fields: Mapping[bytes, bytes]) -> SignatureError | None:
        """Why an entry is not to be believed, None if it is."""
        if not self._signing.verifies:
            return None
        verdict = self._judged.get(entry)
        if verdict is None:
            verdict = self._judged[entry] = self._judge(entry, fields)
        return verdict if isinstance(verdict, SignatureError) else None

    def _judge(self, entry: str, fields: Mapping[bytes, bytes]) -> Signature | SignatureError:
        body = fields.get(b"c", b"")
        try:
            signature = self._signing.verify(
                fields.get(b"s"), body, self._inbox, self._issuers, written_ms(entry)
            )
        except SignatureError as error:
            refused = error
        else:
            assert signature is not None
            if self._seen.add(signature):
                return signature
            refused = SignatureError("replayed", f"{signature.issuer} sent it once, and it came before")
        self.refused[refused.reason] += 1
        log.warning("%s: entry %s is not believed: %s", self._inbox, entry, refused)
        return refused

    def seen_until(self, cursor: str | None) -> InboxPosition:
        """What is to be stored when the cursor is set there."""
        if cursor is None or not self._signing.verifies:
            return InboxPosition(None, self._stored, {})
        seen, last = self._stored.copy(), _place(cursor)
        for entry, verdict in self._judged.items():
            if isinstance(verdict, Signature) and _place(entry) <= last:
                seen.add(verdict)
        seen.forget(last[0] / 1000)
        return InboxPosition(cursor, seen, seen.changes(self._stored))

    def written(self, passed: InboxPosition) -> None:
        """It was stored."""
        if passed.cursor is None:
            return
        self._stored = passed.seen
        last = _place(passed.cursor)
        self._seen.forget(last[0] / 1000)
        self._judged = {entry: one for entry, one in self._judged.items() if _place(entry) > last}


def _place(entry: str) -> tuple[int, int]:
    high, low = entry.split("-")
    return int(high), int(low)
