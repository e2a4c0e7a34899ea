"""Settings are read from SPOTFED_ variables alone, once, and a malformed one is named."""

import os
from pathlib import Path

import pytest
from pydantic import ValidationError

from broker import settings as module
from broker.settings import Settings, SettingsError, load, settings


@pytest.fixture(autouse=True)
def _empty_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("SPOTFED_")]:
        monkeypatch.delenv(name)


def test_works_without_any_variable() -> None:
    found = load()
    assert found.redis_url is None
    assert found.state_dir.is_absolute()
    assert (found.host, found.port, found.url) == ("127.0.0.1", 8000, "http://127.0.0.1:8000")
    assert found.api_key is None
    assert found.samples == 10_000


def test_reads_the_variables_and_takes_an_empty_one_as_unset(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in {
        "SPOTFED_REDIS_URL": "unix:///run/redis.sock?db=0",
        "SPOTFED_STATE_DIR": "~/state",
        "SPOTFED_DATA": str(tmp_path),
        "SPOTFED_URL": "https://broker.example/",
        "SPOTFED_API_KEY": "s3cret",
        "SPOTFED_LOG_LEVEL": "debug",
        "SPOTFED_PORT": "",
        "SPOTFED_REPLY_DEADLINE_S": "0.25",
        "HOME": str(tmp_path),
    }.items():
        monkeypatch.setenv(name, value)
    found = load()
    assert found.redis_url == "unix:///run/redis.sock?db=0"
    assert found.state_dir == tmp_path / "state"
    assert found.data == tmp_path
    assert found.url == "https://broker.example"
    assert found.log_level == "DEBUG"
    assert found.port == 8000
    assert found.reply_deadline_s == 0.25
    assert found.api_key is not None
    assert found.api_key.get_secret_value() == "s3cret"
    assert "s3cret" not in repr(found)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SPOTFED_REDIS_URL", "http://me:s3cret@localhost"),
        ("SPOTFED_REDIS_URL", "redis://me:s3cret/x@localhost"),
        ("SPOTFED_REDIS_URL", "redis://:s3cret#x@localhost:6379"),
        ("SPOTFED_REDIS_URL", "redis://me/s3cret@localhost:6379"),
        ("SPOTFED_REDIS_URL", "redis://s3cret#x@localhost"),
        ("SPOTFED_REDIS_URL", "redis://:s3cret é@localhost"),
        ("SPOTFED_URL", "http://me:s3cret?x@localhost:8000"),
        ("SPOTFED_URL", "http://[s3cret]:8000"),
        ("SPOTFED_REDIS_URL", "redis://me:s3cret℀@localhost"),
        ("SPOTFED_OTLP_URL", "http://localhost:s3cret"),
        ("SPOTFED_API_KEY", "sf_s3cret with a blank"),
        ("SPOTFED_API_KEY", "sf_s3cret\nX-More: header"),
        ("SPOTFED_API_KEY", "sf_s3crét_s3cret"),
        ("SPOTFED_API_KEY", " \n"),
        ("SPOTFED_ISOLATION", "s3cret"),
        ("SPOTFED_JOB_USERS", "60000-s3cret"),
        ("SPOTFED_JOB_USERS", "0-100"),
        ("SPOTFED_JOBS_BUCKET", "s3cret"),
        ("SPOTFED_JOBS_BUCKET", "s3://a/s3cret?x"),
        ("SPOTFED_JOBS_BUCKET_URL", "http://store.example.org"),
        ("SPOTFED_JOB_USERS", "200-100"),
        ("SPOTFED_REDIS_URL", "unix://redis.sock"),
        ("SPOTFED_URL", "127.0.0.1:8000"),
        ("SPOTFED_PORT", "s3cret"),
        ("SPOTFED_PORT", "70000"),
        ("SPOTFED_KEY_PREFIX", "with space"),
        ("SPOTFED_LOG_LEVEL", "s3cret"),
        ("SPOTFED_REPLY_DEADLINE_S", "inf"),
        ("SPOTFED_OWNER_LEASE_TTL_S", "0"),
        ("SPOTFED_MAX_CLOUDS_ASKED", "0"),
        ("SPOTFED_SAMPLES", "-1"),
    ],
)
def test_a_malformed_variable_is_named_and_its_value_is_not_repeated(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError) as caught:
        load()
    assert str(caught.value).startswith(f"{name}: ")
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("blank", ["\n", "\r\n", " ", "\t"])
def test_blanks_around_secrets_and_addresses_are_left_out(
    monkeypatch: pytest.MonkeyPatch, blank: str
) -> None:
    for name, value in {
        "SPOTFED_API_KEY": "sf_key",
        "SPOTFED_CLOUD_SECRET": "é secret",
        "SPOTFED_CLOUD_USER": "me",
        "SPOTFED_REDIS_URL": "redis://me:s%2Fcret@queue:6379/1",
        "SPOTFED_PORT": "9000",
        "SPOTFED_HOST": "::1",
    }.items():
        monkeypatch.setenv(name, f"{blank}{value}{blank}")
    found = load()
    assert found.api_key is not None
    assert found.cloud_secret is not None
    assert found.api_key.get_secret_value() == "sf_key"
    assert found.cloud_secret.get_secret_value() == "é secret"
    assert (found.cloud_user, found.host, found.port) == ("me", "::1", 9000)
    assert found.redis_url == "redis://me:s%2Fcret@queue:6379/1"


def test_every_malformed_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPOTFED_PORT", "x")
    monkeypatch.setenv("SPOTFED_SEED", "x")
    with pytest.raises(SettingsError, match=r"SPOTFED_PORT: .*; SPOTFED_SEED: "):
        load()


def test_is_read_once_and_cannot_be_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    settings.cache_clear()
    try:
        first = settings()
        monkeypatch.setenv("SPOTFED_PORT", "9000")
        assert settings() is first
        with pytest.raises(ValidationError, match="frozen"):
            first.port = 9000  # type: ignore[misc]
    finally:
        settings.cache_clear()


def test_data_beside_the_directory_of_the_command_is_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(module, "_PROJECT_ROOT", tmp_path / "elsewhere" / "project")
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    assert Settings().data is None
    (tmp_path / "shared" / "data").mkdir(parents=True)
    assert Settings().data == tmp_path / "shared" / "data"
