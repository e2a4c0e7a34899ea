"""Clouds and a broker on a server whose files are put back to an older copy: each request keeps one lease."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NoReturn

import pytest

from broker.api.container import ApiServices
from broker.contract import CloudInfo, Lease, SpotRequest
from broker.doctor.check import CheckResult
from broker.doctor.clouds import check_clouds, check_leases
from broker.doctor.installation import Installation
from broker.doctor.redis import check_redis
from broker.journal.archive import Archive, archive_directory
from broker.journal.journal import Journal
from broker.requests.errors import ReusedError
from broker.requests.models import RequestAnswer
from broker.requests.submit import Result
from broker.settings import Settings
from broker.storage.connections import connect
from broker.storage.embedded_server import EmbeddedRedis
from broker.storage.keys import RedisKeys
from cloudsim.cloud.spec import CloudSpec
from tests.support.wait import wait_until
from tests.unit.workers.owners import harmless_table
from workers.owner.process import OwnerProcess, OwnerProcessSpec
from workers.owner.state import OwnerSpec

KEYS = RedisKeys("rb:")


def _fail(status: int) -> NoReturn:
    raise AssertionError(f"the owner ends with status {status}")


class Federation:
    """Two clouds of one node of 4 cores, whose server stops, is put back, and starts."""

    def __init__(self, directory: Path):
        self._data, self._copy, self._state = directory / "redis", directory / "copy", directory / "state"
        self.owners: dict[str, OwnerProcess] = {}
        self._threads: set[threading.Thread] = set()

    def start(self, *clouds: str) -> None:
        self.server = EmbeddedRedis(self._data, appendfsync="no")
        self.server.start()
        self.client = connect(self.server.url)
        self.settings = Settings(
            redis_url=self.server.url,
            state_dir=self._state,
            key_prefix=KEYS.prefix,
            owner_lease_ttl_s=1.0,
            inbox_poll_s=0.02,
            reply_deadline_s=3.0,
        )
        for cloud in clouds:
            self.open(cloud)

    def open(self, cloud: str) -> None:
        owner = OwnerSpec(CloudSpec(cloud, (4,)))
        info = CloudInfo(id=cloud, order="AB".index(cloud), nodes="1x4", cores=4, largest_node=4, time="wall")
        process = OwnerProcess(
            OwnerProcessSpec(owner, info, frozenset({1}), seed=1, births=50),
            self.settings,
            Journal(self.client, KEYS, cloud),
            lambda *_: None,
            _fail,
            Archive(archive_directory(self._state, KEYS.prefix, cloud)),
        )
        process._owner.cloud.table = harmless_table((4,))  # it stays: no other is made
        process.open()
        before = set(threading.enumerate())
        process.start()
        self._threads |= {one for one in threading.enumerate() if one.name == "timetable"} - before
        self.owners[cloud] = process

    def stop(self) -> None:
        for owner in self.owners.values():
            owner.close()
        for thread in self._threads:  # they use the client
            thread.join(60)
        self.owners, self._threads = {}, set()
        self.client.close()
        self.server.stop()

    def keep_copy(self) -> None:
        self.stop()
        shutil.copytree(self._data, self._copy)

    def put_back(self) -> None:
        self.stop()
        shutil.rmtree(self._data)
        shutil.copytree(self._copy, self._data)

    def running(self) -> dict[str, list[str]]:
        """Ids of what runs on each cloud that has an owner."""
        return {
            cloud: [instance.id for instance in owner._owner.cloud.inventory]
            for cloud, owner in self.owners.items()
        }

    @asynccontextmanager
    async def api(self) -> AsyncIterator[ApiServices]:
        async with ApiServices(self.settings) as services:
            yield services

    def submit(self, request: SpotRequest) -> Result:
        async def submitted() -> Result:
            async with self.api() as services:
                (result,) = await services.submissions.submit([request], "user")
                return result

        return asyncio.run(submitted())

    def admit(self, request: SpotRequest) -> Lease:
        """The lease of a request, once its owner has confirmed it in its journal."""
        lease = _lease(self.submit(request))
        process = self.owners[lease.cloud]

        def is_confirmed() -> bool:
            with process._lock:  # what it has decided by then is written
                return process._owner.state.answer_log.reserved() == ()

        wait_until(is_confirmed, "the confirmation")
        return lease

    def doctor(self) -> list[CheckResult]:
        with Installation(self.settings, redis_url=self.server.url) as installation:
            for prerequisite in (check_redis, check_clouds):
                prerequisite(installation)
            return check_leases(installation)


@pytest.fixture
def federation(tmp_path: Path) -> Iterator[Federation]:
    made = Federation(tmp_path)
    made.start("A", "B")
    made.keep_copy()
    yield made
    made.stop()


REQUEST = SpotRequest(id="r", origin="user", cores=4, lifetime_s=10_000.0)


def _lease(result: Result) -> Lease:
    assert isinstance(result, RequestAnswer), result
    assert result.lease is not None, result
    return result.lease


def test_the_same_id_finds_its_lease_after_redis_was_rolled_back(federation: Federation) -> None:
    federation.start("A", "B")
    first = federation.admit(REQUEST)
    federation.put_back()
    federation.start("A", "B")
    assert federation.client.exists(KEYS.request("r")) == 0
    again = _lease(federation.submit(REQUEST))
    assert (again.id, again.cloud, again.number) == (first.id, first.cloud, first.number)
    assert federation.running() == {"A": ["r.1"], "B": []}
    assert isinstance(federation.submit(REQUEST.model_copy(update={"cores": 2})), ReusedError)


def test_a_lease_that_comes_back_after_its_request_was_placed_anew_is_ended(federation: Federation) -> None:
    federation.start("A", "B")
    assert federation.admit(REQUEST).cloud == "A"
    federation.put_back()
    federation.start("B")
    federation.client.delete(KEYS.advert("A"))  # it has been away for longer than an advert counts
    assert federation.admit(REQUEST).cloud == "B"
    federation.open("A")
    assert federation.running() == {"A": ["r.1"], "B": ["r.1"]}
    assert [(result.name, result.state) for result in federation.doctor()] == [("lease r.1", "warning")]

    async def reconcile() -> None:
        async with federation.api() as services:
            await asyncio.to_thread(
                wait_until, lambda: federation.running() == {"A": [], "B": ["r.1"]}, "one is left"
            )
            lease = await services.leases.get("r.1")
            assert lease is not None
            assert lease.cloud == "B"
            await services.ledgers.refresh()
            assert services.ledgers.ledgers["A"].counts.misplaced == 1
            assert services.ledgers.ledgers["B"].counts.misplaced == 0
            assert (await services.leases.end(lease, "user")).done

    asyncio.run(reconcile())
    assert federation.running() == {"A": [], "B": []}
    assert federation.doctor() == []


def test_an_attempt_that_its_owner_had_confirmed_is_not_abandoned(federation: Federation) -> None:
    """The copy of Redis was made while a request was under way: its record is older than its lease."""
    federation.start("A", "B")
    lease = federation.admit(REQUEST)
    federation.client.hset(KEYS.request("r"), "state", "attempting")
    federation.client.hdel(KEYS.request("r"), "answer")
    federation.client.persist(KEYS.request("r"))
    federation.client.zadd(KEYS.open_requests, {"r": 0})

    async def sweep() -> None:
        async with federation.api() as services:
            await services.submissions.sweep()
            (result,) = await services.submissions.submit([REQUEST], "user")
            assert _lease(result).id == lease.id

    asyncio.run(sweep())
    assert federation.running() == {"A": ["r.1"], "B": []}
