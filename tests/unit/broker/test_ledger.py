"""The ledger: a fold of public events, the verdict on it, and who is asked last because of it."""

from __future__ import annotations

import random
from typing import Any

import pytest

from broker.contract import Event, EventKind, Lease, LeaseGranted, RefusalView
from broker.ledger.ledger import WINDOW_S, AccountKey, CloudLedger, broken_promise
from broker.ledger.report import LedgerGroup, make_entries, sum_accounts
from broker.requests.routing import ReservedRoom, route
from cloudsim.model.binomial import clopper_pearson
from cloudsim.model.changes import RENEWAL
from cloudsim.model.refusals import RefusalReason
from cloudsim.model.requests import Door, Kind
from tests.unit.broker.requests.test_routing import member, wish
from tests.unit.cloudsim.test_offers import TABLE
from tests.unit.workers.owners import (
    NOW,
    Live,
    acknowledge,
    cancel,
    confirm,
    extend,
    reserve,
    spec,
    start,
    stop,
)

DAY_S = 86_400.0
HOUR_S = 3_600.0
ENDS = [EventKind.COMPLETED, EventKind.EVICTED, EventKind.CANCELLED, EventKind.FAILED]


class Told:
    """A cloud's ledger, and the events it is told."""

    def __init__(self) -> None:
        self.ledger = CloudLedger("A")
        self.sequence = 0

    def tell(self, kind: EventKind, name: str, at_s: float = 0.0, **promise: Any) -> None:
        self.sequence += 1
        self.ledger.note(event(self.sequence, kind, name, at_s, **promise))

    def promise(self, count: int, evicted: int, at_s: float, sla: float = 0.05) -> None:
        """So many promises that are made and settle."""
        for number in range(count):
            name = f"{at_s}-{number}"
            self.tell(EventKind.ADMITTED, name, at_s, sla=sla)
            how = EventKind.EVICTED if number < evicted else EventKind.COMPLETED
            self.tell(how, name, at_s, sla=sla)


def event(
    sequence: int,
    kind: EventKind,
    name: str,
    at_s: float = 0.0,
    *,
    sla: float | None = 0.05,
    risk: float = 0.01,
    origin: str = "B",
    table: str = "t1",
    cause: str | None = None,
) -> Event:
    lease = Lease(
        id=name, request=name, cloud="A", origin=origin, kind=Kind.SPOT, cores=1, node=0, starts_at_s=0.0,
        ends_at_s=1.0, promised_sla=sla, eviction_probability=risk, table_version=table, fence=1, number=0,
        state="running",
    )  # fmt: skip
    return Event(cloud="A", kind=kind, at_s=at_s, at=NOW, sequence=sequence, lease=lease, cause=cause)


@pytest.fixture
def told() -> Told:
    return Told()


# -- the fold ------------------------------------------------------------------------------------------------


def test_ends_settle_an_account_or_leave_it(told: Told) -> None:
    for number, end in enumerate(ENDS):
        told.tell(EventKind.ADMITTED, f"r{number}", risk=0.01 * (number + 1))
        told.tell(end, f"r{number}", risk=0.01 * (number + 1))
    told.tell(EventKind.ADMITTED, "runs", risk=0.05)
    (account,) = told.ledger.accounts.values()
    assert (account.running, account.completed, account.evicted, account.admitted) == (1, 1, 1, 3)
    assert account.pending == pytest.approx(0.05)
    assert account.mean_risk == pytest.approx((0.01 + 0.02 + 0.05) / 3)


def test_there_is_an_account_for_each_origin_sla_and_table(told: Told) -> None:
    told.tell(EventKind.ADMITTED, "a")
    told.tell(EventKind.ADMITTED, "b", origin="C")
    told.tell(EventKind.ADMITTED, "c", sla=0.1)
    told.tell(EventKind.ADMITTED, "d", table="t2")
    told.tell(EventKind.ADMITTED, "e", table="t2")
    told.tell(EventKind.ADMITTED, "plain", sla=None)
    told.tell(EventKind.ADMITTED, "nothing", sla=1.0)
    told.tell(EventKind.EVICTED, "plain", sla=None)
    assert {key: account.running for key, account in told.ledger.accounts.items()} == {
        AccountKey("B", 0.05, "t1"): 1,
        AccountKey("C", 0.05, "t1"): 1,
        AccountKey("B", 0.1, "t1"): 1,
        AccountKey("B", 0.05, "t2"): 2,
    }


def test_an_extension_replaces_the_promise_by_a_longer_one(told: Told) -> None:
    told.tell(EventKind.ADMITTED, "a")
    told.tell(EventKind.EXTENDED, "a", sla=0.25, table="t2", risk=0.2)
    assert told.ledger.accounts[AccountKey("B", 0.05, "t1")].admitted == 0
    assert told.ledger.accounts[AccountKey("B", 0.25, "t2")].running == 1
    told.tell(EventKind.NOTICED, "a", sla=0.25, table="t2", risk=0.2)
    told.tell(EventKind.EVICTED, "a", sla=0.25, table="t2", risk=0.2)
    assert told.ledger.accounts[AccountKey("B", 0.25, "t2")].evicted == 1
    assert told.ledger.accounts[AccountKey("B", 0.05, "t1")].mean_risk is None


def test_a_renewal_is_one_more_promise(told: Told) -> None:
    told.tell(EventKind.ADMITTED, "a")
    told.tell(EventKind.EXTENDED, "a", 5.0, table="t2", risk=0.02, cause=RENEWAL)
    kept = told.ledger.accounts[AccountKey("B", 0.05, "t1")]
    assert (kept.running, kept.completed, kept.evicted) == (0, 1, 0)
    told.tell(EventKind.EVICTED, "a", 9.0, table="t2", risk=0.02)
    broken = told.ledger.accounts[AccountKey("B", 0.05, "t2")]
    assert (broken.running, broken.completed, broken.evicted) == (0, 0, 1)


def test_the_same_event_twice_counts_once(told: Told) -> None:
    for _ in range(2):
        told.ledger.note(event(1, EventKind.ADMITTED, "a"))
        told.ledger.note(event(2, EventKind.EVICTED, "a"))
    assert (told.ledger.sequence, told.ledger.missing) == (2, 0)
    assert [account.evicted for account in told.ledger.accounts.values()] == [1]


def test_after_a_gap_nothing_is_counted_that_may_have_ended_in_it(told: Told) -> None:
    told.promise(2, 1, 0.0)
    told.tell(EventKind.ADMITTED, "ends-unseen")
    told.tell(EventKind.ADMITTED, "evicted-later")
    told.sequence += 5  # trimmed before they were read
    told.tell(EventKind.EVICTED, "evicted-later")
    told.tell(EventKind.CANCELLED, "began-unseen")
    told.tell(EventKind.EXTENDED, "began-unseen-too")
    (account,) = told.ledger.accounts.values()
    assert (account.running, account.completed, account.evicted) == (1, 1, 2)
    assert told.ledger.missing == 5
    told.ledger.pass_over(told.sequence + 1)
    assert (told.ledger.missing, account.running, account.pending) == (6, 0, 0.0)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("grace_s", [0.0, 5.0])
def test_it_is_the_owner_s_own_ledger(seed: int, grace_s: float) -> None:
    """Whatever holders and own users do, with crashes between."""
    random_ = random.Random(seed)
    live = Live(spec((3, 2), grace_s, renewal_s=8.0), TABLE)
    holders: list[str] = []
    users: list[str] = []
    now_s = 0.0
    for step in range(250):
        now_s += random_.choice([0.0, 1.0, 4.0])
        act = random_.randrange(9)
        if act < 4:
            attempt = f"r{step}.1"
            sla = random_.choice([0.3, 0.5, 0.9, None])
            answer = live.tell(reserve(attempt, lifetime_s=random_.choice([8.0, 25.0]), sla=sla), now_s)
            if isinstance(answer, LeaseGranted):
                live.tell(confirm(attempt), now_s)
                holders.append(attempt)
        elif act == 4 and holders:
            live.tell(extend(random_.choice(holders), now_s + 20, f"x{step}"), now_s)
        elif act == 5 and holders:
            live.tell(random_.choice([cancel, acknowledge])(random_.choice(holders)), now_s)
        elif act in (6, 7):
            users.append(f"vm{step}")
            live.tell(start(users[-1], random_.choice([1, 3, 3]), random_.choice([2.0, 4.0])), now_s)
        elif users:
            live.tell(stop(users.pop()), now_s)
        if step % 60 == 59:
            live.crash()
    ledger = CloudLedger("A")
    for one in live.events:
        if one.sequence is not None:
            ledger.note(one)
    found = sum_accounts([ledger], ["sla"])
    assert sum(total.account.evicted for total in found.values()) > 3
    own = {sla: account for sla, account in live.owner.cloud.ledger if account.admitted}
    assert [group.sla for group in found] == list(own)
    for group, total in found.items():
        assert group.sla is not None
        expected, account = own[group.sla], total.account
        assert (account.running, account.completed, account.evicted) == (
            expected.running,
            expected.completed,
            expected.evicted,
        )
        assert account.pending == pytest.approx(expected.pending, abs=1e-9)


# -- the verdict ---------------------------------------------------------------------------------------------


def test_the_verdict_is_the_exact_lower_bound() -> None:
    verdict = broken_promise(0.05, 14, 120)
    assert verdict is not None
    assert verdict.at_least == clopper_pearson(14, 120)[0] == pytest.approx(0.0652721, abs=1e-6)
    assert verdict.detail == "broke its promise at 0.05: 14 of 120 evicted, at least 0.0652"
    assert broken_promise(0.05, 11, 120) is None, "9.2 % may be chance: at least 4.7 %"
    assert broken_promise(0.05, 12, 120) is not None
    assert broken_promise(0.05, 6, 120) is None
    assert broken_promise(0.0, 1, 100_000) is not None, "zero risk was promised"
    assert broken_promise(0.05, 0, 0) is None


def test_origins_and_tables_are_judged_together_and_slas_apart(told: Told) -> None:
    for number in range(12):
        name, table, origin = f"r{number}", f"t{number}", f"o{number}"
        told.tell(EventKind.ADMITTED, name, table=table, origin=origin)
        told.tell(EventKind.EVICTED, name, table=table, origin=origin)
    told.promise(100, 5, 0.0, sla=0.1)
    broken = told.ledger.broken(HOUR_S)
    assert set(broken) == {0.05}
    assert (broken[0.05].evicted, broken[0.05].admitted) == (12, 12)


def test_those_that_run_count_as_kept(told: Told) -> None:
    for number in range(60):
        told.tell(EventKind.ADMITTED, f"long-{number}")
    told.promise(3, 3, HOUR_S)
    assert not told.ledger.broken(HOUR_S), "three early evictions of 63"
    for number in range(57):
        told.tell(EventKind.CANCELLED, f"long-{number}")
    assert told.ledger.broken(HOUR_S)[0.05].admitted == 6


def test_a_cloud_that_nobody_asks_comes_back_in_a_week(told: Told) -> None:
    told.promise(10, 5, DAY_S)
    assert told.ledger.broken(DAY_S)
    assert told.ledger.broken(DAY_S + WINDOW_S - HOUR_S)
    assert not told.ledger.broken(DAY_S + WINDOW_S)
    assert sum_accounts([told.ledger], [])[LedgerGroup(None, None, None, None)].account.evicted == 5, (
        "the account stays"
    )


def test_a_cloud_that_keeps_its_further_promises_comes_back_sooner(told: Told) -> None:
    told.promise(10, 5, 0.0)
    assert told.ledger.broken(HOUR_S)
    told.promise(20, 0, HOUR_S)
    assert told.ledger.broken(HOUR_S)[0.05].admitted == 30
    told.promise(60, 0, 2 * HOUR_S)
    assert not told.ledger.broken(2 * HOUR_S)


def test_what_is_older_than_a_week_is_not_kept(told: Told) -> None:
    for day in range(30):
        told.promise(2, 1, day * DAY_S)
    broken = told.ledger.broken(29 * DAY_S)[0.05]
    assert (broken.evicted, broken.admitted) == (7, 14)


# -- the statement -------------------------------------------------------------------------------------------


def test_a_statement_has_exact_bounds_whatever_becomes_of_those_that_run(told: Told) -> None:
    told.promise(20, 2, 0.0)
    for number in range(5):
        told.tell(EventKind.ADMITTED, f"runs-{number}")
    (entry,) = make_entries(sum_accounts([told.ledger], ["cloud", "sla"]))
    assert (entry.cloud, entry.origin, entry.sla, entry.table_version) == ("A", None, 0.05, None)
    assert (entry.admitted, entry.running, entry.completed, entry.evicted) == (25, 5, 18, 2)
    assert entry.realised == 0.1
    assert entry.at_least == clopper_pearson(2, 25)[0]
    assert entry.at_most == clopper_pearson(7, 25)[1]
    assert entry.mean_risk == pytest.approx(0.01)
    assert entry.kept == "open"


@pytest.mark.parametrize(("count", "evicted", "kept"), [(100, 0, "yes"), (50, 0, "open"), (50, 10, "broken")])
def test_a_promise_is_kept_broken_or_open(told: Told, count: int, evicted: int, kept: str) -> None:
    told.promise(count, evicted, 0.0)
    (entry,) = make_entries(sum_accounts([told.ledger], ["sla"]))
    assert entry.kept == kept


def test_accounts_are_picked_and_summed(told: Told) -> None:
    told.tell(EventKind.ADMITTED, "a", sla=0.2, origin="C")
    told.tell(EventKind.ADMITTED, "b", sla=0.1)
    told.tell(EventKind.ADMITTED, "c", sla=0.1, table="t0")
    told.tell(EventKind.ADMITTED, "gone", sla=0.3)
    told.tell(EventKind.CANCELLED, "gone", sla=0.3)
    assert [tuple(group)[:4] for group in sum_accounts([told.ledger], ["sla", "table"])] == [
        (None, None, 0.1, "t1"),
        (None, None, 0.1, "t0"),
        (None, None, 0.2, "t1"),
    ]
    assert [group.origin for group in sum_accounts([told.ledger], ["origin"])] == ["B", "C"]
    assert [group.origin for group in sum_accounts([told.ledger], ["origin"], sla=0.2)] == ["C"]
    (entry,) = make_entries(sum_accounts([told.ledger, CloudLedger("empty")], []))
    assert entry.promised == pytest.approx((0.2 + 0.1 + 0.1) / 3)
    assert entry.realised is None
    assert not sum_accounts([told.ledger], ["sla"], origins={"D"})


def test_nothing_is_written_of_a_cloud_of_which_nothing_is_known() -> None:
    """Owners of the version before know no such field."""
    plain = RefusalView(cloud="A", reason=RefusalReason.NO_CAPACITY)
    assert "broken_promise" not in plain.model_dump(mode="json")
    told = plain.model_copy(update={"broken_promise": broken_promise(0.05, 14, 120)})
    assert RefusalView.model_validate_json(told.model_dump_json()) == told


# -- routing -------------------------------------------------------------------------------------------------


def test_who_broke_its_promises_is_asked_last_at_that_sla() -> None:
    verdict = broken_promise(0.05, 14, 120)
    assert verdict is not None
    members = [
        member("tight", 0, {2: 1}, version="v", broken={0.05: verdict}),
        member("wide", 1, {2: 9}, version="v"),
        member("middle", 2, {2: 3}, version="v", broken={0.05: verdict}),
    ]
    assert route(wish(sla=0.05), members, most=9).candidates == ("wide", "tight", "middle")
    assert route(wish(sla=0.05), members, most=1).candidates == ("wide",)
    for sla in (0.1, None):
        assert route(wish(sla=sla), members, most=9).candidates == ("tight", "middle", "wide")
    full = ReservedRoom({"wide": 18})
    assert route(wish(sla=0.05), members, most=9, reserved=full).candidates == ("wide", "tight", "middle")


def test_accounts_are_kept_by_door_and_evictions_come_in_peaks(told: Told) -> None:
    for number, at_s in enumerate((0.0, 1800.0, 5000.0, 9000.0)):
        for name, origin in (
            (f"overflow/B/B/own-{number}/1", "B"),
            (f"B-w0-{number}", "B"),
            (f"{number}", "user"),
        ):
            told.tell(EventKind.ADMITTED, name, at_s, origin=origin)
            kept = origin == "user" and number > 0
            told.tell(EventKind.COMPLETED if kept else EventKind.EVICTED, name, at_s, origin=origin)
    entries = make_entries(sum_accounts([told.ledger], ["door"]))
    assert [(entry.door, entry.admitted, entry.evicted, entry.peaks) for entry in entries] == [
        (Door.OVERFLOW, 4, 4, 2),
        (Door.USER, 4, 1, 1),
        (Door.WORKLOAD, 4, 4, 2),
    ]
    (entry,) = make_entries(sum_accounts([told.ledger], []))
    assert (entry.evicted, entry.peaks, entry.door) == (9, 2, None)
