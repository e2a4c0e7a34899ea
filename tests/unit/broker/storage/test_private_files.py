"""Files with secrets and state: who may read them, and what is said of those that others may read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from broker.journal.archive import Archive
from broker.journal.hash_chain import BEGINNING, ChainedEntry
from broker.settings import SettingsError
from broker.storage.embedded_server import EmbeddedRedis
from broker.storage.private_files import find_reader, make_private_directory, write_private_file
from broker.webhooks.secrets import SecretVault
from workers.agents.agent_lock import lock_path, open_lock
from workers.owner.epoch_file import EpochFile


def _modes(directory: Path) -> dict[str, int]:
    """Modes of a directory and all that is in it, by the path in it."""
    paths = [directory, *directory.rglob("*")]
    return {str(path.relative_to(directory)): path.stat().st_mode & 0o777 for path in paths}


@pytest.fixture(autouse=True)
def _generous() -> Iterator[None]:
    """Whatever the umask is."""
    before = os.umask(0)
    yield
    os.umask(before)


def test_a_file_is_whole_and_for_its_user_alone(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "secret"
    make_private_directory(path.parent)
    write_private_file(path, "one")
    path.chmod(0o666)
    write_private_file(path, b"two")
    assert path.read_text() == "two"
    assert _modes(tmp_path / "a") == {".": 0o700, "b": 0o700, "b/secret": 0o600}


def test_what_an_owner_keeps_is_for_its_user_alone(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "state" / "A", segment_entries=1)
    archive.open()
    archive.append([ChainedEntry(f"1-{number}", BEGINNING, b"{}") for number in (1, 2, 3)])
    archive.write_snapshot(b"{}")
    archive.close()
    EpochFile(tmp_path / "state" / "epochs", "A").write(1, "token")
    modes = _modes(tmp_path / "state")
    assert len(modes) == 8, modes
    assert {name: mode for name, mode in modes.items() if mode not in (0o600, 0o700)} == {}
    # Those that an earlier version left are closed when the owner opens.
    for path in (tmp_path / "state" / "A").iterdir():
        path.chmod(0o644)
    archive.open()
    archive.close()
    assert set(_modes(tmp_path / "state" / "A").values()) == {0o600, 0o700}


def test_what_runs_keeps_its_files_from_others(tmp_path: Path) -> None:
    with EmbeddedRedis(tmp_path / "redis"):
        modes = _modes(tmp_path / "redis")
    assert {"server.json", "redis.log"} <= modes.keys()
    assert {name: oct(mode) for name, mode in modes.items() if mode & 0o077} == {}
    os.close(open_lock(lock_path(tmp_path, "A")))
    assert _modes(tmp_path / "agents") == {".": 0o711, "A.lock": 0o600}


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o602])
def test_a_secret_that_others_may_read_is_refused_with_the_chmod(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "keys"
    write_private_file(path, Fernet.generate_key())
    SecretVault(path)
    path.chmod(mode)
    with pytest.raises(SettingsError, match=f"SPOTFED_WEBHOOK_KEY_FILE: .*chmod 600 {path}"):
        SecretVault(path)


def test_a_group_may_read_keys_of_tls_and_no_others(tmp_path: Path) -> None:
    path = tmp_path / "tls.key"
    write_private_file(path, "key")
    path.chmod(0o640)
    assert find_reader(path, group=True) is None
    path.chmod(0o660)
    assert find_reader(path, group=True) is not None
    path.chmod(0o644)
    assert find_reader(path, group=True) is not None
