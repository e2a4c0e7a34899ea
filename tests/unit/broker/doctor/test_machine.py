"""Checks of this machine: settings, packages, directories and certificates."""

from __future__ import annotations

import os
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest

from broker.doctor import CheckResult, Installation, State, directories, keys
from broker.doctor.certificates import certificate_result
from broker.doctor.packages import EXTRAS, check_extras, check_packages
from broker.doctor.redis import check_redis
from broker.doctor.settings import check_settings, check_settings_conflicts, check_unknown_settings
from broker.settings import Settings, public_address
from broker.storage.embedded_server import RedisServerError


@pytest.fixture(autouse=True)
def _empty_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("SPOTFED_")]:
        monkeypatch.delenv(name)


# -- settings ------------------------------------------------------------------------------------------------


def test_a_setting_is_shown_with_its_default_and_without_its_secret() -> None:
    settings = Settings.model_validate(
        {"redis_url": "redis://me:s3cret@queue", "api_key": "t0psecret", "port": 9000, "data": None}
    )
    results = check_settings(Installation(settings))
    found = {result.name: result.found for result in results}
    assert found["setting SPOTFED_PORT"] == "9000 (the default is 8000)"
    assert found["setting SPOTFED_REDIS_URL"] == "redis://me:***@queue (the default is unset)"
    assert found["setting SPOTFED_API_KEY"] == "*** (the default is unset)"
    assert "SPOTFED_SAMPLES=10000" in found["settings"]
    assert "SPOTFED_PORT" not in found["settings"]
    assert not any("s3cret" in text or "t0psecret" in text for text in found.values())
    assert {result.state for result in results} == {State.OK}


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://me:s3cret@queue:6380/1", "redis://me:***@queue:6380/1"),
        ("rediss://:s3cret@queue", "rediss://:***@queue"),
        ("unix:///run/redis.sock?db=0&password=s3cret", "unix:///run/redis.sock?db=0&password=***"),
        ("redis://queue:6379/0", "redis://queue:6379/0"),
    ],
)
def test_an_address_is_shown_without_its_password(url: str, shown: str) -> None:
    assert public_address(url) == shown


def test_a_misspelt_variable_is_found_and_its_name_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPOTFED_REDIS_ULR", "redis://queue")
    monkeypatch.setenv("spotfed_port", "9000")  # settings are read in either case
    (result,) = check_unknown_settings(Installation(Settings()))
    assert (result.name, result.state) == ("setting SPOTFED_REDIS_ULR", State.WARNING)
    assert result.advice == "did you mean SPOTFED_REDIS_URL?"


def test_deadlines_that_do_not_go_together_are_warned_of() -> None:
    settings = Settings(reservation_ttl_s=5.0, reply_deadline_s=5.0, advert_max_age_s=1.0, inbox_poll_s=1.0)
    results = check_settings_conflicts(Installation(settings))
    assert {result.state for result in results} == {State.WARNING}
    assert [result.name for result in results] == [
        "setting SPOTFED_RESERVATION_TTL_S",
        "setting SPOTFED_ADVERT_MAX_AGE_S",
    ]


# -- packages ------------------------------------------------------------------------------------------------


def packages(
    monkeypatch: pytest.MonkeyPatch, requires: list[str] | None, installed: dict[str, str]
) -> CheckResult:
    def distribution(_: str) -> SimpleNamespace:
        if requires is None:
            raise metadata.PackageNotFoundError
        return SimpleNamespace(version="1.0", requires=requires)

    def version(name: str) -> str:
        if name not in installed:
            raise metadata.PackageNotFoundError
        return installed[name]

    monkeypatch.setattr(metadata, "distribution", distribution)
    monkeypatch.setattr(metadata, "version", version)
    (result,) = check_packages(Installation())
    return result


def test_packages_are_compared_with_what_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    requires = ["redis<9,>=6.4", 'elsewhere; sys_platform == "cp/m"', 'matplotlib>=3; extra == "plots"']
    assert packages(monkeypatch, requires, {"redis": "8.1.0"}).state is State.OK
    old = packages(monkeypatch, requires, {"redis": "5.0"})
    assert old.state is State.FAILURE
    assert "(5.0)" in old.found
    assert "redis<9,>=6.4 (missing)" in packages(monkeypatch, requires, {}).found
    assert packages(monkeypatch, None, {}).state is State.WARNING


def test_a_missing_extra_is_no_fault_but_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    packages(monkeypatch, [], {"scipy": "1.0"})
    results = {result.name: result for result in check_extras(Installation())}
    assert {result.state for result in results.values()} == {State.OK}
    assert "spotfed[plots]" in results["extra plots"].advice
    assert not results["extra solvers"].advice
    assert len(results) == len(EXTRAS)


# -- directories and files -----------------------------------------------------------------------------------


def test_directories_that_can_be_used(tmp_path: Path) -> None:
    installation = Installation(Settings(state_dir=tmp_path / "new", data=tmp_path))
    (state,) = directories.check_state_directory(installation)
    (data,) = directories.check_data_directory(installation)
    assert state.state is data.state is State.OK
    assert not (tmp_path / "new").exists()
    assert directories.check_jobs_directory(installation) == []
    (none,) = directories.check_data_directory(Installation(Settings(data=None)))
    assert none.state is State.OK


def test_directories_that_cannot_be_used(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    settings = Settings(state_dir=file, data=tmp_path / "gone", jobs_dir=file / "jobs")
    (state,) = directories.check_state_directory(Installation(settings))
    (data,) = directories.check_data_directory(Installation(settings))
    (jobs,) = directories.check_jobs_directory(Installation(settings))
    assert state.state is data.state is jobs.state is State.FAILURE
    assert state.found == f"{file} is not a directory"
    assert data.found == f"{tmp_path}/gone is not there"
    assert "is not there, and cannot be made in" in jobs.found
    assert "SPOTFED_JOBS_DIR" in jobs.advice


def test_an_api_key_that_others_can_read_is_warned_of(tmp_path: Path) -> None:
    installation = Installation(Settings(), api_key_file=tmp_path / "api-key")
    assert keys.check_api_key_file(installation) == []
    (tmp_path / "api-key").touch(0o600)
    assert keys.check_api_key_file(installation) == []
    (tmp_path / "api-key").chmod(0o644)
    (result,) = keys.check_api_key_file(installation)
    assert (result.name, result.state) == ("state directory key", State.WARNING)


# -- the way to Redis and the API ----------------------------------------------------------------------------


def test_without_a_server_it_matters_whether_one_could_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    (startable,) = check_redis(Installation(Settings()))
    assert startable.state is State.WARNING

    def find_none() -> Path:
        raise RedisServerError("none")

    monkeypatch.setattr("broker.doctor.redis.find_server", find_none)
    (none,) = check_redis(Installation(Settings()))
    assert (none.name, none.state) == ("redis", State.FAILURE)


def test_a_silent_server_is_named_without_its_password(tmp_path: Path) -> None:
    url = f"unix://{tmp_path}/nobody.sock?username=me&password=s3cret"
    with Installation(Settings(), redis_url=url) as installation:
        (result,) = check_redis(installation)
    assert (result.name, result.state) == ("redis", State.FAILURE)
    assert "password=*** does not answer: " in result.found


def test_keys_in_the_clear_are_warned_of() -> None:
    for here in ("unix:///x.sock", "redis://localhost:1/0", "http://127.0.0.1:8000", "redis://[::1]:1"):
        assert certificate_result("x", here, Settings()) is None
    for there in ("redis://redis.example:1/0", "http://api.example"):
        result = certificate_result("x", there, Settings())
        assert result is not None
        assert (result.name, result.state) == ("x", State.WARNING)
        assert "s:// (SECURITY.md" in result.advice
