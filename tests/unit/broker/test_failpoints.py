"""What a process is told of a named place, and when it obeys."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from broker.doctor import Installation, State
from broker.doctor.settings import check_settings_conflicts
from broker.failpoints import Failpoint, arm, failpoint
from broker.settings import Settings, SettingsError, load

HERE, THERE = Failpoint.OWNER_COMMITTING, Failpoint.OWNER_COMMITTED


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Signals that this process would have sent itself."""
    signals: list[int] = []

    def kill(pid: int, number: int) -> None:
        assert pid == os.getpid()
        signals.append(number)

    monkeypatch.setattr(os, "kill", kill)
    yield signals
    arm(None)


def test_off_nothing_happens(sent: list[int]) -> None:
    for point in Failpoint:
        failpoint(point, ["reserved"])
    assert sent == []


@pytest.mark.parametrize(("told", "number"), [("", signal.SIGKILL), ("stop@", signal.SIGSTOP)])
def test_it_happens_once_at_the_nth_pass_of_that_place(sent: list[int], told: str, number: int) -> None:
    arm(f"{told}owner-committing:3")
    for expected in ([], [], [number], [number]):
        failpoint(THERE)
        failpoint(HERE)
        assert sent == expected


def test_only_passes_about_that_count(sent: list[int]) -> None:
    arm("owner-committing/reserved")
    failpoint(HERE)
    failpoint(HERE, (kind for kind in ("admitted", "evicted")))
    assert sent == []
    failpoint(HERE, (kind for kind in ("admitted", "reserved")))
    assert sent == [signal.SIGKILL]


def test_a_process_that_is_told_says_so_loudly(sent: list[int], caplog: pytest.LogCaptureFixture) -> None:
    arm("owner-committing")
    assert [record.levelname for record in caplog.records] == ["CRITICAL"]
    assert "SPOTFED_FAILPOINT=owner-committing" in caplog.text


@pytest.mark.parametrize("told", ["nowhere", "owner-committing:0", "owner-committing/", "stop@", "a b"])
def test_what_cannot_be_understood_is_refused_with_the_names(
    monkeypatch: pytest.MonkeyPatch, told: str
) -> None:
    monkeypatch.setenv("SPOTFED_FAILPOINT", told)
    with pytest.raises(SettingsError, match=r"SPOTFED_FAILPOINT: must be .* broker-accepting, "):
        load()


def test_doctor_calls_it_a_failure() -> None:
    (failed,) = check_settings_conflicts(Installation(Settings(failpoint="broker-accepted:2")))
    assert failed.state is State.FAILURE
    assert failed.name == "setting SPOTFED_FAILPOINT"
    assert "broker-accepted:2" in failed.found
    assert check_settings_conflicts(Installation(Settings())) == []
