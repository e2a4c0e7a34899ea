"""Requests that need more than cores: memory, labels, company; what a refusal says of the nodes."""

import json
from typing import Any

import httpx
import pytest

from broker.contract import Reserve
from cloudsim.model.nodes import NodeGroup, nodes_of
from tests.contract.harness import FakeOwner, Federation, Run
from tests.contract.test_requests import problem
from tests.support.wait import wait_until

WISH = {"cores": 1, "lifetime_s": 60}
NORTH = frozenset({("zone", "north")})


@pytest.fixture
def mixed(federation: Federation, api: httpx.Client) -> FakeOwner:
    """Nodes 0 and 1 are in the north and have 8000 MB each; node 2 has 1000."""
    cores, details = nodes_of(
        [NodeGroup(2, 4, (("memory_mb", 8000),), NORTH), NodeGroup(1, 8, (("memory_mb", 1000),))]
    )
    federation.join("plain", (64,))
    owner = federation.join("mixed", cores, details=details)
    wait_until(lambda: api.get("/v1/clouds/mixed").json()["reachable"])
    return owner


def refusals(response: httpx.Response) -> dict[str, Any]:
    return {one["cloud"]: one for one in problem(response, "refused")["refusals"]}


def test_what_it_needs_reaches_the_node_and_the_lease(mixed: FakeOwner, api: httpx.Client) -> None:
    needs = {"resources": {"memory_mb": 5000}, "labels": {"zone": "north"}, "group": "web", "spread": "apart"}
    first, second = (api.post("/v1/requests", json=WISH | needs).json()["lease"] for _ in range(2))
    assert [(one["cloud"], one["node"]) for one in (first, second)] == [("mixed", 0), ("mixed", 1)]
    assert (first["amounts"], first["labels"]) == ({"memory_mb": 5000}, {"zone": "north"})
    assert (first["group"], first["spread"]) == ("web", "apart")
    third = refusals(api.post("/v1/requests", json=WISH | needs))
    assert (third["plain"]["reason"], third["mixed"]["reason"]) == ("too_large", "no_such_node")
    assert third["mixed"]["removed"] == {"labels": 1, "anti_affinity": 2}
    assert not third["mixed"]["eviction_would_help"]
    crowd = refusals(api.post("/v1/requests", json=WISH | {"resources": {"memory_mb": 5000}}))
    assert (crowd["mixed"]["reason"], crowd["mixed"]["removed"]) == ("no_capacity", {"room": 3})
    assert crowd["mixed"]["eviction_would_help"]
    together = WISH | {"group": "web", "spread": "together", "targets": ["mixed"]}
    assert api.post("/v1/requests", json=together).json()["lease"]["node"] == 0


def test_an_advert_of_free_cores_is_no_verdict_on_memory(mixed: FakeOwner, api: httpx.Client) -> None:
    """Cores are free everywhere: the owner is asked, and says that there is no memory."""
    api.post("/v1/requests", json=WISH | {"resources": {"memory_mb": 8000}})
    api.post("/v1/requests", json=WISH | {"resources": {"memory_mb": 8000}})
    before = len([one for one in mixed.handled if isinstance(one, Reserve)])
    wish = WISH | {"resources": {"memory_mb": 2000}}
    assert refusals(api.post("/v1/requests", json=wish))["mixed"]["reason"] == "no_capacity"
    assert len([one for one in mixed.handled if isinstance(one, Reserve)]) == before + 1
    # No node of these clouds is in the south: that is known beforehand, and nobody is bothered.
    south = refusals(api.post("/v1/requests", json=WISH | {"labels": {"zone": "south"}}))
    assert (south["mixed"]["reason"], south["mixed"]["removed"]) == ("no_such_node", {"labels": 3})
    assert len([one for one in mixed.handled if isinstance(one, Reserve)]) == before + 1


def test_quotes_of_what_needs_more_than_cores(mixed: FakeOwner, api: httpx.Client) -> None:
    wish = WISH | {"cores": [1, 2], "resources": {"memory_mb": 4000}}
    answer = api.post("/v1/quotes", json=wish).json()
    assert [(one["cloud"], one["cores"], one["free_slots"]) for one in answer["quotes"]] == [
        ("mixed", 1, 4),
        ("mixed", 2, 4),
    ]
    assert {one["reason"] for one in answer["refusals"]} == {"too_large"}


BAD: list[tuple[dict[str, Any], str]] = [
    ({"resources": {"memory_mb": 8001}}, "resources.memory_mb"),
    ({"resources": {"gpus": 1}}, "resources.gpus"),
    ({"resources": {"cores": 1}}, "resources"),
    ({"resources": {"memory_mb": 1.5}}, "resources.memory_mb"),
    ({"resources": {"memory_mb": -1}}, "resources.memory_mb"),
    ({"resources": [1]}, "resources"),
    ({"labels": {"zone": 1}}, "labels.zone"),
    ({"labels": {"zone": "a b"}}, "labels.zone"),
    ({"group": "a b"}, "group"),
    ({"spread": "apart"}, "spread"),
    ({"group": "web", "spread": "wide"}, "spread"),
    ({"flavour": "small"}, "flavour"),
]


@pytest.mark.parametrize("path", ["/v1/requests", "/v1/quotes"])
def test_needs_that_nobody_can_meet_name_the_field(mixed: FakeOwner, api: httpx.Client, path: str) -> None:
    for needs, field in BAD:
        answer = problem(api.post(path, json=WISH | needs), "invalid")
        assert field in [error["field"] for error in answer["errors"]]
    listed = api.post("/v1/requests", json=[WISH | needs for needs, _ in BAD]).json()["results"]
    assert {one["problem"]["status"] for one in listed} == {422}


def test_the_same_needs_are_the_same_request(mixed: FakeOwner, api: httpx.Client) -> None:
    one = WISH | {"id": "n", "resources": {"memory_mb": 10, "x": 0}, "labels": {"zone": "north"}}
    first = api.post("/v1/requests", json=one)
    again = api.post(
        "/v1/requests",
        json=WISH | {"id": "n", "labels": {"zone": "north"}} | {"resources": {"memory_mb": 10}},
    )
    assert (first.status_code, first.json()) == (again.status_code, again.json())
    problem(api.post("/v1/requests", json=WISH | {"id": "n", "labels": {"zone": "north"}}), "key-reused")


def test_the_command_line_asks_for_them_and_tells_why_not(mixed: FakeOwner, spotfed: Run) -> None:
    common = ("submit", "--cores", 1, "--lifetime", "1h", "--sla", "none", "--cloud", "mixed")
    web = ("--resource", "memory_mb=5000", "--label", "zone=north", "--group", "web", "--apart")
    code, out, _ = spotfed(*common, *web, "--count", 2)
    assert code == 0
    assert "node 0: 1 core with memory_mb 5000 for 1 h" in " ".join(out.split())
    code, out, _ = spotfed(*common, *web)
    said = " ".join(out.split())
    assert code == 3
    assert (
        "mixed: no node has what was asked for; nodes: 1 without the labels, 2 with some of its group" in said
    )
    code, out, _ = spotfed(*common, "--resource", "memory_mb=5000")
    said = " ".join(out.split())
    assert "mixed: no free slot of this size; nodes: 3 without room; there would be room without spot" in said
    code, out, _ = spotfed(*common, "--group", "web", "--together", "--json")
    assert (code, json.loads(out)["lease"]["spread"]) == (0, "together")


def test_options_that_cannot_be_used(spotfed: Run) -> None:
    for options, message in (
        (["--resource", "memory_mb"], "--resource: 'memory_mb' is not NAME=VALUE"),
        (["--resource", "memory_mb=4G"], "--resource: '4G' is not a whole number"),
        (["--resource", "m=1", "--resource", "m=2"], "--resource: m is given twice"),
        (["--resource", "cores=1"], "--resource: cores are named apart"),
        (["--label", "zone="], "--label: 'zone=' is not NAME=VALUE"),
        (["--apart"], "--apart/--together: says how a group is spread"),
        (["--group", "a b", "--apart"], "--group: String should match"),
    ):
        for command in ("submit", "quote"):
            code, _, err = spotfed(command, "--cores", 1, "--lifetime", "1h", *options)
            assert code == 2
            assert message in " ".join(err.split())
