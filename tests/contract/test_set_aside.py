"""What callers hear of commands over which an owner broke: a problem that says so, and at once."""

import httpx
import pytest

from broker.client import Client, ProblemAnswer
from broker.contract import Command, RefusalView, Reply
from cloudsim.model.refusals import RefusalReason
from tests.contract.harness import KEY, FakeOwner, Federation, Run
from tests.contract.test_requests import problem
from tests.support.wait import wait_until
from workers.owner.event_writer import Decisions
from workers.owner.owner import Owner


@pytest.fixture
def east(federation: Federation, monkeypatch: pytest.MonkeyPatch) -> FakeOwner:
    """It has a lease, r.1, and from then on breaks over everything, as its process tells who waits."""
    east = federation.join("east")
    answer = httpx.post(
        f"{federation.url}/v1/requests",
        json={"id": "r", "cores": 1, "lifetime_s": 1e6},
        headers={"Authorization": f"Bearer {KEY}"},
    )
    assert answer.status_code == 201
    wait_until(lambda: len(east.handled) == 2)  # reserved and confirmed

    def put_aside(self: Owner, command: Command, now_s: float, now: str) -> Decisions:
        refusal = RefusalView(cloud="east", reason=RefusalReason.UNREACHABLE, detail="set aside")
        reply = Reply(command=command.id, answer=refusal)
        return Decisions(replies=[] if command.reply_to is None else [(command.reply_to, reply)])

    monkeypatch.setattr(Owner, "handle", put_aside)
    return east


CALLS = [
    ("DELETE", "/v1/leases/r.1", None),
    ("POST", "/v1/leases/r.1/extend", {"lifetime_s": 2e6}),
    ("POST", "/v1/leases/r.1/acknowledge", None),
    ("POST", "/v1/clouds/east/drain", {}),
    ("DELETE", "/v1/clouds/east/drain", None),
    ("POST", "/v1/clouds/east/on-demand", {"id": "vm", "cores": 1}),
    ("POST", "/v1/clouds/east/on-demand", {"all_or_nothing": True, "requests": [{"id": "vm", "cores": 1}]}),
    ("GET", "/v1/clouds/east/on-demand/vm", None),
    ("DELETE", "/v1/clouds/east/on-demand/vm", None),
]


@pytest.mark.usefixtures("east")
def test_every_call_to_one_owner_says_so(api: httpx.Client) -> None:
    for method, path, body in CALLS:
        response = api.request(method, path, json=body) if body is not None else api.request(method, path)
        assert "spotfed dlq" in problem(response, "set-aside")["detail"], f"{method} {path}"


def test_a_request_goes_on_to_the_next_cloud(
    federation: Federation, east: FakeOwner, api: httpx.Client
) -> None:
    refused = problem(api.post("/v1/requests", json={"cores": 1, "lifetime_s": 60}), "refused")
    (refusal,) = refused["refusals"]
    assert (refusal["cloud"], refusal["reason"], refusal["detail"]) == ("east", "unreachable", "set aside")


@pytest.mark.usefixtures("east")
def test_the_client_does_not_ask_again(federation: Federation, spotfed: Run) -> None:
    with Client(federation.url, KEY, deadline_s=60.0) as client, pytest.raises(ProblemAnswer) as raised:
        client.clouds.drain("east")
    assert raised.value.problem.type == "urn:spotfed:problem:set-aside"
    code, _, err = spotfed("release", "r.1")
    assert (code, "set it aside" in " ".join(err.split())) == (1, True), err
