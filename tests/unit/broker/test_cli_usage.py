"""A cloud's cores over time, folded from its journal."""

from broker.cli.views.cloud_use import cloud_use
from broker.contract import Event, EventKind, Lease, LeaseState
from cloudsim.model.requests import Kind


def event(kind: EventKind, at_s: float, cores: int, of: Kind, starts_at_s: float = 0.0) -> Event:
    lease = Lease(
        id=of.value,
        request="one",
        cloud="north",
        origin="south",
        kind=of,
        cores=cores,
        node=0,
        starts_at_s=starts_at_s,
        ends_at_s=None,
        promised_sla=None,
        eviction_probability=None,
        table_version=None,
        fence=1,
        number=0,
        state=LeaseState.RUNNING,
    )
    return Event(cloud="north", kind=kind, at_s=at_s, at="2026-01-01T00:00:00Z", lease=lease)


def test_cores_rise_with_the_start_and_fall_with_the_end() -> None:
    used = cloud_use(
        "north",
        8,
        [
            event(EventKind.ADMITTED, 10, 3, Kind.ON_DEMAND, 10),
            event(EventKind.RESERVED, 15, 2, Kind.SPOT, 15),
            event(EventKind.ADMITTED, 20, 2, Kind.SPOT, 15),  # from its start, not from its confirmation
            event(EventKind.EVICTED, 30, 2, Kind.SPOT, 15),
            event(EventKind.COMPLETED, 40, 3, Kind.ON_DEMAND, 10),
        ],
    )
    assert used.time_s.tolist() == [0, 10, 15, 30, 40]
    assert used.on_demand.tolist() == [0, 3, 3, 3, 0]
    assert used.spot.tolist() == [0, 0, 2, 0, 0]
    assert used.evictions_s.tolist() == [30]


def test_an_empty_journal_is_an_idle_cloud() -> None:
    used = cloud_use("north", 8, [])
    assert used.time_s.tolist() == [0]
    assert used.on_demand.tolist() == used.spot.tolist() == [0]
