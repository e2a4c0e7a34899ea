"""Encrypts what only the cloud agents of some clouds may read, with JWE (RFC 7516) and a key pair of each.

An agent makes its key pair (X25519) when it first starts, and publishes the public half with its catalogue.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from joserfc import jwe
from joserfc.errors import JoseError
from joserfc.jwk import OKPKey

from broker.storage.private_files import find_reader, make_private_directory, write_private_file

_HEADER = {"alg": "ECDH-ES+A256KW", "enc": "A256GCM"}


class SealError(Exception):
    """Raised when a key file or an encrypted text cannot be used; the message says why."""


def read_agent_key(path: Path) -> OKPKey:
    """Return the key pair in a file, which is made if there is none. Raises SealError."""
    try:
        if not path.exists():
            make_private_directory(path.parent)
            write_private_file(
                path, json.dumps(OKPKey.generate_key("X25519", private=True).as_dict(private=True))
            )
        fault = find_reader(path)
        if fault is not None:
            raise SealError(fault)
        return OKPKey.import_key(json.loads(path.read_text(encoding="ascii")))
    except (OSError, ValueError, JoseError) as error:
        raise SealError(f"{path} cannot be used as the agent's key: {error}") from error


def public_half(key: OKPKey) -> str:
    """Return the public key of a pair, as JSON."""
    return json.dumps(key.as_dict(private=False))


def read_public_key(text: str) -> OKPKey:
    """Return the public key of an agent. Raises SealError."""
    try:
        key = OKPKey.import_key(json.loads(text))
        is_usable = key.curve_name == "X25519" and not key.is_private
    except (ValueError, KeyError, TypeError, JoseError) as error:
        raise SealError("it is no public key of an agent") from error
    if not is_usable:
        raise SealError("it is no public key of an agent")
    return key


def seal(text: str, public_keys: Mapping[str, OKPKey]) -> str:
    """Return a text that only the holders of these keys can read. ``public_keys``: by party."""
    message = jwe.GeneralJSONEncryption(_HEADER, text.encode())
    for party, public_key in public_keys.items():
        message.add_recipient({"kid": party}, public_key)
    return json.dumps(jwe.encrypt_json(message, None))


def unseal(sealed: str | bytes, party: str, key: OKPKey) -> str:
    """Return the text that was sealed for a party, among others. Raises SealError."""
    try:
        message: Any = json.loads(sealed)
        message["recipients"] = [one for one in message["recipients"] if one["header"]["kid"] == party]
        opened = jwe.decrypt_json(message, key)
        assert opened.plaintext is not None
        return opened.plaintext.decode()
    except (ValueError, KeyError, TypeError, JoseError) as error:
        raise SealError(f"it is not encrypted for this key of {party}") from error
