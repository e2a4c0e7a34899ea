"""Fixtures every test may use: recorded traces, and a real Redis-compatible server."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from broker.storage.connections import connect
from broker.storage.embedded_server import EmbeddedRedis

PROJECT_ROOT = Path(__file__).resolve().parent.parent

# Two cores shared by several processes: an example's time says nothing of the code, nor what is drawn again.
_PROFILE: dict[str, Any] = {
    "deadline": None,
    "print_blob": True,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.filter_too_much],
}
hypothesis_settings.register_profile("spotfed", max_examples=40, **_PROFILE)
#: What `make test-deep` draws of each property.
hypothesis_settings.register_profile("thorough", max_examples=200, **_PROFILE)
hypothesis_settings.load_profile("spotfed")
# So no call of a test gives up after httpx's five seconds either. Its defaults are one shared object.
vars(httpx._config.DEFAULT_TIMEOUT_CONFIG).update(dict.fromkeys(("connect", "read", "write", "pool"), 60.0))


#: What the tests of a folder are marked with, wherever in tests/ it is.
FOLDER_MARKERS = {
    "contract": ("redis",),
    "cases": ("redis",),
    "simulation": ("slow",),
    "integration": ("redis", "slow"),
    "docs": ("slow",),
    "acceptance": ("data", "slow"),
    "recorded": ("data", "slow"),
    "fuzz": ("redis", "slow"),
    "upgrade": ("redis", "slow"),
    "openstack": ("redis", "slow"),
}
#: What a test is marked with that uses a fixture.
FIXTURE_MARKERS = {"redis_url": "redis", "data_dir": "data"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test by its folder and its fixtures, and put those first that may take longest.

    The processes of pytest-xdist then end together; within that the order stays random.
    """
    for item in items:
        folders = item.path.relative_to(PROJECT_ROOT / "tests").parts[:-1]
        names = [name for folder in folders for name in FOLDER_MARKERS.get(folder, ())]
        fixtures = getattr(item, "fixturenames", ())
        names += [name for fixture, name in FIXTURE_MARKERS.items() if fixture in fixtures]
        for name in dict.fromkeys(names):
            item.add_marker(name)
    items.sort(key=lambda item: (-_timeout_s(item), item.get_closest_marker("slow") is None))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Refuse to run where pytest-xdist ignores groups: their tests would run side by side."""
    if getattr(session.config.option, "loadgroup", False):
        grouped = (item for item in session.items if item.get_closest_marker("xdist_group"))
        if any("@" not in item.nodeid for item in grouped):
            pytest.exit("pytest-xdist ignores xdist_group with this version of pytest", 1)


def _timeout_s(item: pytest.Item) -> float:
    marker = item.get_closest_marker("timeout")
    return float(marker.args[0]) if marker else 0.0


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The recorded traces; a test without them is skipped, but fails in CI."""
    told = os.environ.get("SPOTFED_DATA")
    path = Path(told) if told else PROJECT_ROOT.parent / "shared" / "data"
    if not path.is_dir():
        reason = f"no recorded traces in {path}: set SPOTFED_DATA to their directory"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return path.resolve()


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of one embedded server for the whole session (one for each process of pytest-xdist)."""
    # What a test wrote need not survive a power failure: without waiting for the disk it is faster.
    with EmbeddedRedis(tmp_path_factory.mktemp("redis"), appendfsync="no") as server:
        yield server.url


@pytest.fixture
def redis_client(redis_url: str) -> Iterator[redis.Redis]:
    """A client of that server, which is empty when the test begins."""
    with connect(redis_url) as client:
        client.flushall()
        yield client
