"""Whose message it is: what is believed, and what is not. The whole list of forgeries meets an owner in
``tests/integration/test_signed_messages.py``."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

from broker.seen import WINDOW, Seen
from broker.settings import Settings
from broker.signing import BROKER, LIFETIME_S, Refused, Seal, Signing, decoded, encoded
from broker.trust import (
    PrivateKey,
    TrustError,
    believe,
    create,
    disbelieve,
    read_private,
    read_set,
    signing_of,
)
from tests.unit.broker.forgeries import OTHER, Parties, claims_of, dumped, forgeries, signed

INBOX = "t:inbox:A"
BODY = b'[{"kind":"reserve","cores":1,"reply_to":"me"}]'
NOW_S = 1_800_000_000
ISSUERS = frozenset({BROKER, "cloud.A"})


@pytest.fixture(scope="module")
def parties(tmp_path_factory: pytest.TempPathFactory) -> Parties:
    return Parties.make(tmp_path_factory.mktemp("keys"))


@pytest.fixture
def owner(parties: Parties) -> Signing:
    return parties.signing("cloud.A")


def broker(parties: Parties) -> Signing:
    return parties.signing(BROKER, now_s=lambda: NOW_S)


def check(owner: Signing, token: bytes | None, body: bytes = BODY, at_s: float = NOW_S) -> Seal | None:
    return owner.check(token, body, INBOX, ISSUERS, round(at_s * 1000))


def test_a_signed_message_says_whose_it_is(parties: Parties, owner: Signing) -> None:
    sender = broker(parties)
    first, second = (check(owner, sender.sign(BODY, INBOX)) for _ in range(2))
    assert first is not None
    assert second is not None
    assert (first.issuer, first.number, second.number) == (BROKER, 1, 2)
    assert first.session == second.session
    assert first.expires_s == NOW_S + LIFETIME_S


def test_every_forgery_is_refused(parties: Parties, owner: Signing) -> None:
    made = forgeries(parties, INBOX, BODY, NOW_S)
    assert len(made) >= 100
    believed = []
    for name, fields in made.items():
        try:
            check(owner, fields.get("s"), fields["c"])
        except Refused:
            continue
        believed.append(name)
    assert believed == []


def test_what_the_forgeries_begin_with_is_believed(parties: Parties, owner: Signing) -> None:
    header, key = parties.key(BROKER)
    assert check(owner, signed(dumped(header), dumped(claims_of(BODY, INBOX, now_s=NOW_S)), key)) is not None


@pytest.mark.parametrize(
    ("reason", "changed"),
    [
        ("audience", {"aud": "t:inbox:B"}),
        ("expired", {"exp": NOW_S - 1}),
        ("issuer", {"iss": "cloud.B"}),
        ("content", {"sha256": "A" * 43}),
        ("claims", {"jti": "x"}),
    ],
)
def test_a_refusal_says_why(
    parties: Parties, owner: Signing, reason: str, changed: dict[str, object]
) -> None:
    header, key = parties.key(BROKER)
    with pytest.raises(Refused) as refused:
        check(owner, signed(dumped(header), dumped(claims_of(BODY, INBOX, now_s=NOW_S, **changed)), key))
    assert refused.value.reason == reason


def test_it_expires_by_the_time_at_which_it_was_written_and_generously(
    parties: Parties, owner: Signing
) -> None:
    token = broker(parties).sign(BODY, INBOX)
    for hours in (-23, -1, 0, 1, 23):  # clocks of broker and Redis that far apart
        assert check(owner, token, at_s=NOW_S + hours * 3600) is not None
    for hours in (-25, 25):
        with pytest.raises(Refused, match=r"expire|good for"):
            check(owner, token, at_s=NOW_S + hours * 3600)


def test_any_jwt_library_reads_a_token(parties: Parties) -> None:
    from joserfc import jwt
    from joserfc.jwk import KeySet

    token = broker(parties).sign(BODY, INBOX)
    keys = KeySet.import_key_set(json.loads(parties.files.trust.read_text()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it would have us name the curve where RFC 8037 names EdDSA
        read = jwt.decode(token.decode(), keys, algorithms=["EdDSA"])
    assert (read.claims["iss"], read.claims["aud"]) == (BROKER, INBOX)


def test_without_keys_nothing_is_signed_and_everything_believed() -> None:
    unsigned = Signing()
    assert unsigned.sign(BODY, INBOX) == b""
    assert unsigned.fields("c", BODY, INBOX) == {"c": BODY}
    assert unsigned.check(None, BODY, INBOX, ISSUERS, 0) is None
    assert not unsigned.verifies


def test_base64_has_one_spelling() -> None:
    assert decoded(encoded(b"\x00\xff")) == b"\x00\xff"
    for text in (b"AP8=", b"AP9", b"AP/8", b"A", b"AP8\n", b"\xff\xff"):
        with pytest.raises(ValueError, match="base64url"):
            decoded(text)


# -- numbers that came --


def seal(number: int, session: str = "s", expires_s: int = 100) -> Seal:
    return Seal(BROKER, session, number, expires_s)


def test_a_message_comes_once_in_whatever_order() -> None:
    seen = Seen()
    assert [seen.add(seal(number)) for number in (3, 1, 2, 5, 3, 1, 4, 5)] == [
        *(True, True, True, True),
        *(False, False, True, False),
    ]
    assert seen.add(seal(3, "another session"))


def test_what_is_too_far_below_is_taken_for_a_repetition() -> None:
    seen = Seen()
    assert seen.add(seal(10_000))
    assert seen.add(seal(10_001 - WINDOW))
    assert not seen.add(seal(10_000 - WINDOW))
    assert seen.add(seal(10**17))
    assert not seen.add(seal(10_000))


def test_what_came_is_stored_as_changes_and_forgotten_when_it_expires() -> None:
    before, after = Seen(), Seen()
    after.add(seal(1, "old", expires_s=10))
    after.add(seal(1, "new", expires_s=20))
    stored = {name.encode(): text.encode() for name, text in after.changes(before).items()}
    again = Seen.parse(stored)
    assert again.changes(after) == {}
    assert not again.add(seal(1, "new"))
    again.forget(11)
    assert again.changes(after) == {f"{BROKER}:old": ""} | {
        name: text for name, text in again.changes(Seen()).items() if text != after.changes(Seen())[name]
    }


# -- key files --


def test_private_keys_are_for_their_user_alone_and_never_shown(parties: Parties) -> None:
    path = parties.files.key(BROKER)
    assert path.stat().st_mode & 0o777 == 0o600
    key = read_private(path)
    assert isinstance(key, PrivateKey)
    assert key.d not in f"{key!r} {key}"
    assert key.d not in parties.files.trust.read_text()


def test_a_private_key_that_everybody_may_read_is_refused(tmp_path: Path) -> None:
    create(BROKER, tmp_path / "key", tmp_path / "trust.json")
    (tmp_path / "key").chmod(0o644)
    with pytest.raises(TrustError, match="chmod 600"):
        read_private(tmp_path / "key")


def test_a_private_key_has_no_place_in_a_trust_file(tmp_path: Path) -> None:
    create(BROKER, tmp_path / "key", tmp_path / "trust.json")
    secret = json.loads((tmp_path / "key").read_text())
    (tmp_path / "both.json").write_text(json.dumps({"keys": [secret]}))
    with pytest.raises(TrustError, match="no file of keys") as error:
        read_set(tmp_path / "both.json")
    assert secret["d"] not in str(error.value)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"keys":[{}]}', '{"keys":[],"keys":[]}', "[" * 100_000])
def test_what_is_no_trust_file_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "trust.json"
    path.write_text(text)
    with pytest.raises(TrustError, match=r"trust\.json"):
        read_set(path)


def test_a_party_is_the_broker_or_a_cloud(tmp_path: Path) -> None:
    for name in ("harbour", "Broker", "cloud.", "cloud.a.b", "cloud.broker/..", "broker\n"):
        with pytest.raises(TrustError, match="signs nothing"):
            create(name, tmp_path / "key", tmp_path / "trust.json")
    assert list(tmp_path.iterdir()) == []


def test_old_and_new_are_believed_until_one_is_removed(tmp_path: Path) -> None:
    parties = Parties.make(tmp_path)
    sender, owner = broker(parties), parties.signing("cloud.A")
    old = read_private(parties.files.key(BROKER))
    first = sender.sign(BODY, INBOX)
    create(BROKER, parties.files.key(BROKER), parties.files.trust)
    second = sender.sign(BODY, INBOX)  # the process goes on, with the new key
    assert first.split(b".")[0] != second.split(b".")[0]
    assert check(owner, first) is not None
    assert check(owner, second) is not None
    disbelieve(parties.files.trust, old.kid)
    with pytest.raises(Refused, match="names no key"):
        check(owner, first)
    assert check(owner, second) is not None


def test_a_file_that_breaks_changes_nothing(tmp_path: Path) -> None:
    parties = Parties.make(tmp_path)
    sender, owner = broker(parties), parties.signing("cloud.A")
    parties.files.trust.write_text("{")
    parties.files.key(BROKER).unlink()
    assert check(owner, sender.sign(BODY, INBOX)) is not None


def test_public_keys_are_exchanged(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours.json", tmp_path / "theirs.json"
    create(BROKER, tmp_path / "broker.key", ours)
    key = create(OTHER, tmp_path / "b.key", theirs)
    assert believe(ours, read_set(theirs).keys) == [key]
    assert believe(ours, read_set(theirs).keys) == []
    with pytest.raises(TrustError, match="2 keys"):
        disbelieve(ours, "")
    assert disbelieve(ours, key.kid[:8]) == key
    assert [one.issuer for one in read_set(ours).keys] == [BROKER]


def test_settings_say_who_signs(tmp_path: Path) -> None:
    parties = Parties.make(tmp_path)
    key, trust = parties.files.key("cloud.A"), parties.files.trust

    def told(**fields: Any) -> Signing:
        return signing_of(Settings(**fields), "cloud.A")

    assert told().sign(BODY, INBOX) == b""
    assert told(signing_key=key).sign(BODY, INBOX)
    assert not told(signing_key=key).verifies
    assert told(signing_key=key, trust=trust).verifies
    with pytest.raises(TrustError, match="SPOTFED_SIGNING_KEY is not"):
        told(trust=trust)
    with pytest.raises(TrustError, match=r"is the key of broker; this process is cloud\.A"):
        told(signing_key=parties.files.key(BROKER), trust=trust)
    with pytest.raises(TrustError, match="cannot be read"):
        told(signing_key=tmp_path / "none")
