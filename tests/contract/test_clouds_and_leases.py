"""Leases, clouds and what a cloud's own users ask."""

import httpx

from tests.contract.harness import Federation
from tests.contract.test_requests import WISH, problem
from tests.support.wait import wait_until


def test_a_lease_is_cancelled_and_stays_ended(federation: Federation, api: httpx.Client) -> None:
    federation.join("east")
    lease = api.post("/v1/requests", json=WISH).json()["lease"]["id"]
    first = api.delete(f"/v1/leases/{lease}")
    assert first.status_code == 200
    assert first.json()["lease"]["state"] == "cancelled"
    assert api.delete(f"/v1/leases/{lease}").json()["lease"]["state"] == "cancelled"
    problem(api.delete("/v1/leases/nobody"), "not-found")
    problem(api.get("/v1/leases/nobody"), "not-found")


def test_a_cancellation_is_kept_while_the_owner_is_away(federation: Federation, api: httpx.Client) -> None:
    east = federation.join("east")
    lease = api.post("/v1/requests", json=WISH).json()["lease"]["id"]
    wait_until(lambda: api.get(f"/v1/leases/{lease}").json()["state"] == "running")
    east.go_deaf()
    response = api.delete(f"/v1/leases/{lease}")
    assert response.status_code == 202
    assert response.json()["done"] is False
    east.hear()
    wait_until(lambda: api.get(f"/v1/leases/{lease}").json()["state"] == "cancelled")


def test_leases_are_listed_and_narrowed(federation: Federation, api: httpx.Client) -> None:
    federation.join("east", (4,))
    federation.join("west", (8,))
    ids = [
        api.post("/v1/requests", json=WISH | {"origin": origin, "id": origin}).json()["lease"]["id"]
        for origin in ("a", "b", "c")
    ]
    assert api.delete(f"/v1/leases/{ids[0]}").status_code == 200
    wait_until(lambda: len(api.get("/v1/leases", params={"state": "running"}).json()["leases"]) == 2)
    listed = api.get("/v1/leases").json()
    assert [lease["id"] for lease in listed["leases"]] == [*ids[1:], ids[0]]
    assert listed["more"] is False
    ended = api.get("/v1/leases", params={"state": "cancelled"}).json()["leases"]
    assert [lease["id"] for lease in ended] == [ids[0]]
    assert [one["id"] for one in api.get("/v1/leases", params={"origin": "b"}).json()["leases"]] == [ids[1]]
    assert {one["cloud"] for one in api.get("/v1/leases", params={"cloud": "east"}).json()["leases"]} == {
        "east"
    }
    limited = api.get("/v1/leases", params={"limit": 1}).json()
    assert len(limited["leases"]) == 1
    assert limited["more"] is True


def test_clouds_and_their_tables(federation: Federation, api: httpx.Client) -> None:
    federation.join("east", (4, 8))
    federation.join("west")
    clouds = api.get("/v1/clouds").json()["clouds"]
    assert [cloud["info"]["id"] for cloud in clouds] == ["east", "west"]
    assert all(cloud["reachable"] for cloud in clouds)
    assert api.get("/v1/clouds/east").json()["advert"]["free_cores"] == 12
    problem(api.get("/v1/clouds/south"), "not-found")
    problem(api.get("/v1/clouds/east/table"), "not-found")
    row = {
        "cores": 1,
        "free_slots_from": 1,
        "free_slots_to": 12,
        "followed_up_s": 9.0,
        "quantiles_s": {"0.5": 9.0},
    }
    table = {"version": "v", "made_at_s": 0.0, "rows": [row]}
    federation.owners["east"].show_table(table)
    assert api.get("/v1/clouds/east/table").json() == table | {"disclosure": "full", "lifetimes": []}


def test_own_users_evict_and_are_told_when_nothing_helps(federation: Federation, api: httpx.Client) -> None:
    federation.join("east", (4,))
    lease = api.post("/v1/requests", json=WISH).json()["lease"]["id"]
    started = api.post("/v1/clouds/east/on-demand", json={"id": "vm/1", "cores": 4})
    assert started.status_code == 201
    assert started.json()["lease"]["kind"] == "on_demand"
    assert api.get(f"/v1/leases/{lease}").json()["state"] == "evicted"
    again = api.post("/v1/clouds/east/on-demand", json={"id": "vm/1", "cores": 4})
    assert again.json() == started.json()
    problem(api.post("/v1/clouds/east/on-demand", json={"id": "vm/1", "cores": 3}), "key-reused")
    refused = problem(api.post("/v1/clouds/east/on-demand", json={"cores": 1}), "refused")
    assert refused["refusals"][0]["reason"] == "no_capacity"
    assert api.delete("/v1/clouds/east/on-demand/vm/1").json()["lease"]["state"] == "cancelled"
    problem(api.delete("/v1/clouds/east/on-demand/vm/2"), "not-found")
    problem(api.post("/v1/clouds/south/on-demand", json={"cores": 1}), "not-found")


def test_own_users_of_a_silent_owner(federation: Federation, api: httpx.Client) -> None:
    east = federation.join("east", (4,))
    east.go_deaf()
    response = api.post("/v1/clouds/east/on-demand", json={"id": "vm", "cores": 4})
    problem(response, "owner-silent")
    assert response.headers["retry-after"] == "1"
    assert api.delete("/v1/clouds/east/on-demand/other").status_code == 202
    east.hear()
    wait_until(
        lambda: api.post("/v1/clouds/east/on-demand", json={"id": "vm", "cores": 4}).status_code == 201
    )


def test_a_silent_cloud_becomes_unreachable_and_comes_back(redis_url: str) -> None:
    from tests.contract.harness import KEY, serving

    with serving(Federation(redis_url)) as federation:
        east = federation.join("east")
        with httpx.Client(base_url=federation.url, headers={"Authorization": f"Bearer {KEY}"}) as api:
            assert api.get("/readyz").status_code == 200
            east.go_deaf()
            federation.forget_adverts_after(0.8)
            wait_until(lambda: not api.get("/v1/clouds/east").json()["reachable"])
            problem(api.get("/readyz"), "not-ready")
            body = problem(api.post("/v1/requests", json=WISH), "refused")
            assert [one["reason"] for one in body["refusals"]] == ["unreachable"]
            east.hear()
            federation.forget_adverts_after(60.0)
            wait_until(lambda: api.get("/v1/clouds/east").json()["reachable"])
            assert api.post("/v1/requests", json=WISH).status_code == 201


def test_keys_open_the_api_and_nothing_else_does(federation: Federation, api: httpx.Client) -> None:
    for headers in (
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Basic x"},
        {"Authorization": "Bearer"},
    ):
        response = httpx.get(f"{federation.url}/v1/clouds", headers=headers)
        assert problem(response, "unauthorized")["status"] == 401
        assert response.headers["www-authenticate"].startswith("Bearer")
    for path in ("/healthz", "/docs", "/docs.js", "/openapi.json"):
        assert httpx.get(federation.url + path).status_code == 200
    assert problem(httpx.get(f"{federation.url}/readyz"), "not-ready")["status"] == 503
    del api


def test_pages_load_nothing_from_elsewhere(federation: Federation) -> None:
    page = httpx.get(f"{federation.url}/docs").text + httpx.get(f"{federation.url}/docs.js").text
    assert "http://" not in page
    assert "https://" not in page
    assert "//cdn" not in page


def test_overflow_is_placed_elsewhere_and_ends_there(federation: Federation, api: httpx.Client) -> None:
    home = federation.join("home", (2,), overflow=True)
    federation.join("away", (4,))
    assert api.post("/v1/clouds/home/on-demand", json={"id": "vm-1", "cores": 2}).status_code == 201
    problem(
        api.post("/v1/clouds/home/on-demand", json={"id": "vm-2", "cores": 2, "lifetime_s": 500}), "refused"
    )
    wait_until(lambda: [one for one in api.get("/v1/leases").json()["leases"] if one["origin"] == "home"])
    (lease,) = api.get("/v1/leases").json()["leases"]
    assert (lease["request"], lease["cloud"]) == ("overflow/home/vm-2/1", "away")
    wait_until(lambda: (offer := home.owner.state.offers.get("vm-2")) is not None and offer.state == "placed")
    wait_until(lambda: api.get(f"/v1/leases/{lease['id']}").json()["state"] == "running")
    # Evicted there: its own cloud offers it again, it finds no room now.
    assert api.post("/v1/clouds/away/on-demand", json={"id": "x", "cores": 4}).status_code == 201
    wait_until(lambda: home.owner.state.offers.get("vm-2") is None)
    with federation.redis as client:
        # The API takes an offer from the stream only after its owner has the answer.
        wait_until(lambda: client.xlen(federation.keys.overflow) == 0)


def test_stopping_what_was_placed_elsewhere(federation: Federation, api: httpx.Client) -> None:
    home = federation.join("home", (2,), overflow=True)
    federation.join("away", (4,))
    assert api.post("/v1/clouds/home/on-demand", json={"id": "vm-1", "cores": 2}).status_code == 201
    for number in range(2, 4):
        body = {"id": f"vm-{number}", "cores": 2, "lifetime_s": 500}
        problem(api.post("/v1/clouds/home/on-demand", json=body), "refused")
    wait_until(lambda: len(api.get("/v1/leases").json()["leases"]) == 2)
    offers = home.owner.state.offers
    for name in ("vm-2", "vm-3"):
        wait_until(lambda name=name: (offer := offers.get(name)) is not None and offer.state == "placed")  # type: ignore[misc]
    assert api.delete("/v1/clouds/home/on-demand/vm-2").status_code == 200
    wait_until(lambda: len(api.get("/v1/leases", params={"state": "cancelled"}).json()["leases"]) == 1)
    assert api.delete("/v1/clouds/home/on-demand/vm-3").status_code == 200
    wait_until(lambda: len(api.get("/v1/leases", params={"state": "cancelled"}).json()["leases"]) == 2)
