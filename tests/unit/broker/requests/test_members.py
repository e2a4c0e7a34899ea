"""The cached view of the members: one round trip, and silence judged by this process's own clock."""

import asyncio
from datetime import UTC, datetime, timedelta

import redis

from broker.contract import Advert, CloudInfo
from broker.requests.members import REFRESH_S, MembershipView
from broker.storage.connections import connect_async
from broker.storage.keys import RedisKeys

KEYS = RedisKeys("adverts:")
WALL = datetime(2026, 1, 1, tzinfo=UTC)


def publish(
    client: redis.Redis, at: datetime, cloud: str = "a", epoch: int = 1, instances: str | None = None
) -> None:
    info = CloudInfo(id=cloud, order=0, nodes="", cores=8, largest_node=8, time="wall", instances=instances)
    client.hset(KEYS.clouds, cloud, info.model_dump_json())
    advert = Advert(
        cloud=cloud, at=at.isoformat(), at_s=0, epoch=epoch, free_cores=8, on_demand_cores=0, spot_cores=0,
        spot_leases=0, free_slots={1: 8}, table_version=None, table_made_at_s=None, evicted=0, admitted=0,
    )  # fmt: skip
    client.set(KEYS.advert(cloud), advert.model_dump_json())


class Clocks:
    """Both clocks of the reading process, moved by hand."""

    def __init__(self) -> None:
        self.monotonic_s, self.wall = 100.0, WALL

    def pass_s(self, seconds: float) -> None:
        self.monotonic_s += seconds
        self.wall += timedelta(seconds=seconds)


async def view(adverts: MembershipView) -> bool:
    (member,) = await adverts.members()
    return member.reachable


def test_silence_makes_unreachable_whatever_the_clocks_do(redis_client: redis.Redis, redis_url: str) -> None:
    async def scenario() -> None:
        clocks = Clocks()
        async with connect_async(redis_url) as client:
            adverts = MembershipView(
                client, KEYS, max_age_s=10, monotonic=lambda: clocks.monotonic_s, now=lambda: clocks.wall
            )
            publish(redis_client, WALL - timedelta(hours=1))
            assert not await view(adverts), "old when first seen"
            clocks.pass_s(1)
            # The owner's clock is an hour behind; but its advert has just changed.
            publish(redis_client, WALL - timedelta(hours=1, seconds=-1))
            assert await view(adverts)
            clocks.pass_s(8)
            assert await view(adverts)
            clocks.wall += timedelta(days=730)
            clocks.pass_s(0.5)
            assert await view(adverts), "a clock that jumps silences nobody"
            clocks.pass_s(2)
            assert not await view(adverts)
            publish(redis_client, WALL + timedelta(days=730), epoch=2)
            clocks.pass_s(1)
            assert await view(adverts)
            # Nobody asked for a long time: the advert changed meanwhile, long ago by its own account.
            publish(redis_client, clocks.wall + timedelta(seconds=5), epoch=3)
            clocks.pass_s(60)
            assert not await view(adverts)

    asyncio.run(scenario())


def test_it_is_cached_for_a_moment(redis_client: redis.Redis, redis_url: str) -> None:
    async def scenario() -> None:
        clocks = Clocks()
        async with connect_async(redis_url) as client:
            adverts = MembershipView(
                client, KEYS, max_age_s=10, monotonic=lambda: clocks.monotonic_s, now=lambda: clocks.wall
            )
            publish(redis_client, WALL)
            assert len(await adverts.members()) == 1
            publish(redis_client, WALL, "b")
            assert len(await adverts.members()) == 1
            clocks.pass_s(2 * REFRESH_S)
            assert [member.info.id for member in await adverts.members()] == ["a", "b"]
            redis_client.set(KEYS.advert("b"), "of another version")
            redis_client.hset(KEYS.clouds, "c", '{"of": "another version"}')
            redis_client.set(KEYS.table("a"), '{"rows": 7}')
            clocks.pass_s(2 * REFRESH_S)
            assert [member.reachable for member in await adverts.members()] == [True, False]
            redis_client.delete(KEYS.clouds)
            clocks.pass_s(2 * REFRESH_S)
            assert await adverts.members() == ()

    asyncio.run(scenario())


def test_a_real_cloud_of_which_its_agent_hears_nothing_is_unreachable(
    redis_client: redis.Redis, redis_url: str
) -> None:
    async def scenario() -> None:
        clocks = Clocks()
        async with connect_async(redis_url) as client:
            adverts = MembershipView(
                client, KEYS, max_age_s=10, monotonic=lambda: clocks.monotonic_s, now=lambda: clocks.wall
            )
            publish(redis_client, WALL, instances="openstack")
            redis_client.set(KEYS.silent_cloud("a"), "since a minute")
            assert not await view(adverts)
            redis_client.delete(KEYS.silent_cloud("a"))
            clocks.pass_s(2 * REFRESH_S)
            assert await view(adverts)

    asyncio.run(scenario())
