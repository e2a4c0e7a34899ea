"""Secrets at rest, with a key file and without."""

import base64
from pathlib import Path

import pytest
from cryptography.fernet import Fernet
from standardwebhooks.webhooks import Webhook

from broker.settings import SettingsError
from broker.webhooks.secrets import SecretError, SecretVault, new_secret


def test_a_secret_is_one_of_the_standard() -> None:
    secret = new_secret()
    assert secret.startswith("whsec_")
    assert len(base64.b64decode(secret.removeprefix("whsec_"), validate=True)) == 32
    assert new_secret() != secret
    Webhook(secret)


def test_without_a_key_file_it_is_kept_as_it_is() -> None:
    assert SecretVault().seal("whsec_abc") == "whsec_abc"
    assert SecretVault().open("whsec_abc") == "whsec_abc"


def test_keys_are_replaced_by_a_new_first_line(tmp_path: Path) -> None:
    old, new = Fernet.generate_key().decode(), Fernet.generate_key().decode()
    file = tmp_path / "keys"
    file.touch(0o600)
    file.write_text(f"{old}\n")
    sealed = SecretVault(file).seal("whsec_abc")
    assert "abc" not in sealed
    file.write_text(f"{new}\n{old}\n")
    vault = SecretVault(file)
    assert vault.open(sealed) == "whsec_abc"
    assert vault.open("whsec_older") == "whsec_older"  # from before there was a file
    resealed = vault.seal("whsec_abc")
    file.write_text(f"{new}\n")
    assert SecretVault(file).open(resealed) == "whsec_abc"
    with pytest.raises(SecretError, match="rotate"):
        SecretVault(file).open(sealed)
    with pytest.raises(SecretError, match="SPOTFED_WEBHOOK_KEY_FILE"):
        SecretVault().open(sealed)


@pytest.mark.parametrize("text", ["", "\n", "no key", "AAAA"])
def test_a_file_that_is_no_use(tmp_path: Path, text: str) -> None:
    file = tmp_path / "keys"
    file.write_text(text)
    with pytest.raises(SettingsError, match="SPOTFED_WEBHOOK_KEY_FILE") as raised:
        SecretVault(file)
    assert "AAAA" not in str(raised.value)
    with pytest.raises(SettingsError, match="SPOTFED_WEBHOOK_KEY_FILE"):
        SecretVault(tmp_path / "missing")
