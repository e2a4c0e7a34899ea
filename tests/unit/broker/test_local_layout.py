from __future__ import annotations

from pathlib import Path

import pytest

from broker.cli import federations
from broker.local.__main__ import client_variables
from broker.local.process_list import ProcessList
from broker.settings import settings
from cloudsim.federation.file import load_federation


def test_clouds_that_run_commands_have_agents_and_the_federation_has_managers() -> None:
    file = Path("f.toml")
    assert all(not one.calls_api for one in ProcessList(file, ("a", "b")).specs())
    found = ProcessList(file, ("a", "b"), commanded=("b",), managers=2).specs()
    assert [one.name for one in found[-3:]] == ["agent-b", "jobs-1", "jobs-2"]
    assert [one.name for one in found if one.calls_api] == ["jobs-1", "jobs-2"]
    assert found[-3].arguments[2:4] == ("--cloud", "b")


def test_real_clouds_have_instance_agents_that_sign_as_their_cloud() -> None:
    found = ProcessList(Path("f.toml"), ("a", "b"), instanced=("b",)).specs()
    (agent,) = [one for one in found if one.arguments[1] == "workers.cloud_agent"]
    assert (agent.name, agent.arguments[2:4], agent.parties) == (
        "instances-b",
        ("--cloud", "b"),
        ("cloud.b",),
    )


def test_many_clouds_share_processes() -> None:
    clouds = tuple(f"c{number}" for number in range(30))
    owners = [one for one in ProcessList(Path("f.toml"), clouds).specs() if one.clouds]
    assert [one.name for one in owners] == ["cloud-c0-and-24", "cloud-c25-and-4"]
    assert tuple(cloud for one in owners for cloud in one.clouds) == clouds
    assert owners[1].arguments[:6] == ("-m", "workers.owner", "--cloud", "c25", "--cloud", "c26")
    assert owners[1].parties[-1] == "cloud.c29"
    few = [one for one in ProcessList(Path("f.toml"), clouds[:3]).specs() if one.clouds]
    assert [one.name for one in few] == ["cloud-c0", "cloud-c1", "cloud-c2"]


def test_real_clouds_whose_instances_run_jobs_have_managers() -> None:
    found = ProcessList(Path("f.toml"), ("b",), instanced=("b",), boots_agents=True).specs()
    assert [one.name for one in found[-2:]] == ["instances-b", "jobs-1"]


def test_a_manager_is_told_of_the_api_where_nobody_has(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("SPOTFED_URL", "SPOTFED_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SPOTFED_STATE_DIR", str(tmp_path))
    monkeypatch.setenv("SPOTFED_PORT", "8123")
    (tmp_path / "api-key").write_text("secret\n")
    settings.cache_clear()
    try:
        assert client_variables(["-m", "workers.owner"]) == {}
        told = {"SPOTFED_URL": "http://127.0.0.1:8123", "SPOTFED_API_KEY": "secret"}
        assert client_variables(["-m", "workers.job_manager"]) == told
        monkeypatch.setenv("SPOTFED_URL", "http://elsewhere:1")
        monkeypatch.setenv("SPOTFED_API_KEY", "own")
        settings.cache_clear()
        assert client_variables(["-m", "workers.job_manager"]) == {}
    finally:
        monkeypatch.undo()
        settings.cache_clear()


def test_the_federation_for_jobs_comes_with_the_package_and_is_found_by_name(tmp_path: Path) -> None:
    assert federations.find(Path("jobs")) == federations.JOBS
    assert federations.find(Path("nowhere.toml")) == Path("nowhere.toml")
    members = load_federation(federations.find(Path("jobs")), None).clouds
    assert len(members) == 3
    for member in members:
        assert member.driver == "process"
        assert member.prices is not None
        ratio = member.prices.spot_usd_per_core_hour / member.prices.on_demand_usd_per_core_hour
        assert 0.1 < ratio < 0.3
    assert len({member.spec.grace_s for member in members}) > 1
