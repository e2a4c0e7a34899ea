"""Signatures of what processes tell each other: Ed25519, as a JSON Web Token beside the message.

A message (an inbox entry, a reply, an advert, ...) is delivered as bytes, and beside it a token: a compact
JWS (RFC 7515, alg EdDSA) over claims that name its issuer, its audience (the Redis key it is written to,
which holds the federation's prefix and the cloud), a number that is used once, when it expires, and the
SHA-256 of exactly those bytes. The design is "Security" in RELIABILITY.md, and its fact 4: a signature beside
a message that leaves out where the message is meant to go can be moved.

Why a digest among claims and not a signature over the bytes: a list of 60 kB takes 83 µs to sign so, and 350
µs as detached JWS. Why not a JWT library: with joserfc it would be 1.6 times that, and twice the time to
verify. A token has one spelling here: header, claims and encoding must be those that this module writes, byte
for byte. Any JWT library reads it.

Numbers: every process has a session of its own and counts its tokens. So who verifies remembers a session's
highest number and which of those just below it came (``broker.seen``), not every id.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import secrets
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from cryptography.exceptions import InvalidSignature
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

if TYPE_CHECKING:
    from broker.trust import SigningKey, TrustFile

#: The party whose commands every cloud takes. A cloud's party is ``cloud_party(id)``.
BROKER = "broker"
#: The job managers, whose work every node agent runs.
JOBS = "jobs"
#: Generous: clocks of members may be hours apart, and a message may wait while its reader is away.
LIFETIME_S = 86_400
MAX_TOKEN_BYTES = 2_048
_JTI = r"^[0-9a-f]{16}-[1-9][0-9]{0,17}$"


class Refused(Exception):  # noqa: N818  (it is the message's fault, and expected)
    """A message is not to be believed. ``reason`` is one of a few words, for counting."""

    def __init__(self, reason: str, why: str):
        super().__init__(why)
        self.reason = reason


class Claims(BaseModel):
    """What a token says of a message. ``exp`` is seconds since 1970, ``sha256`` is base64url."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    iss: Annotated[str, StringConstraints(min_length=1, max_length=128)]
    aud: Annotated[str, StringConstraints(min_length=1, max_length=512)]
    jti: Annotated[str, StringConstraints(pattern=_JTI)]
    exp: Annotated[int, Field(ge=0, lt=2**53)]
    sha256: Annotated[str, StringConstraints(min_length=43, max_length=43)]


@dataclass(frozen=True, slots=True)
class Seal:
    """A signature that was found good: whose, and which of that process's messages it is."""

    issuer: str
    session: str
    number: int
    expires_s: int


def cloud_party(cloud: str) -> str:
    """The name of a cloud's owner among those who sign; none is ``BROKER`` or ``JOBS``, which have no dot."""
    return f"cloud.{cloud}"


class Signing:
    """What a process signs with and whom it believes. Without a key it signs nothing, without a trust file
    it believes everybody."""

    def __init__(
        self,
        key: SigningKey | None = None,
        trust: TrustFile | None = None,
        now_s: Callable[[], float] = time.time,
    ):
        """``now_s``: seconds since 1970, for the expiry of what is signed."""
        self._key, self._trust, self._now_s = key, trust, now_s
        self._session = secrets.token_hex(8)
        self._number = 0
        self._lock = threading.Lock()

    @property
    def verifies(self) -> bool:
        """Whether messages without a good signature are refused."""
        return self._trust is not None

    @property
    def generation(self) -> int:
        """Changes with the trust file: what was believed before is to be verified again."""
        return 0 if self._trust is None else self._trust.generation()

    def sign(self, message: bytes, audience: str) -> bytes:
        """The token of a message; empty when nothing is signed here."""
        if self._key is None:
            return b""
        with self._lock:
            self._number += 1
            number = self._number
        issuer, header, private = self._key.current()
        claims = Claims(
            iss=issuer,
            aud=audience,
            jti=f"{self._session}-{number}",
            exp=int(self._now_s()) + LIFETIME_S,
            sha256=_digest(message),
        )
        signed = header + b"." + encoded(claims.model_dump_json().encode())
        return signed + b"." + encoded(private.sign(signed))

    def fields(self, name: str, message: bytes, audience: str) -> dict[str, bytes]:
        """The fields of a stream's entry: the message under ``name`` and, if there is one, ``s``, its
        token."""
        token = self.sign(message, audience)
        return {"s": token, name: message} if token else {name: message}

    def check(
        self,
        token: bytes | None,
        message: bytes,
        audience: str,
        issuers: Collection[str],
        at_ms: int | None = None,
    ) -> Seal | None:
        """Whose a message is; None when nothing is verified here.

        Args:
            token: that came with it.
            message: the bytes that came.
            audience: the Redis key that it was read from.
            issuers: whose messages are taken there.
            at_ms: when it was written, by the clock of Redis (the milliseconds of a stream's id). No other
                clock decides what has expired. None: there is no such time, and it is not judged.

        Raises:
            Refused: it is not to be believed.
        """
        if self._trust is None:
            return None
        claims = self._claims(token)
        if claims.iss not in issuers:
            raise Refused("issuer", f"{claims.iss} may not write here")
        if claims.aud != audience:
            raise Refused("audience", f"it is meant for {claims.aud}")
        if at_ms is not None:
            left_s = claims.exp - at_ms / 1000
            if left_s < 0:
                raise Refused("expired", f"it expired {-left_s:.0f} s before it was written")
            if left_s > 2 * LIFETIME_S:
                raise Refused("expired", f"it would be good for {left_s:.0f} s, more than anybody signs for")
        if claims.sha256 != _digest(message):
            raise Refused("content", "the signature is of another message")
        session, _, number = claims.jti.partition("-")
        return Seal(claims.iss, session, int(number), claims.exp)

    def _claims(self, token: bytes | None) -> Claims:
        """What a token says, once its signature is found good."""
        assert self._trust is not None
        if not token:
            raise Refused("unsigned", "it is not signed")
        parts = token.split(b".") if len(token) <= MAX_TOKEN_BYTES else []
        if len(parts) != 3:
            raise Refused("form", "its signature is not a compact JWS")
        header, payload, signature = parts
        trusted = self._trust.by_header().get(header)
        if trusted is None:
            raise Refused("key", "its header names no key of the trust file, or another algorithm")
        issuer, public = trusted
        try:
            public.verify(decoded(signature), header + b"." + payload)
            text = decoded(payload)
            claims = Claims.model_validate_json(text)
        except InvalidSignature:
            raise Refused("signature", f"the signature is not that of {issuer}") from None
        except ValidationError:
            raise Refused("claims", f"{issuer} signed claims of another form") from None
        except ValueError:
            raise Refused("form", "its signature is not a compact JWS") from None
        if claims.model_dump_json().encode() != text:
            raise Refused("claims", f"{issuer} signed claims of another form")
        if claims.iss != issuer:
            raise Refused("issuer", f"{issuer} signed as {claims.iss}")
        return claims


#: Nothing is signed and nothing verified.
UNSIGNED = Signing()


def written_ms(entry: str) -> int:
    """When a stream's entry was written, by the clock of Redis."""
    return int(entry.partition("-")[0])


def encoded(data: bytes) -> bytes:
    """base64url without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def decoded(text: bytes) -> bytes:
    """Raises ValueError for anything that ``encoded`` does not write."""
    try:
        data = base64.b64decode(text + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except binascii.Error:
        raise ValueError("not base64url") from None
    if encoded(data) != text:
        raise ValueError("not base64url as it is written here")
    return data


def _digest(message: bytes) -> str:
    return encoded(hashlib.sha256(message).digest()).decode()
