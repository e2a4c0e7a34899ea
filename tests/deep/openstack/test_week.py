"""A week of a recorded trace at high speed on a real Nova: own users call it directly, beside spot.

The own load is that of a Eucalyptus cloud (DS3, its 17th week: 28 instances, at most 11 of 16 cores at once).
Spot takes all that is left, so most own requests are refused at first.
"""

from __future__ import annotations

import random
import time
from collections import defaultdict
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import pytest
import structlog

from broker.client import Client
from broker.contract import SpotRequest
from cloudsim.traces.formats import read
from tests.deep.openstack.real_openstack import MEMORY_MB, SIZES, RealOpenStack, wait_for_nova
from tests.deep.openstack.world import World, federation

log = structlog.get_logger(__name__)

pytestmark = [pytest.mark.xdist_group("openstack"), pytest.mark.timeout(1200)]

WEEK_S = 7 * 86400.0
#: Seconds in which the week passes: Nova of this size makes and deletes two servers a second.
PLAYED_S = 70.0
SPEED = WEEK_S / PLAYED_S
WEEK = 16
#: Seconds that an own user's server runs at least: most run for minutes, which pass in no time.
LEAST_S = 1.0
#: Seconds from one try of spot to the next.
SPOT_EVERY_S = 1.0
#: Seconds after which an own user comes again who was refused, or as soon as there is room.
AGAIN_S = 15.0
#: Seconds between two looks at all servers.
LOOK_S = 0.5
MEMORY_OF = {1: 512, 2: 2048, 4: 4096, 8: 8192}


@dataclass
class OwnUser:
    """Calls Nova for one server, again and again while it is refused.

    start_s, lives_s: seconds of the play. server: its id while it has one. failed_s: when it was seen to have
    failed. refused_s: since when there would have been room without spot; delay_s: from there to when it ran.
    """

    start_s: float
    lives_s: float
    cores: int
    call: Future[Any] | None = None
    server: str | None = None
    ran_s: float | None = None
    refused_s: float | None = None
    is_over: bool = False
    tries: int = 0
    failed_s: float | None = None
    delay_s: float | None = None


@dataclass
class Judge:
    """What every listing must show. deleted: servers that own users have deleted themselves."""

    ran: set[str] = field(default_factory=set)  # own servers that have been seen to run
    deleted: set[str] = field(default_factory=set)
    of_lease: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def look(self, servers: list[dict[str, Any]]) -> None:
        listed = {server["id"]: server for server in servers}
        for server_id in self.ran:
            is_there = server_id in listed and listed[server_id]["status"] == "ACTIVE"
            assert is_there or server_id in self.deleted, f"an own user's server ended: {server_id}"
        for server in servers:
            lease = server["metadata"].get("spotfed:lease")
            if server["status"] == "ACTIVE" and lease is None:
                self.ran.add(server["id"])
            elif server["status"] == "ACTIVE":
                self.of_lease[lease].add(server["id"])
        twice = {lease: ids for lease, ids in self.of_lease.items() if len(ids) > 1}
        assert not twice, "a lease had two instances"


class Play:
    """The week: own users, spot that fills what they leave, and the judge."""

    def __init__(self, world: World, users: list[OwnUser]):
        self.nova, self.client, self.users = world.nova, world.client, users
        self.judge = Judge()
        self._pool = ThreadPoolExecutor(8)
        self._random = random.Random(0)
        self._spot_due_s = 0.0
        self._spot: Future[Any] | None = None
        self._flavors = {one["name"]: one["id"] for one in self.nova.get("/flavors")["flavors"]}

    def run(self) -> None:
        began_s = time.monotonic()
        while not all(user.is_over for user in self.users):
            now_s = time.monotonic() - began_s
            assert now_s < 10 * PLAYED_S, [user for user in self.users if not user.is_over]
            servers = self.nova.servers()
            self.judge.look(servers)
            for user in self.users:
                self._step(user, {server["id"]: server for server in servers}, now_s)
            self._offer_spot(now_s)
            time.sleep(LOOK_S)
        self._pool.shutdown()

    def _step(self, user: OwnUser, listed: dict[str, dict[str, Any]], now_s: float) -> None:
        if user.is_over or now_s < user.start_s or (user.call is not None and not user.call.done()):
            return
        if user.call is not None:
            user.server, user.call = user.call.result(), None
            return  # it may not be in this listing yet
        status = listed.get(user.server or "", {}).get("status")
        if user.server is None:
            user.tries += 1
            user.call = self._pool.submit(self._create, user.cores)
        elif status == "ACTIVE":
            if user.ran_s is None:
                user.ran_s = now_s
                user.delay_s = None if user.refused_s is None else now_s - user.refused_s
            if now_s >= user.ran_s + user.lives_s:
                self._delete(user.server)
                user.is_over = True
        elif status == "ERROR":
            if self._room(listed, spot_leaves=True) < MEMORY_OF[user.cores]:
                user.refused_s = None  # other own users are in the way, about which nothing is done
            elif user.refused_s is None:
                user.refused_s = now_s
            user.failed_s = now_s if user.failed_s is None else user.failed_s
            has_room = self._room(listed, spot_leaves=False) >= MEMORY_OF[user.cores]
            if has_room or now_s > user.failed_s + AGAIN_S:
                self._delete(user.server)
                user.server = user.failed_s = None

    def _room(self, listed: dict[str, dict[str, Any]], *, spot_leaves: bool) -> int:
        """The most memory that is free on a host, in MB."""
        free = dict.fromkeys(self.nova.hosts, MEMORY_MB)
        for server in listed.values():
            host = server["OS-EXT-SRV-ATTR:host"]
            if host in free and not (spot_leaves and "spotfed:lease" in server["metadata"]):
                free[host] -= server["flavor"]["ram"]
        return max(free.values())

    def _create(self, cores: int) -> str:
        asked = {"name": "own", "imageRef": self.nova.image, "flavorRef": self._flavors[SIZES[cores]]}
        answer = self.nova.call("POST", "/servers", {"server": asked | {"networks": "none"}}, "demo")
        answer.raise_for_status()
        return str(answer.json()["server"]["id"])

    def _delete(self, server: str) -> None:
        self.judge.deleted.add(server)
        self._pool.submit(self.nova.delete, server)

    def _offer_spot(self, now_s: float) -> None:
        if now_s < self._spot_due_s or (self._spot is not None and not self._spot.done()):
            return
        if self._spot is not None:
            self._spot.result()
        request = SpotRequest(origin="guest", cores=self._random.choice((1, 2, 4)), lifetime_s=3600)
        self._spot, self._spot_due_s = (
            self._pool.submit(self.client.requests.submit, request),
            now_s + SPOT_EVERY_S,
        )


def own_users(data_dir: Path) -> list[OwnUser]:
    trace, _ = read(data_dir / "eucalyptus" / "DS3-trace.txt")
    begin_s, end_s = WEEK * WEEK_S, (WEEK + 1) * WEEK_S
    users = []
    for start_s, stop_s, cores in zip(trace.start_s, trace.stop_s, trace.cores, strict=True):
        if start_s < end_s and stop_s > begin_s:
            from_s = max(float(start_s), begin_s)
            lives_s = (min(float(stop_s), end_s) - from_s) / SPEED
            users.append(OwnUser((from_s - begin_s) / SPEED, max(lives_s, LEAST_S), int(cores)))
    return users


def count_ends(client: Client) -> dict[str, list[tuple[str, str | None]]]:
    """How each lease ended, and why."""
    ends: dict[str, list[tuple[str, str | None]]] = {}
    for streamed in client.events.stream(follow=False, cloud="real"):
        event = streamed.event
        if event.lease is not None:
            end = [(event.kind.value, event.cause)] if event.kind.ends_lease else []
            ends.setdefault(event.lease.id, []).extend(end)
    return ends


def test_a_week_of_own_users_beside_spot(
    nova: RealOpenStack, tmp_path: Path, redis_url: str, data_dir: Path
) -> None:
    users = own_users(data_dir)
    assert len(users) > 25
    with federation(nova, tmp_path, redis_url, "2s", notified=True) as world:
        world.fill(4, 4, 4, 2)
        play, began_s = Play(world, users), time.monotonic()
        play.run()
        # All own users are gone. What is left runs, and is the instances of leases.
        running = {lease.id for lease in world.client.leases.list_all(cloud="real") if lease.state.is_open}
        wait_for_nova(
            lambda: (
                sorted(server["metadata"].get("spotfed:lease", "") for server in nova.servers())
                == sorted(running)
            ),
            "each lease has its instance, and no other is there",
        )
        play.judge.look(nova.servers())
        for lease in running:
            world.client.leases.cancel(lease)
        wait_for_nova(lambda: not nova.servers(), "no instance is left")
        ends = count_ends(world.client)
    delays_s = sorted(user.delay_s for user in users if user.delay_s is not None)
    how = [end for each in ends.values() for end in each]
    log.info(
        "a week", speed=round(SPEED), users=len(users), refused=len(delays_s),
        tries=sum(user.tries for user in users), leases=len(ends),
        evicted=sum(kind == "evicted" for kind, _ in how), played_s=round(time.monotonic() - began_s),
        runs_after_s={"median": round(median(delays_s), 1), "most": round(delays_s[-1], 1)},
    )  # fmt: skip
    assert delays_s, "no own user needed room"
    assert all(len(each) == 1 for each in ends.values()), "each lease ended once"
    for kind, why in how:
        # Nobody but own users took room: the cloud itself ended nothing, and no instance failed.
        assert kind == "cancelled" or (kind == "evicted" and (why or "").startswith("real/")), (kind, why)
