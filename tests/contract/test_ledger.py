"""GET /v1/ledger, and the cloud that broke its promises: asked last, and why, until it keeps them."""

import json
import time
from typing import Any

import httpx
import pytest

from broker.client import Client, InputRefusedError
from broker.contract import SpotRequest
from broker.requests.members import REFRESH_S
from tests.contract.harness import KEY, FakeOwner, Federation, Run, serving
from tests.contract.test_requests import problem
from tests.support.wait import wait_until
from tests.unit.workers.owners import harmless_table

WISH = {"cores": 1, "lifetime_s": 3600, "sla": 0.05}
SAID = "broke its promise at 0.05: 3 of 3 evicted, at least 0.2924"


def broken(api: httpx.Client, cloud: str) -> list[dict[str, Any]]:
    promises: list[dict[str, Any]] = api.get(f"/v1/clouds/{cloud}").json()["broken_promises"]
    return promises


def evict_three(api: httpx.Client, cloud: str, cores: int) -> None:
    """Three promises to B, all broken by an own user of the cloud, who leaves again."""
    for number in range(3):
        wish = WISH | {"id": f"{cloud}-{number}", "origin": "B", "targets": [cloud]}
        assert api.post("/v1/requests", json=wish).status_code == 201
    leases = [f"{cloud}-{number}.1" for number in range(3)]
    wait_until(lambda: all(api.get(f"/v1/leases/{one}").json()["state"] == "running" for one in leases))
    assert api.post(f"/v1/clouds/{cloud}/on-demand", json={"id": "vm", "cores": cores}).status_code == 201
    assert api.delete(f"/v1/clouds/{cloud}/on-demand/vm").status_code == 200


@pytest.fixture
def clock() -> list[float]:
    """The time in east."""
    return [1000.0]


@pytest.fixture
def faithless(federation: Federation, api: httpx.Client, clock: list[float]) -> FakeOwner:
    """East, of 4 cores, believes that it never evicts anybody, as does west, of 8 cores, which is empty. But
    it has broken three promises of three."""
    east = federation.join("east", (4,), clock=lambda: clock[0])
    west = federation.join("west", (8,))
    east.owner.cloud.table, west.owner.cloud.table = harmless_table((4,)), harmless_table((8,))
    wait_until(lambda: all(one["advert"]["table_version"] for one in api.get("/v1/clouds").json()["clouds"]))
    evict_three(api, "east", 4)
    api.get("/v1/ledger")  # reads what there is
    wait_until(lambda: broken(api, "east"))
    return east


def test_what_was_promised_and_what_came_of_it(
    federation: Federation, api: httpx.Client, faithless: FakeOwner
) -> None:
    assert (
        api.post("/v1/requests", json=WISH | {"id": "kept", "origin": "C"}).json()["lease"]["cloud"] == "west"
    )
    api.post("/v1/requests", json={"cores": 1, "lifetime_s": 60, "targets": ["west"]})  # nothing is promised
    wait_until(lambda: len(api.get("/v1/ledger").json()["entries"]) == 2)
    found = api.get("/v1/ledger").json()
    east, west = found["entries"]
    assert (east["cloud"], east["sla"], east["promised"], east["kept"]) == ("east", 0.05, 0.05, "broken")
    assert (east["admitted"], east["running"], east["completed"], east["evicted"]) == (3, 0, 0, 3)
    assert (east["realised"], east["at_least"], east["at_most"]) == (
        1.0,
        pytest.approx(0.292402, abs=1e-6),
        1.0,
    )
    assert (east["mean_risk"], east["origin"], east["table_version"]) == (0.0, None, None)
    assert (west["cloud"], west["running"], west["realised"], west["kept"]) == ("west", 1, None, "open")
    assert found["clouds"][0] == {"cloud": "east", "sequence": 6, "missing": 0, "misplaced": 0}
    assert found["more"] is False
    table = faithless.owner.cloud.table
    assert table is not None
    (whole,) = api.get("/v1/ledger", params={"cloud": "east", "by": "cloud, origin,sla,table"}).json()[
        "entries"
    ]
    assert (whole["origin"], whole["table_version"]) == ("B", table.version)
    (one,) = api.get("/v1/ledger", params={"by": "origin", "origin": "C", "sla": 0.05}).json()["entries"]
    assert (one["cloud"], one["origin"], one["admitted"]) == (None, "C", 1)
    (total,) = api.get("/v1/ledger", params={"by": ""}).json()["entries"]
    assert (total["admitted"], total["evicted"]) == (4, 3)
    assert api.get("/v1/ledger", params={"limit": 1}).json()["more"] is True
    assert api.get("/v1/ledger", params={"cloud": "nowhere"}).json()["entries"] == []
    with Client(federation.url, KEY) as client:
        assert client.ledger.read(cloud="east", by=["origin"]).entries[0].evicted == 3
        with pytest.raises(InputRefusedError, match="by"):
            client.ledger.read(by=["price"])


@pytest.mark.parametrize(
    ("name", "value"), [("by", "cloud,price"), ("sla", "nan"), ("sla", "2"), ("limit", "0")]
)
def test_input_that_cannot_be_used_is_named(
    federation: Federation, api: httpx.Client, name: str, value: str
) -> None:
    del federation
    (error,) = problem(api.get("/v1/ledger", params={name: value}), "invalid")["errors"]
    assert error["field"] == name
    assert error["accepted"]
    assert httpx.get(f"{api.base_url}/v1/ledger").status_code == 401


def test_it_is_asked_last_at_that_sla_and_all_who_ask_hear_why(
    federation: Federation, api: httpx.Client, faithless: FakeOwner
) -> None:
    (verdict,) = broken(api, "east")
    assert (verdict["sla"], verdict["evicted"], verdict["admitted"]) == (0.05, 3, 3)
    assert verdict["detail"] == SAID
    assert broken(api, "west") == []
    quotes = api.post("/v1/quotes", json=WISH).json()["quotes"]
    assert [quote["cloud"] for quote in quotes] == ["west", "east"]
    assert [quote.get("broken_promise") for quote in quotes] == [None, verdict]
    quotes = api.post("/v1/quotes", json=WISH | {"sla": 0.1}).json()["quotes"]
    assert [quote["cloud"] for quote in quotes] == ["east", "west"], "tighter, and nothing is known at 0.1"
    assert [quote.get("broken_promise") for quote in quotes] == [None, None]
    assert api.post("/v1/requests", json=WISH).json()["lease"]["cloud"] == "west"
    assert api.post("/v1/requests", json=WISH | {"sla": 0.1}).json()["lease"]["cloud"] == "east"
    # West has no room for the next: then east is better than nobody.
    assert api.post("/v1/clouds/west/on-demand", json={"cores": 7}).status_code == 201
    wait_until(lambda: api.get("/v1/clouds/west").json()["advert"]["free_cores"] == 0)
    assert api.post("/v1/requests", json=WISH | {"cores": 3}).json()["lease"]["cloud"] == "east"
    refused = problem(api.post("/v1/requests", json=WISH | {"cores": 4}), "refused")["refusals"]
    said = {one["cloud"]: one.get("broken_promise") for one in refused}
    assert said.keys() == {"east", "west"}
    assert said["west"] is None
    # The one just admitted may be counted by now.
    assert (said["east"]["sla"], said["east"]["evicted"]) == (0.05, 3)


def test_it_comes_back_when_it_keeps_its_promises(
    federation: Federation, api: httpx.Client, faithless: FakeOwner, clock: list[float]
) -> None:
    del federation, faithless
    for _ in range(20):
        clock[0] += 2.0  # those before have lived as long as they were promised
        wishes = [WISH | {"targets": ["east"], "lifetime_s": 1}] * 3
        results = api.post("/v1/requests", json=wishes).json()["results"]
        assert [result["lease"]["cloud"] for result in results] == ["east"] * 3
    wait_until(lambda: not broken(api, "east"))
    clock[0] += 2.0
    assert api.post("/v1/quotes", json=WISH).json()["quotes"][0]["cloud"] == "east"
    (entry,) = api.get("/v1/ledger", params={"cloud": "east"}).json()["entries"]
    assert (entry["admitted"], entry["evicted"], entry["kept"]) == (63, 3, "open")


def test_another_process_comes_to_the_same(
    federation: Federation, api: httpx.Client, faithless: FakeOwner
) -> None:
    """From the streams alone; after they were trimmed, from what is left and with a word about it."""
    second = Federation(federation.redis_url)
    second.keys, second.settings = federation.keys, federation.settings
    with serving(second), Client(second.url, KEY) as client:
        wait_until(lambda: client.clouds.get("east").broken_promises)
        assert client.ledger.read().model_dump_json() == api.get("/v1/ledger").text
    with federation.redis as redis:
        redis.xtrim(federation.keys.events("east"), minid="0-5", approximate=False)
    with serving(second), Client(second.url, KEY) as client:
        (entry,) = client.ledger.read(cloud="east").entries
        assert (entry.evicted, entry.running) == (2, 0)
        assert client.ledger.read().clouds[0].missing == 4
    assert api.get("/v1/ledger").json()["entries"][0]["evicted"] == 3, "who had read it knows still"
    # A Redis that came back without its last event, or with another one under its number.
    with federation.redis as redis:
        last = redis.xrevrange(federation.keys.events("east"), count=1)
        redis.delete(federation.keys.events("east"))
        redis.xadd(federation.keys.events("east"), last[0][1] | {b"e": b"{}"}, id=last[0][0])
        wait_until(
            lambda: api.get("/v1/ledger", params={"cloud": "east"}).json()["clouds"][0]["missing"] == 6
        )
        redis.delete(federation.keys.events("east"))
    reach = api.get("/v1/ledger", params={"cloud": "east"}).json()
    assert (reach["entries"], reach["clouds"]) == (
        [],
        [{"cloud": "east", "sequence": 0, "missing": 0, "misplaced": 0}],
    )


def test_in_trace_time_the_order_stays_that_of_the_replay(federation: Federation) -> None:
    for cloud, cores in (("east", 4), ("west", 8)):
        owner = federation.join(cloud, (cores,), trace_time=True)
        owner.owner.cloud.table = harmless_table((cores,))
    with (
        Client(federation.url, KEY) as client,
        httpx.Client(base_url=federation.url, headers={"Authorization": f"Bearer {KEY}"}) as api,
    ):
        for number in range(3):
            client.requests.submit(SpotRequest(**WISH, id=f"r{number}", targets=("east",), at_s=1.0))
        evicting = {"id": "vm", "cores": 4, "lifetime_s": 10}
        assert api.post("/v1/clouds/east/on-demand", json=evicting).status_code == 201
        (entry,) = client.ledger.read().entries
        assert (entry.cloud, entry.evicted, entry.kept) == ("east", 3, "broken")
        time.sleep(REFRESH_S)  # what the broker knew of the members before is forgotten then
        assert client.clouds.get("east").broken_promises == []
        quotes = client.requests.quote(SpotRequest(**WISH, at_s=100.0)).quotes
        assert [(one.cloud, one.broken_promise) for one in quotes] == [("east", None), ("west", None)]
        granted = client.requests.submit(SpotRequest(**WISH, id="next", at_s=100.0))
        assert granted.lease.cloud == "east"  # type: ignore[union-attr]


def test_the_command_line_says_so(spotfed: Run, faithless: FakeOwner) -> None:
    code, out, _ = spotfed("ledger", "--by", "cloud,origin,sla")
    (row,) = [line.replace("│", " ").split() for line in out.splitlines() if "east" in line]
    assert code == 0
    assert row == [
        "east",
        "B",
        "0.05",
        "0.05",
        "3",
        "0",
        "0",
        "3",
        "1",
        "1.0000",
        "0.2924–1.0000",
        "0.0000",
        "broken",
    ]
    code, out, _ = spotfed("ledger", "--cloud", "east", "--sla", "0.05", "--json")
    assert json.loads(out)["entries"][0]["evicted"] == 3
    assert "nothing was promised yet" in spotfed("ledger", "--cloud", "west")[1]
    code, _, err = spotfed("ledger", "--by", "price")
    assert code == 2
    assert "by" in err
    shown = spotfed("clouds")[1]
    assert "asked last at SLA 0.05" in shown
    assert f"east {SAID}" in shown
    quoted = spotfed("quote", "--cores", "1", "--lifetime", "1h", "--sla", "0.05")[1]
    assert "broke its promise at 0.05" in quoted
