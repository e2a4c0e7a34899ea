"""Processes that keep files end with one line where the state directory cannot be used."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from importlib import import_module

import pytest

from broker.settings import settings


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    earlier = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    yield
    settings.cache_clear()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
    for number, handler in earlier.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("module", ["workers.owner", "workers.node_agent", "workers.cloud_agent"])
def test_a_state_directory_that_cannot_be_used_is_named(
    module: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SPOTFED_STATE_DIR", "/dev/null")
    settings.cache_clear()
    assert import_module(f"{module}.__main__").main(["--cloud", "a", "--federation", "f.toml"]) == 2
    told = capsys.readouterr().err
    assert told == f"{module}: SPOTFED_STATE_DIR: cannot use /dev/null: Not a directory\n"
