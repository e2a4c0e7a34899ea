"""The in-memory federation answers as the real API does, call by call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from broker.client import (
    Client,
    GrantedRequest,
    InputRefusedError,
    NotFoundError,
    ProblemAnswer,
    RefusedRequest,
)
from broker.contract import (
    EventKind,
    ExtensionRequest,
    LeaseState,
    OnDemandRequest,
    QuoteRequest,
    SpotRequest,
)
from broker.testing import InMemoryFederation
from cloudsim.model.refusals import RefusalReason
from tests.contract.harness import KEY, Federation, serving


@dataclass(frozen=True)
class Subject:
    """A federation of ``west`` (one node of 8 cores) and ``east`` (one of 4), and how its own users call."""

    client: Client
    start_on_demand: Callable[[str, int], object]
    add_cloud: Callable[[str, tuple[int, ...]], object]


@pytest.fixture(params=["in memory", "real"])
def subject(request: pytest.FixtureRequest, redis_url: str) -> Iterator[Subject]:
    if request.param == "in memory":
        memory = InMemoryFederation()
        memory.add_cloud("west", (8,))
        memory.add_cloud("east", (4,))
        with memory.client() as client:
            yield Subject(client, memory.start_on_demand, memory.add_cloud)
        return
    with serving(Federation(redis_url)) as federation:
        federation.join("west", (8,))
        federation.join("east", (4,))
        with Client(federation.url, KEY) as client:
            yield Subject(
                client,
                lambda cloud, cores: client.on_demand.start(cloud, OnDemandRequest(cores=cores)),
                federation.join,
            )


def _granted(answer: object) -> GrantedRequest:
    assert isinstance(answer, GrantedRequest), answer
    return answer


def test_the_tightest_cloud_takes_a_request_and_repeats_its_answer(subject: Subject) -> None:
    request = SpotRequest(id="r", cores=2, lifetime_s=3600)
    lease = _granted(subject.client.requests.submit(request)).lease
    assert (lease.id, lease.request, lease.cloud, lease.node, lease.state) == (
        "r.1",
        "r",
        "east",
        0,
        "running",
    )
    again = _granted(subject.client.requests.submit(request)).lease
    assert again.id == lease.id
    with pytest.raises(InputRefusedError) as raised:
        subject.client.requests.submit(request.model_copy(update={"cores": 1}))
    assert raised.value.problem.type == "urn:spotfed:problem:key-reused"
    assert raised.value.problem.title == "Reused id or key"
    assert subject.client.leases.get("r.1").id == lease.id
    assert [item.id for item in subject.client.leases.list(state=LeaseState.RUNNING).leases] == ["r.1"]


def test_a_full_federation_refuses_with_one_reason_a_cloud(subject: Subject) -> None:
    results = subject.client.requests.submit_many(
        [SpotRequest(id=f"r{number}", cores=4, lifetime_s=60) for number in range(4)]
    )
    assert [type(result) for result in results] == [GrantedRequest] * 3 + [RefusedRequest]
    refused = results[3]
    assert isinstance(refused, RefusedRequest)
    assert {refusal.cloud: refusal.reason for refusal in refused.refusals} == {
        "west": RefusalReason.NO_CAPACITY,
        "east": RefusalReason.NO_CAPACITY,
    }
    quotes = subject.client.requests.quote(QuoteRequest(cores=[1], lifetime_s=60))
    assert (len(quotes.quotes), len(quotes.refusals)) == (0, 2)


def test_a_lease_is_given_back_once(subject: Subject) -> None:
    _granted(subject.client.requests.submit(SpotRequest(id="r", cores=1, lifetime_s=60, targets=("west",))))
    assert subject.client.leases.cancel("r.1").lease.state is LeaseState.CANCELLED
    assert subject.client.leases.get("r.1").state is LeaseState.CANCELLED
    refused = subject.client.leases.extend("r.1", ExtensionRequest(lifetime_s=120.0))
    assert isinstance(refused, RefusedRequest)
    assert [refusal.reason for refusal in refused.refusals] == [RefusalReason.ENDED]
    for call in (subject.client.leases.get, subject.client.leases.cancel):
        with pytest.raises(NotFoundError):
            call("nobodys.1")


def test_own_users_evict_the_youngest_and_events_say_so(subject: Subject) -> None:
    for name in ("first", "second"):
        _granted(
            subject.client.requests.submit(SpotRequest(id=name, cores=3, lifetime_s=600, targets=("west",)))
        )
    subject.start_on_demand("west", 4)
    kinds = [
        (sent.event.kind, sent.event.lease and sent.event.lease.id)
        for sent in subject.client.events.stream(follow=False, cloud="west")
    ]
    assert kinds == [
        (EventKind.ADMITTED, "first.1"),
        (EventKind.ADMITTED, "second.1"),
        (EventKind.EVICTED, "second.1"),
    ]
    assert subject.client.leases.get("first.1").state is LeaseState.RUNNING


def test_time_promises_and_silence_are_the_tests_to_choose() -> None:
    federation = InMemoryFederation()
    cloud = federation.add_cloud("west", (4, 4), survives_s=3600.0)
    with federation.client() as client:
        refused = client.requests.submit(SpotRequest(cores=1, lifetime_s=7200, sla=0.05))
        assert isinstance(refused, RefusedRequest)
        assert refused.counter_offers.lifetime_s == 3600.0
        lease = _granted(client.requests.submit(SpotRequest(cores=1, lifetime_s=3600, sla=0.05))).lease
        federation.advance(1800)
        extended = client.leases.extend(lease.id, ExtensionRequest(lifetime_s=5400.0))
        assert not isinstance(extended, RefusedRequest)
        assert extended.ends_at_s == 5400.0
        federation.advance(3600)
        assert client.leases.get(lease.id).state is LeaseState.COMPLETED
        cloud.reachable = False
        silent = client.requests.submit(SpotRequest(cores=1, lifetime_s=60))
        assert isinstance(silent, RefusedRequest)
        assert [refusal.reason for refusal in silent.refusals] == [RefusalReason.UNREACHABLE]
        with pytest.raises(ValueError, match="not 9 cores are there"):
            federation.start_on_demand("west", 9)


def test_what_is_not_served_says_so() -> None:
    with InMemoryFederation().client() as client, pytest.raises(ProblemAnswer, match="not served"):
        client.ledger.read()


def test_own_users_have_instances_wider_than_a_node(subject: Subject) -> None:
    subject.add_cloud("south", (4, 4))
    for name in ("first", "second", "third"):
        wish = SpotRequest(id=name, cores=2, lifetime_s=600, targets=("south",))
        _granted(subject.client.requests.submit(wish))
    subject.start_on_demand("south", 5)
    states = [subject.client.leases.get(f"{name}.1").state for name in ("first", "second", "third")]
    assert states == [LeaseState.RUNNING, LeaseState.EVICTED, LeaseState.EVICTED]
    quotes = subject.client.requests.quote(QuoteRequest(cores=[1], lifetime_s=60, targets=("south",)))
    assert [quote.free_slots for quote in quotes.quotes] == [1]


def test_all_of_some_requests_are_admitted_or_none(subject: Subject) -> None:
    wishes = [SpotRequest(id=f"r{number}", cores=4, lifetime_s=60) for number in range(4)]
    refused = subject.client.requests.submit_together(wishes)
    assert isinstance(refused, RefusedRequest)
    assert {refusal.reason for refusal in refused.refusals} == {RefusalReason.NO_CAPACITY}
    assert subject.client.requests.submit_together(wishes) == refused
    assert list(subject.client.leases.list().leases) == []
    wishes = [SpotRequest(id=f"s{number}", cores=4, lifetime_s=60) for number in range(3)]
    leases = subject.client.requests.submit_together(wishes)
    assert not isinstance(leases, RefusedRequest)
    assert sorted(lease.cloud for lease in leases) == ["east", "west", "west"]
    assert subject.client.requests.submit_together(wishes) == leases
