"""A federation that lets webhooks go to this machine, and a receiver."""

from collections.abc import Iterator

import pytest

from tests.contract.harness import Federation, serving
from tests.contract.webhooks.happenings import SETTINGS
from tests.contract.webhooks.receiver import Receiver, receiving


@pytest.fixture(autouse=True)
def _members_are_read_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.identity.member_cache.KNOWN_FOR_S", 0.0)


@pytest.fixture
def federation(redis_url: str) -> Iterator[Federation]:
    with serving(Federation(redis_url, **SETTINGS)) as federation:
        yield federation


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver
