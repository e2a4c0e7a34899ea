"""Dead letters: commands that an owner put aside because it could not read them, or failed on them.

They are kept in the stream ``RedisKeys.dead(cloud)``, bounded in number and size, for a person to look at
(``spotfed dlq``): the cloud goes on without them. A letter holds the body of its inbox entry, of which
``items`` names the commands that were put aside (all others were carried out), or the one command on which
the owner failed, or a Monte-Carlo batch that was given up.

Celery messages that cannot be read are not kept. None is the only copy of anything
(docs/design/reliability.md "A message is never the only copy"): a doorbell says nothing that the next look
into the inbox does not find, and a batch is sent again by its owner.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, cast

import redis
from pydantic import TypeAdapter, ValidationError

from broker.contract import OLDEST_VERSION, VERSION, Ask, Command, Reserve, Show, Tick, commands
from broker.storage.keys import RedisKeys

DEAD_ENTRIES_KEPT = 1_000
DEAD_BYTES_KEPT = 65_536
#: A larger entry is not parsed. The largest one that the broker writes names all nodes of a cloud to drain.
LARGEST_ENTRY_BYTES = 4 << 20
SHOWN_CHARACTERS = 2_000
_WHY_CHARACTERS = 1_000
_CONTINUES = " […]"

_SECRET_NAME = re.compile(r"key|token|secret|passw|credential|authorization|signature|cookie", re.IGNORECASE)
#: Secrets in a body that is not JSON: what follows such a name, the login in an address, a JSON Web Token.
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
    """The reason why a command or batch is a dead letter."""

    UNREADABLE = "unreadable"
    UNKNOWN_VERSION = "unknown_version"
    TOO_LARGE = "too_large"
    SIGNATURE = "signature"  # its sender is not proved
    POISON = "poison"  # the owner failed on it
    BATCH = "batch"  # Monte-Carlo workers failed on it, again and again


class ReplayError(ValueError):
    """A letter cannot be sent again. The message says why, and what to do instead."""


@dataclass(frozen=True)
class DeadLetter:
    """A dead letter.

    Attributes
    ----------
    cloud:
        The cloud whose owner put it aside.
    id:
        Its id in the cloud's stream; the first part is its time in milliseconds of the Redis clock.
    of:
        The inbox entry it came in, with a command's place in it, or the batch.
    kind, why:
        The reason, and an explanation for people.
    body:
        The body as it came, cut off after ``DEAD_BYTES_KEPT``.
    size_bytes:
        The size of the whole body.
    items:
        The places of the commands in the body that were put aside.
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
        """True if all of the body is kept."""
        return len(self.body) == self.size_bytes

    def age_s(self, now_ms: int) -> float:
        """Return its age in seconds; ``now_ms`` is the time of the Redis server in milliseconds."""
        return (now_ms - int(self.id.partition("-")[0])) / 1000

    def parse_commands(self) -> list[Command]:
        """Return the commands to send again.

        Raises
        ------
        ReplayError
            When they are not valid, not whole, or no longer of use to anybody.
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
            dead = [items[place] for place in self.items]
            parsed = commands.validate_json(json.dumps(dead))
        except (ValidationError, IndexError) as error:
            why = summarise_error(error) if isinstance(error, ValidationError) else "it names no command"
            raise ReplayError(
                f"it cannot be read: {why}; let its sender send it again, or drop it"
            ) from error
        for command in parsed:
            if not OLDEST_VERSION <= command.version <= VERSION:
                raise ReplayError(
                    f"version {command.version} is unknown here: upgrade spotfed, and that of the owner first"
                )
            if isinstance(command, Ask | Reserve | Show | Tick):
                raise ReplayError(f"nobody waits for the answer to this {command.kind} any more: drop it")
        return parsed

    def format_body(self, most: int = SHOWN_CHARACTERS) -> str:
        """Return the body for people: at most ``most`` characters, without what looks like a secret."""
        text = _remove_secrets(self.body)
        return text if len(text) <= most and self.whole else text[:most] + _CONTINUES


class DeadLetters:
    """Writes and reads the dead letters of one cloud. Every method may raise ``redis.RedisError``."""

    def __init__(
        self,
        client: redis.Redis,
        keys: RedisKeys,
        cloud: str,
        durably: Callable[[Callable[[], None]], None] = lambda call: call(),
    ):
        """Read nothing yet. ``durably`` calls what it is given, and returns once replicas have that."""
        self._redis, self._keys, self.cloud, self._durably = client, keys, cloud, durably

    def put(
        self,
        of: str,
        kind: DeadLetterKind,
        why: str,
        body: bytes,
        items: Sequence[int] = (0,),
        entry: str | None = None,
    ) -> None:
        """Put a command, an entry or a batch aside, once, however often this is called for the same ``of``.

        ``entry`` is the id of its inbox entry, which becomes the letter's id where that is still possible.
        """
        fields: dict[Any, Any] = {
            "c": body[:DEAD_BYTES_KEPT],
            "why": _mask_text(why[:_WHY_CHARACTERS]),
            "kind": kind.value,
            "of": of,
            "size": len(body),
            "items": json.dumps(list(items)[:DEAD_ENTRIES_KEPT]),
        }
        self._durably(lambda: self._add(of, fields, entry))

    def _add(self, of: str, fields: dict[Any, Any], entry: str | None) -> None:
        if entry is not None and (self._add_as(entry, fields) or self._has(of, entry)):
            return
        self._redis.xadd(self._keys.dead_letters(self.cloud), fields, maxlen=DEAD_ENTRIES_KEPT)

    def _add_as(self, entry: str, fields: dict[Any, Any]) -> bool:
        """Add a letter with this id; return False if the stream is beyond it."""
        try:
            self._redis.xadd(self._keys.dead_letters(self.cloud), fields, id=entry, maxlen=DEAD_ENTRIES_KEPT)
        except redis.ResponseError as error:
            if "equal or smaller" not in str(error):
                raise
            return False
        return True

    def _has(self, of: str, entry: str) -> bool:
        # Letters are written after their inbox entries, and get later ids than these.
        return any(letter.of == of for letter in self._range(entry, "+"))

    def count(self) -> int:
        """Return the number of letters."""
        return self._redis.xlen(self._keys.dead_letters(self.cloud))

    def letters(self) -> list[DeadLetter]:
        """Return all letters, oldest first."""
        return self._range("-", "+")

    def get(self, letter: str) -> DeadLetter | None:
        """Return the letter with an id, or None if there is none."""
        letters = self._range(letter, letter) if re.fullmatch(r"\d{1,19}-\d{1,19}", letter) else []
        return letters[0] if letters else None

    def drop(self, letter: str) -> bool:
        """Remove a letter; return False if it was not there."""
        return bool(self._redis.xdel(self._keys.dead_letters(self.cloud), letter))

    def _range(self, low: str, high: str) -> list[DeadLetter]:
        entries = cast(
            "list[tuple[bytes, dict[bytes, bytes]]]",
            self._redis.xrange(self._keys.dead_letters(self.cloud), low, high, DEAD_ENTRIES_KEPT),
        )
        return [_parse_letter(self.cloud, entry.decode(), fields) for entry, fields in entries]


def summarise_error(error: ValidationError) -> str:
    """Describe what is wrong, without the values, which may be long or confidential."""
    details = error.errors(include_url=False, include_input=False, include_context=False)[:3]
    return "; ".join(
        f"{'.'.join(map(str, detail['loc'])) or 'entry'}: {detail['msg']}"[:200] for detail in details
    )


def _parse_letter(cloud: str, entry: str, fields: dict[bytes, bytes]) -> DeadLetter:
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


def _remove_secrets(body: bytes) -> str:
    try:
        return json.dumps(_mask_values(json.loads(body)), ensure_ascii=False)
    except (ValueError, RecursionError):
        return _mask_text(body[: 4 * SHOWN_CHARACTERS].decode(errors="replace"))


def _mask_values(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: "***" if _SECRET_NAME.search(name) else _mask_values(part) for name, part in value.items()
        }
    if isinstance(value, list):
        return [_mask_values(part) for part in value]
    return _mask_text(value) if isinstance(value, str) else value


def _mask_text(text: str) -> str:
    for pattern, instead in _SECRET_TEXT:
        text = pattern.sub(instead, text)
    return text
