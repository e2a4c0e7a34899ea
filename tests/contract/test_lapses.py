"""Leases that are over before the broker's word has reached their owner: what users and subscribers hear."""

import json
from typing import Any

import httpx

from broker.contract import LeaseGranted, LeaseState, SpotRequest
from broker.requests.open_request import OpenRequest
from cloudsim.model.refusals import RefusalReason
from tests.contract.harness import Federation
from tests.support.wait import wait_until
from tests.unit.workers.owners import Live, confirm, reserve, spec


def heard(api: httpx.Client) -> list[dict[str, Any]]:
    """The public events so far."""
    text = api.get("/v1/events", params={"follow": "false"}).text
    return [json.loads(line.removeprefix("data:")) for line in text.splitlines() if line.startswith("data:")]


def test_a_lease_that_is_over_before_it_is_confirmed_begins_and_ends(
    federation: Federation, api: httpx.Client
) -> None:
    east = federation.join("east")
    wish = {"id": "r", "cores": 8, "lifetime_s": 1e-6}
    answer = api.post("/v1/requests", json=wish)
    assert answer.status_code == 201
    told = answer.json()["lease"]
    wait_until(lambda: len(heard(api)) == 2)
    admitted, completed = heard(api)
    assert [admitted["kind"], completed["kind"]] == ["admitted", "completed"]
    assert admitted["lease"]["id"] == completed["lease"]["id"] == told["id"] == "r.1"
    assert completed["lease"]["ended_at_s"] == told["ends_at_s"], "it has not run past its end"
    assert api.get("/v1/leases/r.1").json() == completed["lease"]
    assert api.post("/v1/requests", json=wish).json() == answer.json()
    assert api.delete("/v1/leases/r.1").json()["lease"]["state"] == "completed"
    assert api.post("/v1/requests", json={"cores": 8, "lifetime_s": 60}).status_code == 201
    east.owner.validate()


def test_a_cloud_whose_lease_is_over_before_the_decision_is_passed_over() -> None:
    """Only a late copy of the reservation is answered so: then there is nothing left to decide for."""
    wish = SpotRequest(id="r", origin="B", cores=1, lifetime_s=5.0)
    one = OpenRequest("r", wish, [], trace_time=False, deadline_s=1.0)
    live = Live(spec((4,)))
    command = reserve("r.1", lifetime_s=5.0)
    live.tell(command)
    live.advance(9.0)
    answer = live.tell(command, 9.0)
    assert isinstance(answer, LeaseGranted)
    assert answer.lease.state is LeaseState.COMPLETED
    assert one.conclude("A", answer) is None
    (refusal,) = one.refusals.values()
    assert (refusal.reason, refusal.detail) == (
        RefusalReason.ENDED,
        "it was completed before the broker could decide for it",
    )
    assert live.tell(confirm("r.1"), 10.0) == answer, "should it be decided all the same, it is told"
