"""Routing at scale: what a look at all adverts and a request cost an API process, by number of members.

    python -m tests.bench.bench_routing [--members 10 100 1000]

``look_ms``: CPU of a look at the adverts, of which a tenth has changed,
as there are at most ten looks a second. ``new_ms``: CPU of routing a request unlike all others since that
look; ``equal_ms``: of one with the requirements of an earlier one. The goal is under 5 ms a request at 1,000.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

import redis

from broker.contract import SpotRequest, write_message
from broker.requests.candidates import MemberEvaluator
from broker.requests.members import MembershipView
from broker.requests.routing import ReservedRoom
from broker.storage.connections import connect, connect_async
from broker.storage.embedded_server import EmbeddedRedis
from broker.storage.keys import RedisKeys
from tests.unit.broker.requests.test_routing import member

KEYS = RedisKeys()
SIZES = (1, 2, 4, 8)
LOOKS, REQUESTS = 20, 200
GOAL_MS = 5.0


def publish(client: redis.Redis, number: int, round_: int) -> None:
    """Write what a cloud publishes; ``round_`` changes its advert."""
    made = member(f"c{number}", number, dict.fromkeys(SIZES, 10 + (number + round_) % 7))
    assert made.advert is not None
    client.hset(KEYS.clouds, made.info.id, write_message(made.info))
    client.set(KEYS.advert(made.info.id), write_message(made.advert))


async def measure(url: str, members: int) -> dict[str, float]:
    """One line."""
    with connect(url) as client:
        client.flushall()
        for number in range(members):
            publish(client, number, 0)
        async with connect_async(url) as reader:
            view = MembershipView(reader, KEYS, max_age_s=1e9)
            await view._refresh()
            look_s = 0.0
            for look in range(1, LOOKS + 1):
                for number in range(look % 10, members, 10):
                    publish(client, number, look)
                began_s = time.process_time()
                await view._refresh()
                look_s += time.process_time() - began_s
            found = await view.members()
    evaluator = MemberEvaluator(found)
    times_s = []
    for lifetime_s in (1000.0, 0.0):  # a lifetime of its own, then the same one
        began_s = time.process_time()
        for request in range(REQUESTS):
            asked = SpotRequest(
                id=f"r{request}", origin="user", cores=2, lifetime_s=1e4 + lifetime_s * request
            )
            candidates = evaluator.evaluate(asked).candidates
            assert candidates is not None
            assert candidates.route(3, ReservedRoom()).candidates
        times_s.append((time.process_time() - began_s) / REQUESTS)
    return {
        "members": members,
        "look_ms": round(1e3 * look_s / LOOKS, 2),
        "new_ms": round(1e3 * times_s[0], 3),
        "equal_ms": round(1e3 * times_s[1], 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--members", type=int, nargs="+", default=[10, 100, 1000])
    with tempfile.TemporaryDirectory() as directory, EmbeddedRedis(Path(directory), "no") as server:
        lines = [asyncio.run(measure(server.url, count)) for count in parser.parse_args().members]
    sys.stdout.write("  ".join(lines[0]) + "\n")
    for line in lines:
        sys.stdout.write("  ".join(f"{value:>{len(name)}}" for name, value in line.items()) + "\n")
    worst_ms = max(line["new_ms"] for line in lines)
    sys.stdout.write(
        f"goal: under {GOAL_MS:g} ms a request: {'reached' if worst_ms < GOAL_MS else 'MISSED'}\n"
    )


if __name__ == "__main__":
    main()
