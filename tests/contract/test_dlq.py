"""``spotfed dlq``: list, show, replay and drop, on a real queue."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from broker.contract import Cancel, CloudInfo, Reserve
from broker.journal.dead_letters import DeadLetterKind, DeadLetters
from broker.journal.journal import Journal
from broker.settings import Settings, settings
from broker.signing.key_files import local_key_files
from broker.signing.parties import BROKER, cloud_party
from broker.signing.signer import MessageSigner
from tests.contract.harness import Federation, Run


@pytest.fixture
def boxes(federation: Federation, monkeypatch: pytest.MonkeyPatch, spotfed: Run) -> dict[str, DeadLetters]:
    """Those of two clouds, A with two letters and B with one, which has the same id as A's first."""
    monkeypatch.setenv("SPOTFED_REDIS_URL", federation.redis_url)
    monkeypatch.setenv("SPOTFED_KEY_PREFIX", federation.prefix)
    settings.cache_clear()
    client = federation.redis
    found = {}
    for order, cloud in enumerate("AB"):
        journal = Journal(client, federation.keys, cloud)
        journal.publish_info(
            CloudInfo(id=cloud, order=order, nodes="1x4", cores=4, largest_node=4, time="wall")
        )
        found[cloud] = journal.dead_letters
    cancel = Cancel(id="c1", lease="r.1", by="me")
    wish = Reserve(id="c2", attempt="r.1", request="r", origin="B", cores=1, lifetime_s=None, sla=None)
    found["A"].put(
        "5-1/0",
        DeadLetterKind.POISON,
        "ValueError: no",
        f"[{cancel.model_dump_json()}]".encode(),
        entry="5-1",
    )
    found["A"].put(
        "5-2/0", DeadLetterKind.POISON, "ValueError: no", f"[{wish.model_dump_json()}]".encode(), entry="5-2"
    )
    found["B"].put("5-1", DeadLetterKind.UNREADABLE, "not JSON", b'{"password": "hunter2"', entry="5-1")
    return found


def listed(spotfed: Run, *arguments: str) -> list[dict[str, Any]]:
    code, out, _ = spotfed("dlq", "list", "--json", *arguments)
    assert code == 0
    letters: list[dict[str, Any]] = json.loads(out)["dead_letters"]
    return letters


def test_they_are_listed_with_reason_and_age(spotfed: Run, boxes: dict[str, DeadLetters]) -> None:
    assert boxes
    letters = listed(spotfed)
    assert [(one["cloud"], one["id"], one["reason"]) for one in letters] == [
        ("A", "5-1", "poison"),
        ("A", "5-2", "poison"),
        ("B", "5-1", "unreadable"),
    ]
    assert all(one["age_s"] > 0 for one in letters)
    assert [one["cloud"] for one in listed(spotfed, "--cloud", "B")] == ["B"]
    code, out, _ = spotfed("dlq", "list")
    assert code == 0
    assert "not JSON" in out
    assert "3 dead letters" in out
    code, _, err = spotfed("dlq", "list", "--cloud", "C")
    assert (code, "there are: A, B" in err) == (2, True)


def test_one_is_shown_without_its_secrets(spotfed: Run, boxes: dict[str, DeadLetters]) -> None:
    assert boxes
    code, out, err = spotfed("dlq", "show", "5-1")
    assert (code, "choose one with --cloud" in err) == (2, True)
    for arguments in ([], ["--json"]):
        code, out, _ = spotfed("dlq", "show", "5-1", "--cloud", "B", *arguments)
        assert code == 0
        assert "hunter2" not in out
        assert "password" in out
    assert spotfed("dlq", "show", "5-9")[0] == 2


def test_what_is_valid_is_sent_again_and_what_is_not_says_why(
    spotfed: Run, boxes: dict[str, DeadLetters], federation: Federation
) -> None:
    code, out, _ = spotfed("dlq", "replay", "5-1", "--cloud", "A", "--json")
    assert code == 0
    assert json.loads(out)["commands"] == ["c1"]
    ((entry, sent),) = Journal(federation.redis, federation.keys, "A").read_inbox("0-0")
    assert entry == json.loads(out)["entry"]
    assert sent == [Cancel(id="c1", lease="r.1", by="me")]
    assert [one.id for one in boxes["A"].letters()] == ["5-2"]
    for letter, cloud, why in (("5-2", "A", "nobody waits"), ("5-1", "B", "cannot be read")):
        code, _, err = spotfed("dlq", "replay", letter, "--cloud", cloud)
        assert code == 3
        assert why in err
        assert boxes[cloud].get(letter) is not None
    assert federation.redis.xlen(federation.keys.inbox("A")) == 1


def test_they_are_dropped_one_by_one_or_all(spotfed: Run, boxes: dict[str, DeadLetters]) -> None:
    assert spotfed("dlq", "drop")[0] == 2
    assert spotfed("dlq", "drop", "5-1", "--all")[0] == 2
    assert spotfed("dlq", "drop", "5-2", "5-9", "--cloud", "A")[0] == 2
    assert boxes["A"].count() == 2, "nothing is dropped unless all are there"
    assert spotfed("dlq", "drop", "5-2", "--cloud", "A")[0] == 0
    _, out, _ = spotfed("dlq", "drop", "--all", "--json")
    assert json.loads(out) == {"dropped": 2}
    assert listed(spotfed) == []
    assert "no dead letters" in spotfed("dlq", "list")[1]


def test_without_a_queue_it_says_what_to_do(spotfed: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPOTFED_REDIS_URL", raising=False)
    settings.cache_clear()
    code, _, err = spotfed("dlq", "list")
    assert (code, "SPOTFED_REDIS_URL" in err) == (4, True)
    monkeypatch.setenv("SPOTFED_REDIS_URL", "unix:///nowhere/redis.sock")
    settings.cache_clear()
    code, _, err = spotfed("dlq", "list")
    assert (code, "spotfed doctor" in err) == (4, True)


def test_what_is_sent_again_is_signed_where_the_federation_signs(
    spotfed: Run, boxes: dict[str, DeadLetters], federation: Federation, tmp_path: Path
) -> None:
    files = local_key_files(tmp_path)
    federation.redis.hset(federation.keys.cloud_signatures, "A", "of its CloudInfo")
    code, _, err = spotfed("dlq", "replay", "5-1", "--cloud", "A")
    assert (code, "SPOTFED_SIGNING_KEY" in err) == (3, True)
    assert boxes["A"].count() == 2, "nothing is lost that its owner would refuse"
    files.ensure([BROKER, cloud_party("A")])
    boxes["A"].put(
        "5-3", DeadLetterKind.SIGNATURE, "it is not signed", boxes["A"].letters()[0].body, entry="5-3"
    )
    assert spotfed("dlq", "replay", "5-1", "--cloud", "A")[0] == 0
    code, _, err = spotfed("dlq", "replay", "5-3")
    assert (code, "vouch" in err) == (3, True)
    told = Settings(signing_key=files.key(cloud_party("A")), trust=files.trust)
    signing = MessageSigner.from_settings(told, cloud_party("A"))
    journal = Journal(federation.redis, federation.keys, "A", signing)
    ((_, sent),) = journal.read_inbox(journal.cursor())
    assert sent == [Cancel(id="c1", lease="r.1", by="me")], "the owner believes it"
