"""What the tests of webhooks share: federations, keys, events, and what is asked again and again."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from broker.contract import Event, EventKind, Lease, LeaseState
from broker.identity.models import KeyRecord, MemberRecord
from broker.identity.permissions import Role
from broker.identity.store import api_key_digest
from cloudsim.model.requests import Kind
from tests.contract.harness import KEY, Federation
from tests.contract.webhooks.receiver import Receiver

SETTINGS: dict[str, Any] = {
    "webhook_allow": "127.0.0.0/8",
    "webhook_retry_first_s": 0.02,
    "webhook_retry_longest_s": 0.05,
    "webhook_attempts": 4,
    "webhook_timeout_s": 60.0,
}


@contextmanager
def key_of(federation: Federation, principal: str, role: Role, *clouds: str) -> Iterator[httpx.Client]:
    """A client with a key of a member."""
    key = f"key-of-{principal}-{role}"
    member = principal.partition("/")[0]
    record = KeyRecord(id="0" * 12, principal=principal, role=role, created_at_s=time.time())
    with federation.redis as redis:
        redis.hset(federation.keys.api_keys, api_key_digest(key), record.model_dump_json())
        redis.hset(
            federation.keys.members, member, MemberRecord(name=member, clouds=clouds).model_dump_json()
        )
    with httpx.Client(base_url=federation.url, headers={"Authorization": f"Bearer {key}"}, timeout=60) as api:
        yield api


def happen(
    federation: Federation, count: int, kind: str = "evicted", cloud: str = "east", origin: str = "acme"
) -> list[str]:
    """Public events, as an owner's commit puts them into the merged stream. Returns their ids."""
    lease = Lease(
        id="r.1", request="r", cloud=cloud, origin=origin, kind=Kind.SPOT, cores=1, node=0, starts_at_s=0.0,
        ends_at_s=1.0, promised_sla=None, eviction_probability=None, table_version=None, fence=1, number=0,
        state=LeaseState.EVICTED,
    )  # fmt: skip
    ids = []
    with federation.redis as redis:
        for number in range(count):
            event = Event(
                cloud=cloud, kind=EventKind(kind), at_s=1.0, at="2030-01-01T00:00:00+00:00",
                sequence=number + 1, lease=lease,
            )  # fmt: skip
            entry: Any = redis.xadd(federation.keys.all_events, {"e": event.model_dump_json()})
            ids.append(entry.decode())
    return ids


def make(api: httpx.Client, receiver: Receiver, **more: Any) -> tuple[str, str]:
    """A webhook's path and secret."""
    response = api.post("/v1/webhooks", json={"url": receiver.url, **more})
    assert response.status_code == 201, response.text
    body = response.json()
    assert response.headers["location"] == f"/v1/webhooks/{body['webhook']['id']}"
    return response.headers["location"], body["secret"]


def log(api: httpx.Client, path: str) -> list[dict[str, Any]]:
    """Oldest first."""
    deliveries: list[dict[str, Any]] = api.get(f"{path}/deliveries").json()["deliveries"]
    return deliveries[::-1]


@contextmanager
def operator(federation: Federation) -> Iterator[httpx.Client]:
    headers = {"Authorization": f"Bearer {KEY}"}
    with httpx.Client(base_url=federation.url, headers=headers, timeout=60) as api:
        yield api
