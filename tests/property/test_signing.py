"""What is signed is believed, for its audience alone, and nothing that is changed; numbers count once."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.signing.parties import BROKER
from broker.signing.replay_window import WINDOW, ReplayWindow
from broker.signing.signer import MessageSigner, Signature, SignatureError
from tests.unit.broker.forgeries import Parties

NOW_S = 1_800_000_000
audiences = st.text("abcXYZ09:_-{}äß", min_size=1, max_size=60)


@pytest.fixture(scope="module")
def ends(tmp_path_factory: pytest.TempPathFactory) -> tuple[MessageSigner, MessageSigner]:
    """Who signs, and who verifies."""
    parties = Parties.make(Path(tmp_path_factory.mktemp("keys")))
    return parties.signing(BROKER, now_s=lambda: NOW_S), parties.signing("cloud.A")


@given(body=st.binary(max_size=400), audience=audiences)
def test_what_is_signed_is_believed(
    ends: tuple[MessageSigner, MessageSigner], body: bytes, audience: str
) -> None:
    sender, receiver = ends
    signature = receiver.verify(sender.sign(body, audience), body, audience, {BROKER}, NOW_S * 1000)
    assert signature is not None
    assert signature.issuer == BROKER


@settings(max_examples=200)
@given(body=st.binary(min_size=1, max_size=100), audience=audiences, data=st.data())
def test_one_changed_byte_is_enough(
    ends: tuple[MessageSigner, MessageSigner], body: bytes, audience: str, data: st.DataObject
) -> None:
    sender, receiver = ends
    parts = {"token": sender.sign(body, audience), "body": body, "audience": audience.encode()}
    which = data.draw(st.sampled_from(sorted(parts)))
    # A token's length depends on how many came before it: what is drawn may not.
    place = data.draw(st.integers(0, 10_000)) % len(parts[which])
    other = (parts[which][place] + data.draw(st.integers(1, 255))) % 256
    changed = parts[which][:place] + bytes([other]) + parts[which][place + 1 :]
    parts[which] = changed
    with pytest.raises(SignatureError):
        receiver.verify(
            parts["token"], parts["body"], parts["audience"].decode(errors="replace"), {BROKER}, NOW_S * 1000
        )


@given(numbers=st.lists(st.integers(1, 3 * WINDOW), max_size=60), cut=st.integers(0, 60))
def test_a_number_counts_once_also_when_it_was_stored_between(numbers: list[int], cut: int) -> None:
    window, came = ReplayWindow(), set[int]()
    for place, number in enumerate(numbers):
        if place == cut:
            stored = window.changes(ReplayWindow())
            window = ReplayWindow.parse({name.encode(): text.encode() for name, text in stored.items()})
        fresh = window.add(Signature(BROKER, "session", number, NOW_S))
        assert fresh == (number not in came and number > max(came, default=0) - WINDOW)
        came.add(number)
