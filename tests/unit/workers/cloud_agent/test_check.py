"""A test instance of the check, on a cloud in this process."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.doctor.check import CheckResult
from tests.unit.workers.cloud_agent.in_memory import InMemoryCloud
from tests.unit.workers.cloud_agent.test_options import EC2
from workers.cloud_agent import check
from workers.cloud_agent.check import check_cloud
from workers.cloud_agent.drivers import read_options


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> InMemoryCloud:
    monkeypatch.setattr(check, "_LOOK_S", 0.0)
    monkeypatch.setattr(check, "START_LIMIT_S", 0.1)
    return InMemoryCloud(8)


def started(cloud: InMemoryCloud) -> CheckResult:
    """What became of the test instance."""
    options = read_options(EC2, "cloud[0].instances", Path())
    return next(
        result for result in check_cloud(options, cloud, (8,), start=True) if result.name == "test instance"
    )


def test_an_instance_runs_and_is_ended(cloud: InMemoryCloud) -> None:
    assert started(cloud).state == "ok"
    assert [one.state for one in cloud.instances.values()] == ["ended"]


def test_one_that_does_not_run_is_told_and_ended(cloud: InMemoryCloud) -> None:
    cloud.starting = True
    result = started(cloud)
    assert (result.state, result.found) == ("failure", "an instance of 1 cores did not run (starting)")
    assert [one.state for one in cloud.instances.values()] == ["ended"]


def test_one_that_is_refused_is_told(cloud: InMemoryCloud) -> None:
    cloud.refuses = True
    assert started(cloud).found == "there is no such image"
    cloud.refuses, cloud.room = False, 0
    assert started(cloud).found == "InsufficientInstanceCapacity"
