"""Fair shares through the API: who waits is known though its cloud was full."""

from typing import Any

import httpx

from cloudsim.admission.fair_share import FairShare
from tests.contract.harness import Federation, Run
from tests.contract.test_requests import problem
from tests.support.wait import wait_until


def wish(name: str, origin: str, cores: int = 1) -> dict[str, Any]:
    return {"id": name, "origin": origin, "cores": cores, "lifetime_s": 3600}


def ask(api: httpx.Client, name: str, origin: str, cores: int = 1) -> httpx.Response:
    return api.post("/v1/requests", json=wish(name, origin, cores))


def test_what_becomes_free_goes_to_who_waits(federation: Federation, api: httpx.Client, spotfed: Run) -> None:
    federation.join("east", (4,), fair_share=FairShare(600.0))
    leases = [ask(api, f"h{number}", "hog").json()["lease"]["id"] for number in range(4)]
    wait_until(lambda: api.get("/v1/clouds/east").json()["advert"]["free_cores"] == 0)
    (full,) = problem(ask(api, "s1", "small"), "refused")["refusals"]
    assert full["reason"] == "no_capacity"
    for lease in leases[:2]:
        assert api.delete(f"/v1/leases/{lease}").status_code == 200
    wait_until(lambda: api.get("/v1/clouds/east").json()["advert"]["free_cores"] == 2)
    (refusal,) = problem(ask(api, "h4", "hog"), "refused")["refusals"]
    assert (refusal["reason"], refusal["free_slots"]) == ("over_fair_share", 2)
    assert refusal["counter_offers"] == {}  # no size would do
    code, output, _ = spotfed("submit", "--cores=1", "--lifetime=1h", "--sla=1", "--origin=hog")
    assert code == 3
    assert "holds its share of the cloud" in " ".join(output.split())
    assert [ask(api, f"s{number}", "small").status_code for number in (2, 3)] == [201, 201]
    assert api.get("/v1/clouds/east").json()["info"]["fair_share"] is True


def test_where_shares_are_not_fair_a_full_cloud_is_not_asked(
    federation: Federation, api: httpx.Client
) -> None:
    east = federation.join("east", (4,))
    assert ask(api, "h", "hog", 4).status_code == 201
    wait_until(lambda: api.get("/v1/clouds/east").json()["advert"]["free_cores"] == 0)
    handled = [one.kind for one in east.handled if one.kind == "reserve"]
    problem(ask(api, "s", "small"), "refused")
    assert [one.kind for one in east.handled if one.kind == "reserve"] == handled
