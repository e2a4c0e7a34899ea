"""Kills of the cloud agent and outages of Redis, of its owner and of its cloud, in any order."""

from __future__ import annotations

import pytest

from tests.unit.workers.cloud_agent.test_agent import check_outages


@pytest.mark.parametrize("seed", range(10, 110))
def test_outages_in_any_order(seed: int) -> None:
    check_outages(seed)
