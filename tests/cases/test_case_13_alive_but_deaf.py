"""Case 13: the owner's queue connection is reset several times in three seconds, or stays away: its
heartbeat through its inbox stops, nothing is routed to it, its leases stand; it reconnects by itself."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from broker.contract import Advert, EventKind
from broker.journal.journal import Journal
from broker.storage.connections import connect
from broker.storage.keys import RedisKeys
from tests.cases.socket_proxy import Proxy, proxy_to
from tests.contract.harness import KEY, Federation, serving
from tests.integration.test_workers_runtime import Bench
from tests.support.wait import wait_until
from tests.unit.workers.owners import check_journal, spec

WISH = {"cores": 1, "lifetime_s": 1e6}
MAX_AGE_S = 0.6


class Deaf(Bench):
    """An owner behind a relay, with its timetable; ``direct`` goes past the relay."""

    def __init__(self, proxy: Proxy, redis_url: str, directory: Path, ttl_s: float):
        self.proxy, self.direct = proxy, connect(redis_url)
        super().__init__(connect(proxy.url, socket_timeout=0.3), directory, spec((16,)))
        self.settings = self.settings.model_copy(update={"inbox_poll_s": 0.05, "owner_lease_ttl_s": ttl_s})
        self.runtime = self.make()
        self.runtime.open()
        self.runtime.start()

    def advert(self) -> Advert:
        stored = self.direct.get(self.keys.advert("A"))
        assert isinstance(stored, bytes)
        return Advert.model_validate_json(stored)

    def kinds(self) -> list[EventKind]:
        return [event.kind for _, event in Journal(self.direct, self.keys, "A").read()]


@pytest.fixture(params=[0.4, 60.0], ids=["its lease runs out", "its lease stands"])
def owner(
    redis_url: str, redis_client: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Deaf]:
    assert redis_client.keys("rt:*") == []
    with proxy_to(redis_url, tmp_path / "p.sock") as proxy:
        made = Deaf(proxy, redis_url, tmp_path, request.param)
        yield made
        proxy.mend()
        proxy.unhush()
        made.close()
        time.sleep(0.2)  # its threads end before the relay does


@pytest.fixture
def api(owner: Deaf, redis_url: str) -> Iterator[httpx.Client]:
    unsigned = {"trust": None, "signing_key": None}  # as its owner is
    federation = Federation(redis_url, advert_max_age_s=MAX_AGE_S, reply_deadline_s=5.0, **unsigned)
    federation.prefix, federation.keys = "rt:", RedisKeys("rt:")
    federation.settings = federation.settings.model_copy(update={"key_prefix": "rt:"})
    assert owner.advert().cloud == "A"
    with (
        serving(federation),
        httpx.Client(
            base_url=federation.url, headers={"Authorization": f"Bearer {KEY}"}, timeout=30
        ) as client,
    ):
        wait_until(lambda: reachable(client))
        yield client


def reachable(api: httpx.Client) -> bool:
    return bool(api.get("/v1/clouds/A").json()["reachable"])


def test_resets_cost_a_moment_and_nothing_else(owner: Deaf, api: httpx.Client) -> None:
    for n in range(6):
        owner.proxy.reset()
        time.sleep(0.1)
        answer = api.post("/v1/requests", json=WISH | {"id": f"r{n}"})
        assert answer.status_code in (201, 409), answer.text
    at = owner.advert().at
    wait_until(lambda: owner.advert().at > at)
    wait_until(lambda: reachable(api))
    assert api.post("/v1/requests", json=WISH | {"id": "last"}).status_code == 201
    assert owner.kinds().count(EventKind.OPENED) == 1, "it is the same owner, in the same epoch"
    check_journal([event for _, event in Journal(owner.direct, owner.keys, "A").read()])


def test_while_it_is_deaf_nothing_is_routed_to_it_and_its_leases_stand(
    owner: Deaf, api: httpx.Client
) -> None:
    assert api.post("/v1/requests", json=WISH | {"id": "before"}).status_code == 201
    wait_until(lambda: api.get("/v1/leases/before.1").json()["state"] == "running")
    owner.proxy.cut()
    wait_until(lambda: not reachable(api))
    said, inbox = owner.advert().at, owner.direct.xlen(owner.keys.inbox("A"))
    refused = api.post("/v1/requests", json=WISH | {"id": "meanwhile"})
    assert refused.status_code == 409, refused.text
    assert owner.direct.xlen(owner.keys.inbox("A")) == inbox, "nothing was routed to it"
    assert owner.advert().at == said, "its heartbeat goes through its inbox: it has stopped"
    assert api.get("/v1/leases/before.1").json()["state"] == "running"
    assert EventKind.EVICTED not in owner.kinds()
    tried = owner.proxy.accepted
    wait_until(lambda: owner.proxy.accepted > tried)  # it goes on trying

    owner.proxy.mend()
    wait_until(lambda: reachable(api))
    assert api.post("/v1/requests", json=WISH | {"id": "after"}).status_code == 201
    assert api.get("/v1/leases/before.1").json()["state"] == "running"
    assert owner.kinds().count(EventKind.OPENED) == 1


def test_when_only_the_answers_are_lost_nothing_is_done_twice(owner: Deaf, api: httpx.Client) -> None:
    """A partition one way: what it writes arrives, and it does not hear so."""
    assert api.post("/v1/requests", json=WISH | {"id": "before"}).status_code == 201
    owner.proxy.hush()
    for n in range(3):
        assert api.post("/v1/requests", json=WISH | {"id": f"r{n}"}).status_code in (201, 409)
    owner.proxy.unhush()
    wait_until(
        lambda: api.post("/v1/requests", json=WISH | {"id": f"a{time.monotonic()}"}).status_code == 201
    )
    events = [event for _, event in Journal(owner.direct, owner.keys, "A").read()]
    check_journal(events)
    admitted = [event.lease.id for event in events if event.kind is EventKind.ADMITTED and event.lease]
    assert len(admitted) == len(set(admitted))
    assert [event.kind for event in events].count(EventKind.OPENED) == 1
    assert api.get("/v1/leases/before.1").json()["state"] == "running"
