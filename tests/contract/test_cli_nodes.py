"""``spotfed cloud apply``: what other nodes would mean for clouds with leases, and what is in the way."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from broker.settings import settings
from tests.contract.harness import Federation, Run

EAST = """
[[cloud]]
id = "east"
nodes = "{nodes}"
trace = {{ synthetic = "table-1", hours = 1 }}
"""


@pytest.fixture
def file(federation: Federation, monkeypatch: pytest.MonkeyPatch, spotfed: Run, tmp_path: Path) -> Path:
    """Of a federation whose cloud east has two nodes of 4 cores."""
    del spotfed  # it has a state directory of its own
    federation.join("east", (4, 4))
    monkeypatch.setenv("SPOTFED_REDIS_URL", federation.redis_url)
    monkeypatch.setenv("SPOTFED_KEY_PREFIX", federation.prefix)
    settings.cache_clear()
    return tmp_path / "federation.toml"


def test_what_is_in_the_way_is_shown(file: Path, spotfed: Run, api: httpx.Client) -> None:
    for name in ("r", "s"):
        assert (
            api.post("/v1/requests", json={"id": name, "cores": 4, "lifetime_s": 36_000}).status_code == 201
        )
    file.write_text(EAST.format(nodes="1x4"))
    apply = ("cloud", "apply", "--federation", file)
    code, out, _ = spotfed(*apply)
    assert code == 1
    assert "east: 2x4 cannot become 1x4" in out
    assert "s.1" in out
    assert "r.1" not in out

    assert spotfed("cloud", "drain", "east", "--node", "1")[0] == 0
    code, out, _ = spotfed(*apply)
    assert code == 0
    assert "east: 2x4 becomes 1x4, nothing is in the way" in out
    assert "its owner does not run on this machine" in out


def test_what_is_wrong_with_the_file_or_the_call_is_said(file: Path, spotfed: Run) -> None:
    assert "no federation runs on this machine" in spotfed("cloud", "apply")[2]
    file.write_text(EAST.format(nodes="nonsense"))
    code, _, error = spotfed("cloud", "apply", "--federation", file)
    assert code == 2
    assert "cloud[0].nodes: 'nonsense' is not NODESxCORES" in error
    file.write_text(EAST.format(nodes="2x4").replace("east", "west"))
    code, _, error = spotfed("cloud", "apply", "east", "--federation", file)
    assert (code, "no cloud is called 'east'; there are: west" in error) == (2, True)
