"""What a fleet keeps on disk, runs for its instances, and sums up."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr

from broker.contract import Launch, SpotRequest
from broker.fleet.commands import Commands
from broker.fleet.events import FleetEventKind, FleetTotals
from broker.fleet.state_file import FleetBusyError, FleetError, FleetFile, SavedFleet
from tests.support.wait import wait_until


def test_what_is_kept_is_found_again(tmp_path: Path) -> None:
    file = FleetFile(tmp_path, "night")
    with file.lock() as kept:
        assert (kept.next, kept.asked, kept.held) == (1, [], [])
        kept.asked.append(SpotRequest(id="fleet/night/x-1", cores=2, lifetime_s=3600, sla=0.1))
        kept.held.append("fleet/night/x-0.1")
        kept.next = 2
        file.save(kept)
    with file.lock() as again:
        assert again == kept
    file.delete()
    with file.lock() as none:
        assert none.held == []
        assert none.token != kept.token


def test_what_instances_run_is_kept_whole_for_the_user_alone(tmp_path: Path) -> None:
    file = FleetFile(tmp_path, "night")
    launch = Launch(image="debian-12", user_data=SecretStr("#!/bin/sh\necho s3cret\n"))
    with file.lock() as kept:
        kept.asked.append(SpotRequest(id="fleet/night/x-1", cores=2, lifetime_s=3600, launch=launch))
        file.save(kept)
    with file.lock() as again:
        assert again.asked[0].launch == launch
    assert (tmp_path / "fleets/night.json").stat().st_mode & 0o077 == 0


def test_one_keeper_a_fleet(tmp_path: Path) -> None:
    with FleetFile(tmp_path, "night").lock(), FleetFile(tmp_path, "day").lock():
        with pytest.raises(FleetBusyError, match="fleet night is kept by process") as busy:
            FleetFile(tmp_path, "night").lock().__enter__()
        assert busy.value.pid is not None
    with FleetFile(tmp_path, "night").lock():
        pass


def test_a_file_that_cannot_be_read_is_not_written_over(tmp_path: Path) -> None:
    file = FleetFile(tmp_path, "night")
    with file.lock():
        file.save(SavedFleet())
    (tmp_path / "fleets" / "night.json").write_text("{")
    with pytest.raises(FleetError, match="cannot be read: move it away"):
        file.lock().__enter__()
    assert (tmp_path / "fleets" / "night.json").read_text() == "{"


def test_a_command_lives_as_long_as_its_instance(tmp_path: Path) -> None:
    out = tmp_path / "out"
    commands = Commands(
        f'trap "echo over >> {out}; exit" TERM; echo "$SPOTFED_LEASE" >> {out}; while :; do sleep 0.01; done',
        f'echo "$SPOTFED_LEASE $SPOTFED_END" >> {tmp_path}/ended',
    )
    commands.start("a", {"SPOTFED_LEASE": "a"})
    commands.start("a", {"SPOTFED_LEASE": "a"})
    wait_until(lambda: out.exists() and out.read_text() == "a\n")
    commands.end("a", {"SPOTFED_LEASE": "a", "SPOTFED_END": "evicted"})
    assert list(commands.close()) == []
    assert out.read_text() == "a\nover\n"
    assert (tmp_path / "ended").read_text() == "a evicted\n"


def test_commands_that_fail_are_told_once(tmp_path: Path) -> None:
    commands = Commands("exit 3", "exit 4")
    commands.start("a", {})
    told: list[tuple[str, str, int]] = []

    def look() -> list[tuple[str, str, int]]:
        told.extend(commands.poll())
        return told

    wait_until(look)
    commands.start("a", {})
    commands.end("a", {})
    told += commands.close()
    assert told == [("a", "start", 3), ("a", "end", 4)]


def test_the_end_ends_what_still_runs(tmp_path: Path) -> None:
    commands = Commands(f"echo $$ > {tmp_path}/pid; exec sleep 1000", None)
    commands.start("a", {})
    wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    assert list(commands.close()) == []
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists()


def test_sums_over_time() -> None:
    tally = FleetTotals()
    tally.add_time(3600.0, [0.02, None], 2)
    tally.add_time(1800.0, [0.04], 2)
    tally.counts[FleetEventKind.EVICTED] += 1
    told = tally.as_dict()
    assert told["seconds"] == 5400.0
    assert told["instance_hours"] == 2.5
    assert told["full_share"] == pytest.approx(2 / 3, abs=1e-4)
    assert told["cost_usd"] == 0.04
    assert told["priced_share"] == 0.6
    assert told["evicted"] == 1
    nothing = FleetTotals().as_dict()
    assert [nothing[name] for name in ("full_share", "cost_usd", "priced_share")] == [None, None, None]
