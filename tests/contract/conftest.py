"""Fixtures of the HTTP contract's tests."""

import ssl
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from broker import cli
from broker.settings import settings
from tests.contract.harness import KEY, Federation, Run, serving


@pytest.fixture(autouse=True, scope="session")
def quick_processes() -> Iterator[None]:
    """Spares each test what only a process that runs for long may spend on its start and end."""
    default, create = httpx.create_ssl_context(), httpx.create_ssl_context

    def create_once(verify: Any = True, cert: Any = None, trust_env: bool = True) -> ssl.SSLContext:
        """Share one context of TLS: reading the certificates of the system takes 20 ms."""
        return default if verify is True and cert is None else create(verify, cert, trust_env)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("httpx._transports.default.create_ssl_context", create_once)
        # redis-py swallows a cancellation now and then: the next one comes sooner.
        patch.setattr("broker.api.container._CANCEL_AGAIN_S", 0.1)
        # A Redis that stands still for three seconds, as it may beside other tests, is not away.
        patch.setattr(
            "broker.api.container._TIMEOUTS", {"socket_timeout": 30.0, "socket_connect_timeout": 30.0}
        )
        yield


@pytest.fixture
def federation(redis_url: str) -> Iterator[Federation]:
    with serving(Federation(redis_url)) as federation:
        yield federation


@pytest.fixture
def api(federation: Federation) -> Iterator[httpx.Client]:
    with httpx.Client(
        base_url=federation.url, headers={"Authorization": f"Bearer {KEY}"}, timeout=60
    ) as client:
        yield client


@pytest.fixture
def spotfed(
    federation: Federation,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> Iterator[Run]:
    """The command line, as whoever has the key of this federation: exit code, output and errors."""
    monkeypatch.setenv("SPOTFED_URL", federation.url)
    monkeypatch.setenv("SPOTFED_API_KEY", KEY)
    monkeypatch.setenv("SPOTFED_STATE_DIR", str(tmp_path))
    settings.cache_clear()

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["spotfed", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        output = capsys.readouterr()
        return int(ended.value.code or 0), output.out, output.err

    yield run
    settings.cache_clear()
