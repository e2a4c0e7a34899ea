"""Key files of those who sign: the private key of one party, and the public keys of all (RFC 7517).

Both are JSON. Every key names the party whose it is (``issuer``): ``broker``, ``jobs`` (the job managers) or
``cloud.<id>`` (its owner and its node agent). A party may have several keys in the set; each is believed
until it is removed. Processes look at both files whenever they sign or verify and read what has changed, so
keys are exchanged without a restart.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import stat
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Generic, Literal, TypeVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

from broker.settings import Settings, SettingsError
from broker.signing import BROKER, JOBS, Signing, decoded, encoded

log = logging.getLogger(__name__)

_PARTY = re.compile(r"broker|jobs|cloud\.[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_HALF = Annotated[str, StringConstraints(min_length=43, max_length=43)]
_MAX_BYTES = 1_000_000


class TrustError(SettingsError):
    """A key file is missing or wrong; the message names it and says what to do. It holds no key."""


class PublicKey(BaseModel):
    """One key of the set: an Ed25519 JWK (RFC 8037). ``kid`` is its thumbprint (RFC 7638)."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", hide_input_in_errors=True)

    kty: Literal["OKP"] = "OKP"
    crv: Literal["Ed25519"] = "Ed25519"
    x: _HALF
    kid: _HALF
    alg: Literal["EdDSA"] = "EdDSA"
    use: Literal["sig"] = "sig"
    issuer: str

    def header(self) -> bytes:
        """The header of its tokens, encoded; there is one spelling."""
        return encoded(json.dumps({"alg": "EdDSA", "kid": self.kid}, separators=(",", ":")).encode())


class PrivateKey(PublicKey):
    """The same with its secret half, ``d``; ``repr`` leaves it out, as nobody may print it."""

    d: _HALF

    def __repr__(self) -> str:
        return f"PrivateKey({self.issuer}, {self.kid})"

    __str__ = __repr__

    def public(self) -> PublicKey:
        """What others may know of it."""
        return PublicKey(x=self.x, kid=self.kid, issuer=self.issuer)


class KeySet(BaseModel):
    """The trust file."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", hide_input_in_errors=True)

    keys: list[PublicKey]


Trusted = Mapping[bytes, tuple[str, Ed25519PublicKey]]  # by encoded header
_Content = TypeVar("_Content")


class _Watched(ABC, Generic[_Content]):
    """What a file holds, read again when it changes. A file that becomes unreadable changes nothing."""

    def __init__(self, path: Path):
        """Raises TrustError."""
        self.path = path
        self._lock = threading.Lock()
        self._mark: tuple[int, ...] | None = _mark(path)
        self._content = self._read()
        self._reads = 1

    @abstractmethod
    def _read(self) -> _Content:
        """What it holds now. Raises TrustError."""

    def _fresh(self) -> _Content:
        try:
            mark = _mark(self.path)
        except TrustError as error:
            mark = None
            if self._mark is not None:
                log.warning("%s; what it held before still counts", error)
        if mark != self._mark:
            with self._lock:
                self._mark = mark
                if mark is not None:
                    try:
                        self._content = self._read()
                        self._reads += 1
                    except TrustError as error:
                        log.warning("%s; what it held before still counts", error)
        return self._content


class SigningKey(_Watched[tuple[str, bytes, Ed25519PrivateKey]]):
    """The private key of this process's party."""

    def current(self) -> tuple[str, bytes, Ed25519PrivateKey]:
        """Its party, the encoded header of its tokens, and the key."""
        return self._fresh()

    def _read(self) -> tuple[str, bytes, Ed25519PrivateKey]:
        key = read_private(self.path)
        return key.issuer, key.header(), Ed25519PrivateKey.from_private_bytes(decoded(key.d.encode()))


class TrustFile(_Watched[Trusted]):
    """The public keys that are believed."""

    def by_header(self) -> Trusted:
        """By the header of their tokens."""
        return self._fresh()

    def generation(self) -> int:
        """How often the file was read."""
        self._fresh()
        return self._reads

    def _read(self) -> Trusted:
        return {key.header(): (key.issuer, _usable(key, self.path)) for key in read_set(self.path).keys}


def signing_of(settings: Settings, party: str) -> Signing:
    """What the settings say a process of ``party`` signs with and believes.

    A key without a trust file signs and verifies nothing: the first step when a federation that runs goes
    over to signatures. Raises TrustError.
    """
    if settings.signing_key is None:
        if settings.trust is not None:
            raise TrustError(
                "SPOTFED_TRUST is set and SPOTFED_SIGNING_KEY is not: nobody would believe this process. "
                f"Make a key with `spotfed trust create {party}` and set SPOTFED_SIGNING_KEY to its file"
            )
        return Signing()
    key = SigningKey(settings.signing_key)
    issuer, header, _ = key.current()
    if issuer != party:
        raise TrustError(
            f"SPOTFED_SIGNING_KEY: {settings.signing_key} is the key of {issuer}; this process is {party}"
        )
    trust = None if settings.trust is None else TrustFile(settings.trust)
    if trust is not None and header not in trust.by_header():
        log.warning("%s does not hold the key of this process: others refuse what it signs", settings.trust)
    return Signing(key, trust)


# -- the files -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Files:
    """Where a federation on this machine has its keys."""

    directory: Path

    @property
    def trust(self) -> Path:
        """The public keys of all."""
        return self.directory / "trust.json"

    def key(self, party: str) -> Path:
        """The private key of one."""
        return self.directory / f"{party}.key"

    def environment(self, party: str) -> dict[str, str]:
        """What a process of that party is told."""
        return {"SPOTFED_TRUST": str(self.trust), "SPOTFED_SIGNING_KEY": str(self.key(party))}

    def ensure(self, parties: Iterable[str]) -> None:
        """Makes the keys that are missing, and has all of them believed. Raises TrustError."""
        for party in parties:
            if not self.key(party).exists():
                create(party, self.key(party), self.trust)
            else:
                believe(self.trust, [read_private(self.key(party)).public()])


def files_in(state_dir: Path) -> Files:
    """The keys of the federation whose state is there."""
    return Files(state_dir / "keys")


def checked_party(party: str) -> str:
    """The same. Raises TrustError for what is no party's name."""
    if not _PARTY.fullmatch(party):
        raise TrustError(
            f"{party!r} signs nothing: name '{BROKER}', '{JOBS}', or a cloud as in 'cloud.harbour'"
        )
    return party


def create(party: str, path: Path, trust: Path) -> PublicKey:
    """A new key: its public half into the trust file, then the whole into ``path``, for this user alone.

    A file that is there is replaced; its public key stays believed. Raises TrustError.
    """
    private = Ed25519PrivateKey.generate()
    x = encoded(private.public_key().public_bytes_raw()).decode()
    key = PrivateKey(
        x=x, d=encoded(private.private_bytes_raw()).decode(), kid=_thumbprint(x), issuer=checked_party(party)
    )
    believe(trust, [key.public()])  # before anything is signed with it
    _write(path, key.model_dump_json(indent=2), 0o600)
    return key.public()


def believe(trust: Path, keys: Iterable[PublicKey]) -> list[PublicKey]:
    """Adds keys to a trust file, which need not exist yet; returns those that are new. Raises TrustError."""
    with _changing(trust):
        known = read_set(trust).keys if trust.exists() else []
        new = [key for key in keys if key.kid not in {one.kid for one in known}]
        for key in new:
            _usable(key, trust)
        if new:
            _write(trust, KeySet(keys=[*known, *new]).model_dump_json(indent=2), 0o644)
        return new


def disbelieve(trust: Path, kid: str) -> PublicKey:
    """Removes a key, named by its id or an unambiguous beginning of it, and returns it. Raises TrustError."""
    with _changing(trust):
        known = read_set(trust).keys
        found = [key for key in known if key.kid.startswith(kid)]
        if len(found) != 1:
            raise TrustError(f"{trust} has {len(found) or 'no'} keys whose id begins with {kid!r}; name one")
        left = [key for key in known if key is not found[0]]
        _write(trust, KeySet(keys=left).model_dump_json(indent=2), 0o644)
        return found[0]


def read_set(path: Path) -> KeySet:
    """A trust file. Raises TrustError."""
    return _parsed(KeySet, path)


def read_private(path: Path) -> PrivateKey:
    """A private key's file; one that everybody on this machine may read is refused. Raises TrustError."""
    key = _parsed(PrivateKey, path)
    if path.stat().st_mode & stat.S_IRWXO:
        raise TrustError(f"{path} is a private key and open to everybody: chmod 600 {path}")
    checked_party(key.issuer)
    try:
        private = Ed25519PrivateKey.from_private_bytes(decoded(key.d.encode()))
    except ValueError:
        raise TrustError(f"{path} holds no Ed25519 key: make one with `spotfed trust create`") from None
    if encoded(private.public_key().public_bytes_raw()).decode() != key.x or key.kid != _thumbprint(key.x):
        raise TrustError(f"{path}: its public half or its id is another key's")
    return key


_Model = TypeVar("_Model", bound=BaseModel)


def _parsed(model: type[_Model], path: Path) -> _Model:
    try:
        with path.open("rb") as file:
            text = file.read(_MAX_BYTES)
    except OSError as error:
        raise TrustError(
            f"{path} cannot be read ({error.strerror}); `spotfed trust create` makes keys"
        ) from None
    try:
        json.loads(text, object_pairs_hook=_without_repeats)
        return model.model_validate_json(text)
    except (ValidationError, ValueError, RecursionError) as error:
        where = ""
        if isinstance(error, ValidationError):  # not its text: it may repeat a key
            first = error.errors(include_input=False, include_url=False)[0]
            where = f" ({'.'.join(map(str, first['loc']))}: {first['msg']})"
        raise TrustError(f"{path} is no file of keys as `spotfed trust create` makes them{where}") from None


def _without_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    if len({name for name, _ in pairs}) != len(pairs):
        raise ValueError("a name stands twice")
    return dict(pairs)


def _usable(key: PublicKey, path: Path) -> Ed25519PublicKey:
    checked_party(key.issuer)
    try:
        public = Ed25519PublicKey.from_public_bytes(decoded(key.x.encode()))
    except ValueError:
        raise TrustError(f"{path}: the key {key.kid} of {key.issuer} is no Ed25519 key") from None
    if key.kid != _thumbprint(key.x):
        raise TrustError(f"{path}: the id {key.kid} is not that of the key beside it")
    return public


def _thumbprint(x: str) -> str:
    canonical = json.dumps({"crv": "Ed25519", "kty": "OKP", "x": x}, separators=(",", ":"))
    return encoded(hashlib.sha256(canonical.encode()).digest()).decode()


def _mark(path: Path) -> tuple[int, ...]:
    try:
        found = path.stat()
    except OSError as error:
        raise TrustError(
            f"{path} cannot be read ({error.strerror}); `spotfed trust create` makes keys"
        ) from None
    return found.st_mtime_ns, found.st_size, found.st_ino, found.st_mode


@contextmanager
def _changing(path: Path) -> Iterator[None]:
    """Alone with a file that is read, changed and written."""
    import fcntl

    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with path.with_name(f".{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _write(path: Path, text: str, mode: int) -> None:
    """Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
