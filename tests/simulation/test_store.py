"""The store of the simulation, and fakeredis, beside a real server: the same calls, the same answers.

The simulation runs on the store. Unit tests that run a few commands use fakeredis; those that run scripts use
the session's server, on which they take half the time.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any

import fakeredis
import pytest
import redis

from broker.storage.scripts import read_script
from tests.simulation.store import Store

NOW_MS = 1_767_225_600_000
RUNS, STEPS = 12, 60


def _pairs(value: Any) -> Any:
    """A server's answer without redis-py's words for it."""
    if isinstance(value, dict):
        return [(name, _pairs(one)) for name, one in value.items()]
    if isinstance(value, list | tuple):
        return [_pairs(one) for one in value]
    return b"OK" if value is True else value


def _raw(client: redis.Redis, name: str, *arguments: Any) -> Any:
    client.response_callbacks.clear()
    return client.execute_command(name, *arguments)


def _raw_of(client: redis.Redis) -> Any:
    return lambda name, *arguments: _raw(client, name, *arguments)


def _entries(found: Any) -> Any:
    """XRANGE as the wire has it: names and values in turn."""
    return [(entry, {f[i]: f[i + 1] for i in range(0, len(f), 2)}) for entry, f in found]


class Fake:
    """A fakeredis with the calls of a store, its Lua scripts included."""

    def __init__(self) -> None:
        self._client = fakeredis.FakeRedis(version=(7,))
        self._client.response_callbacks.clear()

    def call(self, name: str, *arguments: Any) -> Any:
        found = self._client.execute_command(name, *arguments)
        return _entries(found) if name in ("XRANGE", "XREVRANGE") else found

    def run(self, text: str, keys: Iterable[Any], arguments: Iterable[Any]) -> Any:
        names = list(keys)
        return self._client.eval(text, len(names), *names, *arguments)


TWINS: dict[str, Callable[[], Any]] = {"store": lambda: Store(lambda: NOW_MS), "fakeredis": Fake}


def _command(rng: random.Random) -> tuple[Any, ...]:
    key, member = rng.choice("abc"), rng.choice("xyz")
    entry = f"{rng.randint(1, 3)}-{rng.randint(1, 6)}"
    return rng.choice([
        ("SET", f"s{key}", member), ("GET", f"s{key}"), ("MGET", "sa", "sb", "sc"), ("DEL", f"s{key}"),
        ("EXISTS", f"s{key}"), ("EXPIRE", f"s{key}", 100), ("SET", f"s{key}", member, "PX", 100_000),
        ("HSET", f"h{key}", member, rng.randint(0, 3), "w", 1), ("HSETNX", f"h{key}", member, 5),
        ("HGET", f"h{key}", member), ("HMGET", f"h{key}", "x", "w", "q"), ("HKEYS", f"h{key}"),
        ("ZCARD", f"z{key}"),
        ("ZADD", f"z{key}", rng.randint(0, 9), member), ("ZREM", f"z{key}", member),
        ("ZRANGEBYSCORE", f"z{key}", "-inf", rng.randint(0, 9), "LIMIT", 0, 2),
        ("SADD", f"m{key}", member), ("SREM", f"m{key}", member), ("XLEN", f"t{key}"),
        ("XADD", f"t{key}", entry, "f", member), ("XADD", f"t{key}", "MAXLEN", 3, entry, "f", member),
        ("XTRIM", f"t{key}", "MINID", entry), ("XDEL", f"t{key}", entry),
        ("XRANGE", f"t{key}", f"({entry}", "+", "COUNT", 2), ("XRANGE", f"t{key}", "-", entry),
        ("XREVRANGE", f"t{key}", "+", "-", "COUNT", 1), ("XREVRANGE", f"t{key}", entry, "-"),
    ])  # fmt: skip


def _answer(act: Any) -> Any:
    try:
        return _pairs(act())
    except redis.ResponseError as error:
        return str(error).removeprefix("ERR ")


@pytest.mark.parametrize("twin", TWINS)
@pytest.mark.parametrize("seed", range(RUNS))
def test_commands(redis_client: redis.Redis, seed: int, twin: str) -> None:
    rng, store = random.Random(seed), TWINS[twin]()
    for _ in range(STEPS * 5):
        name, *arguments = _command(rng)
        real = _answer(lambda n=name, a=arguments: _raw(redis_client, n, *a))
        if name in ("XRANGE", "XREVRANGE"):
            real = _pairs(_entries(real))
        assert _answer(lambda n=name, a=arguments: store.call(n, *a)) == real, (name, arguments)


def _script(rng: random.Random) -> tuple[str, list[Any], list[Any]]:
    """A call of one of the product's scripts that does not depend on the clock."""
    token, epoch, request = rng.choice("TU"), rng.randint(1, 3), rng.choice("rq")
    owner = ["owner", "epoch"]
    due = rng.choice([0, 10**9])  # ms: at once, or never as long as this runs
    some, signature = rng.choice([[request], ["r", "q"]]), rng.choice(["", "signature"])
    kind = rng.choice(
        ["acquire", "renew", "give_up", "commit", "commit", "decide", "reserve", "accept", "close"]
    )
    if kind == "acquire":
        return kind, [*owner, "journal", "speaks"], [token, 10**7, rng.randint(0, 2), 2]
    if kind == "renew":
        return kind, owner, [token, epoch, 10**7]
    if kind == "give_up":
        return kind, owner, [token, epoch]
    if kind == "commit":
        keys = [*owner, "journal", "events", "all", "inbox", "cursor", "advert", "running", "overflow"]
        first, count = rng.randint(1, 3), rng.randint(0, 2)
        head = [token, epoch, 10**7, first, rng.choice(["", "5-1"]), rng.choice(["", "{}"]), "channel"]
        events = [part for i in range(count) for part in (f"event {i}", rng.choice(["", first + i]), "h")]
        leases = min(count, 1)
        lease = ["l1", "lease", rng.choice("01")] * leases
        return (
            kind,
            [*keys, *["lease:l1"] * leases, "signature", "seen"],
            [*head, count, leases, 0, 0, rng.choice("hh ").strip(), 100, *events, *lease, ""],
        )
    if kind == "decide":
        verb = rng.choice(["commit", "abandon"])
        told = [part for one in some for part in (one, rng.randint(1, 3), verb, "answer", "a", 1, 0)]
        return kind, ["open", "inbox:a", *some], [1, *told, "[{}]", signature]
    if kind == "reserve":
        told = [part for one in some for part in (one, rng.randint(1, 3), "a", 1, due)]
        return kind, ["open", "inbox:a", *some, "queue"], [1, *told, "[{}]", signature, ""]
    if kind == "accept":
        inboxes: list[str] = rng.choice([[], ["inbox:a"]])
        # Without holds: the cap of members is tested in tests/property.
        told = [p for one in some for p in (one, rng.choice("ff g"), "body", token, due, len(inboxes), 0)]
        entry = ["a", "[{}]", signature, ""] if inboxes else []
        return (
            kind,
            ["open", *inboxes, *some, *["queue"] * len(inboxes)],
            [len(inboxes), 0, "restored", "clouds", "shown:", *entry, *told],
        )
    return kind, ["open", request], ["held:", request, "refused"]


@pytest.mark.parametrize("twin", TWINS)
@pytest.mark.parametrize("seed", range(RUNS))
def test_scripts(redis_client: redis.Redis, seed: int, twin: str) -> None:
    rng, store = random.Random(seed), TWINS[twin]()
    redis_client.response_callbacks.clear()
    for cloud, lease in (("a", "r.1"), ("b", "q.2"), ("b", "r.1"))[: seed % 4]:
        for call in (_raw_of(redis_client), store.call):
            call("SET", "restored", "1")
            call("HSET", "clouds", cloud, "{}")
            call("SET", f"shown:{cloud}:{lease}", '{"id":"x","state":"running","labels":{"state":"ended"}}')
    for _ in range(STEPS):
        name, keys, arguments = _script(rng)
        text = read_script(name)
        real = _answer(lambda t=text, k=keys, a=arguments: redis_client.eval(t, len(k), *k, *a))
        assert _answer(lambda t=text, k=keys, a=arguments: store.run(t, k, a)) == real, (name, arguments)
    for key in ("owner", "epoch", "cursor", "advert", "lease:l1"):
        assert store.call("GET", key) == redis_client.get(key)
    for request in "rq":
        names = ["state", "attempt", "cloud", "answer", "fingerprint", "token"]
        assert store.call("HMGET", request, *names) == redis_client.hmget(request, names)
    for stream in ("journal", "events"):
        assert store.call("XRANGE", stream, "-", "+") == _pairs_of(redis_client.xrange(stream))


def _pairs_of(found: Any) -> Any:
    return [(entry, dict(zip(f[::2], f[1::2], strict=True))) for entry, f in found]
