"""The submit service on real records: one inbox entry a cloud and round; races lost."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import redis
import redis.asyncio

from broker.contract import (
    Advert,
    CloudInfo,
    Lease,
    LeaseGranted,
    RefusalView,
    Reply,
    Reserve,
    SpotRequest,
    commands,
    replies,
)
from broker.requests.errors import InFlightError, SilentError
from broker.requests.members import MembershipView
from broker.requests.models import AttemptDecision, RequestAnswer, RequestState
from broker.requests.owner_commands import OwnerNotifier
from broker.requests.replies import Replies
from broker.requests.store import RequestStore
from broker.requests.submit import SubmissionService
from broker.settings import Settings
from broker.storage.connections import connect_async
from broker.storage.keys import RedisKeys
from cloudsim.model.refusals import RefusalReason
from cloudsim.model.requests import Kind
from tests.support.wakeups import RingingCommands, no_wakeup

KEYS = RedisKeys("service:")


class World:
    """One broker process without HTTP, and clouds that are scripted by the test.

    ``patience_s``: how long it waits for their answers.
    """

    def __init__(
        self, client: redis.asyncio.Redis, reading: redis.asyncio.Redis, time: str, patience_s: float
    ):
        self.client, self.rung = client, list[str]()
        self.settings = Settings(
            reply_deadline_s=patience_s, trace_reply_deadline_s=patience_s, max_clouds_asked=3
        )
        self.records = RequestStore(client, KEYS, bell=no_wakeup)
        self.replies = Replies(reading, KEYS, "p1")
        self.bells = OwnerNotifier(self.rung.append)
        adverts = MembershipView(client, KEYS, max_age_s=10)
        self.service = SubmissionService(
            self.settings, self.records, adverts, RingingCommands(self.records, self.replies, self.bells)
        )
        self.time = time

    async def join(self, cloud: str, order: int, slots: int) -> None:
        info = CloudInfo(id=cloud, order=order, nodes="", cores=64, largest_node=64, time=self.time)
        await self.client.hset(KEYS.clouds, cloud, info.model_dump_json())
        advert = Advert(
            cloud=cloud, at="2026-01-01T00:00:00Z", at_s=0, epoch=1, free_cores=slots, on_demand_cores=0,
            spot_cores=0, spot_leases=0, free_slots={1: slots}, table_version=None, table_made_at_s=None,
            evicted=0, admitted=0,
        )  # fmt: skip
        await self.client.set(KEYS.advert(cloud), advert.model_dump_json())

    async def inbox(self, cloud: str) -> list[list[Any]]:
        entries: Any = await self.client.xrange(KEYS.inbox(cloud))
        return [commands.validate_json(fields[b"c"]) for _, fields in entries]

    async def answer(self, cloud: str, with_: Callable[[Reserve], Any]) -> None:
        """Waits for the cloud's first entry and answers it."""
        while not (entries := await self.inbox(cloud)):
            await asyncio.sleep(0.005)
        answers = [Reply(command=one.id, answer=with_(one)) for one in entries[0]]
        await self.client.xadd(KEYS.replies("p1"), {"r": replies.dump_json(answers)})


def grant(command: Reserve) -> LeaseGranted:
    return LeaseGranted(
        lease=Lease(
            id=command.attempt, request=command.request, cloud="a", origin=command.origin, kind=Kind.SPOT,
            cores=command.cores, node=0, starts_at_s=0, ends_at_s=1, promised_sla=None,
            eviction_probability=None, table_version=None, fence=1, number=0, state="reserved",
        )
    )  # fmt: skip


def run(
    redis_url: str,
    scenario: Callable[[World], Awaitable[None]],
    time: str = "wall",
    patience_s: float = 60.0,
) -> None:
    async def main() -> None:
        async with connect_async(redis_url) as client, connect_async(redis_url) as reading:
            world = World(client, reading, time, patience_s)
            reader = asyncio.create_task(world.replies.run())
            await world.join("a", 0, 10)
            await world.join("b", 1, 20)
            try:
                await scenario(world)
            finally:
                reader.cancel()
                await asyncio.gather(reader, return_exceptions=True)
                await world.bells.close()

    # These adverts are from long ago; the clouds are scripted.
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("broker.requests.members.MembershipView._member", _always_reachable)
        asyncio.run(main())


def _always_reachable(_: MembershipView, info: CloudInfo, seen: Any, __: float) -> Any:
    from broker.requests.routing import Member

    return Member(info, seen.advert)


@pytest.fixture
def empty(redis_client: redis.Redis) -> redis.Redis:
    return redis_client


def wishes(count: int, **fields: Any) -> list[SpotRequest]:
    return [SpotRequest(**({"id": f"r{i}", "cores": 1, "lifetime_s": 10} | fields)) for i in range(count)]


def test_a_round_is_one_entry_and_one_bell_a_cloud(empty: redis.Redis, redis_url: str) -> None:
    async def scenario(world: World) -> None:
        submitting = asyncio.create_task(world.service.submit(wishes(10), "me"))
        await world.answer("a", grant)
        results = await submitting
        assert all(isinstance(one, RequestAnswer) and one.lease for one in results)
        entries = await world.inbox("a")
        assert [len(entry) for entry in entries] == [10, 10], "the attempts, then what was decided"
        assert {type(one).__name__ for one in entries[1]} == {"Confirm"}
        while not world.rung:  # on a thread of its own
            await asyncio.sleep(0.005)
        assert world.rung == ["a"]
        assert await world.inbox("b") == []

    run(redis_url, scenario)


def test_refused_by_one_taken_by_the_next(empty: redis.Redis, redis_url: str) -> None:
    async def scenario(world: World) -> None:
        submitting = asyncio.create_task(world.service.submit(wishes(1), "me"))
        await world.answer("a", lambda _: RefusalView(cloud="a", reason=RefusalReason.NO_CAPACITY))
        await world.answer("b", grant)
        (result,) = await submitting
        assert isinstance(result, RequestAnswer)
        assert result.lease is not None
        assert result.lease.id == "r0.2"
        assert [one.reason for one in result.refusals] == [RefusalReason.NO_CAPACITY]

    run(redis_url, scenario)


def test_who_is_overtaken_does_not_promise(empty: redis.Redis, redis_url: str) -> None:
    async def scenario(world: World) -> None:
        submitting = asyncio.create_task(world.service.submit(wishes(1), "me"))
        while not await world.inbox("a"):
            await asyncio.sleep(0.005)
        # Another process believes that this one is dead, and gives its attempt up before the owner answers.
        await world.records.decide([AttemptDecision("r0", 1, "a")])
        await world.answer("a", grant)
        (result,) = await submitting
        assert isinstance(result, InFlightError)
        record = await world.records.get("r0")
        assert record is not None
        assert record.status.state is RequestState.OPEN
        kinds = [type(one).__name__ for entry in await world.inbox("a") for one in entry]
        assert kinds == ["Reserve", "Release"], "never confirmed"

    run(redis_url, scenario)


def test_silence_everywhere_is_a_refusal_and_leaves_nothing_open(empty: redis.Redis, redis_url: str) -> None:
    async def scenario(world: World) -> None:
        (result,) = await world.service.submit(wishes(1), "me")
        assert isinstance(result, RequestAnswer)
        assert result.lease is None
        assert {one.cloud: one.reason for one in result.refusals} == dict.fromkeys(
            "ab", RefusalReason.UNREACHABLE
        )
        for cloud in "ab":
            kinds = [type(one).__name__ for entry in await world.inbox(cloud) for one in entry]
            assert kinds == ["Reserve", "Release"]
        assert await world.client.zcard(KEYS.open_requests) == 0
        # The same again, without asking anybody.
        assert await world.service.submit(wishes(1), "me") == [result]

    run(redis_url, scenario, patience_s=0.3)


def test_in_trace_time_all_are_asked_at_once_and_waited_for(empty: redis.Redis, redis_url: str) -> None:
    async def scenario(world: World) -> None:
        (result,) = await world.service.submit(wishes(1, at_s=5.0), "me")
        assert isinstance(result, SilentError)
        for cloud in "ab":
            ((ask,),) = await world.inbox(cloud)
            assert (type(ask).__name__, ask.at_s) == ("Ask", 5.0)
        record = await world.records.get("r0")
        assert record is not None
        assert record.status.state is RequestState.OPEN, "who sweeps goes on with it"

    run(redis_url, scenario, "trace", patience_s=0.3)
