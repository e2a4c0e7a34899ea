"""Conditional survival of running instances, and the same request at other sizes."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloudsim.admission.counter_offers import largest_admitted, other_sizes
from cloudsim.cloud.cloud import Cloud
from cloudsim.cloud.extensions import Extension, examine_extension, time_ahead
from cloudsim.cloud.spec import CloudSpec
from cloudsim.model.changes import Change, End, Ended, Extended, Started
from cloudsim.model.instances import Instance, Quote
from cloudsim.model.refusals import Refusal, RefusalReason
from cloudsim.model.requests import Kind, Request
from cloudsim.prediction.lifetimes import LifetimeDistribution
from cloudsim.prediction.predictor import LocalPredictor
from cloudsim.prediction.samplers.replay import SamplerSpec
from cloudsim.prediction.samples import Samples
from cloudsim.prediction.tables import QuantileTable
from cloudsim.scheduling.lineups import LIFO_RECENCY, OLDEST_JOB_FIRST, YOUNGEST_JOB_FIRST, LineUp
from cloudsim.traces.synthesis import arrival_mu_for_load, lognormal_trace


def distribution(*durations: tuple[float, bool]) -> LifetimeDistribution:
    """Kaplan-Meier of (duration_s, evicted)."""
    return LifetimeDistribution.from_samples(
        np.array([d for d, _ in durations], np.float64), np.array([e for _, e in durations])
    )


HALVES = distribution((10, True), (20, True), (30, True), (40, False))


def test_the_time_ahead_is_that_of_those_still_alive() -> None:
    assert HALVES.after(0).risk(30) == 0.5
    assert HALVES.after(15).risk(15) == pytest.approx(1 / 3)
    assert HALVES.after(15).risk(25) == pytest.approx(2 / 3)
    assert HALVES.after(35).risk(5) == 0.0
    assert HALVES.after(35).risk(6) == 1.0, "nobody was followed up for so long"
    assert HALVES.after(41).risk(1) == 1.0, "nobody lived so long"
    assert HALVES.after(20).risk(0) == 0.0
    assert HALVES.after(15).survives_s(0.5) == 15.0
    everybody = distribution((10, True), (20, True))
    assert everybody.after(20).risk(1) == 1.0


durations = st.lists(st.tuples(st.integers(1, 200).map(float), st.booleans()), min_size=1, max_size=60)
ages = st.integers(0, 200).map(float)


@given(durations, ages, ages)
def test_the_time_ahead_has_the_conditional_risk(
    samples: list[tuple[float, bool]], age_s: float, lifetime_s: float
) -> None:
    made = distribution(*samples)
    lifetime_s = max(age_s, lifetime_s)
    lived, risk = 1.0 - made.risk(age_s), made.risk(lifetime_s)
    expected = 0.0 if lifetime_s == age_s else 1.0 - (1.0 - risk) / lived if lived > 0 else 1.0
    assert made.after(age_s).risk(lifetime_s - age_s) == pytest.approx(expected)
    assert made.after(age_s).estimates.tolist() == made.after(age_s).risks.tolist()


@given(durations, ages, ages, ages)
def test_having_lived_longer_never_costs(
    samples: list[tuple[float, bool]], age_s: float, more_s: float, lifetime_s: float
) -> None:
    made = distribution(*samples)
    lifetime_s = max(age_s, lifetime_s)
    later_s = min(age_s + more_s, lifetime_s)
    if made.risk(later_s) < 1:
        later = made.after(later_s).risk(lifetime_s - later_s)
        assert later <= made.after(age_s).risk(lifetime_s - age_s) + 1e-12


# -- a running instance --------------------------------------------------------------------------------------


def table(*durations_: tuple[float, bool], slots: int = 3, cores: int = 1) -> QuantileTable:
    """Of one size, all samples born with so many free slots; each duration stands for a hundred."""
    count = 100 * len(durations_)
    samples = replace(
        Samples.empty(cores, 1e6),
        number=np.arange(count),
        birth_s=np.zeros(count),
        free_slots=np.full(count, slots, np.int32),
        duration_s=np.repeat([d for d, _ in durations_], 100).astype(np.float64),
        evicted=np.repeat([e for _, e in durations_], 100),
        span_s=np.zeros(count),
    )
    return QuantileTable.from_samples([samples], (4, 4), 1e6)


RUNNING = Instance("r", Kind.SPOT, 1, 0, 100.0, 120.0, 0, "b", sla=0.4, risk=0.1, free_slots=3)
TABLE = table((10, True), (20, True), (30, True), (40, False))


def test_an_extension_within_the_sla_is_offered_with_its_risk() -> None:
    answer = examine_extension("a", RUNNING, 130.0, 0.4, 115.0, TABLE, 3, by_place=False)
    assert isinstance(answer, Extension)
    assert answer.eviction_probability == pytest.approx((1 / 3 + 1 / 4) / 2)
    assert answer == Extension(130.0, answer.eviction_probability, 130.0, TABLE.version, 1e6)


@pytest.mark.parametrize(
    ("until_s", "sla", "running", "reason", "longest_s"),
    [
        (140.0, 0.4, RUNNING, RefusalReason.RISK_TOO_HIGH, 30.0),
        (140.0, 0.1, RUNNING, RefusalReason.RISK_TOO_HIGH, None),  # not longer than it has
        (141.0, 0.4, RUNNING, RefusalReason.NO_EVIDENCE, 30.0),
        (121.0, 0.4, replace(RUNNING, free_slots=None), RefusalReason.NO_EVIDENCE, None),
        (121.0, 0.4, replace(RUNNING, start_s=0.0), RefusalReason.NO_EVIDENCE, None),
        (121.0, 0.4, replace(RUNNING, cores=2), RefusalReason.NO_TABLE, None),
    ],
)
def test_a_refused_extension_says_why_and_what_instead(
    until_s: float, sla: float, running: Instance, reason: RefusalReason, longest_s: float | None
) -> None:
    answer = examine_extension("a", running, until_s, sla, 115.0, TABLE, 3, by_place=False)
    assert isinstance(answer, Refusal)
    assert (answer.reason, answer.survives_s) == (reason, longest_s)
    if longest_s is not None:
        instead = examine_extension(
            "a", running, running.start_s + longest_s, sla, 115.0, TABLE, 3, by_place=False
        )
        assert isinstance(instead, Extension)
    if reason is RefusalReason.RISK_TOO_HIGH:
        assert answer.eviction_probability is not None
        same = examine_extension(
            "a", running, until_s, answer.eviction_probability, 115.0, TABLE, 3, by_place=False
        )
        assert isinstance(same, Extension)


@pytest.mark.parametrize("made", [TABLE, None])
def test_what_was_promised_nothing_is_extended_without_a_table(made: QuantileTable | None) -> None:
    answer = examine_extension("a", replace(RUNNING, sla=None), 1e9, None, 115.0, made, 3)
    assert isinstance(answer, Extension)
    assert answer.survives_until_s is None


def admitted(cloud: Cloud, sla: float | None = 0.4, lifetime_s: float = 20.0) -> None:
    changes = cloud.admit(Request("r", Kind.SPOT, 1, lifetime_s, sla, "b"), 100.0)
    assert not isinstance(changes, Refusal)


def test_a_cloud_keeps_the_later_end_and_what_it_promised() -> None:
    cloud = Cloud(CloudSpec("a", (3,)))
    cloud.table = TABLE
    admitted(cloud)
    before = cloud.inventory.get("r")
    assert before is not None
    assert (before.free_slots, before.risk) == (3, 0.25)
    cloud.advance(115.0)
    changes = cloud.extend("r", 130.0, 115.0, cause="holder")
    assert not isinstance(changes, Refusal)
    (change,) = changes
    assert isinstance(change, Extended)
    assert change.instance.risk == 0.25
    assert change.instance == replace(before, end_s=130.0, risk=change.instance.risk)
    account = cloud.ledger.account(0.4)
    assert (account.admitted, account.running, account.pending) == (1, 1, change.instance.risk)
    assert cloud.advance(129.0) == []
    (ended,) = cloud.advance(131.0)
    assert isinstance(ended, Ended)
    assert (ended.at_s, ended.how) == (130.0, End.COMPLETED)
    assert cloud.history.cut(1000).time_s.tolist() == [100.0, 130.0]
    assert (account.completed, account.running) == (1, 0)


@pytest.mark.parametrize(
    ("lineup", "extended"),
    [(YOUNGEST_JOB_FIRST, {"s0", "s1"}), (LIFO_RECENCY, set()), (OLDEST_JOB_FIRST, set())],
)
def test_where_the_youngest_leave_first_an_instance_is_promised_as_if_they_were_gone(
    lineup: LineUp, extended: set[str]
) -> None:
    """Born with two free slots half are evicted at once, with three nobody is."""
    samples = replace(
        Samples.empty(1, 1e6),
        number=np.arange(200),
        birth_s=np.zeros(200),
        free_slots=np.repeat([2, 3], 100).astype(np.int32),
        duration_s=np.repeat([1.0, 90.0, 90.0, 90.0], 50),
        evicted=np.repeat([True, False, False, False], 50),
        span_s=np.zeros(200),
    )
    cloud = Cloud(CloudSpec("a", (4,), lineup=lineup))
    cloud.table = QuantileTable.from_samples([samples], (4,), 1e6)
    for number in range(4):
        running = Instance(f"s{number}", Kind.SPOT, 1, 0, 1.0, 20.0, number, sla=0.1, free_slots=4 - number)
        cloud.apply(Started(running))
    answers = {one.id: cloud.extend(one.id, 40.0, 5.0) for one in cloud.inventory.spot()}
    assert {name for name, answer in answers.items() if not isinstance(answer, Refusal)} == extended


def test_a_refused_extension_changes_nothing() -> None:
    cloud = Cloud(CloudSpec("a", (3,)))
    cloud.table = TABLE
    admitted(cloud)
    running = list(cloud.inventory)
    assert isinstance(cloud.extend("r", 1e6, 100.0), Refusal)
    assert list(cloud.inventory) == running
    gone = cloud.extend("nobody", 1e6, 100.0)
    assert isinstance(gone, Refusal)
    assert gone.reason is RefusalReason.ENDED
    assert len(cloud.advance(121.0)) == 1


def test_the_fold_of_an_extension_is_the_cloud() -> None:
    cloud, copy = Cloud(CloudSpec("a", (3,))), Cloud(CloudSpec("a", (3,)))
    cloud.table = TABLE
    changes = cloud.admit(Request("r", Kind.SPOT, 1, 20.0, 0.4, "b"), 100.0)
    more = cloud.extend("r", 130.0, 110.0, sla=0.5)
    assert not isinstance(changes, Refusal)
    assert not isinstance(more, Refusal)
    for change in [*changes, *more]:
        copy.apply(change)
    assert list(copy.inventory) == list(cloud.inventory)
    assert copy.advance(1000) == cloud.advance(1000)
    assert copy.history.cut(1000).to_bytes() == cloud.history.cut(1000).to_bytes()
    assert list(copy.ledger) == list(cloud.ledger)


# -- calibration ---------------------------------------------------------------------------------------------


def _asked_once(seed: int) -> list[tuple[float, bool]]:
    """Every spot instance is asked about once, at a random age, for a random later time before its end:
    the risk of being evicted before that time, and whether it was."""
    nodes, rng = (4,) * 8, np.random.default_rng(seed + 2000)
    sizes = (1, 2, 4), (0.6, 0.25, 0.15)
    mu = arrival_mu_for_load(0.62, sum(nodes), duration_mu=6.0, duration_sigma=1.5, cores=sizes)
    own = lognormal_trace(np.random.default_rng(seed), hours=120, arrival_mu=mu, cores=sizes)
    spot = lognormal_trace(
        np.random.default_rng(seed + 1000), hours=96, arrival_mu=4.9, duration_mu=8.0, duration_sigma=1.0
    )
    cloud = Cloud(CloudSpec("a", nodes), own)
    predictor = LocalPredictor(SamplerSpec(nodes, seed=seed, births=2000), [1])
    wait_s: dict[str, float] = {}
    asked: dict[str, tuple[float, float]] = {}
    evicted_s: dict[str, float] = {}

    def note(changes: list[Change]) -> None:
        evicted_s.update(
            (c.instance.id, c.at_s) for c in changes if isinstance(c, Ended) and c.how is End.EVICTED
        )

    for row, (start_s, stop_s) in enumerate(zip(spot.start_s + 86400, spot.stop_s + 86400, strict=True)):
        now_s = float(start_s)
        note(cloud.advance(now_s))
        due_s = cloud.table_due_s(now_s)
        if due_s is not None:
            cloud.table = predictor.table(cloud.history.cut(due_s), due_s)
        for one in cloud.inventory.spot():
            if one.id in asked or now_s - one.start_s < wait_s[one.id] or one.end_s - now_s < 60:
                continue
            until_s = now_s + min(float(rng.exponential(3600.0)), one.end_s - now_s)
            assert cloud.table is not None
            without = cloud.inventory.copy()
            for younger in [one, *cloud.inventory.spot_after(one.id)]:
                without.remove(younger.id)
            ahead = time_ahead(cloud.table, one, now_s, without.free_slots(1))
            assert ahead is not None
            asked[one.id] = ahead.risk(until_s - now_s), until_s
        changes = cloud.admit(Request(f"s{row}", Kind.SPOT, 1, float(stop_s - start_s), 0.25, "x"), now_s)
        if not isinstance(changes, Refusal):
            wait_s[f"s{row}"] = float(rng.exponential(1800.0))
    note(cloud.advance(math.inf, 0))
    return [(risk, evicted_s.get(one, math.inf) < until_s) for one, (risk, until_s) in asked.items()]


def test_risks_of_extensions_are_kept_where_own_sizes_differ() -> None:
    """Evicted / predicted is 1.45 in these short histories: what is too low is risks that no SLA accepts."""
    asked = [one for seed in range(3) for one in _asked_once(seed)]
    risks, evicted = np.array([risk for risk, _ in asked]), np.array([gone for _, gone in asked])
    assert len(asked) > 700
    assert evicted.mean() < 1.5 * risks.mean()
    for sla in (0.02, 0.05, 0.1):
        accepted = evicted[risks <= sla]
        assert len(accepted) > 70
        assert accepted.mean() <= sla
    assert evicted[risks > 0.1].mean() > 2 * evicted[risks <= 0.05].mean(), "it tells the risky from the safe"


# -- other sizes ---------------------------------------------------------------------------------------------


def test_other_sizes_are_asked_for_the_same_lifetime_and_sla() -> None:
    def ask(request: Request) -> Quote | Refusal:
        if request.cores > 3:
            return Refusal(
                "a", RefusalReason.RISK_TOO_HIGH, free_slots=1, eviction_probability=0.5, survives_s=7.0
            )
        return Quote("a", request.cores, 9, 0.125, 90.0, "v", 0.0)

    wish = Request("r", Kind.SPOT, 4, 60.0, 0.25)
    offers = other_sizes(wish, [8, 1, 2, 4, 3], ask)
    assert [(o.cores, o.admitted, o.survives_s) for o in offers] == [
        (1, True, 90.0), (2, True, 90.0), (3, True, 90.0), (8, False, 7.0),
    ]  # fmt: skip
    assert largest_admitted(wish, [8, 1, 2, 4, 3], ask) == 3
    assert largest_admitted(replace(wish, cores=1), [8, 1, 2], ask) is None
    assert len(other_sizes(wish, range(1, 100), ask)) == 16
