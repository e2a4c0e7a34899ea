"""Whose message it is: what is believed, and what is not. The whole list of forgeries meets an owner in
``tests/integration/test_signed_messages.py``."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from joserfc.util import urlsafe_b64encode

from broker.settings import Settings
from broker.signing.key_files import (
    PrivateKey,
    SigningKey,
    TrustError,
    TrustFile,
    create_key,
    distrust_key,
    read_private_key,
    read_trust_file,
    trust_keys,
)
from broker.signing.parties import BROKER
from broker.signing.replay_window import WINDOW, ReplayWindow
from broker.signing.signer import LIFETIME_S, MessageSigner, Signature, SignatureError
from tests.unit.broker.forgeries import OTHER, Parties, claims_of, dumped, forgeries, signed

INBOX = "t:inbox:A"
BODY = b'[{"kind":"reserve","cores":1,"reply_to":"me"}]'
NOW_S = 1_800_000_000
ISSUERS = frozenset({BROKER, "cloud.A"})


@pytest.fixture(scope="module")
def parties(tmp_path_factory: pytest.TempPathFactory) -> Parties:
    return Parties.make(tmp_path_factory.mktemp("keys"))


@pytest.fixture
def owner(parties: Parties) -> MessageSigner:
    return parties.signing("cloud.A")


def broker(parties: Parties) -> MessageSigner:
    return parties.signing(BROKER, now_s=lambda: NOW_S)


def check(
    owner: MessageSigner, token: bytes | None, body: bytes = BODY, at_s: float = NOW_S
) -> Signature | None:
    return owner.verify(token, body, INBOX, ISSUERS, round(at_s * 1000))


def test_a_signed_message_says_whose_it_is(parties: Parties, owner: MessageSigner) -> None:
    sender = broker(parties)
    first, second = (check(owner, sender.sign(BODY, INBOX)) for _ in range(2))
    assert first is not None
    assert second is not None
    assert (first.issuer, first.number, second.number) == (BROKER, 1, 2)
    assert first.session == second.session
    assert first.expires_s == NOW_S + LIFETIME_S


def test_every_forgery_is_refused(parties: Parties, owner: MessageSigner) -> None:
    made = forgeries(parties, INBOX, BODY, NOW_S)
    assert len(made) >= 100
    believed = []
    for name, fields in made.items():
        try:
            check(owner, fields.get("s"), fields["c"])
        except SignatureError:
            continue
        believed.append(name)
    assert believed == []


def test_what_the_forgeries_begin_with_is_believed(parties: Parties, owner: MessageSigner) -> None:
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
    parties: Parties, owner: MessageSigner, reason: str, changed: dict[str, object]
) -> None:
    header, key = parties.key(BROKER)
    with pytest.raises(SignatureError) as refused:
        check(owner, signed(dumped(header), dumped(claims_of(BODY, INBOX, now_s=NOW_S, **changed)), key))
    assert refused.value.reason == reason


def test_it_expires_by_the_time_at_which_it_was_written_and_generously(
    parties: Parties, owner: MessageSigner
) -> None:
    token = broker(parties).sign(BODY, INBOX)
    for hours in (-23, -1, 0, 1, 23):  # clocks of broker and Redis that far apart
        assert check(owner, token, at_s=NOW_S + hours * 3600) is not None
    for hours in (-25, 25):
        with pytest.raises(SignatureError, match=r"expire|good for"):
            check(owner, token, at_s=NOW_S + hours * 3600)


def test_a_token_is_a_jws_over_a_key_of_the_trust_file(parties: Parties) -> None:
    header, payload, signature = (_bytes(part) for part in broker(parties).sign(BODY, INBOX).split(b"."))
    keys = {key["kid"]: key for key in json.loads(parties.files.trust.read_text())["keys"]}
    assert json.loads(header)["alg"] == "EdDSA"
    key = Ed25519PublicKey.from_public_bytes(_bytes(keys[json.loads(header)["kid"]]["x"].encode()))
    key.verify(signature, urlsafe_b64encode(header) + b"." + urlsafe_b64encode(payload))
    claims = json.loads(payload)
    assert (claims["iss"], claims["aud"]) == (BROKER, INBOX)


def _bytes(part: bytes) -> bytes:
    return base64.urlsafe_b64decode(part + b"=" * (-len(part) % 4))


#: The key of RFC 8037, appendix A, in a file as the first version wrote it, and a token of that version.
FIRST_KEY = {
    "kty": "OKP",
    "crv": "Ed25519",
    "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
    "kid": "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k",
    "alg": "EdDSA",
    "use": "sig",
    "issuer": "broker",
}
FIRST_SECRET = "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A"
FIRST_TOKEN = (
    b"eyJhbGciOiJFZERTQSIsImtpZCI6ImtQcktfcW14VldhWVZBOXd3QkY2SXVvM3ZWeno3VHhIQ1R3WEJ5Z3JTNGsifQ"
    b".eyJpc3MiOiJicm9rZXIiLCJhdWQiOiJ0OmluYm94OkEiLCJqdGkiOiIwMTIzNDU2Nzg5YWJjZGVmLTEiLCJleHAiO"
    b"jE4MDAwODY0MDAsInNoYTI1NiI6IlBUeE5pd1Y2dFg3ZEd3Rm9OQzFmeEs0UDhmTXZ1XzdvOUVhT21tdjBQUmsifQ."
    b"fZfyGk8rf9KBOV5coaq0XVqM-i1v2D5JblhyCuckX7Hfk33llakq_B7kGEjWgpPVbc9BAV-Ki4xtNS0ItlvgAw"
)


def test_tokens_and_key_files_of_the_first_version_stay_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "key").touch(mode=0o600)
    (tmp_path / "key").touch(0o600)
    (tmp_path / "key").write_text(json.dumps({**FIRST_KEY, "d": FIRST_SECRET}))
    (tmp_path / "trust.json").write_text(json.dumps({"keys": [FIRST_KEY]}))
    monkeypatch.setattr("secrets.token_hex", lambda size: "0123456789abcdef")
    signer = MessageSigner(
        SigningKey(tmp_path / "key"), TrustFile(tmp_path / "trust.json"), now_s=lambda: NOW_S
    )
    assert check(signer, FIRST_TOKEN) == Signature(BROKER, "0123456789abcdef", 1, NOW_S + LIFETIME_S)
    assert signer.sign(BODY, INBOX) == FIRST_TOKEN


def test_without_keys_nothing_is_signed_and_everything_believed() -> None:
    unsigned = MessageSigner()
    assert unsigned.sign(BODY, INBOX) == b""
    assert unsigned.fields("c", BODY, INBOX) == {"c": BODY}
    assert unsigned.verify(None, BODY, INBOX, ISSUERS, 0) is None
    assert not unsigned.verifies


# -- numbers that came --


def signature(number: int, session: str = "s", expires_s: int = 100) -> Signature:
    return Signature(BROKER, session, number, expires_s)


def test_a_message_comes_once_in_whatever_order() -> None:
    window = ReplayWindow()
    assert [window.add(signature(number)) for number in (3, 1, 2, 5, 3, 1, 4, 5)] == [
        *(True, True, True, True),
        *(False, False, True, False),
    ]
    assert window.add(signature(3, "another session"))


def test_what_is_too_far_below_is_taken_for_a_repetition() -> None:
    window = ReplayWindow()
    assert window.add(signature(10_000))
    assert window.add(signature(10_001 - WINDOW))
    assert not window.add(signature(10_000 - WINDOW))
    assert window.add(signature(10**17))
    assert not window.add(signature(10_000))


def test_what_came_is_stored_as_changes_and_forgotten_when_it_expires() -> None:
    before, after = ReplayWindow(), ReplayWindow()
    after.add(signature(1, "old", expires_s=10))
    after.add(signature(1, "new", expires_s=20))
    stored = {name.encode(): text.encode() for name, text in after.changes(before).items()}
    again = ReplayWindow.parse(stored)
    assert again.changes(after) == {}
    assert not again.add(signature(1, "new"))
    again.forget(11)
    assert again.changes(after) == {f"{BROKER}:old": ""} | {
        name: text
        for name, text in again.changes(ReplayWindow()).items()
        if text != after.changes(ReplayWindow())[name]
    }


# -- key files --


def test_private_keys_are_for_their_user_alone_and_never_shown(parties: Parties) -> None:
    path = parties.files.key(BROKER)
    assert path.stat().st_mode & 0o777 == 0o600
    key = read_private_key(path)
    assert isinstance(key, PrivateKey)
    assert key.d not in f"{key!r} {key}"
    assert key.d not in parties.files.trust.read_text()


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o620, 0o604, 0o601])
def test_a_private_key_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    create_key(BROKER, tmp_path / "key", tmp_path / "trust.json")
    (tmp_path / "key").chmod(mode)
    with pytest.raises(TrustError, match=f"chmod 600 {tmp_path / 'key'}"):
        read_private_key(tmp_path / "key")


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666])
def test_a_trust_file_that_others_may_change_is_refused(tmp_path: Path, mode: int) -> None:
    create_key(BROKER, tmp_path / "key", tmp_path / "trust.json")
    assert (tmp_path / "trust.json").stat().st_mode & 0o777 == 0o644
    (tmp_path / "trust.json").chmod(mode)
    with pytest.raises(TrustError, match=f"chmod go-w {tmp_path / 'trust.json'}"):
        read_trust_file(tmp_path / "trust.json")


def test_a_private_key_has_no_place_in_a_trust_file(tmp_path: Path) -> None:
    create_key(BROKER, tmp_path / "key", tmp_path / "trust.json")
    secret = json.loads((tmp_path / "key").read_text())
    (tmp_path / "both.json").write_text(json.dumps({"keys": [secret]}))
    with pytest.raises(TrustError, match="no file of keys") as error:
        read_trust_file(tmp_path / "both.json")
    assert secret["d"] not in str(error.value)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"keys":[{}]}', '{"keys":[],"keys":[]}', "[" * 100_000])
def test_what_is_no_trust_file_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "trust.json"
    path.write_text(text)
    with pytest.raises(TrustError, match=r"trust\.json"):
        read_trust_file(path)


def test_a_party_is_the_broker_or_a_cloud(tmp_path: Path) -> None:
    for name in ("harbour", "Broker", "cloud.", "cloud.a.b", "cloud.broker/..", "broker\n"):
        with pytest.raises(TrustError, match="signs nothing"):
            create_key(name, tmp_path / "key", tmp_path / "trust.json")
    assert list(tmp_path.iterdir()) == []


def test_old_and_new_are_believed_until_one_is_removed(tmp_path: Path) -> None:
    parties = Parties.make(tmp_path)
    sender, owner = broker(parties), parties.signing("cloud.A")
    old = read_private_key(parties.files.key(BROKER))
    first = sender.sign(BODY, INBOX)
    create_key(BROKER, parties.files.key(BROKER), parties.files.trust)
    second = sender.sign(BODY, INBOX)  # the process goes on, with the new key
    assert first.split(b".")[0] != second.split(b".")[0]
    assert check(owner, first) is not None
    assert check(owner, second) is not None
    distrust_key(parties.files.trust, old.kid)
    with pytest.raises(SignatureError, match="names no key"):
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
    create_key(BROKER, tmp_path / "broker.key", ours)
    key = create_key(OTHER, tmp_path / "b.key", theirs)
    assert trust_keys(ours, read_trust_file(theirs).keys) == [key]
    assert trust_keys(ours, read_trust_file(theirs).keys) == []
    with pytest.raises(TrustError, match="2 keys"):
        distrust_key(ours, "")
    assert distrust_key(ours, key.kid[:8]) == key
    assert [key.issuer for key in read_trust_file(ours).keys] == [BROKER]


def test_settings_say_who_signs(tmp_path: Path) -> None:
    parties = Parties.make(tmp_path)
    key, trust = parties.files.key("cloud.A"), parties.files.trust

    def told(**fields: Any) -> MessageSigner:
        return MessageSigner.from_settings(Settings(**fields), "cloud.A")

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
