"""GET /metrics: what it tells whom; and the request id of every call."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import pytest
import redis
from prometheus_client.parser import text_string_to_metric_families

from broker.client import Client
from broker.contract import Cancel, Confirm, Reserve
from broker.identity.permissions import Role
from broker.observability.owner_stats import OwnerStats
from broker.schemas.api_keys import KeyWish
from broker.schemas.members import MemberWish
from cloudsim.disclosure.levels import Disclosure
from tests.contract.harness import KEY, Federation, serving
from tests.integration.test_deploy_observability import RULES, queries
from tests.support.wait import wait_until
from tests.unit.workers.owners import harmless_table

WISH = {"cores": 1, "lifetime_s": 3600, "sla": 0.05}
TWO = [WISH | {"id": one, "targets": ["east"]} for one in ("runs", "runs-too")]
Labels = frozenset[tuple[str, str]]


class Scrape:
    """What one scrape told: the names of families that it declared, and the samples."""

    def __init__(self, text: str):
        self.declared: set[str] = set()
        self.samples: dict[str, dict[Labels, float]] = {}
        for family in text_string_to_metric_families(text):
            self.declared.add(f"{family.name}_total" if family.type == "counter" else family.name)
            for one in family.samples:
                self.samples.setdefault(one.name, {})[frozenset(one.labels.items())] = one.value

    def value(self, name: str, **labels: str) -> float | None:
        return self.samples.get(name, {}).get(frozenset(labels.items()))

    def labels(self, name: str) -> set[str]:
        return {label for found in self.samples.get(name, {}) for label, _ in found}


def scrape(api: httpx.Client, key: str = KEY) -> Scrape:
    answer = api.get("/metrics", headers={"Authorization": f"Bearer {key}"})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/plain")
    return Scrape(answer.text)


@pytest.fixture
def lived_in(federation: Federation, api: httpx.Client) -> Federation:
    """East, of 4 cores, broke one promise, and keeps two; west, of 8, tells little of itself."""
    east = federation.join("east", (4,))
    federation.join("west", (8,), disclosure=Disclosure.NOTHING)
    east.owner.cloud.table = harmless_table((4,))
    wait_until(lambda: api.get("/v1/clouds/east").json()["advert"]["table_version"])
    for body, status in (
        (WISH | {"id": "broken", "targets": ["east"]}, 201),
        (WISH | {"id": "plain", "targets": ["west"], "sla": None}, 201),
        (WISH | {"id": "none", "targets": ["west"]}, 409),
    ):
        assert api.post("/v1/requests", json=body).status_code == status
    wait_until(lambda: api.get("/v1/leases/broken.1").json()["state"] == "running")
    assert api.post("/v1/clouds/east/on-demand", json={"id": "vm", "cores": 4}).status_code == 201
    assert api.delete("/v1/clouds/east/on-demand/vm").status_code == 200
    wait_until(lambda: api.get("/v1/clouds/east").json()["advert"]["free_cores"] == 4)
    listed = api.post("/v1/requests", json=TWO).json()["results"]
    assert [one["lease"]["state"] for one in listed] == ["running", "running"]
    measures: Mapping[Any, Any] = OwnerStats(2, 3.0, 1.0, 10, 1).to_fields()
    federation.redis.hset(federation.keys.owner_stats("east"), mapping=measures)
    return federation


def settled(api: httpx.Client) -> Scrape:
    """A scrape by which all that happened has been read."""
    found: list[Scrape] = []

    def all_read() -> bool:
        found.append(scrape(api))
        admitted = [
            found[-1].value("spotfed_spot_admissions_total", cloud=cloud, promise=promise)
            for cloud, promise in (("east", "yes"), ("west", "no"))
        ]
        return admitted == [3, 1] and found[-1].value("spotfed_cloud_spot_cores", cloud="east") == 2

    wait_until(all_read)
    return found[-1]


def test_what_happened_is_told_to_operators(lived_in: Federation, api: httpx.Client) -> None:
    found = settled(api)
    assert found.value("spotfed_evictions_total", cloud="east", promise="yes", cause="demand") == 1
    assert found.value("spotfed_promises_broken_total", cloud="east", sla="0.05") == 1
    assert found.value("spotfed_promises_running", cloud="east", sla="0.05") == 2
    assert found.value("spotfed_spot_admissions_total", cloud="west", promise="no") == 1
    assert found.value("spotfed_refusals_total", cloud="west", reason="no_table") == 1
    assert found.value("spotfed_spot_requests_total", result="granted") == 4
    assert found.value("spotfed_admission_duration_seconds_count", call="single") == 3
    assert found.value("spotfed_admission_duration_seconds_count", call="list") == 1
    assert found.value("spotfed_table_refresh_seconds_sum", cloud="east") == 3
    assert found.value("spotfed_redis_up") == 1
    calls = {"method": "POST", "route": "/v1/requests", "status": "409"}
    assert found.value("spotfed_http_request_duration_seconds_count", **calls) == 1


def test_a_repeated_request_is_counted_once(lived_in: Federation, api: httpx.Client) -> None:
    before = settled(api)
    assert api.post("/v1/requests", json=WISH | {"id": "none", "targets": ["west"]}).status_code == 409
    assert api.post("/v1/requests", json=TWO).status_code == 200
    after = scrape(api)
    for name in ("spotfed_spot_requests_total", "spotfed_refusals_total"):
        assert after.samples[name] == before.samples[name]


def test_a_cloud_that_does_not_disclose_is_told_no_more_than_by_its_advert(
    lived_in: Federation, api: httpx.Client
) -> None:
    found = settled(api)
    for name in ("free_cores", "own_cores", "spot_cores", "spot_leases"):
        assert {dict(labels)["cloud"] for labels in found.samples[f"spotfed_cloud_{name}"]} == {"east"}


def test_members_are_told_what_adverts_tell(lived_in: Federation, api: httpx.Client) -> None:
    settled(api)
    with Client(lived_in.url, KEY) as operator:
        operator.members.add(MemberWish(name="acme"))
        key = operator.api_keys.create(KeyWish(principal="acme", role=Role.VIEWER)).key
    found = scrape(api, key)
    assert found.value("spotfed_cloud_reachable", cloud="west") == 1
    assert found.declared == {name for name in found.declared if name.startswith("spotfed_cloud_")} | {
        "spotfed_table_age_seconds"
    }


def test_nobody_else_is_told_anything(federation: Federation) -> None:
    for headers in ({}, {"Authorization": "Bearer sf_000000000000_x"}):
        answer = httpx.get(f"{federation.url}/metrics", headers=headers)
        assert (answer.status_code, "spotfed_" in answer.text) == (401, False)


def test_without_redis_a_process_tells_that_and_its_own_work(
    federation: Federation, api: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert scrape(api).value("spotfed_redis_up") == 1

    async def away(*_: object) -> None:
        raise redis.ConnectionError

    monkeypatch.setattr("broker.requests.members.MembershipView.members", away)
    wait_until(lambda: scrape(api).value("spotfed_redis_up") == 0)
    assert scrape(api).value("spotfed_http_requests_in_progress") == 1


def test_a_path_that_a_caller_makes_up_is_no_label(federation: Federation, api: httpx.Client) -> None:
    for number in range(5):
        api.get(f"/v1/made-up-{number}")
        api.get(f"/v1/leases/made-up-{number}")
    found = scrape(api)
    routes = {
        dict(labels)["route"] for labels in found.samples["spotfed_http_request_duration_seconds_count"]
    }
    assert routes == {"other", "/v1/leases/{lease_id}"}


_NAME = re.compile(r"\b((?:spotfed|process)_\w+)(?:\{([^}]*)\})?")


def named() -> Iterator[tuple[str, set[str]]]:
    """Names of metrics in rules and dashboard, with the labels that are asked of them."""
    expressions = [*queries(), *re.findall(r"expr: (.*(?:\n\s{10}.*)*)", RULES)]
    for expression in expressions:
        for name, matchers in _NAME.findall(expression):
            yield name, set(re.findall(r"(\w+)=", matchers)) - {"job"}


def test_rules_and_dashboard_ask_for_what_is_told(lived_in: Federation, api: httpx.Client) -> None:
    found = settled(api)
    known = found.declared | found.samples.keys()
    asked = list(named())
    assert len({name for name, _ in asked}) > 30
    assert {name for name, _ in asked} <= known
    assert [(name, labels) for name, labels in asked if not labels <= found.labels(name)] == []


def test_all_that_is_told_of_the_federation_is_on_the_dashboard_or_in_a_rule(
    lived_in: Federation, api: httpx.Client
) -> None:
    asked = {re.sub(r"_(bucket|count|sum)$", "", name) for name, _ in named()}
    told = {name for name in settled(api).declared if name.startswith("spotfed_")}
    assert told - asked == {
        "spotfed_build_info", "spotfed_cloud_closed_nodes", "spotfed_ledger_missing_events_total",
    }  # fmt: skip


# -- the id of a call ----------------------------------------------------------------------------------------


def test_every_answer_carries_the_id_of_its_call(federation: Federation, api: httpx.Client) -> None:
    for path in ("/v1/clouds", "/nothing", "/healthz"):
        assert api.get(path, headers={"X-Request-Id": "mine-1"}).headers["x-request-id"] == "mine-1"
        made = [api.get(path, headers={"X-Request-Id": bad}).headers["x-request-id"] for bad in ("a b", "")]
        assert all(re.fullmatch("[0-9a-f]{32}", one) for one in made)
        assert made[0] != made[1]
    without = httpx.get(f"{federation.url}/v1/clouds", headers={"X-Request-Id": "mine-2"})
    assert (without.status_code, without.headers["x-request-id"]) == (401, "mine-2")


def test_an_id_reaches_the_owner_with_what_it_is_told(federation: Federation, api: httpx.Client) -> None:
    east = federation.join("east", (4,))
    call = {"X-Request-Id": "mine-3"}
    assert api.post("/v1/requests", json=WISH | {"sla": None, "id": "a"}, headers=call).status_code == 201
    assert api.delete("/v1/leases/a.1", headers={"X-Request-Id": "mine-4"}).status_code == 200
    traces = {type(command): command.trace for command in east.handled if command.trace}
    assert traces == {Reserve: "mine-3", Confirm: "mine-3", Cancel: "mine-4"}
    body = [WISH | {"sla": None, "id": f"l{number}"} for number in range(3)]
    assert api.post("/v1/requests", json=body, headers={"X-Request-Id": "mine-5"}).status_code == 200
    wait_until(lambda: sum(isinstance(one, Confirm) for one in east.handled) == 4)
    told = [one.trace for one in east.handled if isinstance(one, Reserve | Confirm)][2:]
    assert sorted(map(str, told)) == ["None"] * 4 + ["mine-5"] * 2


def test_a_fault_of_ours_is_answered_with_the_id_that_the_log_has(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("broker.requests.members.MembershipView.members", broken)
    with serving(Federation(redis_url)) as federation:
        answer = httpx.get(
            f"{federation.url}/v1/clouds",
            headers={"Authorization": f"Bearer {KEY}", "X-Request-Id": "mine-6"},
        )
        assert (answer.status_code, answer.headers["x-request-id"]) == (500, "mine-6")
        assert len(answer.headers.get_list("x-request-id")) == 1
