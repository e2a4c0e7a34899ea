"""Pools and fixed durations over HTTP: what a member sells, who gets which pool, and what refusals say."""

import json
from typing import Any

import httpx
import pytest

from cloudsim.scheduling.lineups import EVICTIONS
from tests.contract.harness import FakeOwner, Federation, Run
from tests.contract.test_requests import problem
from tests.support.wait import wait_until
from tests.unit.cloudsim.test_products import NODES, table
from tests.unit.workers.owners import harmless_table

HOUR_S = 3600.0
WISH = {"cores": 2, "lifetime_s": HOUR_S, "sla": 0.1}


@pytest.fixture
def pooled(federation: Federation, api: httpx.Client) -> FakeOwner:
    """Two pools of ten cores; five of pool 0 are safe."""
    owner = federation.join("pooled", NODES, lineup=EVICTIONS["lifo-pools"], pools=2)
    owner.owner.cloud.table = table(15)
    wait_until(lambda: api.get("/v1/clouds/pooled").json()["advert"]["table_version"])
    return owner


@pytest.fixture
def sliced(federation: Federation, api: httpx.Client) -> FakeOwner:
    owner = federation.join("sliced", NODES, slices_s=(HOUR_S, 6 * HOUR_S))
    owner.owner.cloud.table = harmless_table(NODES)
    wait_until(lambda: api.get("/v1/clouds/sliced").json()["advert"]["table_version"])
    return owner


def refused(response: httpx.Response) -> dict[str, Any]:
    (one,) = problem(response, "refused")["refusals"]
    found: dict[str, Any] = one
    return found


def lease(response: httpx.Response) -> dict[str, Any]:
    assert response.status_code == 201, response.text
    found: dict[str, Any] = response.json()["lease"]
    return found


def test_pools_are_products(pooled: FakeOwner, api: httpx.Client) -> None:
    view = api.get("/v1/clouds/pooled").json()
    assert view["info"]["pools"] == [10, 10]
    assert view["advert"]["pool_cores"] == [10, 10]
    (quote,) = api.post("/v1/quotes", json=WISH).json()["quotes"]
    assert quote["pool"] == 0
    assert [lease(api.post("/v1/requests", json=WISH))["pool"] for _ in range(3)] == [0, 0, 1]
    named = lease(api.post("/v1/requests", json=WISH | {"pool": 1}))
    assert api.get(f"/v1/leases/{named['id']}").json()["pool"] == 1
    no = refused(api.post("/v1/requests", json=WISH | {"pool": 0}))
    assert (no["reason"], no["counter_offers"]["lifetime_s"]) == ("risk_too_high", 60.0)
    wait_until(lambda: api.get("/v1/clouds/pooled").json()["advert"]["pool_cores"] == [6, 6])


def test_own_users_take_the_upper_pool_first(pooled: FakeOwner, api: httpx.Client) -> None:
    made = [lease(api.post("/v1/requests", json=WISH | {"cores": 5, "pool": 1})) for _ in range(2)]
    upper = lease(api.post("/v1/requests", json=WISH | {"cores": 4, "pool": 0, "sla": 0.6}))
    assert api.post("/v1/clouds/pooled/on-demand", json={"id": "own", "cores": 10}).status_code == 201
    assert api.get(f"/v1/leases/{upper['id']}").json()["state"] == "evicted"
    assert {api.get(f"/v1/leases/{one['id']}").json()["state"] for one in made} == {"running"}
    no = refused(api.post("/v1/requests", json=WISH | {"pool": 0}))
    assert no["reason"] == "no_capacity"


@pytest.mark.parametrize("more", [{"pool": 2}, {"pool": 0, "sla": None}])
def test_a_pool_that_is_not_sold_is_refused(pooled: FakeOwner, api: httpx.Client, more: Any) -> None:
    assert refused(api.post("/v1/requests", json=WISH | more))["reason"] == "no_such_product"


@pytest.mark.parametrize("pool", [-1, 16, 1.5, True, "0"])
def test_a_pool_is_a_small_whole_number(pooled: FakeOwner, api: httpx.Client, pool: Any) -> None:
    found = problem(api.post("/v1/requests", json=WISH | {"pool": pool}), "invalid")
    assert [one["field"] for one in found["errors"]] == ["pool"]


def test_slices_are_products(sliced: FakeOwner, api: httpx.Client) -> None:
    assert api.get("/v1/clouds/sliced").json()["info"]["slices_s"] == [HOUR_S, 6 * HOUR_S]
    made = lease(api.post("/v1/requests", json=WISH | {"lifetime_s": 1.5 * HOUR_S}))
    assert made["ends_at_s"] - made["starts_at_s"] == pytest.approx(6 * HOUR_S)
    no = refused(api.post("/v1/requests", json=WISH | {"lifetime_s": 7 * HOUR_S}))
    assert (no["reason"], no["counter_offers"]["lifetime_s"]) == ("no_such_product", 6 * HOUR_S)
    (quote,) = api.post("/v1/quotes", json=WISH).json()["quotes"]
    assert quote["survives_s"] == 6 * HOUR_S
    assert "pool" not in quote or quote["pool"] is None


def test_a_lease_is_extended_to_a_whole_slice(sliced: FakeOwner, api: httpx.Client) -> None:
    made = lease(api.post("/v1/requests", json=WISH))
    path = f"/v1/leases/{made['id']}/extend"
    wait_until(lambda: api.get(f"/v1/leases/{made['id']}").json()["state"] == "running")
    longer = api.post(path, json={"id": "more", "lifetime_s": 2 * HOUR_S}).json()
    assert "ends_at_s" in longer, longer
    assert longer["ends_at_s"] - longer["starts_at_s"] == pytest.approx(6 * HOUR_S)
    no = problem(api.post(path, json={"id": "much", "lifetime_s": 8 * HOUR_S}), "refused")
    assert no["refusals"][0]["reason"] == "no_such_product"


def test_the_command_line_asks_for_a_pool(pooled: FakeOwner, spotfed: Run) -> None:
    code, out, _ = spotfed("quote", "--cores", 2, "--lifetime", "1h", "--sla", 0.1, "--pool", 1)
    assert code == 0
    assert "pool 1" in out
    code, out, _ = spotfed("submit", "--cores", 2, "--lifetime", "1h", "--sla", 0.1, "--pool", 1, "--json")
    assert code == 0
    assert json.loads(out)["lease"]["pool"] == 1
    code, out, _ = spotfed("submit", "--cores", 2, "--lifetime", "1h", "--sla", 0.1, "--pool", 3)
    assert (code, "sells no such pool" in " ".join(out.split())) == (3, True)
    code, _, err = spotfed("submit", "--cores", 2, "--lifetime", "1h", "--pool", 99)
    assert (code, "--pool" in err) == (2, True)


def test_the_command_line_tells_what_was_granted(sliced: FakeOwner, spotfed: Run) -> None:
    code, out, _ = spotfed("submit", "--cores", 2, "--lifetime", "90m", "--sla", 0.1)
    assert (code, "for 6 h" in " ".join(out.split())) == (0, True), out
