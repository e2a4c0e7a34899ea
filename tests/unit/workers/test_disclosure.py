"""What a cloud does not disclose, nobody can find out by asking: two owners whose lifetimes differ as much as
they can, with the same disclosed figures, give the same answers to everything.
docs/design/volatile-resources.md "In the product".
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest

from broker.contract import DisclosureLevel, QuoteView, RefusalView
from cloudsim.cloud.spec import CloudSpec
from cloudsim.disclosure.levels import SHARES, Disclosure
from cloudsim.disclosure.masked_tables import CoarseTable, coarsen_table, describe_table
from cloudsim.model.refusals import RefusalReason
from cloudsim.prediction.tables import QuantileTable
from cloudsim.scheduling.lineups import LIFO_POOLS
from tests.contract.twins import LIVES, NODES, SIZES, pooled_table_of, table_of
from tests.unit.workers.owners import (
    NOW,
    acknowledge,
    ask,
    cancel,
    confirm,
    extend,
    lease_state,
    reserve,
    start,
    stop,
)
from workers.owner.owner import Owner
from workers.owner.state import OwnerSpec

BELOW_FULL = [level for level in Disclosure if level is not Disclosure.FULL]
SLAS = (0.0, 0.05, 0.1, 0.3, 0.49, 0.5, 0.75, 0.9, 0.95, None)
LIFETIMES_S = (60.0, 599.0, 600.0, 601.0, 3500.0, 3600.0, 3601.0, 35_000.0, 36_000.0, 36_001.0, 1e6, None)


class Twins:
    """Two owners that are told the same and must say the same."""

    def __init__(self, level: Disclosure, *, pooled: bool = False):
        cloud = CloudSpec("A", NODES, grace_s=60.0, disclosure=level)
        self.tables = [table_of(lives) for lives in LIVES[level]]
        if pooled:
            cloud = replace(cloud, lineup=LIFO_POOLS, pools=3)
            assert cloud.products.pools is not None
            self.tables = [pooled_table_of(lives, cloud.products.pools) for lives in LIVES[level]]
        spec = OwnerSpec(cloud, renewal_s=1800.0)
        self.owners = [Owner(spec, 1) for _ in self.tables]
        self.same = True
        self.said: list[Any] = []  # answers of the first one
        for owner, table in zip(self.owners, self.tables, strict=True):
            owner.open(0.0, NOW)
            owner.adopt(table, NOW)

    def tell(self, command: Any, at_s: float = 0.0) -> Any:
        """The first one's answer."""
        heard = []
        for owner in self.owners:
            outcome = owner.handle(command, at_s, NOW)
            told = [event.model_dump_json() for event in outcome.events]
            replies = [(to, reply.model_dump_json()) for to, reply in outcome.replies]
            heard.append((told, replies, owner.advert(NOW).model_dump_json(), outcome.overflow))
            self.said.append(outcome.replies[-1][1].answer)
        self.same &= heard[0] == heard[1]
        return self.said[-2]

    def sweep(self, at_s: float) -> None:
        """Questions over p, lifetime and size."""
        for sla, lifetime_s, cores in itertools.product(SLAS, LIFETIMES_S, (1, 4, 3)):
            question = ask(cores, lifetime_s or 1.0, sla)
            told = question.model_copy(update={"lifetime_s": lifetime_s, "other_sizes": True})
            self.tell(told, at_s)

    def submit(self, at_s: float, few: int) -> None:
        """Requests in earnest, each given back."""
        wishes = itertools.product(SLAS[::few], LIFETIMES_S[:-1], SIZES)
        for number, (sla, lifetime_s, cores) in enumerate(wishes):
            attempt = f"s{at_s:g}-{number}.1"
            granted = self.tell(reserve(attempt, cores, lifetime_s, sla), at_s)
            if granted.answer != "lease":
                continue
            self.tell(confirm(attempt), at_s)
            for more_s in (700.0, 3600.0, 36_000.0, 200_000.0):
                self.tell(extend(attempt, at_s + more_s, f"x{more_s:g}"), at_s)
            self.tell(cancel(attempt), at_s)


def lived(twins: Twins) -> Twins:
    """Everything that a member can do, on an empty cloud, one with less room than usual, and a full one."""
    twins.sweep(0.0)
    twins.submit(0.0, few=2)
    for number in range(4):
        attempt = f"kept-{number}.1"
        twins.tell(reserve(attempt, 2, 3000.0, (None, 0.5, 0.9, 0.1)[number]), 1.0)
        twins.tell(confirm(attempt), 1.0)
    for step, cores in enumerate((8, 5, 7, 2)):
        twins.tell(start(f"od-{step}", cores), 10.0 + step)
        twins.submit(10.0 + step, few=4)
        twins.tell(extend("kept-1.1", 3100.0 + step, f"later-{step}", sla=0.9), 10.0 + step)
    twins.sweep(14.0)
    twins.tell(acknowledge("kept-0.1"), 15.0)
    for step in range(4):
        twins.tell(stop(f"od-{step}"), 100.0 + step)
    twins.tell(reserve("endless.1", 1, 1.0, 0.5).model_copy(update={"lifetime_s": None}), 200.0)
    twins.tell(confirm("endless.1"), 200.0)
    twins.tell(ask(), 5000.0)
    return twins


@pytest.mark.parametrize("level", BELOW_FULL)
def test_nobody_can_tell_the_one_from_the_other(level: Disclosure) -> None:
    twins = Twins(level)
    assert apart(twins.tables) > 0.4, "their lifetimes have little in common"
    shown = [describe_table(coarsen_table(table, level)) for table in twins.tables]
    assert shown[0] == shown[1]
    lived(twins)
    assert len(twins.said) > 2000
    assert twins.same


def test_nor_of_those_that_sell_pools() -> None:
    twins = Twins(Disclosure.P90, pooled=True)
    twins.submit(0.0, few=4)
    for step, cores in enumerate((8, 5, 7)):
        for pool, sla, lifetime_s in itertools.product((0, 1, 2, 3), (0.3, 0.5, 0.9), LIFETIMES_S[3:-1]):
            assert lifetime_s is not None
            twins.tell(ask(2, lifetime_s, sla).model_copy(update={"pool": pool}), 10.0 + step)
        twins.tell(start(f"od-{step}", cores), 10.0 + step)
    sold = {view.pool for view in twins.said if isinstance(view, QuoteView)}
    assert 2 in sold
    assert twins.same


def apart(tables: list[QuantileTable]) -> float:
    """The greatest difference of their risks. Who sees neither errs by half of it on one of them."""
    lifetimes_s = np.geomspace(10.0, 1e6, 2000)
    risks = [found.risk(lifetimes_s) for table in tables if (found := table.distribution(1, 12)) is not None]
    return float(np.max(np.abs(risks[0] - risks[1])))


def rebuilt(told: list[Any]) -> set[tuple[float | None, float | None]]:
    """Points of the curve of lifetimes that answers let through: a lifetime, and the risk up to it."""
    points = set()
    for view in told:
        if isinstance(view, QuoteView):
            points.add((view.survives_s, view.eviction_probability))
        elif isinstance(view, RefusalView):
            points.add((view.counter_offers.lifetime_s, view.counter_offers.sla))
    return {(at, risk) for at, risk in points if at is not None or risk is not None}


@pytest.mark.parametrize("level", BELOW_FULL)
def test_what_a_sweep_rebuilds_is_what_is_disclosed(level: Disclosure) -> None:
    twins = Twins(level)
    twins.sweep(0.0)
    told = CoarseTable(twins.tables[0], level).disclosed[1, ()]
    points = rebuilt(twins.said)
    lifetimes = {at for at, _ in points} - {None}
    risks = {risk for _, risk in points} - {None}
    if level in SHARES:
        assert lifetimes == {told.median_s, told.quantile_s}
        assert risks == {0.5, SHARES[level], 1.0}
    else:
        assert not points


def test_where_all_is_disclosed_a_sweep_tells_them_apart_and_rebuilds_the_curve() -> None:
    twins = Twins(Disclosure.FULL)
    twins.sweep(0.0)
    assert not twins.same
    for lifetime_s in filter(None, LIFETIMES_S):
        told = twins.tell(ask(1, lifetime_s, 0.01))
        risk = told.eviction_probability if told.answer == "quote" else told.counter_offers.sla
        assert risk == twins.tables[0].estimate(1, 24, lifetime_s).eviction_probability


def answers(level: Disclosure) -> Iterator[tuple[float, float, bool]]:
    """Lifetime, SLA and whether it is promised, of one core on the empty cloud."""
    owner = Twins(level)
    for sla, lifetime_s in itertools.product(SLAS[:-2], LIFETIMES_S[:-1]):
        assert sla is not None
        assert lifetime_s is not None
        yield lifetime_s, sla, owner.tell(ask(1, lifetime_s, sla)).answer == "quote"


@pytest.mark.parametrize("level", SHARES)
def test_promised_is_what_the_two_figures_bear_and_what_will_be_kept(level: Disclosure) -> None:
    share, table = SHARES[level], table_of(LIVES[level][0])
    told = CoarseTable(table, level).disclosed[1, ()]
    assert told.median_s is not None
    assert told.quantile_s is not None
    for lifetime_s, sla, promised in answers(level):
        at_median = lifetime_s <= told.median_s and sla >= 0.5
        assert promised == (at_median or (lifetime_s <= told.quantile_s and sla >= share))
        if promised:
            assert all(table.estimate(1, slots, lifetime_s).eviction_probability <= sla for slots in (12, 24))


@pytest.mark.parametrize("level", [Disclosure.NOTHING, Disclosure.MTTR])
def test_without_a_percentile_nothing_is_promised_and_spot_is_lent_all_the_same(level: Disclosure) -> None:
    twins = Twins(level)
    refusal = twins.tell(ask(1, 60.0, 0.99))
    assert (refusal.reason, refusal.free_slots, refusal.table_version) == (
        RefusalReason.NOT_DISCLOSED,
        None,
        None,
    )
    for number in range(2):
        twins.tell(start(f"od-{number}", 8))
    twins.tell(start("od-2", 7))
    assert twins.tell(ask(1, 60.0, 0.99)).reason is RefusalReason.NOT_DISCLOSED, (
        "as long as there is any room"
    )
    granted = twins.tell(reserve("r.1", 1, 60.0, None))
    assert lease_state(granted) == "reserved"
    assert granted.lease.eviction_probability is None


def test_an_advert_tells_whether_there_is_room_and_no_more() -> None:
    twins = Twins(Disclosure.P90)
    empty = twins.owners[0].advert(NOW)
    assert (empty.disclosure, empty.free_cores, empty.free_slots[2]) == ("p90", 24, 12)
    twins.tell(reserve("r.1", 1, 60.0, None))
    twins.tell(start("od", 8))
    twins.tell(start("od-2", 8))
    some = twins.owners[0].advert(NOW)  # a node has 7 free cores
    assert (some.free_cores, some.on_demand_cores, some.spot_cores, some.spot_leases) == (24, 0, 0, 0)
    assert some.free_slots == empty.free_slots | {8: 0}
    assert some.promised_room is not None
    assert some.promised_room.free_slots[1] == 0, "8 slots are less than usual: no promise"
    refusal = twins.tell(ask(1, 60.0, 0.9))
    assert (refusal.reason, refusal.free_slots, refusal.removed) == (RefusalReason.NO_CAPACITY, 0, {})
    twins.tell(start("od-3", 8))
    assert set(twins.owners[0].advert(NOW).free_slots.values()) == {0}


def test_an_owner_that_takes_over_keeps_to_what_was_disclosed() -> None:
    twins = Twins(Disclosure.P90)
    before, spec = twins.owners[0], twins.owners[0].spec
    for number in (0, 1):
        twins.tell(reserve(f"r{number}.1", 1, 3000.0, 0.5))
        twins.tell(confirm(f"r{number}.1"))
    after = Owner(spec, 2, before.state)
    after.cloud.table = before.cloud.table
    assert after.cloud.table is before.cloud.table, "made coarse once"


def test_the_contract_has_the_levels() -> None:
    assert list(get_args(DisclosureLevel)) == [level.value for level in Disclosure]
