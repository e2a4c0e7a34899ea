"""Protects the secrets of webhooks at rest: Redis holds them in clear, or encrypted with keys from a file.

A hash would not do, as secrets sign deliveries. The file (SPOTFED_WEBHOOK_KEY_FILE) holds Fernet keys, one a
line. The first one encrypts and all decrypt, so that a new first line replaces a key without losing stored
secrets.
"""

from __future__ import annotations

import base64
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from broker.settings import SettingsError
from broker.storage.private_files import find_reader

if TYPE_CHECKING:
    from cryptography.fernet import MultiFernet

_SEALED = "fernet:"
_BYTES = 32


class SecretError(Exception):
    """Raised when a stored secret cannot be read; the message says what is missing."""


def new_secret() -> str:
    """Return a new random secret in the form of Standard Webhooks."""
    return "whsec_" + base64.b64encode(secrets.token_bytes(_BYTES)).decode()


class SecretVault:
    """Encrypts and decrypts secrets; without a key file it leaves them in clear."""

    def __init__(self, key_file: Path | None = None):
        """Read the key file, if there is one. Raises SettingsError if it cannot be used."""
        self._fernet = None if key_file is None else _read(key_file)

    def seal(self, secret: str) -> str:
        """Return a secret in the form in which it is stored."""
        if self._fernet is None:
            return secret
        return _SEALED + self._fernet.encrypt(secret.encode()).decode()

    def open(self, stored: str) -> str:
        """Return the secret that was stored. Raises SecretError."""
        if not stored.startswith(_SEALED):
            return stored
        if self._fernet is None:
            raise SecretError("its secret is encrypted: set SPOTFED_WEBHOOK_KEY_FILE, then resume it")
        from cryptography.fernet import InvalidToken

        try:
            return self._fernet.decrypt(stored.removeprefix(_SEALED)).decode()
        except InvalidToken:
            raise SecretError(
                "no key of SPOTFED_WEBHOOK_KEY_FILE decrypts its secret: add the old key, or rotate the "
                "secret, then resume it"
            ) from None


def _read(path: Path) -> MultiFernet:
    from cryptography.fernet import Fernet, MultiFernet

    name = "SPOTFED_WEBHOOK_KEY_FILE"
    try:
        lines = path.read_text(encoding="ascii").split()
        keys = [Fernet(line) for line in lines]
        fault = find_reader(path)
    except OSError as error:
        raise SettingsError(f"{name}: the file cannot be read: {error.strerror}") from None
    except ValueError:
        raise SettingsError(f"{name}: a line of the file is no Fernet key") from None
    if fault is not None:
        raise SettingsError(f"{name}: {fault}")
    if not keys:
        raise SettingsError(f"{name}: the file is empty")
    return MultiFernet(keys)
