"""A public cloud that runs: it evicts as its prices say, and sells on-demand to whom is refused."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from broker.client import Client
from tests.integration.test_local import Tried, up
from tests.support.wait import wait_until

pytestmark = pytest.mark.xdist_group("federation")

FEDERATION = """
[[cloud]]
id = "private"
nodes = "2x4"
trace = { synthetic = "table-1", hours = 400, seed = 11 }
spot_usd_per_core_hour = 0.01
on_demand_usd_per_core_hour = 0.05

[[cloud]]
id = "public"
nodes = "2x4"
trace = { prices = "z_c3.xlarge.csv", bid_usd_per_hour = 0.21 }
spot_usd_per_core_hour = 0.01
on_demand_usd_per_core_hour = 0.0525
sells_on_demand = true
"""


def prices() -> str:
    """Above the bid for an hour in every twelve, for 200 days."""
    begin = datetime(2015, 3, 11, tzinfo=UTC)
    lines = ["timestamp,price_usd_per_hour"]
    for half_day in range(400):
        for hour, price in ((0, "0.03"), (11, "0.50")):
            at = begin + timedelta(hours=12 * half_day + hour)
            lines.append(f"{at.isoformat()},{price}")
    return "\n".join([*lines, ""])


@pytest.fixture
def tried(tmp_path: Path) -> Tried:
    (tmp_path / "federation.toml").write_text(FEDERATION)
    (tmp_path / "z_c3.xlarge.csv").write_text(prices())
    return Tried(tmp_path / "state")


def test_who_is_refused_takes_on_demand_and_stays_while_spot_is_evicted(tried: Tried) -> None:
    with up(tried):

        def admitted() -> str | None:
            """While the price is above the bid there is no room."""
            wish = ("--cores", "4", "--lifetime", "30d", "--sla", "none", "--cloud", "public", "--json")
            done = tried.spotfed("submit", *wish)
            answer = json.loads(done.stdout)
            return None if answer["lease"] is None else str(answer["lease"]["id"])

        spot = wait_until(admitted, "spot has room", 180)

        def bought() -> Any:
            # Nothing was ever followed up for so long.
            wish = ("--cores", "1", "--lifetime", "90d", "--id", "job", "--or-on-demand", "--json")
            done = tried.spotfed("submit", *wish, "--cloud", "public")
            answer = json.loads(done.stdout)
            assert (done.returncode, answer["lease"] is None) in ((3, True), (5, False)), done
            return answer if done.returncode == 5 else None

        answer = wait_until(bought, "on-demand has room", 180)
        assert answer["lease"]["kind"] == "on_demand"
        reasons = {one["cloud"]: one["reason"] for one in answer["refusals"]}
        assert reasons["public"] in ("no_evidence", "no_table", "no_capacity")
        # 90 days of the cloud are so much less of ours, and prices are those of our hours.
        speed = tried.json("clouds")["clouds"][1]["info"]["speed"]
        assert answer["taken"]["usd"] == pytest.approx(0.0525 * 90 * 24 / speed)

        def evicted() -> Any:
            lines = tried.spotfed("events", "--cloud", "public", "--json").stdout.splitlines()
            events = [json.loads(line)["event"] for line in lines]
            return [one for one in events if one["kind"] == "evicted" and one["lease"]["id"] == spot]

        # Eleven of the cloud's hours in twelve are below the bid: 66 s of ours at 600 times their speed.
        wait_until(evicted, "the price rises above the bid", 180)
        key = (tried.directory / "api-key").read_text().strip()
        with Client(f"http://127.0.0.1:{tried.port}", key) as client:
            running = client.on_demand.get("public", "job")
            assert running.state == "running"  # type: ignore[union-attr]
            client.on_demand.stop("public", "job")
