"""Fixtures of the HTTP contract's tests."""

import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from broker import cli
from broker.settings import settings
from tests.contract.harness import KEY, Federation, Run, serving


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
