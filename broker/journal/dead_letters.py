"""Dead letters: what an owner put aside because it could not be read, or because the owner broke over it.

They are kept in the stream ``RedisKeys.dead_letters``, bounded in number and size, for a person to look at
(``spotfed dlq``): the cloud goes on without them. A letter holds the body of its inbox entry, of which
``items`` names the commands that were put aside (all others were carried out), or the one command that the
owner broke over, or a Monte-Carlo batch that was given up.

Celery messages that cannot be read are not kept. None is the only copy of anything (RELIABILITY.md 1): a
doorbell says nothing that the next look into the inbox does not find, and a batch is sent again by its owner.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, cast

import redis
from pydantic import TypeAdapter, ValidationError

from broker.contract import OLDEST_VERSION, VERSION, Ask, Command, Reserve, Show, Tick, commands
from broker.storage.keys import RedisKeys

DEAD_ENTRIES_KEPT = 1_000
DEAD_BYTES_KEPT = 65_536
#: A larger entry is not parsed. The largest that the broker writes names all nodes of a cloud to drain.
LARGEST_ENTRY_BYTES = 4 << 20
SHOWN_CHARACTERS = 2_000
_WHY_CHARACTERS = 1_000
_CONTINUES = " […]"

_SECRET_NAME = re.compile(r"key|token|secret|passw|credential|authorization|signature|cookie", re.IGNORECASE)
#: Where a body is not JSON: what follows such a name, the login in an address, a JSON Web Token.
_SECRET_TEXT = (
    (re.compile(r"(?i)\b(bearer|basic)\s+[^\s\"']+"), r"\1 ***"),
    (
        re.compile(
            r"(?i)((?:key|token|secret|passw|credential|authorization|signature|cookie)[\w-]{0,40}\"?\s*[:=]\s*)"
            r"(\"(?:[^\"\\]|\\.)*\"?|[^\s,;}\]]+)"
        ),
        r"\1***",
    ),
    (re.compile(r"(\w://[^\s/:@]*):[^\s/@]+@"), r"\1:***@"),
    (re.compile(r"\beyJ[\w-]+\.[\w-]*\.?[\w-]*"), "***"),
)
_anything: TypeAdapter[list[Any]] = TypeAdapter(list[Any])


class DeadLetterKind(StrEnum):
    """Why something is a dead letter."""

    UNREADABLE = "unreadable"
    UNKNOWN_VERSION = "unknown_version"
    TOO_LARGE = "too_large"
    SIGNATURE = "signature"  # who sent it is not proved
    POISON = "poison"  # the owner broke over it
    BATCH = "batch"  # Monte-Carlo workers broke over it, again and again


class ReplayError(ValueError):
    """A letter cannot be sent again; the message says why, and what to do instead."""


@dataclass(frozen=True)
class DeadLetter:
    """One of them.

    Attributes:
        cloud: whose owner put it aside.
        id: in the cloud's stream; its first part is when, in milliseconds of the Redis clock.
        of: the inbox entry it came in, with a command's place in it, or the batch.
        kind: why it is here; ``why`` says it to people.
        body: as it came, cut off after ``DEAD_BYTES_KEPT``.
        size_bytes: of the whole body.
        items: places of the commands in the body that were put aside.
    """

    cloud: str
    id: str
    of: str
    kind: DeadLetterKind
    why: str
    body: bytes
    size_bytes: int
    items: tuple[int, ...]

    @property
    def whole(self) -> bool:
        """Whether all of the body is kept."""
        return len(self.body) == self.size_bytes

    def age_s(self, now_ms: int) -> float:
        """For how long it has been here; ``now_ms``: the time of the Redis server."""
        return (now_ms - int(self.id.partition("-")[0])) / 1000

    def valid(self) -> list[Command]:
        """The commands to send again.

        Raises:
            ReplayError: they are not valid, not whole, or nobody waits for what they would do.
        """
        if self.kind is DeadLetterKind.BATCH:
            raise ReplayError("a batch is not sent again: the cloud's next table asks for new ones; drop it")
        if self.kind is DeadLetterKind.SIGNATURE:
            raise ReplayError(
                "nobody knows who sent it, and replaying would vouch for it: let its sender send it"
            )
        if not self.whole:
            raise ReplayError(
                f"only {len(self.body)} of its {self.size_bytes} bytes are kept: let its sender send it again"
            )
        try:
            items = _anything.validate_json(self.body)
            chosen = [items[place] for place in self.items]
            found = commands.validate_json(json.dumps(chosen))
        except (ValidationError, IndexError) as error:
            why = summary(error) if isinstance(error, ValidationError) else "it names no command"
            raise ReplayError(
                f"it cannot be read: {why}; let its sender send it again, or drop it"
            ) from error
        for command in found:
            if not OLDEST_VERSION <= command.version <= VERSION:
                raise ReplayError(
                    f"version {command.version} is unknown here: upgrade spotfed, and that of the owner first"
                )
            if isinstance(command, Ask | Reserve | Show | Tick):
                raise ReplayError(f"nobody waits for the answer to this {command.kind} any more: drop it")
        return found

    def shown(self, most: int = SHOWN_CHARACTERS) -> str:
        """The body for people: cut off, and without what looks like a secret."""
        text = _without_secrets(self.body)
        return text if len(text) <= most and self.whole else text[:most] + _CONTINUES


class DeadLetters:
    """The dead letters of one cloud. Every method may raise redis.RedisError."""

    def __init__(self, client: redis.Redis, keys: RedisKeys, cloud: str):
        self._redis, self._keys, self.cloud = client, keys, cloud

    def put(
        self,
        of: str,
        kind: DeadLetterKind,
        why: str,
        body: bytes,
        items: Sequence[int] = (0,),
        entry: str | None = None,
    ) -> None:
        """Puts something aside, once, however often this is called for the same ``of``.

        ``entry``: the id of its inbox entry, which becomes the letter's where that is still possible.
        """
        fields: dict[Any, Any] = {
            "c": body[:DEAD_BYTES_KEPT],
            "why": _redacted(why[:_WHY_CHARACTERS]),
            "kind": kind.value,
            "of": of,
            "size": len(body),
            "items": json.dumps(list(items)[:DEAD_ENTRIES_KEPT]),
        }
        if entry is not None and (self._add_as(entry, fields) or self._has(of, entry)):
            return
        self._redis.xadd(self._keys.dead_letters(self.cloud), fields, maxlen=DEAD_ENTRIES_KEPT)

    def _add_as(self, entry: str, fields: dict[Any, Any]) -> bool:
        """Under that id; False where the stream is beyond it."""
        try:
            self._redis.xadd(self._keys.dead_letters(self.cloud), fields, id=entry, maxlen=DEAD_ENTRIES_KEPT)
        except redis.ResponseError as error:
            if "equal or smaller" not in str(error):
                raise
            return False
        return True

    def _has(self, of: str, entry: str) -> bool:
        # Letters are written after the entries they are of, and get later ids than these.
        return any(letter.of == of for letter in self._range(entry, "+"))

    def count(self) -> int:
        """How many there are."""
        return self._redis.xlen(self._keys.dead_letters(self.cloud))

    def letters(self) -> list[DeadLetter]:
        """All of them, oldest first."""
        return self._range("-", "+")

    def get(self, letter: str) -> DeadLetter | None:
        """One of them, by its id."""
        found = self._range(letter, letter) if re.fullmatch(r"\d{1,19}-\d{1,19}", letter) else []
        return found[0] if found else None

    def drop(self, letter: str) -> bool:
        """Removes one; False if it was not there."""
        return bool(self._redis.xdel(self._keys.dead_letters(self.cloud), letter))

    def _range(self, low: str, high: str) -> list[DeadLetter]:
        entries = cast(
            "list[tuple[bytes, dict[bytes, bytes]]]",
            self._redis.xrange(self._keys.dead_letters(self.cloud), low, high, DEAD_ENTRIES_KEPT),
        )
        return [_letter(self.cloud, entry.decode(), fields) for entry, fields in entries]


def summary(error: ValidationError) -> str:
    """What is wrong, without the values: they are somebody's, and may be long."""
    details = error.errors(include_url=False, include_input=False, include_context=False)[:3]
    return "; ".join(
        f"{'.'.join(map(str, detail['loc'])) or 'entry'}: {detail['msg']}"[:200] for detail in details
    )


def _letter(cloud: str, entry: str, fields: dict[bytes, bytes]) -> DeadLetter:
    return DeadLetter(
        cloud,
        entry,
        of=fields[b"of"].decode(),
        kind=DeadLetterKind(fields[b"kind"].decode()),
        why=fields[b"why"].decode(errors="replace"),
        body=fields[b"c"],
        size_bytes=int(fields[b"size"]),
        items=tuple(json.loads(fields[b"items"])),
    )


def _without_secrets(body: bytes) -> str:
    try:
        return json.dumps(_hidden(json.loads(body)), ensure_ascii=False)
    except (ValueError, RecursionError):
        return _redacted(body[: 4 * SHOWN_CHARACTERS].decode(errors="replace"))


def _hidden(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: "***" if _SECRET_NAME.search(name) else _hidden(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_hidden(part) for part in value]
    return _redacted(value) if isinstance(value, str) else value


def _redacted(text: str) -> str:
    for pattern, instead in _SECRET_TEXT:
        text = pattern.sub(instead, text)
    return text
