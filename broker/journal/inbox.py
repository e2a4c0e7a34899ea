"""The inbox of a cloud's owner: which entries are believed, and which commands they hold.

Entries are verified before they are read (``broker.signing``). An entry that is not believed or cannot be
read is represented by a value in its place, so that no writer to Redis can stop a cloud with one.
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
    """A command that cannot be read. Its inbox entry is put into the cloud's dead-letter stream."""

    why: str
    kind: DeadLetterKind = DeadLetterKind.UNREADABLE


def parse_entry(body: bytes) -> list[Command | MalformedCommand]:
    """Parse the commands of an inbox entry; a MalformedCommand stands for each that is unreadable."""
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
    """Parse commands one by one: an unreadable one must not take the others of its entry along."""
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
    """The state of the verification once the inbox has been passed up to ``cursor``.

    ``window`` holds the signatures seen by then; ``changes`` are the fields of it to be stored with the
    cursor.
    """

    cursor: str | None
    window: ReplayWindow
    changes: dict[str, str]


class InboxVerifier:
    """Verifies the entries of one cloud's inbox: who signed them, and that none is a repetition.

    An entry may be read several times before the commit that passes it. So each is judged once, and counts
    as seen in Redis only with that commit: the next owner reads what was not committed, and finds it new.
    ``refused`` counts the entries that were refused, by reason.
    """

    def __init__(self, signing: MessageSigner, inbox: str, cloud: str):
        self._signing, self._inbox = signing, inbox
        self._issuers = frozenset({BROKER, cloud_party(cloud)})
        self._stored, self._seen = ReplayWindow(), ReplayWindow()
        self._judged: dict[str, Signature | SignatureError] = {}
        self.refused: Counter[str] = Counter()

    def begin(self, stored: Mapping[bytes, bytes]) -> None:
        """Begin with the window that is stored; entries read since then are judged anew.

        Raises
        ------
        ValueError
            When it cannot be parsed.
        """
        self._stored = ReplayWindow.parse(stored)
        self._seen = self._stored.copy()
        self._judged.clear()

    def refusal(self, entry: str, fields: Mapping[bytes, bytes]) -> SignatureError | None:
        """Return why an entry is not believed; None if it is."""
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

    def position_at(self, cursor: str | None) -> InboxPosition:
        """Return what is to be stored when the cursor is set there; None leaves it where it is."""
        if cursor is None or not self._signing.verifies:
            return InboxPosition(None, self._stored, {})
        window, last = self._stored.copy(), _parse_stream_id(cursor)
        for entry, verdict in self._judged.items():
            if isinstance(verdict, Signature) and _parse_stream_id(entry) <= last:
                window.add(verdict)
        window.forget(last[0] / 1000)
        return InboxPosition(cursor, window, window.changes(self._stored))

    def mark_stored(self, position: InboxPosition) -> None:
        """Note that a position was stored."""
        if position.cursor is None:
            return
        self._stored = position.window
        last = _parse_stream_id(position.cursor)
        self._seen.forget(last[0] / 1000)
        self._judged = {
            entry: verdict for entry, verdict in self._judged.items() if _parse_stream_id(entry) > last
        }


def _parse_stream_id(entry: str) -> tuple[int, int]:
    high, low = entry.split("-")
    return int(high), int(low)
