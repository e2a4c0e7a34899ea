"""Data frames of what a federation answers."""

from __future__ import annotations

import pandas as pd

from broker.client.frames import to_frame
from broker.contract import Event, EventKind, Lease, LeaseState
from broker.ledger.models import LedgerEntry
from broker.schemas.events import StreamedEvent
from cloudsim.model.requests import Kind

LEASE = Lease(
    id="r.1", request="r", cloud="east", origin="west", kind=Kind.SPOT, cores=2, node=0, starts_at_s=1.0,
    ends_at_s=61.0, promised_sla=0.05, eviction_probability=0.01, table_version="t", fence=1, number=1,
    state=LeaseState.RUNNING,
)  # fmt: skip


def test_a_field_of_a_field_is_a_column_and_times_are_timestamps() -> None:
    events = [
        StreamedEvent(
            id=f"east:{number}",
            event=Event(cloud="east", kind=kind, at_s=1.0, at=f"2026-11-29T18:00:0{number}Z", lease=LEASE),
        )
        for number, kind in enumerate((EventKind.ADMITTED, EventKind.EVICTED))
    ]
    frame = to_frame(events)
    assert frame["event.kind"].tolist() == ["admitted", "evicted"]
    assert frame["event.lease.cores"].sum() == 4
    assert (frame["event.at"].max() - frame["event.at"].min()) == pd.Timedelta(seconds=1)
    assert str(frame["event.at"].dt.tz) == "UTC"


def test_entries_of_the_ledger_add_up() -> None:
    entry = LedgerEntry(
        cloud="east", sla=0.05, promised=0.05, admitted=9, running=1, completed=7, evicted=1, realised=0.125,
        at_least=0.0, at_most=0.5, mean_risk=0.02, kept="open",
    )  # fmt: skip
    frame = to_frame([entry, entry.model_copy(update={"cloud": "west", "evicted": 2})])
    assert frame.groupby("cloud").evicted.sum().to_dict() == {"east": 1, "west": 2}


def test_no_records_are_an_empty_frame() -> None:
    assert to_frame([]).empty
