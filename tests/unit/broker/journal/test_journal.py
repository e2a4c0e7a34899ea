"""The owner's lease, commits and inbox, on a real server."""

import json
import time

import pytest
import redis

from broker.contract import Advert, CloudInfo, Done, Event, EventKind, Lease, LeaseState, Reply, Tick
from broker.journal.entries import NotWrittenError
from broker.journal.hash_chain import BEGINNING
from broker.journal.journal import Commit, FencedError, Journal, JournalError
from broker.journal.verify import verify_entries
from broker.storage.keys import RedisKeys
from broker.storage.scripts import read_script
from cloudsim.model.requests import Kind

KEYS = RedisKeys("t:")
TTL_S = 60.0


@pytest.fixture
def journal(redis_client: redis.Redis) -> Journal:
    return Journal(redis_client, KEYS, "a")


def lease(name: str = "r.1", state: LeaseState = LeaseState.RUNNING) -> Lease:
    return Lease(
        id=name,
        request="r",
        cloud="a",
        origin="b",
        kind=Kind.SPOT,
        cores=2,
        node=0,
        starts_at_s=1,
        ends_at_s=None,
        promised_sla=0.1,
        eviction_probability=0.05,
        table_version="v",
        fence=1,
        number=1,
        state=state,
    )


def event(sequence: int | None = None, kind: EventKind = EventKind.ADMITTED, **fields) -> Event:
    return Event(cloud="a", kind=kind, at_s=1, at="2026-01-01T00:00:00Z", sequence=sequence, **fields)


def opened() -> Event:
    return event(kind=EventKind.OPENED)


def advert(free_cores: int = 3) -> Advert:
    return Advert(
        cloud="a",
        at="2026-01-01T00:00:00Z",
        at_s=1,
        epoch=1,
        free_cores=free_cores,
        on_demand_cores=0,
        spot_cores=0,
        spot_leases=0,
        free_slots={1: free_cores},
        table_version=None,
        table_made_at_s=None,
        evicted=0,
        admitted=0,
    )


def everything(client):
    """All keys of these tests and what they hold, but for the times they have to live."""
    return {key: client.dump(key) for key in client.keys(f"{KEYS.prefix}*")}


def ids(client, stream):
    return [entry.decode() for entry, _ in client.xrange(stream)]


# -- the owner's lease --------------------------------------------------------------------------------


def test_one_owner_at_a_time(journal):
    assert journal.acquire("first", TTL_S) == 1
    assert journal.acquire("second", TTL_S) is None
    journal.give_up("first", 1)
    assert journal.acquire("second", TTL_S) == 2


def test_who_asks_again_keeps_the_epoch_that_it_opened(journal, redis_client):
    """Its answer was lost, or a copy of the script comes late: that must not fence the owner that sent it."""
    assert [journal.acquire("first", TTL_S) for _ in range(2)] == [1, 1]
    journal.commit(Commit(1, "first", TTL_S, 1, [opened()]))
    journal.acquire("first", TTL_S)
    redis_client.delete(KEYS.owner("a"))  # its lease ran out
    assert journal.acquire("first", TTL_S) == 1
    assert redis_client.get(KEYS.owner("a")) == b"first"
    journal.renew("first", 1, TTL_S)
    journal.commit(Commit(1, "first", TTL_S, 2, [event(1)]))
    assert ids(redis_client, KEYS.journal("a")) == ["1-1", "1-2"]


def test_a_floor_that_is_not_below_opens_a_later_epoch(journal):
    assert [journal.acquire("first", TTL_S), journal.acquire("first", TTL_S, floor=1)] == [1, 2]


def test_who_was_followed_by_another_one_opens_a_later_epoch(journal):
    journal.acquire("first", TTL_S)
    journal.give_up("first", 1)
    assert journal.acquire("second", TTL_S) == 2
    journal.give_up("second", 2)
    assert journal.acquire("first", TTL_S) == 3


def test_a_lease_that_is_not_renewed_ends(journal):
    journal.acquire("first", 0.03)
    time.sleep(0.06)
    assert journal.acquire("second", TTL_S) == 2


def test_an_epoch_is_beyond_the_local_floor_and_the_journal(journal, redis_client):
    assert journal.acquire("first", TTL_S, floor=41) == 42
    journal.commit(Commit(42, "first", TTL_S, 1, [opened()]))
    redis_client.delete(KEYS.epoch("a"))
    assert journal.acquire("first", TTL_S) == 43


def test_renewing_extends_and_takes_back_what_nobody_took(journal, redis_client):
    journal.acquire("first", 1)
    journal.renew("first", 1, TTL_S)
    assert redis_client.pttl(KEYS.owner("a")) > 1000
    redis_client.delete(KEYS.owner("a"))
    journal.renew("first", 1, TTL_S)
    assert redis_client.get(KEYS.owner("a")) == b"first"


def test_an_old_owner_is_fenced_and_writes_nothing(journal, redis_client):
    journal.acquire("first", TTL_S)
    journal.commit(Commit(1, "first", TTL_S, 1, [opened()]))
    redis_client.delete(KEYS.owner("a"))
    assert journal.acquire("second", TTL_S) == 2
    before = everything(redis_client)
    with pytest.raises(FencedError):
        journal.renew("first", 1, TTL_S)
    with pytest.raises(FencedError):
        journal.commit(Commit(1, "first", TTL_S, 2, [event(1)], advert=advert()))
    with pytest.raises(FencedError):  # also what it did write: a retry tells it to stop
        journal.commit(Commit(1, "first", TTL_S, 1, [opened()]))
    journal.give_up("first", 1)
    assert everything(redis_client) == before
    journal.commit(Commit(2, "second", TTL_S, 1, [opened(), event(1)]))
    assert ids(redis_client, KEYS.journal("a")) == ["1-1", "2-1", "2-2"]


def test_an_old_owner_is_fenced_even_when_the_new_lease_ran_out(journal, redis_client):
    journal.acquire("first", TTL_S)
    redis_client.delete(KEYS.owner("a"))
    journal.acquire("second", TTL_S)
    redis_client.delete(KEYS.owner("a"))
    with pytest.raises(FencedError):
        journal.renew("first", 1, TTL_S)
    with pytest.raises(FencedError):
        journal.commit(Commit(1, "first", TTL_S, 1, [opened()]))


# -- commits ------------------------------------------------------------------------------------------


def test_a_commit_writes_everything(journal, redis_client):
    epoch = journal.acquire("me", 1)
    entry = journal.send("a", [Tick(id="t")])
    later = journal.send("a", [Tick(id="u")])
    listener = redis_client.pubsub()
    listener.subscribe(KEYS.channel("a"))
    assert listener.get_message(timeout=60)["type"] == "subscribe"
    admitted, running, ended = event(1, lease=lease()), lease(), lease("q.1", LeaseState.EVICTED)
    done = Reply(command="t", answer=Done())
    commit = Commit(
        epoch,
        "me",
        TTL_S,
        1,
        [opened(), admitted],
        entry,
        {"api": [done]},
        [running, ended],
        advert(),
        ['{"x": 1}'],
    )
    redis_client.sadd(KEYS.running("a"), "q.1")
    assert journal.commit(commit) is True

    assert list(journal.read()) == [("1-1", opened()), ("1-2", admitted)]
    text = admitted.model_dump_json().encode()
    assert redis_client.xrange(KEYS.events("a")) == [(b"0-1", {b"e": text})]
    assert [fields for _, fields in redis_client.xrange(KEYS.all_events)] == [{b"e": text}]
    assert listener.get_message(timeout=60)["data"] == text
    listener.close()
    assert Lease.model_validate_json(redis_client.get(KEYS.lease("a", "r.1"))) == running
    assert Lease.model_validate_json(redis_client.get(KEYS.lease("a", "q.1"))) == ended
    assert redis_client.ttl(KEYS.lease("a", "r.1")) == -1
    assert redis_client.ttl(KEYS.lease("a", "q.1")) == pytest.approx(7 * 86400, abs=5)
    assert redis_client.smembers(KEYS.running("a")) == {b"r.1"}
    ((_, fields),) = redis_client.xrange(KEYS.replies("api"))
    assert json.loads(fields[b"r"]) == [{"command": "t", "answer": {"answer": "done", "found": True}}]
    assert 0 < redis_client.ttl(KEYS.replies("api")) <= 600
    assert journal.cursor() == entry
    assert [read for read, _ in journal.read_inbox("0-0")] == [later]
    assert Advert.model_validate_json(redis_client.get(KEYS.advert("a"))) == advert()
    assert [fields for _, fields in redis_client.xrange(KEYS.overflow)] == [{b"o": b'{"x": 1}'}]
    assert redis_client.pttl(KEYS.owner("a")) > 1000


def test_only_numbered_events_are_public(journal, redis_client):
    journal.acquire("me", TTL_S)
    journal.commit(Commit(1, "me", TTL_S, 1, [opened(), event(kind=EventKind.RESERVED, lease=lease())]))
    assert ids(redis_client, KEYS.journal("a")) == ["1-1", "1-2"]
    assert not redis_client.exists(KEYS.events("a"), KEYS.all_events)


def test_a_commit_again_changes_nothing(journal, redis_client):
    journal.acquire("me", TTL_S)
    entry = journal.send("a", [Tick(id="t")])
    done = {"api": [Reply(command="t", answer=Done())]}
    commit = Commit(1, "me", TTL_S, 1, [opened(), event(1)], entry, done, [lease()], advert(), ["{}"])
    journal.commit(commit)
    after = everything(redis_client)
    assert journal.commit(commit) is False
    assert everything(redis_client) == after


def test_a_commit_that_arrives_again_after_later_ones_changes_nothing(journal, redis_client):
    journal.acquire("me", TTL_S)
    entries = [journal.send("a", [Tick(id=str(n))]) for n in range(3)]
    early = Commit(1, "me", TTL_S, 1, [opened(), event(1)], entries[0], leases=[lease()], advert=advert(9))
    quiet = Commit(1, "me", TTL_S, 3, cursor=entries[1], replies={"api": [Reply(command="1", answer=Done())]})
    ended = lease(state=LeaseState.COMPLETED)
    late = Commit(1, "me", TTL_S, 3, [event(2, EventKind.COMPLETED)], entries[2], {}, [ended], advert(1))
    for commit in (early, quiet, late):
        assert journal.commit(commit)
    after = everything(redis_client)
    for commit in (quiet, early, late):
        assert journal.commit(commit) is False
    assert everything(redis_client) == after


def test_a_commit_without_events_is_carried_out_again_and_only_repeats_its_replies(journal, redis_client):
    journal.acquire("me", TTL_S)
    entry = journal.send("a", [Tick(id="t")])
    done = {"api": [Reply(command="t", answer=Done())]}
    commit = Commit(1, "me", TTL_S, 1, cursor=entry, replies=done, advert=advert())
    journal.commit(commit)
    once = everything(redis_client)
    journal.commit(commit)
    twice = everything(redis_client)
    assert redis_client.xlen(KEYS.replies("api")) == 2
    assert {key for key in twice if once.get(key) != twice[key]} == {KEYS.replies("api").encode()}


def test_a_heartbeat_that_moves_nothing_renews_advert_and_lease(journal, redis_client):
    journal.acquire("me", TTL_S)
    entry = journal.send("a", [Tick(id="t")])
    journal.commit(Commit(1, "me", TTL_S, 1, [opened()], entry))
    journal.commit(Commit(1, "me", 1, 2, cursor=entry, advert=advert(7)))
    journal.commit(Commit(1, "me", TTL_S, 2, advert=advert(8)))
    assert Advert.model_validate_json(redis_client.get(KEYS.advert("a"))) == advert(8)
    assert redis_client.pttl(KEYS.owner("a")) > 1000


@pytest.mark.parametrize(
    "wrong",
    [
        Commit(1, "me", TTL_S, 4, [event(2)]),
        Commit(1, "me", TTL_S, 2, [event(2), event(3)]),
        Commit(1, "me", TTL_S, 3, [event(3)]),
        Commit(1, "me", TTL_S, 3, [event(1)]),
        Commit(1, "me", TTL_S, 3, [event(2), event(4)]),
        Commit(1, "me", TTL_S, 3, [event(2)], "0-5"),
        Commit(1, "me", TTL_S, 3, [event(2)], "tomorrow"),
    ],
    ids=["gap", "overlap", "sequence gap", "sequence again", "gap inside", "cursor back", "no cursor"],
)
def test_what_does_not_follow_is_refused_whole(journal, redis_client, wrong):
    journal.acquire("me", TTL_S)
    journal.commit(Commit(1, "me", TTL_S, 1, [opened(), event(1)], journal.send("a", [Tick(id="t")])))
    before = everything(redis_client)
    with pytest.raises(JournalError, match="BROKEN"):
        journal.commit(wrong)
    assert everything(redis_client) == before


def test_an_epoch_begins_with_1_and_the_sequence_goes_on(journal):
    journal.acquire("me", TTL_S)
    journal.commit(Commit(1, "me", TTL_S, 1, [opened(), event(1)]))
    journal.acquire("next", TTL_S, dead="me")
    with pytest.raises(JournalError, match="expected 1"):
        journal.commit(Commit(2, "next", TTL_S, 3, [event(2)]))
    assert journal.commit(Commit(2, "next", TTL_S, 1, [event(2)]))


def test_a_change_needs_an_event():
    with pytest.raises(ValueError, match="without an event"):
        Commit(1, "me", TTL_S, 1, leases=[lease()])
    with pytest.raises(ValueError, match="without an event"):
        Commit(1, "me", TTL_S, 1, overflow=["{}"])


def test_a_reply_stream_that_is_none_does_not_stop_the_cloud(journal, redis_client):
    journal.acquire("me", TTL_S)
    redis_client.set(KEYS.replies("evil"), "not a stream")
    done = [Reply(command="t", answer=Done())]
    assert journal.commit(
        Commit(1, "me", TTL_S, 1, [opened()], replies={"evil": done, "good": done}, advert=advert())
    )
    assert redis_client.xlen(KEYS.replies("good")) == 1
    assert redis_client.exists(KEYS.advert("a"))


def test_out_of_memory_writes_all_or_nothing(journal, redis_client):
    journal.acquire("me", TTL_S)
    commit = Commit(1, "me", TTL_S, 1, [opened(), event(1)], leases=[lease()], advert=advert())
    before = everything(redis_client)
    redis_client.config_set("maxmemory", 1)
    try:
        with pytest.raises(redis.exceptions.OutOfMemoryError):
            journal.commit(commit)
    finally:
        redis_client.config_set("maxmemory", 0)
    assert everything(redis_client) == before
    assert journal.commit(commit)


# -- beside the journal -------------------------------------------------------------------------------


def test_history_is_appended_once_and_without_gaps(journal):
    journal.acquire("me", TTL_S)
    for index, chunk in enumerate([b"\x00a", b"b", b"b"]):
        journal.append_history(1, chunk, index)
        journal.append_history(1, chunk, index)
    assert journal.history(1) == [b"\x00a", b"b", b"b"]
    assert journal.history(1, after=2) == [b"b"]
    with pytest.raises(JournalError, match="3 chunks"):
        journal.append_history(1, b"x", 4)


def test_the_history_of_an_epoch_outlives_it_by_a_day(journal, redis_client):
    journal.acquire("me", TTL_S)
    journal.append_history(1, b"x", 0)
    assert redis_client.ttl(KEYS.history("a", 1)) == -1
    journal.acquire("next", TTL_S, dead="me")
    assert 0 < redis_client.ttl(KEYS.history("a", 1)) <= 86_400
    assert journal.history(2) == []


def test_information_and_table_are_there_for_people(journal, redis_client):
    info = CloudInfo(id="a", order=1, nodes="2x4", cores=8, largest_node=4, time="trace")
    journal.publish_info(info)
    journal.set_table('{"version": "v"}')
    assert CloudInfo.model_validate_json(redis_client.hget(KEYS.clouds, "a")) == info
    assert redis_client.get(KEYS.table("a")) == b'{"version": "v"}'


def test_scripts_survive_a_server_that_forgot_them(journal, redis_client):
    assert journal.acquire("me", TTL_S) == 1
    redis_client.script_flush()
    assert journal.acquire("me", TTL_S, floor=1) == 2
    assert "KEYS" in read_script("acquire")


# -- the chain ----------------------------------------------------------------------------------------


def test_every_entry_continues_the_one_before_from_epoch_to_epoch(journal, redis_client):
    journal.acquire("first", TTL_S)
    journal.commit(Commit(1, "first", TTL_S, 1, [opened(), event(1)]))
    journal.give_up("first", 1)
    journal.acquire("second", TTL_S)
    commit = Commit(2, "second", TTL_S, 1, [opened()], after=journal.entries.head().hash)
    assert journal.commit(commit) is True
    assert journal.commit(commit) is False
    entries = list(journal.entries.after())
    before = BEGINNING
    for entry in entries:
        assert entry.continues(before)
        before = entry.hash
    assert [entry.id for entry in entries] == ["1-1", "1-2", "2-1"]
    assert journal.link(commit) == entries[2:]
    assert verify_entries("a", [], entries, journal.entries.public()).bad is None


def test_what_was_decided_on_another_history_is_not_written(journal, redis_client):
    journal.acquire("me", TTL_S)
    journal.commit(Commit(1, "me", TTL_S, 1, [opened()], after=BEGINNING))
    entry = journal.send("a", [Tick(id="t")])
    before = everything(redis_client)
    for commit in (
        Commit(1, "me", TTL_S, 2, [event(1)], after=BEGINNING),
        Commit(1, "me", TTL_S, 2, [], entry, advert=advert(), after="0" * 64),
    ):
        with pytest.raises(JournalError, match="BROKEN the chain"):
            journal.commit(commit)
    assert everything(redis_client) == before


def test_the_chain_begins_behind_entries_of_an_older_version(journal, redis_client):
    journal.acquire("me", TTL_S)
    redis_client.xadd(KEYS.journal("a"), {"e": opened().model_dump_json()}, id="1-1")
    journal.commit(Commit(1, "me", TTL_S, 2, [event(1)], after=BEGINNING))
    old, new = journal.entries.after()
    assert (old.hash, new.continues(BEGINNING)) == ("", True)


def test_nobody_waits_for_the_lease_of_a_dead_process(journal):
    journal.acquire("dead", TTL_S)
    assert journal.acquire("next", TTL_S, dead="another") is None
    assert journal.acquire("next", TTL_S, dead="dead") == 2


def test_what_is_lost_is_written_back_once_and_only_on_its_own_history(journal, redis_client):
    journal.acquire("me", TTL_S)
    ended = lease(state=LeaseState.EVICTED)
    journal.commit(Commit(1, "me", TTL_S, 1, [opened(), event(1, lease=lease("q.1"))], leases=[lease("q.1")]))
    journal.commit(Commit(1, "me", TTL_S, 3, [event(2, lease=ended)], leases=[ended]))
    entries, before = list(journal.entries.after()), everything(redis_client)
    redis_client.delete(
        *(key for key in redis_client.keys("*") if b"owner" not in key and b"epoch" not in key)
    )
    journal.entries.restore("me", 1, "", entries[:2])
    with pytest.raises(NotWrittenError, match="another history"):
        journal.entries.restore("me", 1, "0" * 64, entries[2:])
    for _ in range(2):
        journal.entries.restore("me", 1, entries[1].hash, entries[2:])
    with pytest.raises(NotWrittenError) as fenced:
        journal.entries.restore("other", 1, entries[1].hash, entries[2:])
    assert fenced.value.fenced
    assert list(journal.entries.after()) == entries
    assert [sequence for sequence, _ in journal.entries.public()] == [1, 2]
    assert [fields for _, fields in redis_client.xrange(KEYS.all_events)] == [
        {b"e": entry.body} for entry in entries[1:]
    ]
    after = everything(redis_client)
    assert {key for key in before if b"lease" in key or b"running" in key} <= set(after)
    assert redis_client.smembers(KEYS.running("a")) == {b"q.1"}


def test_a_journal_is_cut_behind_the_snapshot_only(journal, redis_client):
    journal.acquire("me", TTL_S)
    journal.commit(Commit(1, "me", TTL_S, 1, [opened(), *(event(n) for n in range(1, 10))]))
    with pytest.raises(NotWrittenError, match="ahead"):
        journal.entries.keep("me", 1, b"snapshot", (1, 11), 1, 1)
    journal.entries.keep("me", 1, b"snapshot", (1, 6), 1, 1)
    assert journal.entries.snapshot() == b"snapshot"
    assert ids(redis_client, KEYS.journal("a")) == ["1-7", "1-8", "1-9", "1-10"]
    assert len(ids(redis_client, KEYS.events("a"))) == 4
    journal.entries.keep("me", 1, b"later", (1, 10), 3, 2)
    assert ids(redis_client, KEYS.journal("a")) == ["1-8", "1-9", "1-10"]
    assert ids(redis_client, KEYS.events("a")) == ["0-8", "0-9"]
    with pytest.raises(NotWrittenError) as fenced:
        journal.entries.keep("other", 1, b"no", (1, 10), 3, 2)
    assert fenced.value.fenced
    journal.commit(Commit(1, "me", TTL_S, 11, [event(10)]))
    assert ids(redis_client, KEYS.events("a"))[-1] == "0-10"
