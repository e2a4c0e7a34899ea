"""Deliveries: what a receiver sees, whatever it answers."""

import json
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography.fernet import Fernet

from broker.client import Client
from broker.contract import Event, SpotRequest
from broker.storage.embedded_server import EmbeddedRedis
from tests.contract.harness import KEY, Federation, serving
from tests.contract.test_requests import problem
from tests.contract.webhooks.happenings import SETTINGS, happen, log, make, operator
from tests.contract.webhooks.receiver import Arrived, Receiver, receiving
from tests.support.wait import wait_until


def test_a_lease_is_told_of_signed_and_in_an_envelope(
    federation: Federation, api: httpx.Client, receiver: Receiver
) -> None:
    federation.join("east")
    _, secret = make(api, receiver, kinds=["admitted"])
    with Client(federation.url, KEY) as client:
        granted = client.requests.submit(SpotRequest(id="mine", cores=1, lifetime_s=60))
    wait_until(lambda: receiver.arrived)
    (one,) = receiver.arrived
    assert one.is_signed(secret)
    assert not one.is_signed("whsec_" + "A" * 32)
    assert one.headers["content-type"].startswith("application/cloudevents+json")
    assert one.headers["host"] == f"127.0.0.1:{receiver.port}"
    assert one.headers["user-agent"].startswith("spotfed/")
    assert (one.path, one.event["specversion"], one.event["id"]) == ("/hook", "1.0", one.id)
    assert (one.event["type"], one.event["source"]) == ("spotfed.lease.admitted", "/v1/clouds/east")
    assert one.event["subject"] == "mine.1"
    data = Event.model_validate(one.event["data"])
    assert data.lease == getattr(granted, "lease")  # noqa: B009
    assert one.event["time"] == data.at


def test_failures_are_repeated_in_order_under_the_same_id(
    federation: Federation, api: httpx.Client, receiver: Receiver
) -> None:
    path, secret = make(api, receiver)
    receiver.answer_in_turn(500, 429, 503, 200)
    ids = happen(federation, 2)
    wait_until(lambda: len(log(api, path)) == 5)
    assert receiver.ids() == [ids[0]] * 4 + [ids[1]]
    assert all(one.is_signed(secret) for one in receiver.arrived)
    entries = log(api, path)
    assert [(one["attempt"], one["status"], one["delivered"]) for one in entries] == [
        (1, 500, False), (2, 429, False), (3, 503, False), (4, 200, True), (1, 200, True),
    ]  # fmt: skip
    assert [one["error"] for one in entries[:2]] == ["answered 500", "answered 429"]
    assert all((one["next_attempt_at"] is None) == one["delivered"] for one in entries)
    assert all(one["message"] in ids and one["type"] == "spotfed.lease.evicted" for one in entries)
    now = api.get(path).json()
    assert (now["state"], now["position"], now["failed_attempts"]) == ("active", ids[1], 0)
    counted = [now[name] for name in ("delivered", "failed", "given_up", "last_error", "lag_s")]
    assert counted == [2, 3, 0, "answered 503", 0.0]
    assert now["last_delivered_at"] == entries[-1]["at"]


def test_who_does_not_answer_is_given_up_and_asked_again(redis_url: str, receiver: Receiver) -> None:
    released = threading.Event()

    def silent_once(one: Arrived) -> tuple[int, dict[str, str]]:
        if len(receiver.arrived) == 1:
            released.wait(60)
        return 200, {}

    receiver.answer = silent_once
    settings = SETTINGS | {"webhook_timeout_s": 1.0}
    with serving(Federation(redis_url, **settings)) as federation, operator(federation) as api:
        path, _ = make(api, receiver)
        happen(federation, 1)
        wait_until(lambda: (told := log(api, path)) and told[-1]["delivered"])
        first, *_ = log(api, path)
        assert (first["status"], first["error"]) == (None, "no answer within 1 s")
        released.set()


def test_two_processes_share_the_work_without_doing_it_twice(
    redis_url: str, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.webhooks.worker._PAGE", 7)
    federation, other = Federation(redis_url, **SETTINGS), Federation(redis_url, **SETTINGS)
    other.prefix, other.keys, other.settings = federation.prefix, federation.keys, federation.settings
    with serving(federation), operator(federation) as api, serving(other), receiving() as second:
        make(api, receiver)
        make(api, second)
        ids = happen(federation, 40)
        wait_until(lambda: len(receiver.arrived) == len(second.arrived) == 40)
        assert receiver.ids() == second.ids() == ids


def test_it_goes_on_where_it_was_after_a_restart(redis_url: str, receiver: Receiver) -> None:
    federation = Federation(redis_url, **SETTINGS)
    with serving(federation), operator(federation) as api:
        path, secret = make(api, receiver)
        ids = happen(federation, 3)
        wait_until(lambda: api.get(path).json()["position"] == ids[-1])
    ids += happen(federation, 4)
    with serving(federation), operator(federation) as api:
        wait_until(lambda: len(receiver.arrived) >= 7)
        ids += happen(federation, 1)
        wait_until(lambda: api.get(path).json()["position"] == ids[-1])
    assert receiver.ids() == ids
    assert all(one.is_signed(secret) for one in receiver.arrived)


def test_a_slow_receiver_delays_nobody_else(
    federation: Federation, api: httpx.Client, receiver: Receiver
) -> None:
    released = threading.Event()
    with receiving() as slow:
        slow.answer = lambda _: (200 if released.wait(60) else 500, {})
        make(api, slow)
        make(api, receiver)
        ids = happen(federation, 20)
        wait_until(lambda: len(receiver.arrived) == 20 and slow.arrived)
        assert receiver.ids() == ids
        assert slow.ids() == ids[:1]
        released.set()
        wait_until(lambda: slow.ids() == ids)


def test_many_slow_receivers_take_the_slots_of_nobody_else(
    federation: Federation, api: httpx.Client, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three times as many as there are slots, each of them silent until the others have everything."""
    for name, value in (("_QUICK_SLOTS", 2), ("_SLOW_SLOTS", 2)):
        monkeypatch.setattr(f"broker.webhooks.worker.{name}", value)
    released = threading.Event()
    with receiving() as slow:
        slow.answer = lambda _: (200 if released.wait(60) else 500, {})
        for number in range(6):
            assert api.post("/v1/webhooks", json={"url": f"{slow.url}/{number}"}).status_code == 201
        first = happen(federation, 1)
        wait_until(lambda: len(slow.arrived) >= 6)
        make(api, receiver)
        ids = happen(federation, 20)
        wait_until(lambda: receiver.ids() == ids)
        assert {one.path for one in slow.arrived} == {f"/hook/{number}" for number in range(6)}
        assert set(slow.ids()) == set(first)
        released.set()
        wait_until(lambda: len(slow.arrived) == 6 * 21)


def test_redirects_are_not_followed(federation: Federation, api: httpx.Client, receiver: Receiver) -> None:
    path, _ = make(api, receiver)
    receiver.answer = lambda _: (302, {"Location": f"http://127.0.0.1:{receiver.port}/elsewhere"})
    happen(federation, 1)
    wait_until(lambda: api.get(path).json()["state"] == "paused")
    assert {one.path for one in receiver.arrived} == {"/hook"}
    assert log(api, path)[0]["error"] == "answered 302: redirects are not followed"


def test_after_the_last_attempt_it_is_paused_and_loses_nothing(
    federation: Federation, api: httpx.Client, receiver: Receiver
) -> None:
    path, _ = make(api, receiver)
    receiver.answer_in_turn(500)
    ids = happen(federation, 3)
    wait_until(lambda: api.get(path).json()["state"] == "paused")
    now = api.get(path).json()
    assert now["reason"] == f"4 attempts to deliver {ids[0]} failed, the last: answered 500"
    assert receiver.ids() == ids[:1] * 4
    assert (now["delivered"], now["failed"], now["given_up"]) == (0, 4, 1)
    assert now["lag_s"] > 0
    receiver.answer_in_turn(200)
    resumed = api.patch(path, json={"paused": False}).json()
    assert (resumed["state"], resumed["reason"], resumed["failed_attempts"]) == ("active", None, 0)
    wait_until(lambda: receiver.ids()[4:] == ids)


def test_a_receiver_that_is_gone_disables_it(
    federation: Federation, api: httpx.Client, receiver: Receiver
) -> None:
    path, _ = make(api, receiver)
    receiver.answer_in_turn(410)
    happen(federation, 2)
    wait_until(lambda: api.get(path).json()["state"] == "disabled")
    assert len(receiver.arrived) == 1
    assert "410" in api.get(path).json()["reason"]


def test_while_paused_nothing_is_sent_and_a_gap_is_told_of(
    federation: Federation, api: httpx.Client, receiver: Receiver
) -> None:
    path, secret = make(api, receiver)
    first = happen(federation, 1)
    wait_until(lambda: api.get(path).json()["position"] == first[0])
    paused = api.patch(path, json={"paused": True}).json()
    assert (paused["state"], paused["reason"]) == ("paused", "paused by its holder")
    ids = happen(federation, 10)
    with federation.redis as redis:
        redis.xtrim(federation.keys.all_events, maxlen=4, approximate=False)
    assert receiver.ids() == first
    api.patch(path, json={"paused": False})
    wait_until(lambda: len(receiver.arrived) == 6)
    assert receiver.ids() == [*first, f"gap-{first[0]}", *ids[-4:]]
    gap = receiver.arrived[1]
    assert gap.is_signed(secret)
    assert (gap.event["type"], gap.event["data"]["after"]) == ("spotfed.webhook.gap", first[0])


def test_a_new_secret_and_the_old_one_sign_for_a_day(
    federation: Federation, api: httpx.Client, receiver: Receiver
) -> None:
    path, old = make(api, receiver)
    rotated = api.post(f"{path}/rotate-secret").json()
    new = rotated["secret"]
    assert new != old
    assert old not in api.get(path).text
    assert new not in api.get(path).text
    happen(federation, 1)
    wait_until(lambda: receiver.arrived)
    assert receiver.arrived[0].is_signed(old)
    assert receiver.arrived[0].is_signed(new)
    with federation.redis as redis:  # a day later
        name = federation.keys.webhook(path.rpartition("/")[2])
        text: Any = redis.hget(name, "secrets")
        kept = json.loads(text)
        hours = (kept["old"][0][1] / 1000 - time.time()) / 3600
        assert hours == pytest.approx(24, abs=0.1)
        kept["old"][0][1] = 1
        redis.hset(name, "secrets", json.dumps(kept))
    happen(federation, 1)
    wait_until(lambda: len(receiver.arrived) == 2)
    assert receiver.arrived[1].is_signed(new)
    assert not receiver.arrived[1].is_signed(old)


def test_filters(
    federation: Federation, api: httpx.Client, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.webhooks.worker._PAGE", 3)
    path, _ = make(api, receiver, kinds=["evicted", "noticed"], clouds=["east"], origins=["acme", "other"])
    happen(federation, 2, kind="completed")
    happen(federation, 2, cloud="west")
    happen(federation, 2, origin="third")
    wanted = happen(federation, 1, kind="noticed", origin="other") + happen(federation, 1)
    wait_until(lambda: api.get(path).json()["position"] == wanted[-1])
    last = happen(federation, 1, kind="completed")
    wait_until(lambda: api.get(path).json()["position"] == last[-1])  # its place moves on all the same
    assert receiver.ids() == wanted


def test_what_cannot_be_read_and_what_is_new_stop_nobody(
    federation: Federation, api: httpx.Client, receiver: Receiver
) -> None:
    make(api, receiver)
    with federation.redis as redis:
        redis.xadd(federation.keys.all_events, {"e": "no JSON"})
        redis.xadd(federation.keys.all_events, {"other": "x"})
        redis.xadd(federation.keys.all_events, {"e": "[1]"})
        newer = {"cloud": "east", "kind": "hibernated", "at": "2030-01-01T00:00:00Z", "mood": "\ud800 ☃"}
        redis.xadd(federation.keys.all_events, {"e": json.dumps(newer)})
    wait_until(lambda: receiver.arrived)
    assert receiver.arrived[0].event["data"] == newer
    assert receiver.arrived[0].event["type"] == "spotfed.lease.hibernated"


def test_what_is_no_longer_allowed_is_not_sent(redis_url: str, receiver: Receiver) -> None:
    federation = Federation(redis_url, **SETTINGS)
    with serving(federation), operator(federation) as api:
        path, _ = make(api, receiver)
    federation.settings = federation.settings.model_copy(update={"webhook_allow": ()})
    with serving(federation), operator(federation) as api:
        happen(federation, 1)
        wait_until(lambda: api.get(path).json()["state"] == "paused")
        assert "loopback" in log(api, path)[0]["error"]
        assert receiver.arrived == []


def test_secrets_are_encrypted_with_a_key_file(redis_url: str, receiver: Receiver, tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.touch(0o600)
    file.write_bytes(Fernet.generate_key())
    federation = Federation(redis_url, **SETTINGS, webhook_key_file=file)
    with serving(federation), operator(federation) as api:
        path, secret = make(api, receiver)
        happen(federation, 1)
        wait_until(lambda: receiver.arrived)
        assert receiver.arrived[0].is_signed(secret)
        name = federation.keys.webhook(path.rpartition("/")[2])
        with federation.redis as redis:
            stored: Any = redis.hget(name, "secrets")
        assert secret.removeprefix("whsec_").encode() not in stored
    federation.settings = federation.settings.model_copy(update={"webhook_key_file": None})
    with serving(federation), operator(federation) as api:
        problem(api.post(f"{path}/test"), "secret-sealed")
        happen(federation, 1)
        wait_until(lambda: api.get(path).json()["state"] == "paused")
        assert "SPOTFED_WEBHOOK_KEY_FILE" in api.get(path).json()["reason"]
        assert len(receiver.arrived) == 1


def test_what_a_dead_process_had_claimed_is_taken_over(
    federation: Federation, api: httpx.Client, receiver: Receiver
) -> None:
    path, _ = make(api, receiver)
    claim = federation.keys.webhook_claim(path.rpartition("/")[2])
    with federation.redis as redis:
        redis.set(claim, "dead")
        ids = happen(federation, 3)
        with receiving() as other:
            make(api, other, kinds=["failed"])
            last = happen(federation, 1, kind="failed")
            wait_until(lambda: other.ids() == last)  # this process has looked since
        assert receiver.arrived == []
        redis.pexpire(claim, 50)
    wait_until(lambda: receiver.ids() == ids + last)


def test_redis_away_and_back(tmp_path: Path, receiver: Receiver) -> None:
    server = EmbeddedRedis(tmp_path / "redis", appendfsync="always")
    server.start()
    try:
        federation = Federation(server.url, **SETTINGS)
        with serving(federation), operator(federation) as api:
            path, _ = make(api, receiver)
            receiver.answer_in_turn(500)
            ids = happen(federation, 5)
            wait_until(lambda: receiver.arrived)
            server.stop()
            problem(api.get(path), "queue-away")
            receiver.answer_in_turn(200)
            server.start()
            wait_until(lambda: receiver.ids()[-5:] == ids)
            assert set(receiver.ids()[:-5]) <= {ids[0]}
    finally:
        server.stop()
