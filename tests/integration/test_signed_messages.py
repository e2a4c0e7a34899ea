"""Signed messages between a broker and a live owner: forgeries, repetitions, keys that change under load."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import redis

from broker.contract import (
    Advert,
    CloudInfo,
    Command,
    Confirm,
    QuoteView,
    RefusalView,
    Release,
    Reply,
    commands,
    replies,
)
from broker.journal.dead_letters import DeadLetterKind
from broker.journal.journal import Journal
from broker.requests.members import MembershipView
from broker.requests.replies import Replies
from broker.settings import Settings
from broker.signing.key_files import create_key, distrust_key, read_private_key
from broker.signing.parties import BROKER
from broker.signing.signer import MessageSigner
from broker.storage.connections import connect_async
from broker.storage.keys import RedisKeys
from cloudsim.model.refusals import RefusalReason
from tests.integration.test_workers_runtime import fail
from tests.unit.broker.forgeries import OTHER, Parties, forgeries
from tests.unit.workers.owners import ask, reserve, spec
from workers.owner.process import OwnerProcess, OwnerProcessSpec

KEYS = RedisKeys("sig:")
INBOX = KEYS.inbox("A")


class Live:
    """An owner of cloud A that verifies, and the broker's end of its streams."""

    def __init__(self, client: redis.Redis, directory: Path):
        self.client, self.directory = client, directory
        self.parties = Parties.make(directory)
        self.broker = self.parties.signing(BROKER)
        self.made: list[OwnerProcess] = []
        self.read = "0-0"
        self.open()

    def open(self) -> None:
        """One more owner, which takes over."""
        self.client.delete(KEYS.owner("A"))
        settings = Settings(state_dir=self.directory, key_prefix=KEYS.prefix, owner_lease_ttl_s=60.0)
        info = CloudInfo(id="A", order=0, nodes="2x4", cores=8, largest_node=4, time="wall")
        self.journal = Journal(self.client, KEYS, "A", self.parties.signing("cloud.A"))
        self.runtime = OwnerProcess(
            OwnerProcessSpec(spec(), info, frozenset({1}), seed=1, births=50),
            settings, self.journal, lambda *_: None, fail,
        )  # fmt: skip
        self.made.append(self.runtime)
        self.runtime.open()

    def close(self) -> None:
        for runtime in self.made:
            runtime.close()

    def put(self, fields: dict[str, bytes]) -> str:
        entry: Any = self.client.xadd(INBOX, cast("dict[Any, Any]", fields))
        return str(entry.decode())

    def send(self, *batch: Command, by: MessageSigner | None = None, to: str = INBOX) -> dict[str, bytes]:
        """Puts commands into the inbox, signed; returns what was put there."""
        fields = (by or self.broker).fields("c", commands.dump_json(list(batch)), to)
        self.put(fields)
        return fields

    def answered(self) -> list[str]:
        """Drains; ids of the commands that were answered since."""
        self.runtime.drain()
        entries: Any = self.client.xrange(KEYS.replies("me"), f"({self.read}", "+")
        found: list[Reply] = []
        for entry, fields in entries:
            self.read = entry.decode()
            found += replies.validate_json(fields[b"r"])
        return [reply.command for reply in found]

    def refused(self) -> dict[str, str]:
        """Why, by inbox entry, of all dead letters."""
        letters = self.journal.dead_letters.letters()
        assert {letter.kind for letter in letters} <= {DeadLetterKind.SIGNATURE}
        return {letter.of: letter.why for letter in letters}


@pytest.fixture
def live(redis_client: redis.Redis, tmp_path: Path) -> Iterator[Live]:
    made = Live(redis_client, tmp_path)
    yield made
    made.close()


def test_no_forgery_is_handled_and_each_is_put_aside(live: Live) -> None:
    seconds, _ = live.client.time()
    body = commands.dump_json([reserve("forged.1")])
    made = forgeries(live.parties, INBOX, body, int(seconds))
    entries: dict[str, str] = {}
    before = live.journal.dead_letters.count()
    for number, (name, fields) in enumerate(made.items()):
        entries[live.put(fields)] = name
        if number % 25 == 0:
            live.send(genuine := ask(lifetime_s=60.0))
            assert live.answered() == [genuine.id]
    assert live.answered() == []
    assert len(made) >= 100
    assert before == 0
    assert live.refused().keys() == entries.keys()
    assert not any("forged" in event.model_dump_json() for _, event in live.journal.read())
    assert live.client.xlen(INBOX) == 0
    assert sum(live.journal.refused.values()) == len(made)
    assert {"unsigned", "key", "signature", "content", "audience", "expired"} <= live.journal.refused.keys()


def test_a_repetition_is_refused_also_by_the_next_owner(live: Live) -> None:
    wishes = [reserve(f"r{number}.1") for number in range(3)]
    sent = [live.send(wish) for wish in wishes]
    assert live.answered() == [wish.id for wish in wishes]
    live.put(sent[1])
    assert live.answered() == []
    live.open()
    for fields in sent:
        live.put(fields)
    assert live.answered() == []
    assert len(live.refused()) == 4
    assert all("came before" in why for why in live.refused().values())


def test_what_was_read_and_not_committed_is_new_to_the_next_owner(live: Live) -> None:
    wish = reserve("r.1")
    live.send(wish)
    assert len(live.journal.read_inbox(live.journal.cursor())) == 1
    live.open()
    live.runtime.drain()
    assert live.refused() == {}
    assert "r.1" in [event.lease.id for _, event in live.journal.read() if event.lease is not None]


def test_other_members_and_old_epochs_command_nothing(live: Live) -> None:
    other, stale = live.parties.signing(OTHER), live.parties.signing("cloud.A")
    live.send(reserve("r.1"), by=other)
    live.send(Release(id="r.1:abandon", attempt="r.1"), by=other)
    live.send(Confirm(id="r.1:commit", attempt="r.1"), to=KEYS.inbox("B"))
    assert live.answered() == []
    assert sorted(live.refused().values()) == [
        "cloud.B may not write here",
        "cloud.B may not write here",
        "it is meant for sig:inbox:B",
    ]
    # A cloud may talk to itself, as it does with every tick; but not under what it signed in an older epoch.
    tick = stale.fields("c", b'[{"kind":"tick","id":"t"}]', INBOX)
    live.put(tick)
    live.answered()
    live.open()
    live.put(tick)
    live.answered()
    assert len(live.refused()) == 4


def test_keys_change_under_load(live: Live) -> None:
    """The broker's and the owner's, while commands are under way; the old ones are removed, then refused."""
    files = live.parties.files
    expected: list[str] = []
    kept: list[dict[str, bytes]] = []
    answered: list[str] = []
    for number in range(60):
        question = ask(lifetime_s=60.0)
        expected.append(question.id)
        kept.append(live.send(question))
        if number in (10, 30):
            create_key(BROKER, files.key(BROKER), files.trust)
        if number in (20, 40):
            create_key("cloud.A", files.key("cloud.A"), files.trust)
        if number % 7 == 0:
            answered += live.answered()
    old = json.loads(files.trust.read_text())["keys"]
    answered += live.answered()
    assert answered == expected
    assert live.refused() == {}
    now = {read_private_key(files.key(party)).kid for party in (BROKER, "cloud.A", OTHER)}
    for key in old:
        if key["kid"] not in now:
            distrust_key(files.trust, key["kid"])
    live.put(kept[0])
    live.send(last := ask(lifetime_s=60.0))
    assert live.answered() == [last.id]
    assert [why for why in live.refused().values() if "names no key" in why]


# -- what the broker hears -----------------------------------------------------------------------------------


def test_the_broker_believes_the_answer_of_the_cloud_that_was_asked(live: Live, redis_url: str) -> None:
    async def scenario() -> tuple[Any, Any]:
        async with connect_async(redis_url) as client:
            listening = Replies(client, KEYS, "me", live.parties.signing(BROKER))
            futures = listening.expect({"q": "A"})
            reading = asyncio.create_task(listening.run())
            refusal = RefusalView(cloud="A", reason=RefusalReason.NO_CAPACITY)
            body = replies.dump_json([Reply(command="q", answer=refusal)])
            stream = KEYS.replies("me")
            forged = [
                {"r": body},
                live.parties.signing(OTHER).fields("r", body, stream),
                live.parties.signing(BROKER).fields("r", body, stream),
                live.parties.signing("cloud.A").fields("r", body, KEYS.replies("another")),
                live.parties.signing("cloud.A").fields("r", body, stream) | {"r": body + b" "},
            ]
            for fields in forged:
                await client.xadd(stream, cast("dict[Any, Any]", fields))
            while listening.refused.total() < len(forged):
                await asyncio.sleep(0.01)
            assert not futures["q"].done()
            live.send(ask(lifetime_s=60.0).model_copy(update={"id": "q"}))
            await asyncio.to_thread(live.runtime.drain)
            answer = await asyncio.wait_for(futures["q"], 60)
            reading.cancel()
            return answer, dict(listening.refused)

    answer, refused = asyncio.run(scenario())
    assert isinstance(answer, QuoteView)
    assert refused == {"unsigned": 1, "issuer": 2, "audience": 1, "content": 1}


def test_a_table_counts_if_its_cloud_signed_it_and_never_goes_back(live: Live, redis_url: str) -> None:
    def table(made_at_s: float) -> str:
        return json.dumps({"version": f"v{made_at_s:.0f}", "made_at_s": made_at_s, "rows": []})

    async def scenario() -> None:
        async with connect_async(redis_url) as client:
            adverts = MembershipView(client, KEYS, max_age_s=10, signing=live.parties.signing(BROKER))
            own = live.journal
            assert await adverts.table("A") is None
            own.set_table(table(5.0))
            assert await adverts.table("A") == table(5.0).encode()
            places = KEYS.table("A"), KEYS.table_signature("A")
            old: Any = await client.mget(places)
            forged, other = table(9.0).encode(), live.parties.signing(OTHER)
            for signature in (old[1], other.sign(forged, places[0]), b""):
                await client.mset(dict(zip(places, (forged, signature), strict=True)))
                assert await adverts.table("A") is None
            # What it signed for another place, and an older one than its signed advert names.
            await client.mset({places[0]: forged, places[1]: own.signing.sign(forged, KEYS.advert("A"))})
            assert await adverts.table("A") is None
            own.set_table(table(7.0))
            assert await adverts.table("A") == table(7.0).encode()
            name = KEYS.advert("A")
            advert: Any = await client.get(name)
            newer = Advert.model_validate_json(advert).model_copy(
                update={"table_version": "v7", "table_made_at_s": 7.0}
            )
            text = newer.model_dump_json().encode()
            await client.mset({name: text, KEYS.advert_signature("A"): own.signing.sign(text, name)})
            adverts._refreshed_s = float("-inf")
            assert await adverts.table("A") == table(7.0).encode()
            await client.mset(dict(zip(places, old, strict=True)))
            assert await adverts.table("A") is None

    asyncio.run(scenario())


def test_an_advert_counts_if_its_cloud_signed_it_and_never_goes_back(live: Live, redis_url: str) -> None:
    async def members(adverts: MembershipView) -> list[Any]:
        adverts._refreshed_s = float("-inf")
        return [(one.info.id, one.advert and one.advert.free_cores) for one in await adverts.members()]

    async def scenario() -> None:
        async with connect_async(redis_url) as client:
            adverts = MembershipView(client, KEYS, max_age_s=10, signing=live.parties.signing(BROKER))
            assert await members(adverts) == [("A", 8)]
            places = KEYS.advert("A"), KEYS.advert_signature("A")
            old: Any = await client.mget(places)
            text = old[0].replace(b'"free_cores":8', b'"free_cores":800')
            other = live.parties.signing(OTHER)
            for signature in (old[1], other.sign(text, places[0]), b""):
                await client.mset(dict(zip(places, (text, signature), strict=True)))
                assert await members(adverts) == [("A", 8)]
            live.send(reserve("r.1"))
            await asyncio.to_thread(live.runtime.drain)
            assert await members(adverts) == [("A", 7)]
            await client.mset(dict(zip(places, old, strict=True)))
            assert await members(adverts) == [("A", 7)]
            # Another member's key makes no cloud, and changes none.
            info: Any = await client.hget(KEYS.clouds, "A")
            larger = info.replace(b'"cores":8', b'"cores":80')
            ghost = info.replace(b'"id":"A"', b'"id":"C"')
            for cloud, said in (("C", ghost), ("B", info), ("A", larger)):
                await client.hset(KEYS.clouds, cloud, said)
                await client.hset(KEYS.cloud_signatures, cloud, other.sign(said, KEYS.clouds))
            assert await members(adverts) == []

    asyncio.run(scenario())
