"""The papers' production pairs and their federation; short forms of ``make acceptance`` where that takes
minutes.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from cloudsim.federation.file import load_federation
from cloudsim.federation.replay import replay
from tests.deep.acceptance.production import (
    BASELINE,
    DAY_S,
    FEDERATION_FILE,
    FULL_PLATFORM,
    LEAST_ADMITTED,
    SLA,
    co_schedule,
    counts,
    live,
)


@pytest.mark.parametrize("expected", BASELINE, ids=lambda row: f"{row[0]} {row[1]}")
def test_baseline_counts_are_exact(
    data_dir: Path, expected: tuple[str, str, int, int, int, int, int]
) -> None:
    pair, nodes, *figures = expected
    assert list(counts(co_schedule(data_dir, pair, nodes, None, births=100))) == figures


@pytest.mark.parametrize("pair", FULL_PLATFORM)
def test_the_promise_is_kept_and_most_requests_are_admitted(data_dir: Path, pair: str) -> None:
    report = co_schedule(data_dir, pair, FULL_PLATFORM[pair], SLA, births=10_000)
    _, on_demand, requests, admitted, evicted = counts(report)
    baseline = next(row for row in BASELINE if row[:2] == (pair, FULL_PLATFORM[pair]))
    assert evicted <= SLA * admitted
    assert admitted >= LEAST_ADMITTED[pair] * requests
    assert on_demand >= 0.999 * baseline[3]


@pytest.mark.timeout(900)
@pytest.mark.xdist_group("federation")
def test_live_with_an_owner_killed_equals_the_replay(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPOTFED_STATE_DIR", str(tmp_path))
    expected = replay(load_federation(FEDERATION_FILE, data_dir, until_s=10 * DAY_S), seed=0, births=1000)
    assert expected["total"]["requests"] > 2000
    kill = ("C", expected["total"]["requests"] // 2)
    assert live(data_dir, "10d", 1000, 2, kill) == expected
