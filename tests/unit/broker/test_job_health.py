from __future__ import annotations

from broker.contract import CloudInfo
from broker.finding import State
from broker.jobs.health import jobs_findings


def cloud(name: str, *, runs_commands: bool) -> CloudInfo:
    return CloudInfo(
        id=name, order=0, nodes="8", cores=8, largest_node=8, time="wall", runs_commands=runs_commands
    )


def test_nothing_is_said_where_no_cloud_runs_commands() -> None:
    assert jobs_findings([cloud("a", runs_commands=False)], [], 3, 3) == []


def test_a_missing_agent_is_named_with_how_to_start_it() -> None:
    clouds = [cloud("a", runs_commands=True), cloud("b", runs_commands=True), cloud("c", runs_commands=False)]
    first, second, managers = jobs_findings(clouds, {"a"}, 0, 0)
    assert (first.name, first.state) == ("node agent a", State.OK)
    assert (second.name, second.state) == ("node agent b", State.FAILURE)
    assert "--cloud b" in second.advice
    assert managers.state == State.OK


def test_jobs_that_nobody_looks_after_are_counted() -> None:
    managers = jobs_findings([cloud("a", runs_commands=True)], {"a"}, 7, 2)[-1]
    assert managers.state == State.FAILURE
    assert "of 7 open jobs nobody looks after 2" in managers.found
    assert "workers.jobs" in managers.advice
