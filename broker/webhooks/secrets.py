"""Secrets at rest. A secret signs, so Redis must hold it: in clear, or encrypted with keys from a file.

The file (SPOTFED_WEBHOOK_KEY_FILE) holds Fernet keys, one a line; the first encrypts, all decrypt, so a new
first line replaces a key without losing what is stored.
"""

from __future__ import annotations

import base64
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from broker.settings import SettingsError

if TYPE_CHECKING:
    from cryptography.fernet import MultiFernet

_SEALED = "fernet:"
_BYTES = 32


class SecretError(Exception):
    """A stored secret cannot be read; the message says what is missing."""


def new_secret() -> str:
    """A secret as Standard Webhooks writes it."""
    return "whsec_" + base64.b64encode(secrets.token_bytes(_BYTES)).decode()


class SecretVault:
    """Encrypts and decrypts secrets; without a key file it hands them through."""

    def __init__(self, key_file: Path | None = None):
        """Raises SettingsError when the file cannot be used."""
        self._fernet = None if key_file is None else _read(key_file)

    def seal(self, secret: str) -> str:
        """As it is stored."""
        if self._fernet is None:
            return secret
        return _SEALED + self._fernet.encrypt(secret.encode()).decode()

    def open(self, stored: str) -> str:
        """The secret. Raises SecretError."""
        if not stored.startswith(_SEALED):
            return stored
        if self._fernet is None:
            raise SecretError("its secret is encrypted: set SPOTFED_WEBHOOK_KEY_FILE, then resume it")
        from cryptography.fernet import InvalidToken

        try:
            return self._fernet.decrypt(stored.removeprefix(_SEALED)).decode()
        except InvalidToken:
            raise SecretError(
                "no key of SPOTFED_WEBHOOK_KEY_FILE opens its secret: add the old key, or rotate the secret, "
                "then resume it"
            ) from None


def _read(path: Path) -> MultiFernet:
    from cryptography.fernet import Fernet, MultiFernet

    name = "SPOTFED_WEBHOOK_KEY_FILE"
    try:
        lines = path.read_text(encoding="ascii").split()
        keys = [Fernet(line) for line in lines]
    except OSError as error:
        raise SettingsError(f"{name}: the file cannot be read: {error.strerror}") from None
    except ValueError:
        raise SettingsError(f"{name}: a line of the file is no Fernet key") from None
    if not keys:
        raise SettingsError(f"{name}: the file is empty")
    return MultiFernet(keys)
