"""A short form of the storm of hosts (``make storm-hosts``): nothing that was promised is lost with one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.integration.host_storm import storm


@pytest.mark.timeout(900)
@pytest.mark.xdist_group("worker-processes")
def test_nothing_is_lost_or_done_twice_while_hosts_die(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as thread:  # one of its own: it stays in another network
        # A busy machine is no dead one: Sentinels have patience.
        result = thread.submit(storm, 2, 7, directory=tmp_path, down_after_s=5.0).result()
    assert result["breaches"] == []
    assert result["kills"] == 2
    assert result["granted"] > 0
    assert len(result["seconds_to_admission_primary"]) > 0, "the host of the primary died"
