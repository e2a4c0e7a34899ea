"""On-demand that a cloud sells to others: the priced counter-offer, and who may do what with it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from broker.client import (
    Client,
    GrantedRequest,
    NotFoundError,
    ProblemAnswer,
    RefusedRequest,
    UnavailableError,
)
from broker.contract import Launch, OnDemandRequest, SpotRequest
from broker.contract.instances import InstanceCatalogue, InstanceRecord
from broker.contract.launch import LaunchRules
from broker.identity.permissions import Role
from broker.schemas.api_keys import KeyWish
from broker.schemas.members import MemberWish
from broker.signing.agent_keys import read_agent_key
from cloudsim.model.flavours import CloudFlavour
from tests.contract.harness import KEY, FakeOwner, Federation, Run
from tests.contract.test_launches import agent_signer
from tests.support.wait import wait_until
from workers.cloud_agent.leases import CloudLeases

SOLD: dict[str, Any] = {
    "sells_on_demand": True,
    "spot_usd_per_core_hour": 0.01,
    "on_demand_usd_per_core_hour": 0.05,
}
CATALOGUE = InstanceCatalogue(
    cloud="glade",
    flavours=(CloudFlavour("m1.small", 2),),
    rules=LaunchRules(images={"debian-*": ""}, user_data=True),
)
#: Nobody has a table, so nobody promises anything.
WISH: dict[str, Any] = {"cores": 2, "lifetime_s": 7200, "sla": 0.05}


@pytest.fixture
def public(federation: Federation, api: httpx.Client) -> FakeOwner:
    """Sells on-demand; its neighbour does not."""
    federation.join("private", (4,))
    owner = federation.join("public", (4, 4))
    owner.tell(**SOLD)
    wait_until(lambda: api.get("/v1/clouds/public").json()["info"].get("sells_on_demand"))
    return owner


def test_a_refusal_says_where_on_demand_is_sold_and_what_it_costs(
    public: FakeOwner, api: httpx.Client
) -> None:
    offer = {"cloud": "public", "cores": 2, "usd_per_core_hour": 0.05, "usd": pytest.approx(0.2)}
    refused = api.post("/v1/requests", json=WISH)
    assert (refused.status_code, refused.json()["on_demand"]) == (409, [offer])
    assert "/v1/clouds/{cloud}/on-demand" in refused.json()["detail"]
    listed = api.post("/v1/requests", json=[WISH, WISH | {"cores": 3}, WISH | {"sla": None}]).json()[
        "results"
    ]
    assert [one["cores"] for one in listed[0]["problem"]["on_demand"]] == [2]
    assert listed[1]["problem"]["on_demand"][0]["usd"] == pytest.approx(0.3)
    assert listed[2]["lease"] is not None
    quotes = api.post("/v1/quotes", json=WISH | {"cores": [2, 4]}).json()
    assert [(one["cloud"], one["cores"]) for one in quotes["on_demand"]] == [("public", 2), ("public", 4)]
    assert api.post("/v1/quotes", json=WISH | {"sla": None}).json()["on_demand"] == []
    public.tell(sells_on_demand=False)
    wait_until(lambda: "on_demand" not in api.post("/v1/requests", json=WISH).json())


def test_an_extension_that_is_refused_offers_no_second_instance(public: FakeOwner, api: httpx.Client) -> None:
    lease = api.post("/v1/requests", json=WISH | {"sla": None}).json()["lease"]["id"]
    api.delete(f"/v1/leases/{lease}")
    refused = api.post(f"/v1/leases/{lease}/extend", json={"lifetime_s": 9000})
    assert (refused.status_code, refused.json().get("on_demand")) == (409, None)


@dataclass
class Members:
    """Two members with a cloud each, of which the second sells on-demand to others; a third has none."""

    federation: Federation
    home: Client
    host: Client
    third: Client
    viewer: Client
    operator: Client


@pytest.fixture
def members(federation: Federation, public: FakeOwner) -> Iterator[Members]:
    with Client(federation.url, KEY) as operator:
        operator.members.add(MemberWish(name="home", clouds=("private",)))
        operator.members.add(MemberWish(name="host", clouds=("public",)))
        operator.members.add(MemberWish(name="third"))
        made = [operator.api_keys.create(KeyWish(principal=name)).key for name in ("home", "host", "third")]
        made.append(operator.api_keys.create(KeyWish(principal="home/eyes", role=Role.VIEWER)).key)
        home, host, third, viewer = clients = [Client(federation.url, key, deadline_s=60) for key in made]
        yield Members(federation, home, host, third, viewer, operator)
        for client in clients:
            client.close()


def started(answer: GrantedRequest | RefusedRequest) -> str:
    assert isinstance(answer, GrantedRequest), answer
    return answer.lease.id


def test_a_guest_starts_sees_and_stops_its_own(members: Members) -> None:
    wish = OnDemandRequest(id="mine", cores=2, lifetime_s=7200)
    answer = members.home.on_demand.start("public", wish)
    assert isinstance(answer, GrantedRequest)
    assert (answer.lease.id, answer.lease.origin, answer.lease.kind) == ("home:mine", "home", "on_demand")
    assert members.home.on_demand.start("public", wish) == answer
    assert members.home.on_demand.get("public", "home:mine").state == "running"  # type: ignore[union-attr]
    members.home.on_demand.stop("public", "home:mine")
    assert members.home.on_demand.get("public", "home:mine").state == "cancelled"  # type: ignore[union-attr]
    entries = [(one.what, one.by, one.object, one.more) for one in members.operator.members.read_audit(2)]
    assert entries == [
        ("on-demand stopped", "home", "home:mine", {"cloud": "public"}),
        (
            "on-demand started",
            "home",
            "home:mine",
            {"cloud": "public", "cores": 2, "usd_per_core_hour": 0.05},
        ),
    ]


def test_nobody_else_sees_or_stops_it(members: Members) -> None:
    mine = started(members.home.on_demand.start("public", OnDemandRequest(id="x", cores=1)))
    theirs = started(members.host.on_demand.start("public", OnDemandRequest(id="x", cores=1)))
    assert (mine, theirs) == ("home:x", "x")
    for who, instance in (
        (members.third, mine), (members.third, theirs), (members.home, theirs), (members.host, mine),
    ):  # fmt: skip
        with pytest.raises(NotFoundError):
            who.on_demand.get("public", instance)
        with pytest.raises(NotFoundError):
            who.on_demand.stop("public", instance)
    owner = members.federation.owners["public"]
    assert sorted(owner.running()) == ["home:x", "x"]
    members.operator.on_demand.stop("public", mine)
    members.host.on_demand.stop("public", theirs)
    assert owner.running() == []


def test_a_name_that_others_gave_to_theirs_is_taken(members: Members) -> None:
    started(members.host.on_demand.start("public", OnDemandRequest(id="home:y", cores=1)))
    with pytest.raises(ProblemAnswer) as caught:
        members.home.on_demand.start("public", OnDemandRequest(id="y", cores=1))
    assert caught.value.problem.type == "urn:spotfed:problem:key-reused"
    with pytest.raises(ProblemAnswer, match="id: is too long"):
        members.home.on_demand.start("public", OnDemandRequest(id="z" * 124, cores=1))


def test_who_may_not_start_any(members: Members) -> None:
    with pytest.raises(NotFoundError, match="no such cloud"):  # it does not sell
        members.host.on_demand.start("private", OnDemandRequest(cores=1))
    with pytest.raises(ProblemAnswer) as caught:
        members.viewer.on_demand.start("public", OnDemandRequest(cores=1))
    assert caught.value.problem.status == 403
    with pytest.raises(NotFoundError, match="no such cloud"):
        members.third.on_demand.start("nowhere", OnDemandRequest(cores=1))


def test_what_was_bought_can_be_stopped_when_nothing_is_sold_any_more(
    members: Members, public: FakeOwner, api: httpx.Client
) -> None:
    mine = started(members.third.on_demand.start("public", OnDemandRequest(id="late", cores=1)))
    public.tell(sells_on_demand=False)
    wait_until(lambda: not api.get("/v1/clouds/public").json()["info"].get("sells_on_demand"))
    with pytest.raises(NotFoundError):
        members.third.on_demand.start("public", OnDemandRequest(cores=1))
    members.third.on_demand.stop("public", mine)
    assert public.running() == []


def test_several_together_are_a_guests_too(members: Members, federation: Federation) -> None:
    key = members.operator.api_keys.create(KeyWish(principal="third")).key
    body = {"all_or_nothing": True, "requests": [{"cores": 4, "id": "a"}, {"cores": 4, "id": "b"}]}
    with httpx.Client(base_url=federation.url, headers={"Authorization": f"Bearer {key}"}) as third:
        answer = third.post("/v1/clouds/public/on-demand", json=body)
        assert answer.status_code == 201, answer.text
        assert [one["id"] for one in answer.json()["leases"]] == ["third:a", "third:b"]
        assert {one["origin"] for one in answer.json()["leases"]} == {"third"}
        assert third.post("/v1/clouds/public/on-demand", json=body).json() == answer.json()


def test_a_guest_that_finds_no_room_is_not_offered_to_the_federation(
    federation: Federation, api: httpx.Client
) -> None:
    federation.join("other", (8,))
    seller = federation.join("seller", (2,), overflow=True)
    seller.tell(**SOLD)
    with Client(federation.url, KEY) as operator:
        operator.members.add(MemberWish(name="third"))
        key = operator.api_keys.create(KeyWish(principal="third")).key
    wait_until(lambda: api.get("/v1/clouds/seller").json()["info"].get("sells_on_demand"))
    with Client(federation.url, key) as third:
        started(third.on_demand.start("seller", OnDemandRequest(cores=2)))
        refused = third.on_demand.start("seller", OnDemandRequest(id="more", cores=1, lifetime_s=60))
    assert isinstance(refused, RefusedRequest)
    assert [one.reason for one in refused.refusals] == ["no_capacity"]
    assert len(seller.owner.state.offers) == 0


def test_a_client_takes_the_first_that_has_room(members: Members, public: FakeOwner) -> None:
    wish = SpotRequest(id="job", cores=4, lifetime_s=7200, sla=0.05)
    refused = members.third.requests.submit(wish)
    assert isinstance(refused, RefusedRequest)
    taken = members.third.on_demand.take_first(wish, refused.on_demand)
    assert taken is not None
    lease, offer = taken
    assert (lease.id, lease.cloud, lease.cores) == ("third:job", "public", 4)
    assert offer.usd == pytest.approx(0.4)
    assert members.third.on_demand.take_first(wish, refused.on_demand) == taken
    started(members.host.on_demand.start("public", OnDemandRequest(cores=4)))
    another = wish.model_copy(update={"id": "another"})
    assert members.third.on_demand.take_first(another, refused.on_demand) is None
    assert members.third.on_demand.take_first(wish, []) is None


def test_the_command_line_says_what_it_costs_and_takes_it(spotfed: Run, public: FakeOwner) -> None:
    submit = ("submit", "--cores", 2, "--lifetime", "2h", "--sla", "0.05")
    code, out, _ = spotfed(*submit)
    assert code == 3
    assert "on-demand on public: 0.05 $ a core-hour, 0.20 $ in all, never taken back" in out
    code, out, _ = spotfed("submit", "--cores", 1, "--lifetime", "none", "--sla", "0.05")
    assert (code, "on-demand on public: 0.05 $ a core-hour, never taken back" in out) == (3, True)
    code, out, _ = spotfed("quote", "--cores", "2,4", "--lifetime", "2h")
    assert code == 3
    assert "on-demand of 4 cores on public: 0.05 $ a core-hour, 0.40 $ in all, never taken back" in out
    code, out, _ = spotfed(*submit, "--or-on-demand", "--id", "job")
    assert code == 5
    assert "refused as spot, started on-demand job on public instead: 2 cores for 2 h" in out
    assert "0.05 $ a core-hour, 0.20 $ in all" in out
    code, out, _ = spotfed(*submit, "--or-on-demand", "--id", "job", "--json")
    told = json.loads(out)
    assert (code, told["lease"]["id"], told["lease"]["kind"]) == (5, "job", "on_demand")
    assert (told["taken"]["cloud"], told["taken"]["usd"]) == ("public", pytest.approx(0.2))
    assert public.running() == ["job"]
    code, out, _ = spotfed(*submit[:-1], "none", "--or-on-demand", "--json")
    assert (code, json.loads(out)["lease"]["kind"], "taken" in out) == (0, "spot", False)
    code, out, _ = spotfed(*submit, "--or-on-demand", "--count", 4, "--json")
    lines = [json.loads(line) for line in out.splitlines()]
    assert code == 3  # room for three of them, and the worst counts
    assert sum(line["lease"] is not None for line in lines) == 3


def test_a_real_cloud_sells_what_runs_as_its_buyer_says(
    members: Members, spotfed: Run, tmp_path: Path
) -> None:
    federation = members.federation
    host = federation.join("glade", (4,), catalogue=lambda: CATALOGUE)
    host.tell(instances="openstack", **SOLD)
    wait_until(lambda: members.operator.clouds.get("glade").info.sells_on_demand)
    launch = Launch(image="debian-12", user_data=SecretStr("#!/bin/sh\necho s3cret\n"))
    wish = OnDemandRequest(id="mine", cores=2, launch=launch)
    members.home._transport.deadline_s = 0.0
    with pytest.raises(UnavailableError, match="the agent of glade has not told its key yet"):
        members.home.on_demand.start("glade", wish)
    members.home._transport.deadline_s = 60.0
    key = read_agent_key(tmp_path / "glade.jwk")
    agent = CloudLeases(federation.redis, federation.keys, "glade", agent_signer("glade"), key)
    agent.write_catalogue(CATALOGUE.flavours, CATALOGUE.rules)
    answer = members.home.on_demand.start("glade", wish)
    assert isinstance(answer, GrantedRequest)
    assert answer.lease.launch is not None
    assert (answer.lease.id, answer.lease.launch.image) == ("home:mine", "debian-12")
    assert agent.open_launch(answer.lease) == launch
    again = members.home.on_demand.start("glade", wish)
    assert isinstance(again, GrantedRequest)
    assert again.lease == answer.lease
    with pytest.raises(ProblemAnswer, match="with another body before"):
        members.home.on_demand.start("glade", wish.model_copy(update={"launch": None}))
    for refused, reason in (
        ({"cores": 3}, "no_such_flavour"),
        ({"launch": Launch(image="x")}, "not_allowed"),
    ):
        told = members.home.on_demand.start("glade", wish.model_copy(update={"id": reason, **refused}))
        assert isinstance(told, RefusedRequest)
        assert [one.reason for one in told.refusals] == [reason]
    with pytest.raises(NotFoundError):
        members.home.on_demand.get_instance("glade", "home:mine")
    agent.write_record("home:mine", InstanceRecord(lease="home:mine", since=1.0, addresses=("192.0.2.7",)))
    assert members.home.on_demand.get_instance("glade", "home:mine").addresses == ("192.0.2.7",)
    assert "addresses: 192.0.2.7" in spotfed("instance", "home:mine", "--cloud", "glade")[1]
    with pytest.raises(NotFoundError):
        members.third.on_demand.get_instance("glade", "home:mine")
    with pytest.raises(ProblemAnswer, match="its users call it themselves"):
        members.operator.on_demand.start("glade", wish)
    spot = SpotRequest(cores=2, lifetime_s=7200, sla=0.05, launch=launch)
    refusal = members.home.requests.submit(spot)
    assert isinstance(refusal, RefusedRequest)
    assert [offer.cloud for offer in refusal.on_demand] == ["glade"], "a simulated cloud runs no image"
    bought = members.home.on_demand.take_first(spot, refusal.on_demand)
    assert bought is not None
    assert bought[0].launch is not None
    assert bought[0].launch.image == "debian-12"
