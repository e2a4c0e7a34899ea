"""Every call × every role × own and foreign objects: who may do what, and that nothing of others is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from fastapi.routing import iter_route_contexts

from broker.api.app import create_app
from broker.api.dependencies import PermissionDependency
from broker.client import Client
from broker.contract import OnDemandRequest, SpotRequest
from broker.identity.permissions import Action, Role
from broker.schemas.api_keys import KeyWish
from broker.schemas.members import MemberWish
from broker.settings import Settings
from tests.contract.harness import KEY, Federation, serving

MINE, FOREIGN = "acme", "rival"
CLOUD_OF = {MINE: "north", FOREIGN: "south"}
READERS = {Role.VIEWER, Role.MEMBER, Role.RUNNER, Role.OPERATOR}
WRITERS = {Role.MEMBER, Role.RUNNER, Role.OPERATOR}
RUNNERS = {Role.RUNNER, Role.OPERATOR}
NOBODY_ELSE = {Role.OPERATOR}


@dataclass
class World:
    """What there is of each member, by kind."""

    federation: Federation
    operator: Client
    http: httpx.Client
    keys: dict[Role, str] = field(default_factory=dict)
    revoked: str = ""
    things: dict[tuple[str, str], str] = field(default_factory=dict)

    def of(self, kind: str, whose: str) -> str:
        """The name of a thing; of those that a call may take away, a fresh one."""
        known = self.things.get((kind, whose))
        if kind == "hook" and known and self.is_there(f"/v1/webhooks/{known}"):
            return known
        if kind == "hook":
            wish = {"url": "http://127.0.0.1:65535/", "kinds": ["failed"], "description": whose}
            made = self.call(None, "POST", "/v1/webhooks", wish, key=self.things["key", whose])
            assert made.is_success, made.text
            self.things[kind, whose] = str(made.json()["webhook"]["id"])
        if kind == "spare key":
            return self.operator.api_keys.create(KeyWish(principal=whose, role=Role.VIEWER)).record.id
        return self.things[kind, whose]

    def is_there(self, path: str) -> bool:
        return self.call(Role.OPERATOR, "GET", path).is_success

    def call(
        self, who: Role | None, method: str, path: str, body: Any = None, key: str | None = None
    ) -> httpx.Response:
        key = key or (self.keys[who] if who else None)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return self.http.request(method, path, json=body, headers=headers)


@dataclass(frozen=True)
class Call:
    """A row of the table. ``kind``: of the object in the path; "": it is nobody's. ``least``: who may."""

    action: Action
    allowed: set[Role]
    kind: str = ""
    body: Any = None
    path: Callable[[World, str], str] | None = None


def at(kind: str, rest: str = "", before: str = "") -> Callable[[World, str], str]:
    return lambda world, whose: f"/v1/{before}{world.of(kind, whose)}{rest}"


def in_cloud(rest: str) -> Callable[[World, str], str]:
    return lambda world, whose: f"/v1/clouds/{CLOUD_OF[whose]}{rest}"


def instance(world: World, whose: str, more: str = "") -> str:
    return f"/v1/clouds/{CLOUD_OF[whose]}/on-demand{more}/{world.of('instance', whose)}"


SIZE = {"cores": 1, "lifetime_s": 60}
A_LEASE, A_HOOK, JOBS = "leases/", "webhooks/", "jobs/"
A_JOB = {"command": ["true"], "home": "north"}

#: What each route of the application does, and to what.
TABLE: dict[str, Call] = {
    "POST /v1/requests": Call(Action.SUBMIT, WRITERS, body=SIZE),
    "POST /v1/quotes": Call(Action.QUOTE, WRITERS, body=SIZE),
    "GET /v1/events": Call(Action.READ, READERS, path=lambda *_: "/v1/events?follow=false"),
    "GET /v1/leases": Call(Action.READ, READERS),
    "GET /v1/leases/{lease_id:path}": Call(Action.READ, READERS, "lease", path=at("lease", "", A_LEASE)),
    "GET /v1/leases/{lease_id:path}/instance": Call(
        Action.READ, READERS, "lease", path=at("lease", "/instance", A_LEASE)
    ),
    "POST /v1/leases/{lease_id:path}/extend": Call(
        Action.CHANGE, WRITERS, "lease", {"lifetime_s": 70}, at("lease", "/extend", A_LEASE)
    ),
    "POST /v1/leases/{lease_id:path}/acknowledge": Call(
        Action.CHANGE, WRITERS, "lease", path=at("lease", "/acknowledge", A_LEASE)
    ),
    "DELETE /v1/leases/{lease_id:path}": Call(Action.CHANGE, WRITERS, "lease", path=at("lease", "", A_LEASE)),
    "GET /v1/ledger": Call(Action.READ, READERS, path=lambda *_: "/v1/ledger?by=origin"),
    "GET /v1/clouds": Call(Action.LOOK, READERS),
    "GET /v1/clouds/{cloud}": Call(Action.LOOK, READERS, path=in_cloud("")),
    "GET /v1/clouds/{cloud}/table": Call(Action.LOOK, READERS, path=in_cloud("/table")),
    "POST /v1/clouds/{cloud}/on-demand": Call(
        Action.SERVE, WRITERS, "cloud", {"cores": 1}, in_cloud("/on-demand")
    ),
    "GET /v1/clouds/{cloud}/on-demand/{instance:path}": Call(Action.READ, READERS, "cloud", path=instance),
    "GET /v1/clouds/{cloud}/on-demand-instances/{instance:path}": Call(
        Action.READ, READERS, "cloud", path=lambda world, whose: instance(world, whose, "-instances")
    ),
    "DELETE /v1/clouds/{cloud}/on-demand/{instance:path}": Call(
        Action.SERVE, WRITERS, "cloud", path=instance
    ),
    "POST /v1/clouds/{cloud}/drain": Call(
        Action.OPERATE, NOBODY_ELSE, body={"dry_run": True}, path=in_cloud("/drain")
    ),
    "DELETE /v1/clouds/{cloud}/drain": Call(Action.OPERATE, NOBODY_ELSE, path=in_cloud("/drain")),
    "POST /v1/clouds/{cloud}/advance": Call(
        Action.OPERATE, NOBODY_ELSE, body={"finish": True}, path=in_cloud("/advance")
    ),
    "POST /v1/webhooks": Call(Action.CHANGE, WRITERS, body={"url": "http://127.0.0.1:65535/other"}),
    "GET /v1/webhooks": Call(Action.READ, READERS),
    "GET /v1/webhooks/{webhook}": Call(Action.READ, READERS, "webhook", path=at("hook", "", A_HOOK)),
    "PATCH /v1/webhooks/{webhook}": Call(
        Action.CHANGE, WRITERS, "webhook", {"paused": True}, at("hook", "", A_HOOK)
    ),
    "POST /v1/webhooks/{webhook}/test": Call(
        Action.CHANGE, WRITERS, "webhook", path=at("hook", "/test", A_HOOK)
    ),
    "POST /v1/webhooks/{webhook}/rotate-secret": Call(
        Action.CHANGE, WRITERS, "webhook", path=at("hook", "/rotate-secret", A_HOOK)
    ),
    "GET /v1/webhooks/{webhook}/deliveries": Call(
        Action.READ, READERS, "webhook", path=at("hook", "/deliveries", A_HOOK)
    ),
    "POST /v1/webhooks/{webhook}/deliveries/{delivery}/redeliver": Call(
        Action.CHANGE, WRITERS, "webhook", path=at("hook", "/deliveries/1-0/redeliver", A_HOOK)
    ),
    "DELETE /v1/webhooks/{webhook}": Call(Action.CHANGE, WRITERS, "webhook", path=at("hook", "", A_HOOK)),
    "POST /v1/jobs": Call(Action.RUN, RUNNERS, body=A_JOB),
    "GET /v1/jobs": Call(Action.READ, READERS),
    "GET /v1/jobs/{job}": Call(Action.READ, READERS, "job", path=at("job", "", JOBS)),
    "GET /v1/jobs/{job}/logs": Call(Action.READ, READERS, "job", path=at("job", "/logs", JOBS)),
    "DELETE /v1/jobs/{job}": Call(Action.RUN, RUNNERS, "job", path=at("job", "", JOBS)),
    "GET /v1/members": Call(Action.ADMINISTER, NOBODY_ELSE),
    "POST /v1/members": Call(Action.ADMINISTER, NOBODY_ELSE, body={"name": "newcomer"}),
    "GET /v1/members/{name}": Call(
        Action.READ, READERS, "member", path=lambda _, whose: f"/v1/members/{whose}"
    ),
    "PATCH /v1/members/{name}": Call(
        Action.ADMINISTER, NOBODY_ELSE, body={"spot_cores": 99}, path=lambda _, whose: f"/v1/members/{whose}"
    ),
    "DELETE /v1/members/{name}": Call(
        Action.ADMINISTER, NOBODY_ELSE, path=lambda *_: "/v1/members/nobody-yet"
    ),
    "GET /v1/keys": Call(Action.ADMINISTER, NOBODY_ELSE),
    "POST /v1/keys": Call(Action.ADMINISTER, NOBODY_ELSE, body={"principal": "acme/x"}),
    "POST /v1/keys/{key_id}/rotate": Call(
        Action.ADMINISTER, NOBODY_ELSE, body={}, path=at("spare key", "/rotate", "keys/")
    ),
    "DELETE /v1/keys/{key_id}": Call(Action.ADMINISTER, NOBODY_ELSE, path=at("spare key", "", "keys/")),
    "GET /v1/audit": Call(Action.ADMINISTER, NOBODY_ELSE),
    "GET /metrics": Call(Action.LOOK, READERS),
}


def required_actions() -> dict[str, list[Action]]:
    """By route of the application: the actions that it declares."""
    app = create_app(Settings(redis_url="redis://nowhere.invalid"))
    found: dict[str, list[Action]] = {}
    for route in iter_route_contexts(app.routes):
        if not (route.path or "").startswith(("/v1", "/metrics")):
            continue
        dependants, declared = [route.dependant], []
        while dependants:
            one = dependants.pop()
            dependants += one.dependencies
            if isinstance(one.call, PermissionDependency):
                declared.append(one.call.action)
        for method in route.methods or ():
            found[f"{method} {route.path}"] = declared
    return found


def test_every_route_checks_one_permission_and_is_in_the_table() -> None:
    assert required_actions() == {route: [call.action] for route, call in TABLE.items()}


@pytest.fixture
def world(redis_url: str) -> Iterator[World]:
    told = Federation(redis_url, webhook_allow="127.0.0.0/8", webhook_connect_timeout_s=0.2, calls_per_s=0)
    with (
        serving(told) as federation,
        Client(federation.url, KEY) as operator,
        httpx.Client(base_url=federation.url, timeout=20) as http,
    ):
        for order, cloud in enumerate(CLOUD_OF.values()):
            federation.join(cloud, (64,), runs_commands=True).order = order
        world = World(federation, operator, http)
        for whose in (MINE, FOREIGN):
            operator.members.add(MemberWish(name=whose, clouds=(CLOUD_OF[whose],)))
            world.things["key", whose] = operator.api_keys.create(KeyWish(principal=whose)).key
            runner = operator.api_keys.create(KeyWish(principal=f"{whose}/ci", role=Role.RUNNER))
            world.things["runner", whose] = runner.key
            settle(world, whose)
        viewer = operator.api_keys.create(KeyWish(principal=f"{MINE}/eyes", role=Role.VIEWER))
        gone = operator.api_keys.create(KeyWish(principal=MINE))
        operator.api_keys.revoke(gone.record.id)
        world.keys = {
            Role.OPERATOR: KEY,
            Role.RUNNER: world.things["runner", MINE],
            Role.MEMBER: world.things["key", MINE],
            Role.VIEWER: viewer.key,
        }
        world.revoked = gone.key
        yield world


def settle(world: World, whose: str) -> None:
    """A lease on the other's cloud, an instance on one's own, and a job."""
    with Client(world.federation.url, world.things["key", whose]) as client:
        granted = client.requests.submit(SpotRequest(id=f"{whose}s-job", cores=1, lifetime_s=3600))
        started = client.on_demand.start(CLOUD_OF[whose], OnDemandRequest(id=f"{whose}s-own", cores=1))
    world.things["lease", whose] = granted.lease.id  # type: ignore[union-attr]
    world.things["instance", whose] = started.lease.id  # type: ignore[union-attr]
    body = A_JOB | {"id": "nightly", "home": CLOUD_OF[whose]}
    job = world.call(None, "POST", "/v1/jobs", body, key=world.things["runner", whose])
    assert job.status_code == 201, job.text
    world.things["job", whose] = job.json()["id"]


def path_of(route: str, call: Call, world: World, whose: str) -> tuple[str, str]:
    method, _, path = route.partition(" ")
    return method, path if call.path is None else call.path(world, whose)


def verdict(call: Call, answer: httpx.Response) -> int | str:
    """401, 403 or 404 of the object in the path; else "allowed"."""
    assert answer.status_code not in (429, 500), answer.text
    if answer.status_code in (401, 403):
        return answer.status_code
    hidden = answer.status_code == 404 and answer.json()["detail"] == f"there is no such {call.kind}"
    return 404 if hidden else "allowed"


def test_the_matrix(world: World) -> None:
    wrong: list[tuple[object, ...]] = []
    for route, call in TABLE.items():
        for whose in (MINE, FOREIGN):
            for role in (None, "revoked", Role.VIEWER, Role.MEMBER, Role.RUNNER, Role.OPERATOR):
                method, path = path_of(route, call, world, whose)
                key = world.revoked if role == "revoked" else None
                who = role if isinstance(role, Role) else None
                answer = world.call(who, method, path, call.body, key)
                expected: int | str = "allowed" if who in call.allowed else 403
                if who is None:
                    expected = 401
                elif call.kind and whose is FOREIGN and who is not Role.OPERATOR:
                    expected = 404
                if verdict(call, answer) != expected:
                    wrong.append((route, role, whose, expected, answer.status_code, answer.text[:200]))
                if who is not Role.OPERATOR and FOREIGN in answer.text:
                    wrong.append((route, role, whose, "tells of others", answer.text[:200]))
    assert wrong == []


def test_a_foreign_lease_is_answered_like_one_that_is_not_there(world: World) -> None:
    foreign, nowhere = world.things["lease", FOREIGN], "nowhere.1"
    for method, rest, body in (
        ("GET", "", None),
        ("DELETE", "", None),
        ("POST", "/extend", {"lifetime_s": 9999}),
        ("POST", "/acknowledge", None),
    ):
        one, other = (
            world.call(Role.MEMBER, method, f"/v1/leases/{lease}{rest}", body) for lease in (foreign, nowhere)
        )
        assert (one.status_code, one.text) == (other.status_code, other.text)
    assert world.operator.leases.get(foreign).state == "running"


def test_members_see_their_own_leases_events_and_accounts_only(world: World) -> None:
    leases = world.call(Role.VIEWER, "GET", "/v1/leases").json()["leases"]
    assert [lease["origin"] for lease in leases] == [MINE]
    assert world.call(Role.VIEWER, "GET", f"/v1/leases?origin={FOREIGN}").json()["leases"] == []
    told = world.call(Role.VIEWER, "GET", "/v1/events?follow=false").text
    assert MINE in told
    assert FOREIGN not in told
    assert len(world.operator.leases.list().leases) == 2


def test_a_request_carries_ones_own_origin(world: World) -> None:
    refused = world.call(Role.MEMBER, "POST", "/v1/requests", SIZE | {"origin": FOREIGN})
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "origin")
    assert world.call(Role.MEMBER, "POST", "/v1/quotes", SIZE | {"origin": FOREIGN}).status_code == 422
    of_cloud = world.call(Role.MEMBER, "POST", "/v1/requests", SIZE | {"origin": "north"})
    assert of_cloud.json()["lease"]["origin"] == "north"
    listed = world.call(Role.MEMBER, "POST", "/v1/requests", [SIZE, SIZE | {"origin": FOREIGN}]).json()
    assert listed["results"][0]["lease"]["origin"] == MINE
    assert listed["results"][1]["problem"]["status"] == 422
    by_operator = world.call(Role.OPERATOR, "POST", "/v1/requests", SIZE | {"origin": FOREIGN})
    assert by_operator.json()["lease"]["origin"] == FOREIGN


def test_ids_and_idempotency_keys_of_two_members_are_apart(world: World) -> None:
    theirs = world.things["key", FOREIGN]
    for body in (SIZE | {"id": "same"}, SIZE):
        once = {} if "id" in body else {"Idempotency-Key": "once"}
        mine, foreign = (
            world.http.post(
                "/v1/requests", json=body, headers={"Authorization": f"Bearer {key}"} | once
            ).json()["lease"]
            for key in (world.keys[Role.MEMBER], theirs)
        )
        assert (mine["origin"], foreign["origin"]) == (MINE, FOREIGN)
        assert mine["id"] != foreign["id"]


def test_a_removed_members_keys_let_nobody_in(world: World) -> None:
    assert world.call(Role.MEMBER, "GET", "/v1/leases").status_code == 200
    world.operator.members.remove(MINE)
    assert world.call(Role.MEMBER, "GET", "/v1/leases").status_code == 401
    assert world.call(Role.VIEWER, "GET", "/v1/leases").status_code == 401
