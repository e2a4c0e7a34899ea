"""Fixtures of the tests with real processes and a real owner."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.integration.test_workers_runtime import Bench, Make
from workers.owner.state import OwnerSpec


@pytest.fixture
def make_bench(redis_client: redis.Redis, tmp_path: Path) -> Iterator[Make]:
    """Makes benches, and closes them after the test."""
    benches: list[Bench] = []

    def make(owner: OwnerSpec, **options: Any) -> Bench:
        benches.append(Bench(redis_client, tmp_path, owner, **options))
        return benches[-1]

    yield make
    for one in benches:
        one.close()
