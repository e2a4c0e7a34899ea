"""An owner goes on with a journal that a landed version of the contract wrote, in a real Redis."""

import json
from pathlib import Path

import pytest
import redis

from broker.contract import VERSION, EventKind
from broker.journal.archive import Archive
from broker.journal.hash_chain import BEGINNING, hash_entry
from broker.journal.journal import Commit, Journal
from broker.storage.keys import RedisKeys
from tests.contract.test_golden import lines, stored
from tests.deep.upgrade.make_golden import NOW, owner_spec, summary
from workers.owner.recovery import Recovery

KEYS = RedisKeys("taken-over:")


@pytest.fixture
def journal(redis_client: redis.Redis) -> Journal:
    """What an owner of that version left behind."""
    last = BEGINNING
    for number, line in enumerate(lines("journal"), 1):
        event = json.loads(line)
        last = hash_entry(last, f"1-{number}", line.encode())
        redis_client.xadd(KEYS.journal("A"), {"e": line, "h": last}, id=f"1-{number}")
        if event["sequence"] is not None:
            redis_client.xadd(KEYS.events("A"), {"e": line}, id=f"0-{event['sequence']}")
            redis_client.xadd(KEYS.all_events, {"e": line})
    redis_client.set(KEYS.epoch("A"), 1)
    return Journal(redis_client, KEYS, "A")


def test_it_goes_on_where_the_other_one_stopped(journal: Journal, tmp_path: Path) -> None:
    epoch = journal.acquire("me", 60)
    assert epoch == 2
    expected = stored("summary")
    for _ in range(2):  # the second time from the archive that the first one made
        recovered = Recovery(journal, Archive(tmp_path)).run(owner_spec(), "me", epoch)
        recovered.owner.validate()
        assert summary(recovered.owner) == expected
    opened = recovered.owner.open(9100.0, NOW)
    journal.commit(
        Commit(epoch=epoch, token="me", ttl_s=60, first=1, events=opened.events, after=recovered.last_hash)
    )
    *_, (last, event) = journal.read()
    assert (last, event.kind, event.version) == ("2-1", EventKind.OPENED, VERSION)
