"""A short form of the kill storm (``make kills``): processes die at random, and nothing that was promised is
lost.
"""

from __future__ import annotations

import pytest

from tests.integration.kill_storm import storm


@pytest.mark.timeout(600)
@pytest.mark.xdist_group("federation")
def test_nothing_is_lost_or_done_twice_while_processes_die() -> None:
    result = storm(kills=10, seed=7)
    assert result["breaches"] == []
    assert result["kills"] == 10
    assert result["granted"] > 0
    assert max(result["epochs"].values()) > 1, "an owner was killed and came back"
