"""What ``spotfed doctor`` makes of the facts about settings, packages, owners, tables and the API."""

import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from broker.contract import VERSION, Advert, CloudInfo
from broker.doctor import (
    EXTRAS,
    ApiFacts,
    CloudFacts,
    api_findings,
    directory_findings,
    embedded_finding,
    extras_findings,
    federation_findings,
    owner_finding,
    package_finding,
    settings_findings,
    silent_finding,
    table_finding,
)
from broker.finding import Finding, State
from broker.settings import Settings, unknown_variables
from broker.upgrading import contract_finding

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
TOLD = Settings(state_dir=Path("/var/lib/spotfed"), data=None)


@pytest.fixture(autouse=True)
def _empty_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("SPOTFED_")]:
        monkeypatch.delenv(name)


def advert(**changes: object) -> Advert:
    fields = {
        "cloud": "A",
        "at": (NOW - timedelta(seconds=1)).isoformat(),
        "at_s": 86_400.0,
        "epoch": 3,
        "free_cores": 4,
        "on_demand_cores": 0,
        "spot_cores": 0,
        "spot_leases": 0,
        "free_slots": {1: 4},
        "table_version": "A-3",
        "table_made_at_s": 82_800.0,
        "evicted": 0,
        "admitted": 0,
    }
    return Advert.model_validate(fields | changes)


def info(time: str = "wall") -> CloudInfo:
    return CloudInfo.model_validate(
        {"id": "A", "order": 0, "nodes": "1x4", "cores": 4, "largest_node": 4, "time": time}
    )


SOUND = CloudFacts("A", info(), lease_s=1.4, epoch=3, advert=advert(), writes=VERSION)


def state_of(found: list[Finding], name: str) -> State:
    return next(one.state for one in found if one.name == name)


def test_a_setting_is_shown_with_its_default_and_without_its_secret() -> None:
    told = Settings.model_validate(
        {"redis_url": "redis://me:s3cret@queue", "api_key": "t0psecret", "port": 9000, "data": None}
    )
    found = settings_findings(told, [])
    told_of = {one.name: one.found for one in found}
    assert told_of["setting SPOTFED_PORT"] == "9000 (the default is 8000)"
    assert told_of["setting SPOTFED_REDIS_URL"] == "redis://me:***@queue (the default is unset)"
    assert told_of["setting SPOTFED_API_KEY"] == "*** (the default is unset)"
    assert "SPOTFED_SAMPLES=10000" in told_of["settings"]
    assert "SPOTFED_PORT" not in told_of["settings"]
    assert not any("s3cret" in one.found or "t0psecret" in one.found for one in found)
    assert {one.state for one in found} == {State.OK}


def test_a_misspelt_variable_is_found_and_its_name_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPOTFED_REDIS_ULR", "redis://queue")
    monkeypatch.setenv("spotfed_port", "9000")  # settings are read in either case
    unknown = unknown_variables()
    assert "SPOTFED_REDIS_ULR" in unknown
    assert "spotfed_port" not in unknown
    found = settings_findings(TOLD, ["SPOTFED_REDIS_ULR"])
    wrong = next(one for one in found if one.state is State.WARNING)
    assert wrong.name == "setting SPOTFED_REDIS_ULR"
    assert wrong.advice == "did you mean SPOTFED_REDIS_URL?"


def test_deadlines_that_do_not_go_together_are_warned_of() -> None:
    told = Settings(reservation_ttl_s=5.0, reply_deadline_s=5.0, advert_max_age_s=1.0, inbox_poll_s=1.0)
    warned = {one.name for one in settings_findings(told, []) if one.state is State.WARNING}
    assert warned == {"setting SPOTFED_RESERVATION_TTL_S", "setting SPOTFED_ADVERT_MAX_AGE_S"}


def test_packages_are_compared_with_what_is_needed() -> None:
    requires = ["redis<9,>=6.4", 'elsewhere; sys_platform == "cp/m"', 'matplotlib>=3; extra == "plots"']
    assert package_finding("1.0", requires, {"redis": "8.1.0"}).state is State.OK
    old = package_finding("1.0", requires, {"redis": "5.0"})
    assert old.state is State.FAILURE
    assert "(5.0)" in old.found
    assert "redis<9,>=6.4 (missing)" in package_finding("1.0", requires, {}).found
    assert package_finding(None, [], {}).state is State.WARNING


def test_a_missing_extra_is_no_fault_but_says_how_to_get_it() -> None:
    found = {one.name: one for one in extras_findings({"scipy"})}
    assert {one.state for one in found.values()} == {State.OK}
    assert "spotfed[plots]" in found["extra plots"].advice
    assert not found["extra solvers"].advice
    assert len(found) == len(EXTRAS)


def test_directories() -> None:
    fine = directory_findings(TOLD, state=None, data=None, key_mode=0o600)
    assert {one.state for one in fine} == {State.OK}
    with_data = TOLD.model_copy(update={"data": Path("/gone")})
    found = directory_findings(with_data, state="is a file", data="is not there", key_mode=0o644)
    assert state_of(found, "state directory") is State.FAILURE
    assert state_of(found, "data directory") is State.FAILURE
    assert state_of(found, "state directory key") is State.WARNING
    assert any("/gone is not there" in one.found for one in found)
    assert "jobs directory" not in {one.name for one in found}
    shared = TOLD.model_copy(update={"jobs_dir": Path("/shared")})
    found = directory_findings(shared, state=None, data=None, key_mode=None, jobs="is a file")
    assert state_of(found, "jobs directory") is State.FAILURE
    assert any("SPOTFED_JOBS_DIR" in one.advice for one in found)


def test_without_a_server_it_matters_whether_one_could_be_started() -> None:
    assert embedded_finding(TOLD.state_dir, "/usr/bin/redis-server").state is State.WARNING
    assert embedded_finding(TOLD.state_dir, None).state is State.FAILURE


def test_a_silent_server_is_named_without_its_password() -> None:
    found = silent_finding("redis://me:s3cret@queue", "refused")
    assert found.state is State.FAILURE
    assert "redis://me:***@queue does not answer: refused" in found.found


def test_a_sound_federation() -> None:
    found = federation_findings([SOUND], 1, NOW, TOLD)
    assert {one.state for one in found} == {State.OK}
    assert {one.name for one in found} == {"contract", "owner A", "table A", "monte-carlo workers"}


def test_a_federation_of_nobody_and_one_without_monte_carlo_workers() -> None:
    (empty,) = federation_findings([], 0, NOW, TOLD)
    assert empty.state is State.WARNING
    assert "'spotfed:'" in empty.found
    assert state_of(federation_findings([SOUND], 0, NOW, TOLD), "monte-carlo workers") is State.WARNING


@pytest.mark.parametrize(
    ("changes", "state", "says"),
    [
        ({"lease_s": None}, State.FAILURE, "nobody owns A; its last epoch is 3"),
        ({"advert": None}, State.WARNING, "cannot be read"),
        ({"advert": advert(at="yesterday")}, State.WARNING, "cannot be read"),
        ({"epoch": 4}, State.WARNING, "its advert is of epoch 3"),
        ({"advert": advert(at=(NOW - timedelta(seconds=10)).isoformat())}, State.OK, "10.0 s old"),
        ({"advert": advert(at=(NOW - timedelta(seconds=11)).isoformat())}, State.FAILURE, "unreachable"),
        ({"advert": advert(at=(NOW + timedelta(hours=1)).isoformat())}, State.WARNING, "in the future"),
        (
            {"advert": advert(at=(NOW - timedelta(hours=1)).isoformat()), "info": info("trace")},
            State.OK,
            "old",
        ),
    ],
)
def test_heartbeats(changes: dict, state: State, says: str) -> None:
    found = owner_finding(replace(SOUND, **changes), NOW, 10.0)
    assert found.state is state
    assert says in found.found


@pytest.mark.parametrize(
    ("made_at_s", "state"), [(86_400.0 - 12 * 3600, State.OK), (86_399.0 - 12 * 3600, State.WARNING)]
)
def test_the_age_of_a_table_is_in_the_clouds_time(made_at_s: float, state: State) -> None:
    found = table_finding("A", advert(table_made_at_s=made_at_s))
    assert found.state is state
    assert "12.0 h old" in found.found


def test_dead_letters_are_told_with_where_to_look() -> None:
    assert not any("dead" in one.name for one in federation_findings([SOUND], 1, NOW, TOLD))
    found = federation_findings([replace(SOUND, dead=3)], 1, NOW, TOLD)
    (told,) = [one for one in found if one.name == "dead letters A"]
    assert told.state is State.WARNING
    assert told.found.startswith("3 dead letters at cloud A")
    assert "spotfed dlq list --cloud A" in told.advice


def test_a_cloud_without_a_table_promises_nothing() -> None:
    assert table_finding("A", advert(table_version=None, table_made_at_s=None)).state is State.WARNING


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({}, State.OK),
        ({"writes": None}, State.OK),  # an empty journal says nothing
        ({"writes": VERSION + 1}, State.FAILURE),
        ({"info": None}, State.FAILURE),
    ],
)
def test_contract_versions(changes: dict, state: State) -> None:
    assert contract_finding([SOUND, replace(SOUND, cloud="B", **changes)]).state is state


def test_who_holds_the_contract_back_is_named() -> None:
    found = contract_finding([SOUND], VERSION - 1, ["owner of A"])
    assert found.state is State.WARNING
    assert found.found.endswith("owner of A")
    assert contract_finding([SOUND], VERSION - 1).state is State.OK
    assert contract_finding([SOUND], VERSION + 1).state is State.FAILURE


def test_the_api() -> None:
    sound = ApiFacts("http://api:8000", key=200, version="1.0")
    assert {one.state for one in api_findings(sound, "1.0")} == {State.OK}
    assert [one.state for one in api_findings(None, "1.0")] == [State.OK]
    assert [one.state for one in api_findings(ApiFacts("http://api", error="refused"), "1.0")] == [
        State.FAILURE
    ]
    assert state_of(api_findings(sound, "2.0"), "api") is State.WARNING
    unready = api_findings(replace(sound, not_ready="no cloud can be reached"), "1.0")
    assert state_of(unready, "api ready") is State.FAILURE
    for status, state in ((401, State.FAILURE), (None, State.WARNING), (503, State.WARNING)):
        assert state_of(api_findings(replace(sound, key=status), "1.0"), "api key") is state
