"""A federation of real processes: one request's id in all their logs, and every figure that is asked for."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from broker.local.federation import LocalFederation
from broker.local.process_list import ProcessList, wall_time
from tests.contract.test_metrics import Scrape, named
from tests.integration.test_local import FEDERATION
from tests.support.wait import wait_until

pytestmark = pytest.mark.xdist_group("federation")

CLOUDS = ("harbour", "meadow")


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFederation]:
    directory = tmp_path_factory.mktemp("federation")
    file = directory / "federation.toml"
    file.write_text(FEDERATION, encoding="utf-8")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    layout = ProcessList(file, CLOUDS, wall_time(speed=60, history="48h", samples=200, seed=0), port=port)
    with LocalFederation(layout, directory) as running:
        yield running


@pytest.fixture
def api(federation: LocalFederation) -> Iterator[httpx.Client]:
    key = {"Authorization": f"Bearer {federation.api_key}"}
    with httpx.Client(base_url=federation.processes.url, headers=key, timeout=60) as client:
        yield client


def trail(federation: LocalFederation, call: str) -> list[tuple[str, dict[str, Any]]]:
    """What all logs say of a call, by time: the process, and the entry."""
    found: list[tuple[str, dict[str, Any]]] = []
    for log in Path(federation.directory, "logs").glob("*.log"):
        lines = [line for line in log.read_text(encoding="utf-8").splitlines() if call in line]
        found += [(log.stem, json.loads(line)) for line in lines]
    return sorted(found, key=lambda one: one[1]["timestamp"])


def ended(federation: LocalFederation, call: str) -> list[tuple[str, dict[str, Any]]]:
    """The same once the owner and the API have written their last lines, after their answers."""

    def look() -> list[tuple[str, dict[str, Any]]] | None:
        found = trail(federation, call)
        return found if {"answered", "call"} <= {entry["event"] for _, entry in found} else None

    return wait_until(look, f"the last line of {call}")


def test_one_id_leads_from_the_api_to_the_owner_and_back(
    federation: LocalFederation, api: httpx.Client
) -> None:
    wish = {"id": "traced", "cores": 1, "lifetime_s": 3600, "sla": None, "targets": ["meadow"]}
    answer = api.post("/v1/requests", json=wish, headers={"X-Request-Id": "trail-1"})
    assert (answer.status_code, answer.headers["x-request-id"]) == (201, "trail-1")
    found = ended(federation, "trail-1")
    assert sorted((where, one["event"]) for where, one in found) == [
        ("api", "call"),
        ("cloud-meadow", "answered"),
    ]
    answered, call = (
        next(one for _, one in found if one["event"] == event) for event in ("answered", "call")
    )
    assert {one["request_id"] for _, one in found} == {"trail-1"}
    assert (call["request"], call["principal"]) == ("traced", "first")
    assert (answered["command"], answered["answers"]) == ("traced.1:reserve", {"reserved": 1})
    assert (call["status"], call["lease"], call["cloud"]) == (201, "traced.1", "meadow")


def test_a_list_writes_a_line_a_chunk_and_not_a_line_a_request(
    federation: LocalFederation, api: httpx.Client
) -> None:
    wishes = [{"cores": 1, "lifetime_s": 3600, "targets": ["harbour"]} for _ in range(500)]
    answer = api.post("/v1/requests", json=wishes, headers={"X-Request-Id": "trail-2"})
    assert answer.status_code == 200
    found = ended(federation, "trail-2")
    answered = [one for where, one in found if where == "cloud-harbour"]
    assert sum(sum(one["answers"].values()) for one in answered) == 500
    assert len(found) <= 2 + 2 * 3  # chunks of 200; an owner may take one in two steps


def test_every_figure_of_rules_and_dashboard_is_there(federation: LocalFederation, api: httpx.Client) -> None:
    """With a value, but for answers that are not believed, of which there are none."""

    def promised() -> bool:
        wish = {"cores": 1, "lifetime_s": 600, "sla": 0.25}
        return api.post("/v1/requests", json=wish).status_code == 201

    def all_there() -> Scrape | None:
        found = Scrape(api.get("/metrics").text)
        missing = {name for name, _ in named()} - found.samples.keys()
        tables = [found.value("spotfed_table_refresh_seconds_count", cloud=cloud) for cloud in CLOUDS]
        return found if missing == {"spotfed_replies_dropped_total"} and all(tables) else None

    wait_until(promised, "somebody promises something")  # once there is a table
    found = wait_until(all_there, "all figures")
    assert found.value("spotfed_montecarlo_workers") == 1
    for cloud in CLOUDS:
        assert (found.value("spotfed_table_refresh_seconds_sum", cloud=cloud) or 0) > 0
        assert (found.value("spotfed_journal_entries", cloud=cloud) or 0) > 0
        assert found.value("spotfed_dead_letters", cloud=cloud) == 0
