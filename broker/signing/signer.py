"""Signs messages between processes, and verifies them: Ed25519, as a JSON Web Token beside the message.

A message (an inbox entry, a reply, an advert, ...) is delivered as bytes, and beside it a token: a compact
JWS (RFC 7515, alg EdDSA) over claims that name its issuer, its audience (the Redis key it is written to,
which contains the federation's prefix and the cloud), a number that is used once, when it expires, and the
SHA-256 of exactly those bytes. See docs/design/reliability.md "Security", which has
the reason for the audience: a signature that leaves out where its message is meant to go can be moved.

The claims carry a digest because signing a list of 60 kB takes 83 µs this way, and 350 µs as a detached JWS.
Each token has exactly one spelling: header, claims and encoding must be those that this module writes, byte
for byte. Any JWT library reads it. None is used here: there is one algorithm, and what a library does beside
the signature costs more than the signature.

Every process has a session of its own and numbers its tokens. A receiver therefore remembers only the
highest number of a session and which of those just below it arrived (``broker.signing.replay_window``).
"""

from __future__ import annotations

import hashlib
import logging
import secrets
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Annotated, Self

from cryptography.exceptions import InvalidSignature
from joserfc.util import urlsafe_b64decode, urlsafe_b64encode
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from broker.settings import Settings
from broker.signing.key_files import SigningKey, TrustError, TrustFile, find_key_file

log = logging.getLogger(__name__)

#: Generous: clocks of members may be hours apart, and a message may wait while its reader is away.
LIFETIME_S = 86_400
MAX_TOKEN_BYTES = 2_048
_JTI = r"^[0-9a-f]{16}-[1-9][0-9]{0,17}$"


class SignatureError(Exception):
    """A message must not be believed. ``reason`` is one of a few words, for counting."""

    def __init__(self, reason: str, why: str):
        super().__init__(why)
        self.reason = reason


class Claims(BaseModel):
    """The claims in a token. ``exp`` is in seconds since 1970, ``sha256`` is base64url."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    iss: Annotated[str, StringConstraints(min_length=1, max_length=128)]
    aud: Annotated[str, StringConstraints(min_length=1, max_length=512)]
    jti: Annotated[str, StringConstraints(pattern=_JTI)]
    exp: Annotated[int, Field(ge=0, lt=2**53)]
    sha256: Annotated[str, StringConstraints(min_length=43, max_length=43)]


@dataclass(frozen=True, slots=True)
class Signature:
    """A signature that was verified: who signed, and which message of that process it was.

    ``expires_s`` is in seconds since 1970.
    """

    issuer: str
    session: str
    number: int
    expires_s: int


class MessageSigner:
    """Signs the messages of one process and verifies those it receives.

    Without a key it signs nothing; without a trust file it verifies nothing and believes everything.
    """

    def __init__(
        self,
        key: SigningKey | None = None,
        trust: TrustFile | None = None,
        now_s: Callable[[], float] = time.time,
    ):
        """``now_s`` returns seconds since 1970; it decides when the tokens signed here expire."""
        self._key, self._trust, self._now_s = key, trust, now_s
        self._session = secrets.token_hex(8)
        self._number = 0
        self._lock = threading.Lock()

    @classmethod
    def from_settings(cls, settings: Settings, party: str) -> Self:
        """Make the signer that the settings describe for a process of ``party``.

        A key without a trust file signs and verifies nothing: it is the first step when a running federation
        goes over to signatures. Raises TrustError.
        """
        if settings.signing_key is None:
            if settings.trust is not None:
                raise TrustError(
                    "SPOTFED_TRUST is set and SPOTFED_SIGNING_KEY is not: nobody would believe this process. "
                    f"Make a key with `spotfed trust create {party}` and set SPOTFED_SIGNING_KEY to its file"
                )
            return cls()
        key = SigningKey(find_key_file(settings.signing_key, party))
        issuer = key.current().issuer
        if issuer != party:
            raise TrustError(
                f"SPOTFED_SIGNING_KEY: {key.path} is the key of {issuer}; this process is {party}"
            )
        trust = None if settings.trust is None else TrustFile(settings.trust)
        if trust is not None and key.current().header not in trust.by_header():
            log.warning(
                "%s does not hold the key of this process: others refuse what it signs", settings.trust
            )
        return cls(key, trust)

    @property
    def verifies(self) -> bool:
        """True if messages without a good signature are refused."""
        return self._trust is not None

    @property
    def generation(self) -> int:
        """A number that changes with the trust file: what was believed before must be verified again."""
        return 0 if self._trust is None else self._trust.generation()

    def sign(self, message: bytes, audience: str) -> bytes:
        """Return the token of a message; empty if nothing is signed here.

        ``audience``: the Redis key that the message is written to.
        """
        if self._key is None:
            return b""
        with self._lock:
            self._number += 1
            number = self._number
        party = self._key.current()
        assert party.private is not None, "it is the file of a private key"
        claims = Claims(
            iss=party.issuer,
            aud=audience,
            jti=f"{self._session}-{number}",
            exp=int(self._now_s()) + LIFETIME_S,
            sha256=_digest(message),
        )
        signed = party.header + b"." + urlsafe_b64encode(claims.model_dump_json().encode())
        return signed + b"." + urlsafe_b64encode(party.private.sign(signed))

    def fields(self, name: str, message: bytes, audience: str) -> dict[str, bytes]:
        """Return the fields of a stream entry.

        They are the message under ``name`` and, if it is signed, its token under ``s``.
        """
        token = self.sign(message, audience)
        return {"s": token, name: message} if token else {name: message}

    def verify(
        self,
        token: bytes | None,
        message: bytes,
        audience: str,
        issuers: Collection[str],
        at_ms: int | None = None,
    ) -> Signature | None:
        """Verify a message and return its signature; None if this process verifies nothing.

        Parameters
        ----------
        token
            Token that came with the message.
        message
            Bytes that came.
        audience
            Redis key that the message was read from.
        issuers
            Parties that may write there.
        at_ms
            Time at which the message was written, by the clock of Redis (milliseconds of a stream's id). No
            other clock decides what has expired; without it expiry is not judged.

        Raises
        ------
        SignatureError
            When the message must not be trusted.
        """
        if self._trust is None:
            return None
        claims = self._read_claims(self._trust, token)
        if claims.iss not in issuers:
            raise SignatureError("issuer", f"{claims.iss} may not write here")
        if claims.aud != audience:
            raise SignatureError("audience", f"it is meant for {claims.aud}")
        if at_ms is not None:
            left_s = claims.exp - at_ms / 1000
            if left_s < 0:
                raise SignatureError("expired", f"it expired {-left_s:.0f} s before it was written")
            if left_s > 2 * LIFETIME_S:
                raise SignatureError("expired", f"it would be good for {left_s:.0f} s, longer than allowed")
        if claims.sha256 != _digest(message):
            raise SignatureError("content", "the signature is of another message")
        session, _, number = claims.jti.partition("-")
        return Signature(claims.iss, session, int(number), claims.exp)

    @staticmethod
    def _read_claims(trust: TrustFile, token: bytes | None) -> Claims:
        """Return the claims of a token whose signature is good. Raises SignatureError."""
        if not token:
            raise SignatureError("unsigned", "it is not signed")
        if len(token) > MAX_TOKEN_BYTES or token.count(b".") != 2:
            raise SignatureError("form", "its signature is not a compact JWS")
        # Looked up by its bytes, not parsed: no header but ours can choose a key or an algorithm.
        signed, _, signature = token.rpartition(b".")
        header, _, payload = signed.partition(b".")
        trusted = trust.by_header().get(header)
        if trusted is None:
            raise SignatureError("key", "its header names no key of the trust file, or another algorithm")
        issuer = trusted.issuer
        try:
            text = urlsafe_b64decode(payload)
            trusted.public.verify(urlsafe_b64decode(signature), signed)
            claims = Claims.model_validate_json(text)
        except InvalidSignature:
            raise SignatureError("signature", f"the signature is not that of {issuer}") from None
        except ValidationError:
            raise SignatureError("claims", f"{issuer} signed claims of another form") from None
        except ValueError:
            raise SignatureError("form", "its signature is not a compact JWS") from None
        if claims.model_dump_json().encode() != text:
            raise SignatureError("claims", f"{issuer} signed claims of another form")
        if claims.iss != issuer:
            raise SignatureError("issuer", f"{issuer} signed as {claims.iss}")
        return claims


#: Signs nothing and verifies nothing.
UNSIGNED = MessageSigner()


def written_ms(entry: str) -> int:
    """Return when a stream's entry was written, in milliseconds since 1970 by the clock of Redis."""
    return int(entry.partition("-")[0])


def _digest(message: bytes) -> str:
    return urlsafe_b64encode(hashlib.sha256(message).digest()).decode()
