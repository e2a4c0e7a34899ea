"""Reads and writes the key files of signing parties: one party's private key, and the public keys of all.

Both are JSON (RFC 7517). Every key names its party (``issuer``): ``broker``, ``jobs`` (the job managers) or
``cloud.<id>`` (its owner and its agents). A party may have several keys in the set; each is believed until it
is removed. Processes look at both files whenever they sign or verify and read what has changed, so keys are
exchanged without a restart.
"""

from __future__ import annotations

import fcntl
import json
import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Generic, Literal, TypeVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from joserfc.jwk import OKPKey
from joserfc.util import json_b64encode
from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

from broker.settings import SettingsError
from broker.signing.parties import BROKER, JOBS, is_party
from broker.storage.private_files import (
    append_to_private_file,
    find_reader,
    find_writer,
    make_private_directory,
    write_private_file,
)

log = logging.getLogger(__name__)

_HALF = Annotated[str, StringConstraints(min_length=43, max_length=43)]
_MAX_BYTES = 1_000_000


class TrustError(SettingsError):
    """A key file is missing or wrong. The message names it and says what to do; it contains no key."""


class PublicKey(BaseModel):
    """One key of a trust file: an Ed25519 JWK (RFC 8037). ``kid`` is its thumbprint (RFC 7638)."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", hide_input_in_errors=True)

    kty: Literal["OKP"] = "OKP"
    crv: Literal["Ed25519"] = "Ed25519"
    x: _HALF
    kid: _HALF
    alg: Literal["EdDSA"] = "EdDSA"
    use: Literal["sig"] = "sig"
    issuer: str


class PrivateKey(PublicKey):
    """A public key with its secret half, ``d``, which ``repr`` leaves out because it must not be printed."""

    d: _HALF

    def __repr__(self) -> str:
        return f"PrivateKey({self.issuer}, {self.kid})"

    __str__ = __repr__

    def public(self) -> PublicKey:
        """Return the half that others may know."""
        return PublicKey(x=self.x, kid=self.kid, issuer=self.issuer)


class KeySet(BaseModel):
    """The content of a trust file."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", hide_input_in_errors=True)

    keys: list[PublicKey]


@dataclass(frozen=True, slots=True)
class PartyKey:
    """A key of a party, ready to verify, and to sign where it is this process's own.

    ``header`` is that of its tokens, in its one spelling.
    """

    issuer: str
    header: bytes
    public: Ed25519PublicKey
    private: Ed25519PrivateKey | None


_Content = TypeVar("_Content")


class _WatchedFile(ABC, Generic[_Content]):
    """A file that is read again when it changes. If it becomes unreadable, its last content counts."""

    def __init__(self, path: Path):
        """Read the file. Raises TrustError."""
        self.path = path
        self._lock = threading.Lock()
        self._mark: tuple[int, ...] | None = _mark(path)
        self._content = self._read()
        self._reads = 1

    @abstractmethod
    def _read(self) -> _Content:
        """Return what the file contains now. Raises TrustError."""

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


class SigningKey(_WatchedFile[PartyKey]):
    """The file with the private key of this process's party."""

    def current(self) -> PartyKey:
        """Return the key that the file contains now."""
        return self._fresh()

    def _read(self) -> PartyKey:
        return _party_key(read_private_key(self.path), self.path)


class TrustFile(_WatchedFile[Mapping[bytes, PartyKey]]):
    """The file with the public keys that are believed."""

    def by_header(self) -> Mapping[bytes, PartyKey]:
        """Return the keys, by the encoded header of their tokens."""
        return self._fresh()

    def generation(self) -> int:
        """Return how often the file was read."""
        self._fresh()
        return self._reads

    def _read(self) -> Mapping[bytes, PartyKey]:
        keys = [_party_key(key, self.path) for key in read_trust_file(self.path).keys]
        return {key.header: key for key in keys}


# -- the files -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class KeyFiles:
    """The places of the key files of a federation on this machine."""

    directory: Path

    @property
    def trust(self) -> Path:
        """The file with the public keys of all parties."""
        return self.directory / "trust.json"

    def key(self, party: str) -> Path:
        """Return the file of a party's private key."""
        return self.directory / f"{party}.key"

    def environment(self, *parties: str) -> dict[str, str]:
        """Return the settings that name the key files of a process of these parties."""
        key = self.key(parties[0]) if len(parties) == 1 else self.directory
        return {"SPOTFED_TRUST": str(self.trust), "SPOTFED_SIGNING_KEY": str(key)}

    def ensure(self, parties: Iterable[str]) -> None:
        """Make the keys that are missing and add all of them to the trust file. Raises TrustError."""
        for party in parties:
            if not self.key(party).exists():
                create_key(party, self.key(party), self.trust)
            else:
                trust_keys(self.trust, [read_private_key(self.key(party)).public()])


def find_key_file(path: Path, party: str) -> Path:
    """Return the file of a party's private key; ``path`` is that file, or a directory of several."""
    return path / f"{party}.key" if path.is_dir() else path


def list_key_files(path: Path | None) -> list[Path]:
    """Return the files of private keys at ``path``: that file, or all of a directory."""
    if path is None:
        return []
    return sorted(path.glob("*.key")) if path.is_dir() else [path]


def local_key_files(state_dir: Path) -> KeyFiles:
    """Return the key files of the federation whose state is in ``state_dir``."""
    return KeyFiles(state_dir / "keys")


def check_party(party: str) -> str:
    """Return the name of a party unchanged. Raises TrustError if no party can have it."""
    if not is_party(party):
        raise TrustError(
            f"{party!r} signs nothing: name '{BROKER}', '{JOBS}', or a cloud as in 'cloud.harbour'"
        )
    return party


def create_key(party: str, path: Path, trust: Path) -> PublicKey:
    """Make a key: write its public half into the trust file, then the whole into ``path``.

    Only this user may read ``path``. If it exists it is replaced; its old public key stays believed.
    Raises TrustError.
    """
    made = OKPKey.generate_key("Ed25519")
    halves = made.as_dict(private=True)
    key = PrivateKey(x=str(halves["x"]), d=str(halves["d"]), kid=made.thumbprint(), issuer=check_party(party))
    trust_keys(trust, [key.public()])  # before anything is signed with it
    make_private_directory(path.parent)
    write_private_file(path, key.model_dump_json(indent=2) + "\n")
    return key.public()


def trust_keys(trust: Path, keys: Iterable[PublicKey]) -> list[PublicKey]:
    """Add keys to a trust file, which need not exist, and return those that are new. Raises TrustError."""
    with _locked(trust):
        known = read_trust_file(trust).keys if trust.exists() else []
        known_ids = {key.kid for key in known}
        new = [key for key in keys if key.kid not in known_ids]
        for key in new:
            _party_key(key, trust)
        if new:
            _write(trust, [*known, *new])
        return new


def distrust_key(trust: Path, kid: str) -> PublicKey:
    """Remove a key from a trust file and return it.

    ``kid``: the id of the key, or a beginning of it that fits no other key. Raises TrustError.
    """
    with _locked(trust):
        known = read_trust_file(trust).keys
        matches = [key for key in known if key.kid.startswith(kid)]
        if len(matches) != 1:
            raise TrustError(
                f"{trust} has {len(matches) or 'no'} keys whose id begins with {kid!r}; name one"
            )
        remaining = [key for key in known if key is not matches[0]]
        _write(trust, remaining)
        return matches[0]


def read_trust_file(path: Path) -> KeySet:
    """Read the public keys of a trust file; one that other users may change is refused. Raises TrustError."""
    keys = _parse_file(KeySet, path)
    if fault := find_writer(path):
        raise TrustError(fault)
    return keys


def read_private_key(path: Path) -> PrivateKey:
    """Read a private key; a file that other users of this machine may read is refused. Raises TrustError."""
    key = _parse_file(PrivateKey, path)
    if fault := find_reader(path):
        raise TrustError(fault)
    _party_key(key, path)
    return key


_Model = TypeVar("_Model", bound=BaseModel)


def _parse_file(model: type[_Model], path: Path) -> _Model:
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


def _party_key(key: PublicKey, path: Path) -> PartyKey:
    """Make a key of the file at ``path`` usable. Raises TrustError if its parts do not belong together."""
    check_party(key.issuer)
    try:
        usable = OKPKey.import_key(key.model_dump(include={"kty", "crv", "x", "d"}))
    except ValueError:
        raise TrustError(
            f"{path}: the key {key.kid} of {key.issuer} is no Ed25519 key; `spotfed trust create` makes keys"
        ) from None
    if usable.as_dict(private=False)["x"] != key.x or usable.thumbprint() != key.kid:
        raise TrustError(
            f"{path}: the public half or the id {key.kid} of the key of {key.issuer} is another key's"
        )
    public, private = usable.public_key, usable.private_key
    assert isinstance(public, Ed25519PublicKey)
    assert private is None or isinstance(private, Ed25519PrivateKey)
    return PartyKey(key.issuer, json_b64encode({"alg": key.alg, "kid": key.kid}), public, private)


def _mark(path: Path) -> tuple[int, ...]:
    try:
        status = path.stat()
    except OSError as error:
        raise TrustError(
            f"{path} cannot be read ({error.strerror}); `spotfed trust create` makes keys"
        ) from None
    return status.st_mtime_ns, status.st_size, status.st_ino, status.st_mode


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Keep other processes from changing a file while it is read, changed and written."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with append_to_private_file(path.with_name(f".{path.name}.lock")) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _write(trust: Path, keys: list[PublicKey]) -> None:
    """Write a trust file, which everybody may read and nobody else may change."""
    write_private_file(trust, KeySet(keys=keys).model_dump_json(indent=2) + "\n")
    trust.chmod(0o644)
