"""Batch jobs live, a short form of ``make jobs``: with evictions, and with kills (-9) on the way."""

from __future__ import annotations

import pytest

from tests.deep.acceptance.live_jobs import run

pytestmark = [pytest.mark.timeout(1200), pytest.mark.xdist_group("federation")]


def test_every_job_finishes_once_with_the_right_result_and_leaves_nothing() -> None:
    result = run(8, work_s=20.0, seed=3)
    assert result["breaches"] == []
    assert result["finished"] == 8
    assert result["cost_usd"] > 0
    assert result["sights"]["parallel job"]


def test_it_is_so_too_while_managers_agents_owners_and_redis_are_killed() -> None:
    result = run(5, work_s=20.0, seed=4, kills=4)
    assert result["breaches"] == []
    assert result["finished"] == 5
    assert sum(result["killed"].values()) == 4
