"""The calls about webhooks: what their holder sees, and who sees nothing."""

import json
from typing import Any

import httpx
import pytest

from broker.identity.permissions import Role
from tests.contract.harness import Federation, Run, serving
from tests.contract.test_requests import problem
from tests.contract.webhooks.happenings import happen, key_of, log, make, operator
from tests.contract.webhooks.receiver import Receiver
from tests.support.wait import wait_until


def test_tests_and_redeliveries_are_sent_at_once(
    federation: Federation, api: httpx.Client, receiver: Receiver
) -> None:
    path, secret = make(api, receiver)
    api.patch(path, json={"paused": True})
    tested = api.post(f"{path}/test").json()
    assert (tested["delivered"], tested["why"], tested["status"]) == (True, "test", 204)
    assert receiver.arrived[0].event["type"] == "spotfed.webhook.test"
    assert receiver.arrived[0].is_signed(secret)
    problem(api.post(f"{path}/deliveries/{tested['id']}/redeliver"), "not-kept")
    api.patch(path, json={"paused": False})
    ids = happen(federation, 2)
    wait_until(lambda: len(log(api, path)) == 3)
    receiver.answer_in_turn(503)
    again = api.post(f"{path}/deliveries/{log(api, path)[1]['id']}/redeliver").json()
    assert (again["delivered"], again["status"], again["message"]) == (False, 503, ids[0])
    assert receiver.ids()[1:] == [*ids, ids[0]]
    assert receiver.arrived[-1].body == receiver.arrived[1].body
    assert api.get(path).json()["position"] == ids[1]
    for entry in ("0-1", "x", "9" * 19 + "-0"):
        problem(api.post(f"{path}/deliveries/{entry}/redeliver"), "not-found")
    with federation.redis as redis:
        redis.delete(federation.keys.all_events)
    problem(api.post(f"{path}/deliveries/{again['id']}/redeliver"), "not-kept")


def test_the_log_is_read_in_pages(federation: Federation, api: httpx.Client, receiver: Receiver) -> None:
    path, _ = make(api, receiver)
    ids = happen(federation, 5)
    wait_until(lambda: len(log(api, path)) == 5)
    page = api.get(f"{path}/deliveries", params={"limit": 3}).json()
    assert ([one["message"] for one in page["deliveries"]], page["more"]) == (ids[:1:-1], True)
    last = api.get(f"{path}/deliveries", params={"before": page["deliveries"][-1]["id"]}).json()
    assert ([one["message"] for one in last["deliveries"]], last["more"]) == ([ids[1], ids[0]], False)
    problem(api.get(f"{path}/deliveries", params={"before": "x"}), "invalid")
    problem(api.get(f"{path}/deliveries", params={"limit": 0}), "invalid")


def test_members_have_their_own_and_see_their_own_events(
    federation: Federation, api: httpx.Client, receiver: Receiver
) -> None:
    with (
        key_of(federation, "acme/ci", Role.MEMBER, "harbour") as acme,
        key_of(federation, "acme", Role.VIEWER, "harbour") as viewer,
        key_of(federation, "other", Role.MEMBER) as other,
    ):
        path, _ = make(acme, receiver)
        problem(acme.post("/v1/webhooks", json={"url": receiver.url, "origins": ["other"]}), "invalid")
        for one in (acme, viewer):
            assert [found["url"] for found in one.get("/v1/webhooks").json()["webhooks"]] == [receiver.url]
            assert one.get(f"{path}/deliveries").status_code == 200
        assert other.get("/v1/webhooks").json()["webhooks"] == []
        calls: list[tuple[str, str, dict[str, Any] | None]] = [
            ("PATCH", path, {"paused": True}),
            ("DELETE", path, None),
            ("POST", f"{path}/test", None),
            ("POST", f"{path}/rotate-secret", None),
            ("POST", f"{path}/deliveries/1-1/redeliver", None),
        ]
        for method, where, body in calls:
            problem(other.request(method, where, json=body), "not-found")
            assert viewer.request(method, where, json=body).status_code == 403
        for where in (path, f"{path}/deliveries", "/v1/webhooks/nothing", "/v1/webhooks/a%3Ab"):
            problem(other.get(where), "not-found")
        assert viewer.post("/v1/webhooks", json={"url": receiver.url}).status_code == 403
        assert api.get(path).status_code == 200  # operators see everything
        assert len(receiver.arrived) == 0
        happen(federation, 1, origin="other")
        wanted = happen(federation, 1, origin="acme") + happen(federation, 1, origin="harbour")
        wait_until(lambda: acme.get(path).json()["position"] == wanted[-1])
        assert receiver.ids() == wanted


def test_of_a_cloud_that_a_member_has_no_longer_it_is_told_nothing(
    federation: Federation, receiver: Receiver
) -> None:
    with key_of(federation, "acme", Role.MEMBER, "harbour") as acme:
        path, _ = make(acme, receiver)
    with key_of(federation, "acme", Role.MEMBER) as acme:
        happen(federation, 1, origin="harbour")
        wanted = happen(federation, 1, origin="acme")
        wait_until(lambda: acme.get(path).json()["position"] == wanted[-1])
    assert receiver.ids() == wanted


def test_a_member_that_has_left_is_told_nothing_more(
    federation: Federation, api: httpx.Client, receiver: Receiver
) -> None:
    with key_of(federation, "acme", Role.MEMBER) as acme:
        path, _ = make(acme, receiver)
    with federation.redis as redis:
        redis.hdel(federation.keys.members, "acme")
    happen(federation, 1, origin="acme")
    wait_until(lambda: api.get(path).json()["state"] == "paused")
    assert api.get(path).json()["reason"] == "its member has left the federation"
    assert receiver.arrived == []


def test_one_for_each_url_and_not_too_many(
    federation: Federation, api: httpx.Client, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _ = make(api, receiver)
    again = problem(api.post("/v1/webhooks", json={"url": receiver.url}), "webhook-exists")
    assert path.rpartition("/")[2] in again["detail"]
    monkeypatch.setattr("broker.webhooks.store.MOST_WEBHOOKS", 2)
    api.post("/v1/webhooks", json={"url": f"{receiver.url}/2"}).raise_for_status()
    problem(api.post("/v1/webhooks", json={"url": f"{receiver.url}/3"}), "too-many-webhooks")
    assert len(api.get("/v1/webhooks").json()["webhooks"]) == 2


def test_deleting_ends_it(federation: Federation, api: httpx.Client, receiver: Receiver) -> None:
    path, _ = make(api, receiver)
    happen(federation, 1)
    wait_until(lambda: len(log(api, path)) == 1)
    deleted = api.delete(path)
    assert (deleted.status_code, deleted.content) == (204, b"")
    for response in (
        api.get(path),
        api.delete(path),
        api.get(f"{path}/deliveries"),
        api.post(f"{path}/test"),
    ):
        problem(response, "not-found")
    make(api, receiver)  # the URL is free again
    ids = happen(federation, 1)
    wait_until(lambda: receiver.ids()[1:] == ids)
    with federation.redis as redis:
        left = {str(key) for key in redis.scan_iter(f"{federation.keys.prefix}webhook:*")}
    assert not any(path.rpartition("/")[2] in key and "claim" not in key for key in left)


UNUSABLE: list[tuple[dict[str, Any], str]] = [
    ({}, "url"),
    ({"url": 1}, "url"),
    ({"url": ""}, "url"),
    ({"url": "https://" + "x" * 3000}, "url"),
    ({"url": "https://10.0.0.1/"}, "url"),
    ({"url": "https://[::ffff:169.254.169.254]/"}, "url"),
    ({"url": "https://user:word@example.com/"}, "url"),
    ({"url": "http://1.1.1.1/"}, "url"),
    ({"url": "https://2130706433/"}, "url"),
    ({"url": "https://nowhere.invalid/"}, "url"),
    ({"url": "https://1.1.1.1/", "kinds": ["reserved"]}, "kinds"),
    ({"url": "https://1.1.1.1/", "kinds": []}, "kinds"),
    ({"url": "https://1.1.1.1/", "clouds": ["a b"]}, "clouds"),
    ({"url": "https://1.1.1.1/", "origins": "east"}, "origins"),
    ({"url": "https://1.1.1.1/", "description": "x" * 201}, "description"),
    ({"url": "https://1.1.1.1/", "secret": "whsec_mine"}, "secret"),
]


def test_what_cannot_be_used_is_named(federation: Federation, api: httpx.Client) -> None:
    for body, field in UNUSABLE:
        found = problem(api.post("/v1/webhooks", json=body), "invalid")
        assert found["errors"][0]["field"].split(".")[0] == field
        assert found["errors"][0]["accepted"]
        assert "user:word" not in json.dumps(found)


def test_loopback_is_refused_unless_it_is_allowed(redis_url: str, receiver: Receiver) -> None:
    with serving(Federation(redis_url)) as federation, operator(federation) as api:
        found = problem(api.post("/v1/webhooks", json={"url": receiver.url}), "invalid")
        assert "loopback" in found["detail"]
        assert "SPOTFED_WEBHOOK_ALLOW" in found["detail"]


def test_a_change_that_cannot_be_read(federation: Federation, api: httpx.Client, receiver: Receiver) -> None:
    path, _ = make(api, receiver)
    for body in ({}, {"paused": "yes"}, {"paused": None}, {"paused": True, "url": "x"}):
        problem(api.patch(path, json=body), "invalid")
    assert api.get(path).json()["state"] == "active"


def test_the_command_line(federation: Federation, receiver: Receiver, spotfed: Run) -> None:
    def told(*arguments: str) -> dict[str, Any]:
        code, out, _ = spotfed("webhook", *arguments, "--json")
        assert code == 0
        found: dict[str, Any] = json.loads(out)
        return found

    code, out, _ = spotfed(
        "webhook", "add", receiver.url, "--kind", "evicted", "--kind", "noticed", "--origin", "acme"
    )
    assert code == 0
    secret = next(word for word in out.split() if word.startswith("whsec_"))
    (listed,) = told("list")["webhooks"]
    assert (listed["kinds"], listed["origins"]) == (["evicted", "noticed"], ["acme"])
    hook = listed["id"]
    assert hook in out
    assert told("test", hook)["delivered"]
    assert receiver.arrived[-1].is_signed(secret)
    assert told("pause", hook)["state"] == "paused"
    assert "paused by its holder" in spotfed("webhook", "show", hook)[1]
    assert told("resume", hook)["state"] == "active"
    ids = happen(federation, 1)
    wait_until(lambda: told("show", hook)["position"] == ids[0])
    assert told("rotate", hook)["secret"] != secret
    first = told("deliveries", hook)["deliveries"][0]
    assert first["message"] == ids[0]
    assert told("redeliver", hook, first["id"])["delivered"]
    receiver.answer_in_turn(500)
    for arguments in (("test", hook), ("redeliver", hook, first["id"])):
        code, out, _ = spotfed("webhook", *arguments)
        assert (code, "answered 500" in out) == (1, True)
    assert receiver.url in spotfed("webhook", "list")[1]
    assert "delivered, 204" in spotfed("webhook", "deliveries", hook)[1]
    assert told("remove", hook) == {"removed": hook}
    assert "none yet" in spotfed("webhook", "list")[1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("add", "https://127.0.0.1/", "--kind", "reserved"), "--kind"),
        (("add", "https://10.0.0.1/"), "private"),
        (("add", "https://1.1.1.1/", "--origin", "a b"), "--origin"),
        (("show", "nothing"), "there is no such webhook"),
        (("remove", "a/../b"), "no such path"),
    ],
)
def test_the_command_line_says_what_is_wrong(
    federation: Federation, spotfed: Run, arguments: tuple[str, ...], said: str
) -> None:
    code, _, err = spotfed("webhook", *arguments)
    assert (code, said in err) == (2, True), err
