"""Which signed messages came already: a window of numbers for each session of a process that signs.

As in IPsec and DTLS (RFC 6479): a session counts its messages, so it is enough to know the highest number
that came and, of the ``WINDOW`` below it, which. What lies further below is taken for a repetition; messages
of one process do not overtake each other by so many. A session is forgotten when everything that it signed
has expired.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from broker.signing import Seal

WINDOW = 1_024
_MASK = (1 << WINDOW) - 1


@dataclass(frozen=True, slots=True)
class _Session:
    """``came``: bit n is set if number ``highest`` - n came. ``expires_s``: the latest expiry it signed."""

    highest: int = 0
    came: int = 0
    expires_s: int = 0

    def with_one(self, number: int, expires_s: int) -> _Session | None:
        """None: it came already, or may have."""
        expires_s = max(self.expires_s, expires_s)
        if number > self.highest:
            return _Session(
                number, ((self.came << min(number - self.highest, WINDOW)) | 1) & _MASK, expires_s
            )
        if self.highest - number >= WINDOW:
            return None
        place = 1 << (self.highest - number)
        if self.came & place:
            return None
        return _Session(self.highest, self.came | place, expires_s)


class Seen:
    """A value: what came so far, by issuer and session."""

    def __init__(self, sessions: Mapping[str, _Session] | None = None):
        self._sessions = dict(sessions or {})

    @classmethod
    def parse(cls, stored: Mapping[bytes, bytes]) -> Seen:
        """As it is kept in Redis. Raises ValueError."""
        return cls({name.decode(): _Session(*_numbers(text)) for name, text in stored.items()})

    def copy(self) -> Seen:
        """Another one that knows the same."""
        return Seen(self._sessions)

    def add(self, seal: Seal) -> bool:
        """Notes a message. False: it came already."""
        name = f"{seal.issuer}:{seal.session}"
        after = self._sessions.get(name, _Session()).with_one(seal.number, seal.expires_s)
        if after is not None:
            self._sessions[name] = after
        return after is not None

    def forget(self, now_s: float) -> None:
        """Leaves out the sessions that can sign nothing any more that would be taken."""
        self._sessions = {name: one for name, one in self._sessions.items() if one.expires_s >= now_s}

    def changes(self, before: Seen) -> dict[str, str]:
        """What is to be stored so that it is known there as here; an empty text: to be removed."""
        stored = {
            name: f"{one.highest} {one.came:x} {one.expires_s}"
            for name, one in self._sessions.items()
            if before._sessions.get(name) != one
        }
        return stored | {name: "" for name in before._sessions if name not in self._sessions}


def _numbers(text: bytes) -> tuple[int, int, int]:
    highest, came, expires_s = text.split()
    return int(highest), int(came, 16), int(expires_s)
