"""Members, their keys and their caps, over HTTP and on the command line."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import httpx
import pytest

from broker.client import Client, GrantedRequest, InputRefusedError, RefusedRequest
from broker.contract import QuoteRequest, SpotRequest
from broker.identity.member_cache import MemberCache
from broker.identity.permissions import Role
from broker.identity.store import IdentityStore
from broker.requests.quota import QuotaHolds
from broker.requests.quota_reconciler import QuotaReconciler
from broker.schemas.api_keys import KeyWish, Rotation
from broker.schemas.members import MemberChange, MemberWish
from broker.storage.connections import connect_async
from tests.contract.harness import KEY, Federation, Run, serving
from tests.support.wait import wait_until

ACME = MemberWish(name="acme")


@pytest.fixture
def operator(federation: Federation) -> Iterator[Client]:
    with Client(federation.url, KEY) as client:
        yield client


def status(federation: Federation, key: str, path: str = "/v1/clouds") -> int:
    answer = httpx.get(federation.url + path, headers={"Authorization": f"Bearer {key}"}, timeout=60)
    return answer.status_code


def wish(**more: Any) -> SpotRequest:
    return SpotRequest(**{"cores": 1, "lifetime_s": 3600} | more)


def acme(federation: Federation, operator: Client, **caps: int) -> Client:
    operator.members.add(MemberWish(name="acme", **caps))
    return Client(federation.url, operator.api_keys.create(KeyWish(principal="acme")).key)


# -- keys -------------------------------------------------------------------------------------------------


def test_a_key_is_shown_once_and_kept_nowhere(federation: Federation, operator: Client) -> None:
    operator.members.add(ACME)
    made = operator.api_keys.create(KeyWish(principal="acme/ci", lifetime_s=3600))
    secret = made.key.split("_", 2)[2]
    assert status(federation, made.key) == 200
    assert secret not in str([one.model_dump() for one in operator.api_keys.list()])
    assert secret not in str([one.model_dump() for one in operator.members.read_audit()])
    with federation.redis as redis:
        for name in redis.keys(f"{federation.prefix}*"):
            kind = redis.type(name)
            text = redis.hgetall(name) if kind == b"hash" else redis.dump(name)
            assert secret.encode() not in str(text).encode()
    (record,) = [one for one in operator.api_keys.list() if one.id == made.record.id]
    assert (record.principal, record.role, record.member) == ("acme/ci", Role.MEMBER, "acme")


def test_a_key_of_nobody_and_for_foreign_clouds_is_not_made(operator: Client) -> None:
    operator.members.add(MemberWish(name="acme", clouds=("north",)))
    for bad in (
        KeyWish(principal="nobody"),
        KeyWish(principal="acme", clouds=("south",)),
        KeyWish(principal="root", role=Role.OPERATOR, clouds=("north",)),
    ):
        with pytest.raises(InputRefusedError):
            operator.api_keys.create(bad)
    with pytest.raises(InputRefusedError):  # an origin has one member
        operator.members.add(MemberWish(name="north"))
    with pytest.raises(InputRefusedError):  # one operator's key remains
        operator.api_keys.revoke("tester")


def test_a_rotated_key_works_for_its_grace_and_a_revoked_one_not_at_all(
    federation: Federation, operator: Client
) -> None:
    operator.members.add(ACME)
    old = operator.api_keys.create(KeyWish(principal="acme"))
    new = operator.api_keys.rotate(old.record.id, Rotation(grace_s=3600))
    assert (new.record.replaces, new.record.principal) == (old.record.id, "acme")
    assert [status(federation, one.key) for one in (old, new)] == [200, 200]
    newest = operator.api_keys.rotate(new.record.id, Rotation(grace_s=0))
    assert [status(federation, one.key) for one in (new, newest)] == [401, 200]
    operator.api_keys.revoke(newest.record.id)
    assert status(federation, newest.key) == 401
    told = [(one.what, one.by, one.object) for one in operator.members.read_audit()]
    assert told[:2] == [
        ("key revoked", "tester", newest.record.id),
        ("key rotated", "tester", new.record.id),
    ]


def test_another_process_learns_of_a_revocation(federation: Federation, operator: Client) -> None:
    operator.members.add(ACME)
    made = operator.api_keys.create(KeyWish(principal="acme"))
    other = Federation(federation.redis_url)
    other.prefix, other.keys, other.settings = federation.prefix, federation.keys, federation.settings
    with serving(other):
        assert status(other, made.key) == 200
        operator.api_keys.revoke(made.record.id)
        wait_until(lambda: status(other, made.key) == 401)


def test_keys_are_rotated_under_load_without_one_refused_call(
    federation: Federation, operator: Client
) -> None:
    federation.join("north", (64,))
    with acme(federation, operator):
        pass
    current = operator.api_keys.create(KeyWish(principal="acme"))
    used, over = [current.key], threading.Event()
    seen: list[int] = []

    def call() -> None:
        with httpx.Client(base_url=federation.url, timeout=60) as http:
            while not over.is_set():
                headers = {"Authorization": f"Bearer {used[-1]}"}
                body = {"cores": 1, "lifetime_s": 3600}
                seen.append(http.post("/v1/quotes", json=body, headers=headers).status_code)

    callers = [threading.Thread(target=call) for _ in range(3)]
    for one in callers:
        one.start()
    for _ in range(10):
        before = len(seen)
        current = operator.api_keys.rotate(current.record.id, Rotation(grace_s=3600))
        used.append(current.key)
        wait_until(partial(lambda before: len(seen) > before + 3, before))
    over.set()
    for one in callers:
        one.join()
    assert set(seen) == {200}


# -- caps -------------------------------------------------------------------------------------------------


def held(operator: Client) -> tuple[int, int]:
    found = operator.members.get("acme")
    return found.held_cores, found.held_instances


def test_a_member_holds_no_more_spot_than_its_cap(federation: Federation, operator: Client) -> None:
    federation.join("north", (16,))
    with acme(federation, operator, spot_cores=5) as client:
        first = client.requests.submit(wish(cores=3))
        assert isinstance(first, GrantedRequest)
        refused = client.requests.submit(wish(id="too-much", cores=3))
        assert isinstance(refused, RefusedRequest)
        assert refused == client.requests.submit(wish(id="too-much", cores=3))  # same id, same answer
        (refusal,) = refused.refusals
        assert refusal.reason == "quota_exceeded"
        assert (refusal.counter_offers.cores, refused.counter_offers.cores) == (2, 2)
        assert isinstance(client.requests.submit(wish(cores=2)), GrantedRequest)
        assert held(operator) == (5, 2)
        last = client.requests.submit(wish())
        assert isinstance(last, RefusedRequest)
        assert last.counter_offers.cores is None
        client.leases.cancel(first.lease.id)
        wait_until(lambda: held(operator) == (2, 1))
        assert isinstance(client.requests.submit(wish(cores=3)), GrantedRequest)


def test_a_quote_says_what_a_member_may_not_hold(federation: Federation, operator: Client) -> None:
    """With the very refusal that a request gets, whoever asks for it; and nothing is taken of the cap."""
    federation.join("north", (16,))
    with acme(federation, operator, spot_cores=5, spot_instances=2) as client:
        assert isinstance(client.requests.submit(wish(cores=3)), GrantedRequest)
        for asking, origin in ((client, {}), (operator, {"origin": "acme"})):
            quotes = asking.requests.quote(QuoteRequest(cores=[3, 2, 1], lifetime_s=3600, **origin))
            assert [(one.cloud, one.cores) for one in quotes.quotes] == [("north", 2), ("north", 1)]
            (refusal,) = quotes.refusals
            assert (refusal.cloud, refusal.reason, refusal.cores) == ("broker", "quota_exceeded", 3)
            assert refusal.counter_offers.cores == 2
        refused = client.requests.submit(wish(cores=3))
        assert isinstance(refused, RefusedRequest)
        assert refused.refusals == (refusal,)
        with pytest.raises(InputRefusedError, match="no member's node"):
            client.requests.quote(QuoteRequest(cores=[17], lifetime_s=3600))
        assert isinstance(client.requests.submit(wish(cores=1)), GrantedRequest)
        assert held(operator) == (4, 2)
        (refusal,) = client.requests.quote(QuoteRequest(cores=[1], lifetime_s=3600)).refusals
        assert (refusal.reason, refusal.counter_offers.cores) == ("quota_exceeded", None)
        operator.members.update("acme", MemberChange(spot_cores=None, spot_instances=None))
        wait_until(lambda: not client.requests.quote(QuoteRequest(cores=[3], lifetime_s=3600)).refusals)


def test_a_list_stays_within_the_cap_on_instances(federation: Federation, operator: Client) -> None:
    federation.join("north", (16,))
    with acme(federation, operator, spot_instances=2) as client:
        granted = [isinstance(one, GrantedRequest) for one in client.requests.submit_many([wish()] * 4)]
        assert granted == [True, True, False, False]
        operator.members.update("acme", MemberChange(spot_instances=None))
        assert isinstance(client.requests.submit(wish()), GrantedRequest)
        assert held(operator) == (3, 3)


def test_a_refused_request_holds_nothing(federation: Federation, operator: Client) -> None:
    federation.join("north", (4,))
    with acme(federation, operator, spot_cores=8) as client:
        assert isinstance(client.requests.submit(wish(cores=4)), GrantedRequest)
        assert isinstance(client.requests.submit(wish(cores=4)), RefusedRequest)  # there is no room
        assert held(operator) == (4, 1)


def test_on_demand_instances_take_nothing_of_the_cap(federation: Federation, operator: Client) -> None:
    federation.join("north", (4,))
    with acme(federation, operator, spot_cores=0):
        operator.members.update("acme", MemberChange(clouds=("north",)))
        answer = httpx.post(
            f"{federation.url}/v1/clouds/north/on-demand",
            json={"cores": 2},
            headers={"Authorization": f"Bearer {operator.api_keys.create(KeyWish(principal='acme')).key}"},
        )
        assert answer.status_code == 201
        assert held(operator) == (0, 0)


def test_what_is_held_for_nothing_is_found_and_given_back(federation: Federation, operator: Client) -> None:
    federation.join("north", (8,))
    with acme(federation, operator, spot_cores=8) as client:
        running = client.requests.submit(wish(cores=2))
        assert isinstance(running, GrantedRequest)
    with federation.redis as redis:  # as after a crash: a hold whose request nobody knows
        redis.hset(federation.keys.quota_holds("acme"), "lost", 3)
        redis.hincrby(federation.keys.quota_holds("acme"), "=cores", 3)
    assert reconciled(federation) in {0, 3}  # 0: the API, which looks when its first member comes, was first
    assert held(operator) == (2, 1)
    assert reconciled(federation) == 0


def reconciled(federation: Federation) -> int:
    async def run() -> int:
        client = connect_async(federation.redis_url)
        try:
            holds = QuotaHolds(client, federation.keys)
            roster = MemberCache(IdentityStore(client, federation.keys))
            return await QuotaReconciler(client, client, federation.keys, holds, roster).reconcile()
        finally:
            await client.aclose()

    return asyncio.run(run())


def test_what_runs_is_held_again_after_redis_was_rolled_back(
    federation: Federation, operator: Client
) -> None:
    federation.join("north", (8,))
    with acme(federation, operator, spot_cores=4) as client:
        granted = client.requests.submit(wish(cores=3))
        assert isinstance(granted, GrantedRequest)
        wait_until(lambda: client.leases.get(granted.lease.id).state == "running", "the confirmation")
        redis = federation.redis
        redis.delete(federation.keys.quota_holds("acme"), federation.keys.request(granted.lease.request))
        assert reconciled(federation) == 0
        assert held(operator) == (0, 0), "nobody had to write anything back"
        redis.set(federation.keys.restored, 1)
        assert reconciled(federation) == 0
        assert held(operator) == (3, 1)
        refused = client.requests.submit(wish(cores=2))
        assert refused.refusals[0].reason == "quota_exceeded"
        client.leases.cancel(granted.lease.id)
        wait_until(lambda: reconciled(federation) >= 0 and held(operator) == (0, 0), "what was held")


# -- rates ------------------------------------------------------------------------------------------------


def test_a_key_that_calls_too_often_is_told_to_wait(redis_url: str) -> None:
    with serving(Federation(redis_url, calls_per_s=3)) as federation:
        headers = {"Authorization": f"Bearer {KEY}"}
        with httpx.Client(base_url=federation.url, headers=headers, timeout=60) as http:
            answers = [http.get("/v1/clouds") for _ in range(40)]
            late = next(one for one in answers if one.status_code == 429)
            assert late.headers["content-type"] == "application/problem+json"
            assert late.headers["retry-after"] == "1"
            assert late.json()["type"] == "urn:spotfed:problem:too-many-calls"
            wait_until(lambda: http.get("/v1/clouds").status_code == 200)
            # Whoever has no key, or a body that is too long, is told so.
            assert httpx.get(f"{federation.url}/v1/clouds").status_code == 401
        with Client(federation.url, KEY) as client:  # it waits by itself
            assert [client.clouds.list() for _ in range(5)] == [[]] * 5


# -- the command line -------------------------------------------------------------------------------------


def test_members_and_keys_on_the_command_line(federation: Federation, spotfed: Run) -> None:
    code, out, _ = spotfed("member", "add", "acme", "--cloud", "north", "--spot-cores", 5, "--json")
    assert (code, json.loads(out)["member"]["spot_cores"]) == (0, 5)
    assert spotfed("member", "add", "acme")[0] == 1
    assert spotfed("member", "add", "no name")[0] == 2
    assert spotfed("member", "set", "acme", "--spot-cores", "some")[0] == 2
    assert spotfed("member", "set", "acme")[0] == 2
    code, out, _ = spotfed("member", "set", "acme", "--spot-cores", "none", "--json")
    assert (code, json.loads(out)["member"]["spot_cores"]) == (0, None)
    code, out, errors = spotfed("key", "create", "acme/ci", "--role", "viewer", "--lifetime", "90d")
    key = out.strip()
    assert (code, status(federation, key)) == (0, 200)
    assert "only time" in errors
    key_id = key.split("_")[1]
    code, out, _ = spotfed("key", "rotate", key_id, "--grace", "1h", "--json")
    new = json.loads(out)
    assert (code, new["record"]["replaces"]) == (0, key_id)
    assert spotfed("key", "revoke", key_id)[0] == 0
    assert spotfed("key", "revoke", key_id)[0] == 2
    for shown in (spotfed("key", "list"), spotfed("key", "log"), spotfed("member", "list")):
        assert shown[0] == 0
        assert key not in shown[1]
        assert new["key"] not in shown[1]
    assert "acme/ci" in spotfed("key", "list")[1]
    assert "key revoked" in spotfed("key", "log")[1]
    assert spotfed("member", "remove", "acme")[0] == 0
    assert status(federation, new["key"]) == 401


def test_a_member_is_told_that_this_is_for_operators(federation: Federation, operator: Client) -> None:
    with acme(federation, operator) as client, pytest.raises(Exception, match="the role operator"):
        client.members.list()
