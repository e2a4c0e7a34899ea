from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloudsim.admission.population import FEWEST_REQUESTS, MARGIN, RequestLog, Threshold
from cloudsim.admission.promise_ledger import PEAK_S, Account, PromiseLedger
from cloudsim.admission.rule import PAPERS_ADMISSION, STRICT_RULE, AdmissionRule, evidence_s
from cloudsim.cloud.cloud import Cloud
from cloudsim.cloud.spec import CloudSpec
from cloudsim.history.event_log import START_SPOT
from cloudsim.model.changes import End, Ended, Started
from cloudsim.model.instances import Instance, Placement, Quote
from cloudsim.model.refusals import Refusal, RefusalReason
from cloudsim.model.requests import Door, Kind, Mode, Request, door_of
from cloudsim.prediction.lifetimes import LifetimeDistribution
from cloudsim.prediction.samples import Samples
from cloudsim.prediction.tables import QuantileTable
from cloudsim.scheduling.pipeline import plan
from tests.unit.workers.owners import harmless_table


def spot(name: str, cores: int = 1, sla: float | None = None, lifetime_s: float = 100.0) -> Request:
    return Request(name, Kind.SPOT, cores, lifetime_s, sla)


def on_demand(name: str, cores: int = 1) -> Request:
    return Request(name, Kind.ON_DEMAND, cores, 100.0)


def promised(cloud: Cloud, name: str, cores: int, start_s: float) -> None:
    """An instance with a promise, as if a table had allowed it."""
    number = cloud.history.instances
    node = next(node for node, free in enumerate(cloud.inventory.free) if free >= cores)
    cloud.apply(
        Started(
            Instance(name, Kind.SPOT, cores, node, start_s, start_s + 500, number, "", sla=0.1, risk=0.05)
        )
    )


def evicted(changes: object) -> list[str]:
    assert isinstance(changes, list)
    return [change.instance.id for change in changes if isinstance(change, Ended)]


class TestNoGuarantee:
    def test_it_gives_way_before_younger_ones_with_a_promise(self) -> None:
        cloud = Cloud(CloudSpec("a", (2,)))
        assert not isinstance(cloud.admit(spot("free"), 1.0), Refusal)
        promised(cloud, "promised", 1, 2.0)
        assert evicted(cloud.start_on_demand(on_demand("own"), 3.0)) == ["free"]
        assert evicted(cloud.start_on_demand(on_demand("own-2"), 4.0)) == ["promised"]
        cloud.inventory.validate()

    def test_its_cores_are_free_for_a_promise_and_taken_for_another_of_its_kind(self) -> None:
        cloud = Cloud(CloudSpec("a", (2,)))
        cloud.admit(spot("free", cores=2), 1.0)
        assert cloud.inventory.free_slots(1) == 0
        assert cloud.inventory.free_slots(1, promised=True) == 2
        answer = cloud.quote(spot("more"))
        assert isinstance(answer, Refusal)
        assert answer.reason is RefusalReason.NO_CAPACITY
        wish = cloud.quote(spot("wish", sla=0.1))
        assert isinstance(wish, Refusal)
        assert wish.reason is RefusalReason.NO_TABLE  # not capacity

    def test_an_admitted_promise_displaces_it(self) -> None:
        cloud = Cloud(CloudSpec("a", (2, 2)))
        cloud.admit(spot("old", cores=2), 1.0)
        cloud.admit(spot("young", cores=2), 2.0)
        wish = spot("wish", sla=0.1)
        placement = _plan(cloud, wish)
        changes = cloud._place(cloud._instance(wish, placement, 3.0, 50.0), placement)
        assert evicted(changes) == ["young"]
        cloud.inventory.validate()

    def test_it_never_displaces_anybody(self) -> None:
        cloud = Cloud(CloudSpec("a", (1,)))
        cloud.admit(spot("first"), 1.0)
        assert isinstance(cloud.admit(spot("second"), 2.0), Refusal)

    def test_tables_do_not_see_it_and_it_is_told_no_risk(self) -> None:
        cloud = Cloud(CloudSpec("a", (2,)))
        cloud.admit(spot("free"), 1.0)
        promised(cloud, "promised", 1, 2.0)
        log = cloud.history.cut(10.0)
        assert log.kind.tolist() == [START_SPOT]
        assert log.instance.tolist() == [1]
        answer = Cloud(CloudSpec("a", (2,))).quote(spot("any"))
        assert isinstance(answer, Quote)
        assert answer.eviction_probability is None


def _plan(cloud: Cloud, request: Request) -> Placement:
    placement = plan(cloud.inventory, request, cloud.spec.lineup)
    assert isinstance(placement, Placement)
    return placement


class TestLedger:
    def test_each_sla_has_its_own_account(self) -> None:
        ledger = PromiseLedger()
        cases = ((0.1, End.EVICTED), (0.1, End.COMPLETED), (0.01, End.COMPLETED), (0.01, End.CANCELLED))
        for number, (sla, how) in enumerate(cases):
            instance = Instance(f"i{number}", Kind.SPOT, 1, 0, 0.0, 9.0, number, sla=sla, risk=sla / 2)
            ledger.record_start(instance)
            assert ledger.account(sla).pending == pytest.approx(sla / 2)
            ledger.record_end(instance, how)
        accounts = dict(ledger)
        assert list(accounts) == [0.01, 0.1]
        assert (accounts[0.1].completed, accounts[0.1].evicted, accounts[0.1].admitted) == (1, 1, 2)
        assert accounts[0.01].admitted == 1  # who left early tells nothing
        assert accounts[0.1].pending == 0.0

    def test_those_without_a_promise_have_none(self) -> None:
        ledger = PromiseLedger()
        for instance in (
            Instance("s", Kind.SPOT, 1, 0, 0.0, 9.0, 0),
            Instance("d", Kind.ON_DEMAND, 1, 0, 0.0, 9.0, 1),
        ):
            ledger.record_start(instance)
            ledger.record_end(instance, End.COMPLETED)
        assert list(ledger) == []

    def test_balance(self) -> None:
        account = Account(running=10, completed=80, evicted=10, pending=2.0)
        assert account.balance(0.2) == pytest.approx(0.2 * 100 - 10 - 2)


class TestThreshold:
    def test_strict_until_enough_requests_came(self) -> None:
        log = RequestLog(0.1)
        for _ in range(FEWEST_REQUESTS - 1):
            log.note_request(0.5, 10.0, Account())
        assert log.threshold == Threshold(0.1, 0.0)
        for _ in range(FEWEST_REQUESTS):
            log.note_request(0.0, 10.0, Account())
        assert log.threshold.price_per_s > 0

    @pytest.mark.parametrize("sla", [0.01, 0.1, 0.5])
    @pytest.mark.parametrize("seed", range(20))
    def test_the_mean_risk_of_those_it_would_admit_is_within_the_target(self, seed: int, sla: float) -> None:
        rng = np.random.default_rng(seed)
        count = FEWEST_REQUESTS + 25 * seed
        risks = rng.uniform(0, 1, count) ** rng.integers(1, 12)
        lifetimes_s = rng.lognormal(6, 1.5, count)
        log = RequestLog(sla)
        for risk, lifetime_s in zip(risks.tolist(), lifetimes_s.tolist(), strict=True):
            log.note_request(risk, lifetime_s, Account())
        pairs = zip(risks.tolist(), lifetimes_s.tolist(), strict=True)
        taken = [risk for risk, lifetime_s in pairs if log.threshold.admits(risk, lifetime_s)]
        assert sum(taken) <= sla * (1 - MARGIN) * len(taken) + 1e-9

    def test_an_overdrawn_promise_lowers_it(self) -> None:
        logs = RequestLog(0.1), RequestLog(0.1)
        rng = np.random.default_rng(1)
        overdrawn = Account(completed=50, evicted=50)
        for risk in rng.uniform(0, 1, 500):
            logs[0].note_request(float(risk), 100.0, Account())
            logs[1].note_request(float(risk), 100.0, overdrawn)
        assert logs[1].threshold.most < logs[0].threshold.most

    @given(
        st.lists(st.tuples(st.floats(1, 1e4), st.booleans()), min_size=1, max_size=30),
        st.floats(0, 1.2),
        st.sampled_from([0.0, 1e-6, 1e-4, 1e-2]),
    )
    def test_the_longest_lifetime_is_admitted_and_no_longer_one(
        self, samples: list[tuple[float, bool]], most: float, price: float
    ) -> None:
        distribution = LifetimeDistribution.from_samples(
            np.array([one[0] for one in samples]), np.array([one[1] for one in samples])
        )
        threshold = Threshold(most, price)
        longest_s = threshold.longest_s(distribution)
        if longest_s > 0:
            inside_s = longest_s * (1 - 1e-9)
            assert threshold.admits(distribution.risk(inside_s), inside_s)
        beyond_s = math.nextafter(longest_s * (1 + 1e-9), math.inf) + 1e-9
        assert not threshold.admits(distribution.risk(beyond_s), beyond_s)


def test_population_mode_learns_from_what_is_asked_and_strict_mode_does_not_care() -> None:
    population = Cloud(CloudSpec("a", (8,), admission=AdmissionRule(Mode.POPULATION)))
    strict = Cloud(CloudSpec("a", (8,)))
    for number in range(FEWEST_REQUESTS + 1):
        for cloud in (population, strict):
            cloud.table = harmless_table((8,))
            assert isinstance(cloud.consider(spot(f"r{number}", sla=0.1)), Quote)
    asked = spot("r", sla=0.1)
    assert strict._threshold(asked) is None
    threshold = population._threshold(asked)
    assert threshold is not None
    assert threshold.price_per_s > 0
    assert population._threshold(spot("other", sla=0.5)) is None


def test_curiosity_and_admission_do_not_move_the_bar() -> None:
    cloud = Cloud(CloudSpec("a", (8,), admission=AdmissionRule(Mode.POPULATION)))
    cloud.table = harmless_table((8,))
    for number in range(FEWEST_REQUESTS):
        cloud.consider(spot(f"r{number}", sla=0.1))
    before = cloud._threshold(spot("r", sla=0.1))
    cloud.quote(spot("curious", sla=0.1))
    assert not isinstance(cloud.admit(spot("r", sla=0.1), 1.0), Refusal)
    assert cloud._threshold(spot("r", sla=0.1)) == before
    cloud.consider(spot("next", sla=0.1))
    assert cloud._threshold(spot("r", sla=0.1)) != before


@pytest.mark.parametrize(("sla", "longest_s"), [(0.01, 250.0), (0.04, 1000.0), (0.5, 12500.0)])
def test_a_small_sla_wants_a_long_history(sla: float, longest_s: float) -> None:
    followed_up = LifetimeDistribution(np.array([5000.0]), np.array([0.0]), 100, 0)
    assert evidence_s(followed_up, sla, 1000.0, STRICT_RULE) == pytest.approx(min(longest_s, 5000.0))
    assert evidence_s(followed_up, sla, 1000.0, PAPERS_ADMISSION) == 5000.0
    assert evidence_s(followed_up) == 5000.0
    assert evidence_s(None, sla, 1000.0, STRICT_RULE) == 0.0


def test_what_the_history_cannot_speak_for_has_no_evidence() -> None:
    cloud = Cloud(CloudSpec("a", (4,)))
    cloud.table = replace_made_at(harmless_table((4,)), 4000.0)
    assert isinstance(cloud.quote(spot("short", sla=0.01, lifetime_s=1000.0)), Quote)
    answer = cloud.quote(spot("long", sla=0.01, lifetime_s=1001.0))
    assert isinstance(answer, Refusal)
    assert answer.reason is RefusalReason.NO_EVIDENCE
    assert answer.survives_s == pytest.approx(1000.0)
    assert isinstance(cloud.quote(spot("long", sla=0.5, lifetime_s=1001.0)), Quote)


def replace_made_at(table: QuantileTable, made_at_s: float) -> QuantileTable:
    return QuantileTable.from_samples(list(table.samples.values()), table.node_cores, made_at_s)


def test_overflow_leaves_room_for_one_peak_more_than_the_history_has_shown() -> None:
    cloud, papers = Cloud(CloudSpec("a", (8,))), Cloud(CloudSpec("b", (8,), admission=PAPERS_ADMISSION))
    for asked in (cloud, papers):
        asked.table = harmless_table((8,))
        asked.table.made_at_s = 400 * PEAK_S
    for hours, admitted in ((1.0, True), (2.9, True), (3.1, False)):
        request = spot("overflow/b/r/1", sla=0.01, lifetime_s=hours * PEAK_S)
        answer, other = cloud.quote(request), cloud.quote(replace(request, id="r"))
        assert isinstance(answer, Quote) is admitted
        assert answer.eviction_probability == pytest.approx((hours + 1) / 400)
        assert answer.survives_s == pytest.approx(3 * PEAK_S)
        assert isinstance(other, Quote)
        assert other.eviction_probability == 0
        assert papers.quote(request).eviction_probability == 0


@pytest.mark.parametrize(("sla", "admitted"), [(0.01, 8), (0.05, 1)])
def test_a_laxer_promise_may_admit_fewer_because_a_longer_lease_takes_the_room(
    sla: float, admitted: int
) -> None:
    lived_s = np.where(np.arange(100) < 3, 5_000.0, 1e6)  # 3 of 100 are evicted in the second hour
    samples = replace(
        Samples.empty(1, 1e6), number=np.arange(100), birth_s=np.zeros(100), span_s=np.zeros(100),
        free_slots=np.ones(100, np.int32), duration_s=lived_s, evicted=lived_s < 1e6,
    )  # fmt: skip
    cloud = Cloud(CloudSpec("a", (1,)))
    cloud.table = QuantileTable.from_samples([samples], (1,), 1e6)
    lifetimes_s = [8 * 3600.0, *[3600.0] * 8]  # one asks for eight hours, then one for each of them
    answers = []
    for number, lifetime_s in enumerate(lifetimes_s):
        at_s = max(number - 1, 0) * 3600.0
        cloud.advance(at_s)
        answers.append(cloud.admit(spot(f"s{number}", sla=sla, lifetime_s=lifetime_s), at_s))
    assert sum(not isinstance(answer, Refusal) for answer in answers) == admitted


def test_a_cloud_may_leave_room_for_a_peak_more_whoever_asks() -> None:
    cloud = Cloud(CloudSpec("a", (8,), admission=AdmissionRule(peaks=1.0)))
    cloud.table = harmless_table((8,))
    cloud.table.made_at_s = 400 * PEAK_S
    for request_id in ("r", "overflow/b/r/1"):  # an overflow counts no peak twice
        for hours, admitted in ((2.9, True), (3.1, False)):
            answer = cloud.quote(spot(request_id, sla=0.01, lifetime_s=hours * PEAK_S))
            assert isinstance(answer, Quote) is admitted
            assert answer.eviction_probability == pytest.approx((hours + 1) / 400)


@pytest.mark.parametrize(
    ("request_id", "origin", "door"),
    [
        ("overflow/A/A/own-44/1", "A", Door.OVERFLOW),
        ("overflow/A/A/own-44/1.1", "A", Door.OVERFLOW),
        ("C-w0-17", "C", Door.WORKLOAD),
        ("C-w0-17", "user", Door.USER),
        ("r-1", "user", Door.USER),
    ],
)
def test_the_id_and_the_origin_tell_the_door(request_id: str, origin: str, door: Door) -> None:
    assert door_of(request_id, origin) is door
