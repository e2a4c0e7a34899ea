"""Tells repeated messages from new ones by a window of numbers for each session of a process that signs.

As in IPsec and DTLS (RFC 6479): a session numbers its messages, so it is enough to know the highest number
that arrived and which of the ``WINDOW`` below it did. A number further below counts as repeated; messages of
one process do not overtake each other by that much. A session is forgotten when everything that it signed
has expired.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from broker.signing.signer import Signature

WINDOW = 1_024
_MASK = (1 << WINDOW) - 1


@dataclass(frozen=True, slots=True)
class _Session:
    """The numbers of one session that arrived.

    Bit n of ``arrived`` is set if number ``highest`` - n arrived. ``expires_s``: the latest expiry that the
    session signed, in seconds since 1970.
    """

    highest: int = 0
    arrived: int = 0
    expires_s: int = 0

    def add_number(self, number: int, expires_s: int) -> _Session | None:
        """Return the session with one more number; None if the number arrived before, or may have."""
        expires_s = max(self.expires_s, expires_s)
        if number > self.highest:
            shift = min(number - self.highest, WINDOW)
            return _Session(number, ((self.arrived << shift) | 1) & _MASK, expires_s)
        if self.highest - number >= WINDOW:
            return None
        bit = 1 << (self.highest - number)
        if self.arrived & bit:
            return None
        return _Session(self.highest, self.arrived | bit, expires_s)


class ReplayWindow:
    """The messages that arrived so far, by issuer and session."""

    def __init__(self, sessions: Mapping[str, _Session] | None = None):
        self._sessions = dict(sessions or {})

    @classmethod
    def parse(cls, stored: Mapping[bytes, bytes]) -> ReplayWindow:
        """Read a window from the fields that ``changes`` wrote to Redis. Raises ValueError."""
        return cls({name.decode(): _parse_session(text) for name, text in stored.items()})

    def copy(self) -> ReplayWindow:
        """Return an independent window with the same content."""
        return ReplayWindow(self._sessions)

    def add(self, signature: Signature) -> bool:
        """Note the message of a signature. False: it arrived before."""
        name = f"{signature.issuer}:{signature.session}"
        session = self._sessions.get(name, _Session()).add_number(signature.number, signature.expires_s)
        if session is not None:
            self._sessions[name] = session
        return session is not None

    def forget(self, now_s: float) -> None:
        """Drop the sessions whose messages have all expired. ``now_s``: seconds since 1970."""
        self._sessions = {
            name: session for name, session in self._sessions.items() if session.expires_s >= now_s
        }

    def changes(self, before: ReplayWindow) -> dict[str, str]:
        """Return the fields to store where ``before`` is stored now; an empty text removes its field."""
        changed = {
            name: f"{session.highest} {session.arrived:x} {session.expires_s}"
            for name, session in self._sessions.items()
            if before._sessions.get(name) != session
        }
        return changed | {name: "" for name in before._sessions if name not in self._sessions}


def _parse_session(text: bytes) -> _Session:
    highest, arrived, expires_s = text.split()
    return _Session(int(highest), int(arrived, 16), int(expires_s))
