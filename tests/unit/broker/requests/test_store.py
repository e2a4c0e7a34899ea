"""The life of a request, step by step, on a real server. The random walk is in `tests/property`."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest
import redis

from broker.contract import Ask, Reserve, Tick, commands
from broker.contract.leases import format_attempt_id
from broker.journal.journal import Journal
from broker.requests.models import (
    Accept,
    Accepted,
    AcceptOutcome,
    AttemptDecision,
    RequestAttempt,
    RequestState,
    RequestStatus,
)
from broker.requests.store import RequestStore
from broker.storage.connections import connect_async
from broker.storage.keys import RedisKeys
from tests.support.wakeups import no_wakeup

KEYS = RedisKeys("t:")
SOON, LATER = 0, 60_000


@asynccontextmanager
async def connected(url):
    client = connect_async(url)
    try:
        yield RequestStore(client, KEYS, bell=no_wakeup)
    finally:
        await client.aclose()


def committed(standing: RequestStatus, number: int) -> bool:
    return standing.state is RequestState.COMMITTED and standing.attempt == number


@pytest.fixture
def run(redis_client, redis_url):
    """Runs an async function of `Records` on an empty server."""

    def _run(story):
        async def tell():
            async with connected(redis_url) as records:
                return await story(records)

        return asyncio.run(tell())

    return _run


@pytest.fixture
def inbox(redis_client):
    """What a cloud was told, one list an entry."""

    def _inbox(cloud):
        return [
            [f"{one['kind']} {one['attempt']}" for one in json.loads(fields[b"c"])]
            for _, fields in redis_client.xrange(KEYS.inbox(cloud))
        ]

    return _inbox


def accept(request: str = "r", fingerprint: str = "f", wait: int = LATER) -> Accept:
    return Accept(request, fingerprint, '{"cores": 1}', wait)


def attempt(number: int = 1, cloud: str = "a", request: str = "r", wait: int = LATER) -> RequestAttempt:
    name = format_attempt_id(request, number)
    command = Reserve(id=name, attempt=name, request=request, origin="o", cores=1, lifetime_s=1, sla=None)
    return RequestAttempt(request, number, cloud, command, wait)


def test_a_request_is_carried_out_once_and_keeps_its_answer(run, inbox):
    async def story(records):
        assert await records.accept([accept()]) == [Accepted(AcceptOutcome.NEW)]
        assert await records.accept([accept()]) == [Accepted(AcceptOutcome.IN_FLIGHT)]
        (standing,) = await records.reserve([attempt()])
        assert standing.attempts(1, "a")
        assert not standing.attempts(1, "b")
        assert not standing.attempts(2, "a")
        (standing,) = await records.decide([AttemptDecision("r", 1, "a", '{"lease": 1}')])
        assert standing == RequestStatus(RequestState.COMMITTED, 1, "a", '{"lease": 1}')
        assert committed(standing, 1)
        assert not committed(standing, 2)
        assert await records.accept([accept()]) == [Accepted(AcceptOutcome.ANSWERED, '{"lease": 1}')]
        assert await records.accept([accept(fingerprint="g")]) == [Accepted(AcceptOutcome.MISMATCH)]

    run(story)
    assert inbox("a") == [["reserve r.1"], ["confirm r.1"]]


def test_the_same_call_again_is_still_new_until_it_goes_on(run):
    async def story(records):
        ours = accept()
        assert await records.accept([ours, ours]) == [Accepted(AcceptOutcome.NEW)] * 2
        await records.reserve([attempt()])
        assert await records.accept([ours]) == [Accepted(AcceptOutcome.IN_FLIGHT)]
        await records.decide([AttemptDecision("r", 1, "a")])
        assert await records.accept([ours]) == [Accepted(AcceptOutcome.IN_FLIGHT)]

    run(story)


def test_a_request_may_be_noted_with_its_first_attempt(run, inbox):
    async def story(records):
        ours = [Accept("r", "f", "{}", LATER, attempt(1, "a")), Accept("s", "f", "{}", LATER)]
        for _ in range(2):  # the same call again sends nothing again
            assert await records.accept(ours) == [Accepted(AcceptOutcome.NEW)] * 2
        assert await records.reserve([attempt(1, "b")]) == [RequestStatus(RequestState.ATTEMPTING, 1, "a")]
        theirs = Accept("r", "f", "{}", LATER, attempt(1, "b"))
        assert await records.accept([theirs]) == [Accepted(AcceptOutcome.IN_FLIGHT)]
        assert committed((await records.decide([AttemptDecision("r", 1, "a", "yes")]))[0], 1)

    run(story)
    assert inbox("a") == [["reserve r.1"], ["confirm r.1"]]
    assert inbox("b") == []


def test_an_abandoned_attempt_makes_room_for_the_next_one_only(run, inbox):
    async def story(records):
        await records.accept([accept()])
        await records.reserve([attempt(1, "a")])
        assert await records.reserve([attempt(2, "b")]) == [RequestStatus(RequestState.ATTEMPTING, 1, "a")]
        assert await records.decide([AttemptDecision("r", 1, "a")]) == [
            RequestStatus(RequestState.OPEN, 1, "a")
        ]
        assert await records.reserve([attempt(1, "a")]) == [RequestStatus(RequestState.OPEN, 1, "a")]
        assert await records.reserve([attempt(2, "b")]) == [RequestStatus(RequestState.ATTEMPTING, 2, "b")]
        assert await records.decide([AttemptDecision("r", 1, "a", "late")]) == [
            RequestStatus(RequestState.ATTEMPTING, 2, "b")
        ]
        assert await records.decide([AttemptDecision("r", 2, "b", "yes")]) == [
            RequestStatus(RequestState.COMMITTED, 2, "b", "yes")
        ]
        assert await records.decide([AttemptDecision("r", 2, "b")]) == [
            RequestStatus(RequestState.COMMITTED, 2, "b", "yes")
        ]

    run(story)
    assert inbox("a") == [["reserve r.1"], ["release r.1"]]
    assert inbox("b") == [["reserve r.2"], ["confirm r.2"]]


def test_a_retry_sends_no_second_command(run, inbox):
    async def story(records):
        await records.accept([accept()])
        for _ in range(2):
            assert (await records.reserve([attempt()]))[0].attempts(1, "a")
        for _ in range(2):
            assert committed((await records.decide([AttemptDecision("r", 1, "a", "yes")]))[0], 1)

    run(story)
    assert inbox("a") == [["reserve r.1"], ["confirm r.1"]]


def test_of_two_processes_that_decide_one_wins(run, inbox):
    async def story(records):
        await records.accept([accept()])
        await records.reserve([attempt()])
        outcomes = await asyncio.gather(
            records.decide([AttemptDecision("r", 1, "a")]),
            *(records.decide([AttemptDecision("r", 1, "a", str(n))]) for n in range(5)),
        )
        return {standing for (standing,) in outcomes}

    standings = run(story)
    assert len(standings) == 1
    assert [told for told in inbox("a") if told != ["reserve r.1"]] in ([["confirm r.1"]], [["release r.1"]])


def test_closing_needs_an_open_request(run):
    async def story(records):
        await records.accept([accept("r"), accept("s")])
        await records.reserve([attempt(request="s")])
        standings = await records.close({"r": "no", "s": "no", "t": "no"})
        assert standings == [
            RequestStatus(RequestState.REFUSED, 0, None, "no"),
            RequestStatus(RequestState.ATTEMPTING, 1, "a"),
            RequestStatus(RequestState.UNKNOWN),
        ]
        assert (await records.close({"r": "other"}))[0].answer == "no"
        assert await records.reserve([attempt()]) == [RequestStatus(RequestState.REFUSED, 0, None, "no")]

    run(story)


def test_a_batch_is_one_entry_a_cloud(run, inbox):
    names = [f"r{n}" for n in range(6)]

    async def story(records):
        await records.accept([accept(name) for name in names[:5]])
        attempts = [attempt(cloud="ab"[n % 2], request=name) for n, name in enumerate(names)]
        standings = await records.reserve(attempts)
        assert [standing.state for standing in standings] == [RequestState.ATTEMPTING] * 5 + [
            RequestState.UNKNOWN
        ]
        await records.decide(
            [AttemptDecision(name, 1, "ab"[n % 2], "yes" if n < 3 else None) for n, name in enumerate(names)]
        )

    run(story)
    assert inbox("a") == [
        ["reserve r0.1", "reserve r2.1", "reserve r4.1"],
        ["confirm r0.1", "confirm r2.1", "release r4.1"],
    ]
    assert inbox("b") == [["reserve r1.1", "reserve r3.1"], ["confirm r1.1", "release r3.1"]]


def test_nothing_to_do_is_no_round_trip(run):
    async def story(records):
        records.redis = None
        return [
            await records.accept([]),
            await records.reserve([]),
            await records.decide([]),
            await records.close({}),
        ]

    assert run(story) == [[], [], [], []]


def test_confirmations_and_releases_carry_what_the_decision_says(run, redis_client):
    async def story(records):
        await records.accept([accept()])
        await records.reserve([attempt()])
        await records.decide([AttemptDecision("r", 1, "a", at_s=7.5, reply_to="api")])

    run(story)
    _, (_, fields) = redis_client.xrange(KEYS.inbox("a"))
    (release,) = commands.validate_json(fields[b"c"])
    assert (release.kind, release.id, release.at_s, release.reply_to) == (
        "release",
        "r.1:abandon",
        7.5,
        "api",
    )


def test_overdue_requests_are_claimed_by_one_sweeper(run):
    async def story(records):
        await records.accept([accept(f"r{n}", wait=SOON) for n in range(5)] + [accept("later")])
        await records.reserve([attempt(request="r4", wait=SOON)])
        await records.close({"r0": "no"})
        sweeps = await asyncio.gather(*(records.overdue(2, LATER) for _ in range(4)))
        claimed = [record for sweep in sweeps for record in sweep]
        assert sorted(record.id for record in claimed) == ["r1", "r2", "r3", "r4"]
        r4 = next(record for record in claimed if record.id == "r4")
        assert (r4.fingerprint, r4.body) == ("f", '{"cores": 1}')
        assert r4.status == RequestStatus(RequestState.ATTEMPTING, 1, "a")
        assert await records.overdue(10, LATER) == []

    run(story)


def test_reserving_puts_the_sweeper_off(run):
    async def story(records):
        await records.accept([accept(wait=SOON)])
        await records.reserve([attempt(wait=LATER)])
        return await records.overdue(10, LATER)

    assert run(story) == []


def test_a_sweeper_overtakes_a_process_that_slept(run, inbox):
    async def story(records):
        await records.accept([accept(wait=SOON)])
        await records.reserve([attempt(wait=SOON)])
        (record,) = await records.overdue(1, LATER)
        number = record.status.attempt
        await records.decide([AttemptDecision("r", number, "a")])
        await records.reserve([attempt(number + 1, "b")])
        # The first process wakes up.
        (standing,) = await records.decide([AttemptDecision("r", 1, "a", "lease on a")])
        assert not committed(standing, 1)
        await records.decide([AttemptDecision("r", 2, "b", "lease on b")])
        return await records.get("r")

    assert run(story).status == RequestStatus(RequestState.COMMITTED, 2, "b", "lease on b")
    assert inbox("a") == [["reserve r.1"], ["release r.1"]]


def test_a_process_that_wakes_between_a_sweepers_steps_commits_nothing(run, inbox):
    """Its owner may have given the reservation up, and the sweeper is about to abandon it."""

    async def story(records):
        await records.accept([accept(wait=SOON)])
        await records.reserve([attempt(wait=SOON)])
        await records.overdue(1, LATER)
        (standing,) = await records.decide([AttemptDecision("r", 1, "a", "lease on a")])
        assert not committed(standing, 1)
        await records.decide([AttemptDecision("r", 1, "a")])
        await records.reserve([attempt(2, "a")])
        (standing,) = await records.decide([AttemptDecision("r", 2, "a", "lease on a again")])
        assert committed(standing, 2)

    run(story)
    assert inbox("a") == [["reserve r.1"], ["release r.1"], ["reserve r.2"], ["confirm r.2"]]


def test_a_sweeper_commits_an_attempt_whose_lease_runs(run, inbox):
    async def story(records):
        await records.accept([accept(wait=SOON)])
        await records.reserve([attempt(wait=SOON)])
        await records.overdue(1, LATER)
        (standing,) = await records.decide([AttemptDecision("r", 1, "a", "lease on a", is_running=True)])
        assert committed(standing, 1)

    run(story)
    assert inbox("a") == [["reserve r.1"], ["confirm r.1"]]


def test_a_listed_request_without_a_record_is_forgotten(run, redis_client):
    redis_client.zadd(KEYS.open_requests, {"ghost": 1})
    assert run(lambda records: records.overdue(10, LATER)) == []
    assert redis_client.zcard(KEYS.open_requests) == 0


def test_records_are_kept_a_week_after_their_answer(run, redis_client):
    async def story(records):
        await records.accept([accept("r"), accept("s"), accept("t")])
        await records.reserve([attempt(request="s")])
        await records.decide([AttemptDecision("s", 1, "a", "yes")])
        await records.close({"r": "no"})
        assert await records.get("u") is None

    run(story)
    ages = [redis_client.ttl(KEYS.request(name)) for name in "rst"]
    assert ages == [pytest.approx(7 * 86_400, abs=5), pytest.approx(7 * 86_400, abs=5), -1]


def test_a_call_gets_the_same_answer(run, redis_client):
    async def story(records):
        async def call(fingerprint, token, principal="p"):
            return await records.accept_call(principal, "key", fingerprint, LATER, token)

        assert await call("f", "one") == Accepted(AcceptOutcome.NEW)
        assert await call("f", "one") == Accepted(AcceptOutcome.NEW)
        assert await call("f", "two") == Accepted(AcceptOutcome.IN_FLIGHT)
        assert await call("g", "two") == Accepted(AcceptOutcome.MISMATCH)
        assert await call("g", "two", "q") == Accepted(AcceptOutcome.NEW)
        assert await records.answer_call("p", "key", "first") == "first"
        assert await records.answer_call("p", "key", "second") == "first"
        assert await call("f", "two") == Accepted(AcceptOutcome.ANSWERED, "first")
        assert await call("g", "two") == Accepted(AcceptOutcome.MISMATCH)
        assert await records.answer_call("p", "other", "x") is None

    run(story)
    assert 0 < redis_client.ttl(KEYS.call("p", "key")) <= 7 * 86_400
    assert not redis_client.exists(KEYS.call("p", "other"))


def test_a_call_whose_process_died_may_be_taken_over(run):
    async def story(records):
        assert await records.accept_call("p", "key", "f", SOON, "one") == Accepted(AcceptOutcome.NEW)
        assert await records.accept_call("p", "key", "f", LATER, "two") == Accepted(AcceptOutcome.NEW)
        assert await records.accept_call("p", "key", "f", LATER, "one") == Accepted(AcceptOutcome.IN_FLIGHT)

    run(story)


def test_commands_reach_the_owners(run, redis_client):
    question = Ask(id="q", request="r", origin="o", cores=1, lifetime_s=5, sla=0.1)
    run(lambda records: records.send({"a": [question, Tick(id="t")], "b": [Tick(id="u")]}))
    for cloud, expected in (("a", [question, Tick(id="t")]), ("b", [Tick(id="u")])):
        ((_, batch),) = Journal(redis_client, KEYS, cloud).read_inbox("0-0")
        assert batch == expected


def test_a_request_without_a_record_whose_lease_runs_is_not_new(run, redis_client, inbox):
    """As after Redis was restored from an older copy. What two clouds claim nobody believes."""
    redis_client.set(KEYS.restored, 1)
    for cloud in "ab":
        redis_client.hset(KEYS.clouds, cloud, "{}")
    running, ended = '{"id":"x","state":"running"}', '{"id":"x","state":"evicted"}'
    redis_client.set(KEYS.lease("b", "r.2"), running)
    redis_client.set(KEYS.lease("a", "ended.1"), ended)
    redis_client.set(KEYS.lease("a", "both.1"), running)
    redis_client.set(KEYS.lease("b", "both.1"), running)

    async def story(records):
        return await records.accept([
            Accept(name, "f", "{}", LATER, attempt(request=name)) for name in ("r", "ended", "both")
        ])  # fmt: skip

    assert run(story) == [
        Accepted(AcceptOutcome.GRANTED, running),
        Accepted(AcceptOutcome.NEW),
        Accepted(AcceptOutcome.IN_FLIGHT),
    ]
    assert inbox("a") == [["reserve ended.1"]]
    assert not redis_client.exists(KEYS.request("r"), KEYS.request("both"))


def first(request: str, cloud: str = "a") -> Accept:
    return Accept(request, "f", "{}", LATER, attempt(request=request, cloud=cloud))


async def _together(*calls):
    """What callers get that come at the same time; the first goes alone, the others together."""
    return await asyncio.gather(*calls, return_exceptions=True)


def test_callers_that_come_together_share_an_entry(run, inbox):
    async def story(records):
        calls = await _together(*(records.accept([first(name)]) for name in "pqr"))
        assert calls == [[Accepted(AcceptOutcome.NEW)]] * 3
        decided = [
            records.decide([AttemptDecision(name, 1, "a", f'"{name}"', kept_s=10**6)]) for name in "pqr"
        ]
        assert [status.answer for (status,) in await _together(*decided)] == ['"p"', '"q"', '"r"']
        assert await records.redis.ttl(KEYS.request("q")) > 900_000

    run(story)
    verbs = [[text.split()[0] for text in entry] for entry in inbox("a")]
    assert verbs == [["reserve"] * 3, ["confirm"] * 3]


@pytest.mark.parametrize("step", ["accept", "reserve", "decide"])
def test_a_record_that_is_broken_hurts_only_its_own_request(run, inbox, redis_client, step):
    async def story(records):
        if step != "accept":
            await records.accept([Accept(name, "f", "{}", LATER) for name in "pqrs"])
        if step == "decide":
            await records.reserve([attempt(request=name) for name in "pqrs"])
        redis_client.set(KEYS.request("q"), "not a hash")
        calls = {
            "accept": lambda name: records.accept([first(name)]),
            "reserve": lambda name: records.reserve([attempt(request=name)]),
            "decide": lambda name: records.decide([AttemptDecision(name, 1, "a", '"yes"')]),
        }
        p, q, r, s = await _together(*(calls[step](name) for name in "pqrs"))
        assert "WRONGTYPE" in str(q)
        if step == "accept":
            assert p == r == s == [Accepted(AcceptOutcome.NEW)]
            assert (await records.get("r")).status.attempts(1, "a")
        elif step == "reserve":
            assert all(status.attempts(1, "a") for (status,) in (p, r, s))
        else:
            assert all(committed(status, 1) for (status,) in (p, r, s))

    run(story)
    verb = "confirm" if step == "decide" else "reserve"
    told = [text for entry in inbox("a") for text in entry if text.startswith(verb)]
    assert sorted(told) == [f"{verb} {name}.1" for name in "prs"]


@pytest.mark.parametrize("step", ["accept", "decide"])
def test_an_inbox_that_cannot_be_written_hurts_only_its_own_requests(run, inbox, redis_client, step):
    async def story(records):
        clouds = {"p": "a", "q": "b", "r": "a", "s": "c"}
        if step == "decide":
            await records.accept([first(name, cloud) for name, cloud in clouds.items()])
        redis_client.set(KEYS.inbox("b"), "not a stream")
        calls = {
            "accept": lambda name: records.accept([first(name, clouds[name])]),
            "decide": lambda name: records.decide([AttemptDecision(name, 1, clouds[name], '"yes"')]),
        }
        p, q, r, s = await _together(*(calls[step](name) for name in clouds))
        assert "WRONGTYPE" in str(q)
        good = {"p": p, "r": r, "s": s}
        for name, (outcome,) in good.items():
            status = (await records.get(name)).status
            if step == "accept":
                assert outcome == Accepted(AcceptOutcome.NEW)
                assert status.attempts(1, clouds[name])
            else:
                assert committed(status, 1)
        redis_client.delete(KEYS.inbox("b"))

    run(story)
    verb = "confirm" if step == "decide" else "reserve"
    told = {text for cloud in "ac" for entry in inbox(cloud) for text in entry if text.startswith(verb)}
    assert told == {f"{verb} {name}.1" for name in "prs"}


def _list_attempted(records, *wait):
    """Accepts requests r0, r1 and r2 and attempts them on a, b and b."""
    attempts = [attempt(1, cloud, f"r{place}", *wait) for place, cloud in enumerate("abb")]
    decisions = [
        AttemptDecision(one.request, 1, one.cloud, f'{{"lease": "{one.request}"}}') for one in attempts
    ]

    async def begin():
        await records.accept([accept(one.request) for one in attempts])
        await records.reserve(attempts)
        return decisions

    return begin()


def test_a_list_is_committed_together(run, inbox):
    async def story(records):
        decisions = await _list_attempted(records)
        statuses = await records.commit_together(decisions)
        assert [committed(status, 1) for status in statuses] == [True] * 3
        assert [status.answer for status in statuses] == [decision.answer for decision in decisions]
        assert await records.commit_together(decisions) == statuses

    run(story)
    assert inbox("a") == [["reserve r0.1"], ["confirm r0.1"]]
    assert inbox("b") == [["reserve r1.1", "reserve r2.1"], ["confirm r1.1", "confirm r2.1"]]


@pytest.mark.parametrize("lost", ["r0", "r1"])
def test_of_a_list_of_which_one_was_given_up_none_is_committed(run, inbox, lost):
    async def story(records):
        decisions = await _list_attempted(records)
        await records.decide(
            [AttemptDecision(one.request, 1, one.cloud) for one in decisions if one.request == lost]
        )
        statuses = await records.commit_together(decisions)
        assert [status.state for status in statuses] == [
            RequestState.OPEN if decision.request == lost else RequestState.ATTEMPTING
            for decision in decisions
        ]

    run(story)
    assert not [sent for cloud in "ab" for entry in inbox(cloud) for sent in entry if "confirm" in sent]


def test_a_list_that_is_overdue_is_committed_by_nobody(run, inbox):
    async def story(records):
        decisions = await _list_attempted(records, SOON)
        assert len(await records.overdue(10, LATER)) == 3
        statuses = await records.commit_together(decisions)
        assert {status.state for status in statuses} == {RequestState.ATTEMPTING}

    run(story)
    assert inbox("a") == [["reserve r0.1"]]


def test_where_one_inbox_cannot_be_written_none_of_a_list_is_committed(run, redis_client):
    async def story(records):
        decisions = await _list_attempted(records)
        redis_client.delete(KEYS.inbox("b"))
        redis_client.set(KEYS.inbox("b"), "no stream")
        with pytest.raises(redis.ResponseError):
            await records.commit_together(decisions)
        assert [(await records.get(f"r{place}")).status.state for place in range(3)] == [
            RequestState.ATTEMPTING
        ] * 3

    run(story)
    assert redis_client.xlen(KEYS.inbox("a")) == 1
