"""What reaches Redis is in the version that the federation speaks."""

import asyncio
import json
from typing import Any

import pytest
import redis

from broker.contract import VERSION, CloudInfo, Confirm, Reserve, Tick
from broker.identity.permissions import Role
from broker.identity.store import parse_key_record
from broker.journal import Journal
from broker.keys import Keys
from broker.records import Accept, Attempt, Records
from broker.redis_server import connect_async
from broker.versions import OLDEST_VERSION
from tests.upgrade.test_golden import JUDGES

pytestmark = pytest.mark.redis

KEYS = Keys("written:")


def inbox(client: redis.Redis, cloud: str) -> list[dict[str, Any]]:
    entries: Any = client.xrange(KEYS.inbox(cloud))
    return [command for _, fields in entries for command in json.loads(fields[b"c"])]


@pytest.mark.parametrize("speaks", [OLDEST_VERSION, VERSION])
def test_an_api_process_writes_commands_in_it(redis_client: redis.Redis, redis_url: str, speaks: int) -> None:
    reserve = Reserve(
        id="r.1:reserve", attempt="r.1", request="r", origin="B", cores=1, lifetime_s=9.0, sla=None
    )

    async def write() -> None:
        async with connect_async(redis_url) as client:
            records = Records(client, KEYS, speaks=lambda: speaks)
            await records.accept([Accept("r", "f", "{}", 1000, Attempt("r", 1, "a", reserve, 1000))])
            await records.send({"a": [Confirm(id="c", attempt="r.1")]})

    asyncio.run(write())
    found = inbox(redis_client, "a")
    assert [(one["kind"], one["version"]) for one in found] == [("reserve", speaks), ("confirm", speaks)]
    for command in found:
        JUDGES["command"].validate(command)


@pytest.mark.parametrize("speaks", [OLDEST_VERSION, VERSION])
def test_an_owner_writes_commands_to_itself_and_what_it_is_in_it(
    redis_client: redis.Redis, speaks: int
) -> None:
    journal = Journal(redis_client, KEYS, "a", speaks=lambda: speaks)
    journal.send("a", [Tick(id="t")])
    assert [one["version"] for one in inbox(redis_client, "a")] == [speaks]
    journal.publish_info(CloudInfo(id="a", order=0, nodes="8", cores=8, largest_node=8, time="wall"))
    told: Any = redis_client.hget(KEYS.clouds, "a")
    JUDGES["info"].validate(json.loads(told))


def test_a_key_of_the_version_before_lets_its_holder_do_everything_as_before() -> None:
    record = parse_key_record(b"tester")
    assert record is not None
    assert (record.principal, record.role, record.expired(1e12)) == ("tester", Role.OPERATOR, False)
    assert parse_key_record(b'{"unheard_of": 1}') is None
