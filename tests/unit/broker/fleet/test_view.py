"""A fleet on a terminal and elsewhere."""

from __future__ import annotations

import io
from pathlib import Path
from unittest.mock import create_autospec

import pytest
from rich.console import Console
from rich.text import Text

from broker.cli.views import fleet
from broker.client import Client
from broker.contract import CounterOffers, Lease, LeaseState, SpotRequest
from broker.fleet.commands import Commands
from broker.fleet.controller import FleetController, FleetLease, FleetSpec
from broker.fleet.events import FleetEvent, FleetEventKind
from broker.fleet.state_file import FleetFile, SavedFleet
from cloudsim.model.requests import Kind

WISH = FleetSpec("night", 30, SpotRequest(cores=1, lifetime_s=3600.0))
ADMITTED = FleetEvent("2026-01-01T10:00:00+00:00", FleetEventKind.ADMITTED, 25, 30, "l7", "north")
BROKEN = FleetEvent(
    "2026-01-01T10:00:01+00:00",
    FleetEventKind.COMMAND,
    25,
    30,
    "l7",
    "north",
    detail="it said [/etc/x] [red]no",
)


def lease(name: str) -> Lease:
    return Lease(
        id=name, request=name, cloud="north", origin="user", kind=Kind.SPOT, cores=1, node=0,
        starts_at_s=0.0, ends_at_s=3600.0, promised_sla=0.1, eviction_probability=0.01, table_version="v",
        fence=1, number=1, state=LeaseState.RUNNING,
    )  # fmt: skip


@pytest.fixture
def keeper(tmp_path: Path) -> FleetController:
    """Of 25 of 30 instances."""
    client = create_autospec(Client, instance=True)
    made = FleetController(
        client, WISH, FleetFile(tmp_path, "night"), SavedFleet(), Commands(None, None), lambda _: None
    )
    made.members = {name: FleetLease(lease(name)) for name in (f"l{number}" for number in range(25))}
    made.offers = CounterOffers(lifetime_s=600.0)
    return made


@pytest.mark.parametrize(("height", "rows"), [(60, 20), (25, 16)])
def test_the_table_stands_while_the_fleet_is_kept(
    monkeypatch: pytest.MonkeyPatch, keeper: FleetController, height: int, rows: int
) -> None:
    monkeypatch.setenv("TERM", "xterm")  # a table cannot stand on a dumb terminal
    sent = io.StringIO()
    made = Console(file=sent, force_terminal=True, width=100, height=height, emoji=False)
    monkeypatch.setattr(fleet, "console", lambda: made)
    with fleet.open_screen(WISH, as_json=False) as shown:
        shown.add_event(ADMITTED)
        shown.add_event(BROKEN)
        shown.update(keeper)
        told = Text.from_ansi(sent.getvalue()).plain
    assert "Fleet night: 25 of 30 instances" in told
    assert (told.count("│ north │"), f"and {25 - rows} more" in told) == (rows, True)
    assert "some are refused; accepted instead: 10 min at this SLA" in told
    assert "10:00:00  25/30  admitted l7 on north" in told
    assert "10:00:01  25/30  command l7 on north: it said [/etc/x] [red]no" in told


def test_elsewhere_there_are_lines(monkeypatch: pytest.MonkeyPatch, keeper: FleetController) -> None:
    sent = io.StringIO()
    monkeypatch.setattr(fleet, "console", lambda: Console(file=sent, width=300, emoji=False))
    with fleet.open_screen(WISH, as_json=False) as shown:
        shown.add_event(ADMITTED)
        shown.add_event(BROKEN)
        shown.update(keeper)
    assert sent.getvalue().splitlines() == [
        "10:00:00  25/30  admitted l7 on north",
        "10:00:01  25/30  command l7 on north: it said [/etc/x] [red]no",
    ]
