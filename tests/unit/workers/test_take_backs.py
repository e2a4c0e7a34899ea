"""What a cloud takes back by itself is evidence: its tables know of it, live and after a restart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from broker.contract import LeaseState, QuoteView, RefusalView
from cloudsim.cloud.spec import CloudSpec, sampler_spec
from cloudsim.history.take_backs import TakeBacks
from cloudsim.model.refusals import RefusalReason
from cloudsim.prediction.predictor import LocalPredictor
from cloudsim.prediction.tables import QuantileTable
from tests.unit.workers.owners import (
    NOW,
    Live,
    ask,
    cancel,
    confirm,
    gone,
    harmless_table,
    lease_state,
    load,
    reserve,
    start,
)
from workers.owner import snapshots
from workers.owner.owner import Owner
from workers.owner.state import OwnerSpec

HOUR, DAY = 3600.0, 86_400.0
PLENTY = 240
SLA, SIX_HOURS = 0.01, 6 * HOUR


class TenDays:
    """A cloud that hardly anybody uses, and that takes every spot instance back after ten minutes."""

    def __init__(self, *, takes_back: bool):
        cloud = CloudSpec("A", (8, 8), takes_back=takes_back)
        self.spec = OwnerSpec(cloud)
        self.live = Live(self.spec)
        self.predictor = LocalPredictor(sampler_spec(cloud, 0, PLENTY), [1])
        self.live.tell(start("A/direct-1", 1), 0.0)
        self.promised = self.broken = 0

    def refresh(self, at_s: float) -> None:
        """A table is made of what the cloud has recorded."""
        self.live.advance(at_s)
        events = self.live.owner.cloud.history.cut(at_s)
        self.live.take(self.live.owner.adopt(self.predictor.table(events, at_s), NOW))
        self.live.table = self.live.owner.cloud.table

    def lend(self, hour: int, sla: float | None) -> bool:
        """A lease for six hours, if it is granted, and what becomes of it."""
        at_s, name = hour * HOUR, f"r{hour}.{'1' if sla is None else '2'}"
        answer = self.live.tell(reserve(name, 1, SIX_HOURS, sla), at_s)
        if isinstance(answer, RefusalView):
            return False
        self.live.tell(confirm(name), at_s)
        assert lease_state(self.live.tell(gone(name), at_s + 600.0)) is LeaseState.EVICTED
        return True

    def quote(self, at_s: float, lifetime_s: float = SIX_HOURS) -> Any:
        return self.live.tell(ask(1, lifetime_s, SLA), at_s)

    def run(self) -> None:
        """Every hour somebody borrows, with a promise if the cloud gives one."""
        for hour in range(240):
            if hour and hour % 6 == 0:
                self.refresh(hour * HOUR)
            promised = self.lend(hour, SLA)
            self.promised += promised
            if not promised:
                assert self.lend(hour, None)


@pytest.mark.parametrize("takes_back", [False, True])
def test_a_cloud_that_takes_everything_back_promises_nothing(takes_back: bool) -> None:
    world = TenDays(takes_back=takes_back)
    world.run()
    assert world.promised == 0
    answer = world.quote(240 * HOUR)
    assert isinstance(answer, RefusalView)
    assert answer.reason is RefusalReason.RISK_TOO_HIGH
    table = world.live.owner.cloud.table
    assert table is not None
    assert table.estimate(1, 8, SIX_HOURS).eviction_probability == pytest.approx(1.0, abs=1e-6)
    assert table.take_backs is not None
    assert table.take_backs.taken == 234
    assert table.take_backs.lived_s == pytest.approx(234 * 600.0)
    world.live.crash()
    world.refresh(240 * HOUR)
    assert isinstance(world.quote(240 * HOUR), RefusalView)


def test_it_is_refused_within_one_refresh_of_the_first_take_back() -> None:
    world = TenDays(takes_back=False)
    for day in range(1, 4):
        world.refresh(day * DAY)
    granted = world.quote(3 * DAY)
    assert isinstance(granted, QuoteView)
    assert granted.eviction_probability == 0.0
    assert world.lend(72, SLA)
    world.refresh(3 * DAY + SIX_HOURS)
    refused = world.quote(3 * DAY + SIX_HOURS)
    assert isinstance(refused, RefusalView)
    assert refused.reason is RefusalReason.RISK_TOO_HIGH


def test_a_cloud_known_to_take_back_promises_once_enough_has_lived() -> None:
    world = TenDays(takes_back=True)
    world.refresh(3 * DAY)
    assert isinstance(world.quote(3 * DAY), RefusalView)
    for number in range(10):
        world.live.tell(reserve(f"long{number}.1", 1, 1e9), 3 * DAY)
        world.live.tell(confirm(f"long{number}.1"), 3 * DAY)
    world.refresh(5 * DAY)  # twenty days of instances
    assert isinstance(world.quote(5 * DAY), RefusalView)
    world.refresh(6 * DAY)  # thirty
    assert isinstance(world.quote(6 * DAY), QuoteView)


def test_a_history_of_prices_is_past_when_the_cloud_opens_and_no_evidence_that_instances_live() -> None:
    """Below the bid for thirty days but for an hour; afterwards the file of prices has grown."""
    past = load((20 * DAY, 20 * DAY + HOUR, 8), (30 * DAY, 30 * DAY, 1))
    grown = load((20 * DAY, 20 * DAY + HOUR, 8), (30 * DAY + HOUR, 40 * DAY, 8), (40 * DAY, 40 * DAY, 1))
    cloud = CloudSpec("A", (8,), takes_back=True)
    live = Live(OwnerSpec(cloud, own_load=past, catalogue=lambda: None))
    live.advance(30 * DAY)
    live.take(live.owner.open(30 * DAY, NOW))
    table = LocalPredictor(sampler_spec(cloud, 0, PLENTY), [1]).table(
        live.owner.cloud.history.cut(30 * DAY), 30 * DAY
    )
    live.take(live.owner.adopt(table, NOW))
    live.table = live.owner.cloud.table
    assert table.estimate(1, 8, DAY).eviction_probability == pytest.approx(1 / 30, abs=0.02)
    refused = live.tell(ask(1, HOUR, SLA), 30 * DAY)
    assert isinstance(refused, RefusalView)
    assert refused.reason is RefusalReason.RISK_TOO_HIGH
    packed = snapshots.pack(snapshots.take(live.owner.state, "1-1", ""))
    live.spec = OwnerSpec(cloud, own_load=grown, catalogue=lambda: None)
    live.crash()
    live.advance(35 * DAY)
    assert list(live.owner.cloud.inventory) == [], "what the price was since is no user of today"
    restored = snapshots.restored(live.spec, snapshots.unpack(packed))
    restored.cloud.advance(35 * DAY)
    assert list(restored.cloud.inventory) == []
    assert live.tell(reserve("a.1", 8, HOUR), 35 * DAY).answer == "lease"


def test_ends_that_others_bring_about_are_no_take_backs() -> None:
    live = Live(OwnerSpec(CloudSpec("A", (1, 1))), harmless_table((1, 1)))
    for name in ("a.1", "b.1"):
        live.tell(reserve(name, 1, 1e6), 0.0)
        live.tell(confirm(name), 0.0)
    live.tell(cancel("a.1"), 100.0)
    live.tell(start("x", 1), 200.0)
    live.tell(start("y", 1), 300.0)
    assert live.owner.cloud.take_backs == TakeBacks(0, 400.0)
    assert live.owner.cloud.observed_take_backs() is None
    live.crash()


def test_a_snapshot_holds_them() -> None:
    live = Live(OwnerSpec(CloudSpec("A", (4,))))
    live.tell(reserve("a.1", 1, 1e6), 0.0)
    live.tell(confirm("a.1"), 0.0)
    live.tell(gone("a.1"), 60.0)
    packed = snapshots.pack(snapshots.take(live.owner.state, "1-1", ""))
    restored = snapshots.restored(live.spec, snapshots.unpack(packed))
    assert restored.cloud.take_backs == TakeBacks(1, 60.0)
    older = packed.replace(b'"take_backs":{"taken":1,"lived_s":60.0},', b"")
    assert older != packed
    assert snapshots.restored(live.spec, snapshots.unpack(older)).cloud.take_backs == TakeBacks()
    assert Owner(live.spec).cloud.take_backs == TakeBacks()


def test_their_risk() -> None:
    lengths = np.array([0.0, 1.0, 600.0, 1e9])
    assert TakeBacks().risk(lengths).tolist() == [0.0, 1.0, 1.0, 1.0]
    risk = TakeBacks(240, 240 * 600.0).risk(lengths)
    assert risk[0] == 0.0
    assert risk[2] == pytest.approx(1 - np.exp(-1.0), abs=0.01)
    assert np.all(np.diff(risk) > 0)
    assert TakeBacks(0, 99 * HOUR).risk(np.array([HOUR]))[0] == pytest.approx(0.01)


def test_a_table_with_them_is_another_one() -> None:
    plain: QuantileTable = harmless_table((2,))
    exposed = plain.exposed_to(TakeBacks(1, DAY))
    assert plain.exposed_to(None) is plain
    assert exposed.version != plain.version
    assert exposed.version == plain.exposed_to(TakeBacks(1, DAY)).version
    assert plain.estimate(1, 2, HOUR).eviction_probability == 0.0
    told, exact = exposed.estimate(1, 2, HOUR), TakeBacks(1, DAY).risk(np.array([HOUR]))[0]
    assert exact <= told.eviction_probability < 1.1 * exact
    survives_s = exposed.survives_s(1, 2, 0.1)
    assert 0.0 < survives_s < 1e9
    assert exposed.estimate(1, 2, survives_s).eviction_probability <= 0.1
    (row, *_) = exposed.rows((0.1,))
    assert row["quantiles_s"][0.1] == exposed.survives_s(1, row["free_slots_from"], 0.1)
