"""Who may do what, and what is kept of a key."""

import asyncio
import os
import re

import pytest

from broker.api.auth import Authenticator
from broker.identity.member_cache import MemberCache
from broker.identity.models import KeyRecord, MemberRecord
from broker.identity.permissions import AccessDecision, Action, Principal, ProtectedObject, Role, authorize
from broker.identity.store import IdentityStore, api_key_digest, generate_api_key
from broker.storage.connections import connect_async
from broker.storage.keys import RedisKeys

OPERATOR = Principal("first", Role.OPERATOR, "k0")
MEMBER = Principal("acme/ci", Role.MEMBER, "k1", "acme", frozenset({"north"}))
RUNNER = Principal("acme/jobs", Role.RUNNER, "k4", "acme", frozenset({"north"}))
VIEWER = Principal("acme", Role.VIEWER, "k2", "acme", frozenset({"north"}))

OWN = [
    ProtectedObject(origin="acme"),
    ProtectedObject(origin="north"),
    ProtectedObject(cloud="north"),
    ProtectedObject(holder="acme"),
]
FOREIGN = [
    ProtectedObject(origin="rival"),
    ProtectedObject(cloud="south"),
    ProtectedObject(holder="rival"),
    ProtectedObject(holder="operator/acme"),
]


@pytest.mark.parametrize("action", Action)
def test_an_operator_may_do_everything(action: Action) -> None:
    for thing in (None, *OWN, *FOREIGN):
        assert authorize(OPERATOR, action, thing) is AccessDecision.ALLOWED


@pytest.mark.parametrize("action", Action)
@pytest.mark.parametrize("who", [RUNNER, MEMBER, VIEWER])
def test_what_is_somebody_elses_is_hidden_whatever_the_role(who: Principal, action: Action) -> None:
    assert {authorize(who, action, thing) for thing in FOREIGN} == {AccessDecision.HIDDEN}


@pytest.mark.parametrize(
    ("who", "allowed"),
    [
        (RUNNER, set(Action) - {Action.OPERATE, Action.ADMINISTER}),
        (
            MEMBER,
            {Action.LOOK, Action.READ, Action.QUOTE, Action.SUBMIT, Action.CHANGE, Action.SERVE},
        ),
        (VIEWER, {Action.LOOK, Action.READ}),
    ],
)
def test_of_ones_own_the_role_decides(who: Principal, allowed: set[Action]) -> None:
    for thing in (None, *OWN):
        for action in Action:
            expected = AccessDecision.ALLOWED if action in allowed else AccessDecision.TOO_SMALL
            assert authorize(who, action, thing) is expected, (action, thing)


def test_a_members_things_are_not_an_operators_of_that_name() -> None:
    namesake = Principal("acme", Role.OPERATOR, "k3")
    assert namesake.holder != MEMBER.holder == VIEWER.holder == "acme"


def test_a_key_has_256_bits_of_secret_and_is_kept_as_a_hash() -> None:
    key_id, key = generate_api_key()
    assert re.fullmatch(r"sf_[0-9a-f]{12}_[A-Za-z0-9_-]{43}", key)
    assert key.split("_")[1] == key_id
    assert generate_api_key() != (key_id, key)
    assert key not in api_key_digest(key)
    assert len(api_key_digest(key)) == 64


def test_a_key_acts_for_clouds_that_are_still_its_members() -> None:
    record = KeyRecord(
        id="k", principal="acme/ci", role=Role.MEMBER, clouds=("north", "east"), created_at_s=0
    )
    who = record.acts_as(MemberRecord(name="acme", clouds=("north", "west")))
    assert who is not None
    assert (who.name, who.member, set(who.clouds)) == ("acme/ci", "acme", {"north"})
    assert who.origins == frozenset({"acme", "north"})
    assert record.acts_as(None) is None  # its member has left


def test_a_key_ends_when_it_was_said_to() -> None:
    record = KeyRecord(id="k", principal="acme", role=Role.VIEWER, created_at_s=0, expires_at_s=10)
    assert [record.expired(now_s) for now_s in (9.9, 10.0)] == [False, True]
    assert not record.model_copy(update={"expires_at_s": None}).expired(1e12)


def test_a_key_works_although_its_member_is_newer_than_what_was_read_of_members(redis_url: str) -> None:
    """Two APIs behind a balancer: one has added the member, the other one has just read all members."""

    async def story() -> None:
        client, keys = connect_async(redis_url), RedisKeys(f"identity-{os.urandom(4).hex()}:")
        store = IdentityStore(client, keys)
        members = MemberCache(store)
        assert await members.members() == {}
        assert await store.add_member(MemberRecord(name="acme"), OPERATOR)
        _, key = await store.create("acme", Role.MEMBER, None, None, OPERATOR)
        principal = await Authenticator(client, keys, members).principal(f"Bearer {key}")
        assert principal.member == "acme"
        await client.aclose()

    asyncio.run(story())
