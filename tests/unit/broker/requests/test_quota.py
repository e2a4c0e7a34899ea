"""What requests hold of a member's cap: taken with the request, given back with its end, on a real server."""

import asyncio
import json
import random

import pytest

from broker.contract.leases import format_attempt_id
from broker.requests.models import Accept, AcceptOutcome, QuotaHold, RequestAttempt
from broker.requests.quota import QuotaHolds
from tests.unit.broker.requests.test_store import KEYS, LATER, accept, attempt, connected

CAP = 10


def held(request: str, cores: int, member: str = "acme", most: int | None = None) -> Accept:
    hold = QuotaHold(member, cores, CAP, most, ('{"left":', "}"))
    return Accept(request, "f", "{}", LATER, hold=hold)


@pytest.fixture
def run(redis_client, redis_url):
    """Runs an async function of `Records` and `Holds` on an empty server."""

    def _run(story):
        async def tell():
            async with connected(redis_url) as records:
                return await story(records, QuotaHolds(records.redis, KEYS))

        return asyncio.run(tell())

    return _run


def test_what_is_left_is_the_answer_and_stays_it(run):
    async def story(records, holds):
        first = held("a", 7)
        answers = await records.accept([first, held("b", 4), held("c", 3), held("d", 1)])
        assert [one.outcome for one in answers] == [
            AcceptOutcome.NEW,
            AcceptOutcome.ANSWERED,
            AcceptOutcome.NEW,
            AcceptOutcome.ANSWERED,
        ]
        assert [one.answer for one in answers] == [None, '{"left":3}', None, '{"left":null}']
        (again,) = await records.accept([first])  # it did not hear the answer
        assert again.outcome is AcceptOutcome.NEW
        assert await holds.cores_by_request("acme") == {"a": 7, "c": 3}
        assert await holds.release("acme", ["a", "nobody's"]) == 7
        (refused,) = await records.accept([held("b", 4)])
        assert refused.answer == '{"left":3}'  # same id, same answer
        (other,) = await records.accept([held("e", 7)])
        assert other.outcome is AcceptOutcome.NEW
        assert await holds.release("acme", ["a"]) == 0
        assert await holds.total("acme") == (10, 2)

    run(story)


def test_instances_are_counted_too(run):
    async def story(records, holds):
        answers = await records.accept([held(name, 1, most=2) for name in "abc"])
        assert [one.answer for one in answers] == [None, None, '{"left":null}']
        await holds.release("acme", ["a", "b"])
        answers = await records.accept([held(name, 1, most=2) for name in "def"])
        assert [one.answer for one in answers] == [None, None, '{"left":null}']

    run(story)


def test_a_refused_request_gives_back_what_it_held_once(run):
    async def story(records, holds):
        await records.accept([held("a", 7), accept("without")])
        for _ in range(2):
            await records.close({"a": "{}", "without": "{}"})
            assert await holds.total("acme") == (0, 0)

    run(story)


def test_members_do_not_share_a_cap(run):
    async def story(records, holds):
        answers = await records.accept([held("a", 8), held("b", 8, "rival"), held("c", 8)])
        assert [one.outcome for one in answers] == [
            AcceptOutcome.NEW,
            AcceptOutcome.NEW,
            AcceptOutcome.ANSWERED,
        ]
        assert (await holds.total("acme"), await holds.total("rival")) == ((8, 1), (8, 1))

    run(story)


def test_an_attempt_beyond_the_cap_is_not_made_and_those_beside_it_are(run, redis_client):
    async def story(records, holds):
        requests = []
        for name, cores in (("a", 8), ("b", 8), ("c", 2)):
            one = held(name, cores)
            first: RequestAttempt = attempt(request=name)
            requests.append(Accept(one.id, "f", "{}", LATER, first, one.hold))
        answers = await records.accept(requests)
        assert [one.outcome for one in answers] == [
            AcceptOutcome.NEW,
            AcceptOutcome.ANSWERED,
            AcceptOutcome.NEW,
        ]

    run(story)
    told = [
        command["attempt"]
        for _, fields in redis_client.xrange(KEYS.inbox("a"))
        for command in json.loads(fields[b"c"])
    ]
    assert sorted(told) == [format_attempt_id("a", 1), format_attempt_id("c", 1)]


@pytest.mark.parametrize("seed", range(5))
def test_the_sum_is_that_of_what_is_held_whatever_happens(run, seed):
    chance = random.Random(seed)

    async def story(records, holds):
        model: dict[str, int] = {}
        undecided: set[str] = set()
        for step in range(60):
            name, cores = f"r{chance.randrange(20)}", chance.randint(1, 5)
            match chance.randrange(3):
                case 0:
                    (accepted,) = await records.accept([held(name, cores)])
                    fits = sum(model.values()) + cores <= CAP
                    if accepted.outcome is AcceptOutcome.NEW:
                        assert fits, step
                        model[name] = cores
                        undecided.add(name)
                case 1:
                    await records.close({name: "{}"})
                    if name in undecided:
                        model.pop(name, None)
                        undecided.remove(name)
                case 2:
                    await holds.release("acme", [name])
                    model.pop(name, None)
            assert await holds.cores_by_request("acme") == model
            assert await holds.total("acme") == (sum(model.values()), len(model))
            stored = await records.redis.hget(KEYS.quota_holds("acme"), "=cores")
            assert int(stored or 0) == sum(model.values()) <= CAP

    run(story)
