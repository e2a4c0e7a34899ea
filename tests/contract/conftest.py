"""Fixtures of the HTTP contract's tests."""

from collections.abc import Iterator

import httpx
import pytest

from tests.contract.harness import KEY, Federation, serving


@pytest.fixture
def federation(redis_url: str) -> Iterator[Federation]:
    with serving(Federation(redis_url)) as federation:
        yield federation


@pytest.fixture
def api(federation: Federation) -> Iterator[httpx.Client]:
    with httpx.Client(
        base_url=federation.url, headers={"Authorization": f"Bearer {KEY}"}, timeout=20
    ) as client:
        yield client
