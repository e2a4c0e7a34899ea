"""Figures for Prometheus: what is told of clouds, leases and promises, to whom, and what a process counts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from prometheus_client.metrics_core import Metric

from broker.api.services.federation_metrics import (
    SLA_BOUNDS,
    CloudMetrics,
    FederationFacts,
    RedisMetrics,
    collect_confidential,
    collect_public,
    sla_label,
)
from broker.api.services.request_metrics import RequestMetrics
from broker.contract import BrokenPromise, EventKind, Lease, RefusalView
from broker.ledger.ledger import CloudLedger
from broker.observability.owner_stats import OwnerStats
from broker.requests.errors import InFlightError
from broker.requests.models import RequestAnswer
from cloudsim.model.changes import DRAIN, TAKEN
from cloudsim.model.refusals import RefusalReason
from tests.unit.broker.requests.test_routing import member
from tests.unit.broker.test_ledger import Told, event

QUEUE = RedisMetrics(10, 20, 3, 2, {"active": 1, "paused": 0, "disabled": 0}, 1.5)
A = member("A", 0, {1: 4})


def told(families: Iterable[Metric]) -> dict[str, dict[tuple[str, ...], float]]:
    """By name of the sample: values by the values of its labels, in the order of the labels' names."""
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in families:
        found.setdefault(family.name, {})
        for one in family.samples:
            labels = tuple(one.labels[name] for name in sorted(one.labels))
            found.setdefault(one.name, {})[labels] = one.value
    return found


def facts(ledger: CloudLedger, **more: object) -> FederationFacts:
    return FederationFacts([replace(CloudMetrics(A, ledger), **more)], QUEUE, ("1.0", 3))  # type: ignore[arg-type]


def test_admissions_ends_and_evictions_are_counted_with_and_without_a_promise() -> None:
    story = Told()
    story.tell(EventKind.ADMITTED, "kept")
    story.tell(EventKind.COMPLETED, "kept")
    for name, sla in (("plain", None), ("one", 1.0)):
        story.tell(EventKind.ADMITTED, name, sla=sla)
    story.sequence += 1
    story.ledger.note(event(story.sequence, EventKind.EVICTED, "plain", sla=None).model_copy(
        update={"cause": f"{DRAIN}ops"}
    ))  # fmt: skip
    story.tell(EventKind.ADMITTED, "plainer", sla=None)
    story.sequence += 1
    story.ledger.note(event(story.sequence, EventKind.EVICTED, "plainer", sla=None).model_copy(
        update={"cause": f"{TAKEN}Server.SpotInstanceTermination"}
    ))  # fmt: skip
    story.tell(EventKind.EVICTED, "one", sla=1.0)
    story.ledger.note(event(story.sequence, EventKind.EVICTED, "one", sla=1.0))  # read again
    found = told(collect_confidential(facts(story.ledger)))
    assert found["spotfed_spot_admissions_total"] == {("A", "yes"): 1, ("A", "no"): 3}
    assert found["spotfed_evictions_total"] == {
        ("demand", "A", "yes"): 0,
        ("drain", "A", "yes"): 0,
        ("taken", "A", "yes"): 0,
        ("demand", "A", "no"): 1,
        ("drain", "A", "no"): 1,
        ("taken", "A", "no"): 1,
    }
    ended = {labels: count for labels, count in found["spotfed_spot_ends_total"].items() if count}
    assert ended == {("A", "completed", "yes"): 1, ("A", "evicted", "no"): 3}


def test_promises_are_summed_by_the_bound_of_their_sla() -> None:
    story = Told()
    story.promise(10, 2, 0.0, sla=0.05)
    story.promise(10, 1, 5.0, sla=0.02)
    story.tell(EventKind.ADMITTED, "runs", sla=0.2)
    found = told(collect_confidential(facts(story.ledger)))
    assert found["spotfed_promises_settled_total"] == {("A", "0.05"): 20, ("A", "0.25"): 0}
    assert found["spotfed_promises_broken_total"] == {("A", "0.05"): 3, ("A", "0.25"): 0}
    assert found["spotfed_promises_allowed_total"]["A", "0.05"] == pytest.approx(10 * 0.05 + 10 * 0.02)
    assert found["spotfed_promises_expected_total"]["A", "0.05"] == pytest.approx(20 * 0.01)
    assert found["spotfed_promises_running"] == {("A", "0.05"): 0, ("A", "0.25"): 1}


def test_a_doubted_promise_is_told_at_the_bound_of_its_sla() -> None:
    story = Told()
    story.promise(3, 3, 0.0, sla=0.03)
    verdict = BrokenPromise(sla=0.03, evicted=3, admitted=3, at_least=0.29, detail="")
    doubted = replace(A, broken={0.03: verdict})
    found = told(
        collect_confidential(FederationFacts([CloudMetrics(doubted, story.ledger)], QUEUE, ("1.0", 3)))
    )
    assert found["spotfed_promises_doubted"] == {("A", "0.05"): 1}


def test_an_sla_has_the_smallest_bound_that_it_is_not_above() -> None:
    assert [sla_label(bound) for bound in SLA_BOUNDS] == ["0.01", "0.05", "0.1", "0.25", "0.5", "1"]
    assert [sla_label(sla) for sla in (0, 0.0099, 0.0101, 0.99)] == ["0.01", "0.01", "0.05", "1"]


def test_what_a_cloud_does_not_disclose_is_left_out_and_not_told_as_nothing() -> None:
    assert A.advert is not None
    veiled = replace(A, advert=A.advert.model_copy(update={"disclosure": "p90"}))
    for one, shown in ((A, 1), (veiled, 0)):
        found = told(
            collect_public(FederationFacts([CloudMetrics(one, CloudLedger("A"))], QUEUE, ("1.0", 3)))
        )
        for name in ("free_cores", "own_cores", "spot_cores", "spot_leases"):
            assert len(found[f"spotfed_cloud_{name}"]) == shown
        assert found["spotfed_cloud_cores"] == {("A",): 64}
        assert found["spotfed_cloud_reachable"] == {("A",): 1}


def test_the_age_of_a_table_is_in_the_clouds_own_time() -> None:
    assert A.advert is not None
    advert = A.advert.model_copy(update={"at_s": 500.0, "table_made_at_s": 100.0})
    found = told(
        collect_public(
            FederationFacts([CloudMetrics(replace(A, advert=advert), CloudLedger("A"))], QUEUE, ("1.0", 3))
        )
    )
    assert found["spotfed_table_age_seconds"] == {("A",): 400}
    assert told(collect_public(facts(CloudLedger("A"))))["spotfed_table_age_seconds"] == {}


def test_public_figures_are_of_adverts_alone() -> None:
    of_adverts, rest = (
        told(collect_public(facts(CloudLedger("A")))),
        told(collect_confidential(facts(CloudLedger("A")))),
    )
    assert of_adverts.keys().isdisjoint(rest)
    assert not [name for name in of_adverts if not name.startswith(("spotfed_cloud_", "spotfed_table_age"))]


def test_without_redis_that_is_all_there_is_to_tell() -> None:
    away = FederationFacts((), None, ("1.0", 3))
    assert told(collect_confidential(away))["spotfed_redis_up"] == {(): 0}
    assert "spotfed_open_requests" not in told(collect_confidential(away))
    assert told(collect_confidential(facts(CloudLedger("A"))))["spotfed_redis_up"] == {(): 1}


def test_what_an_owner_measures_is_told_as_it_wrote_it() -> None:
    measures = OwnerStats(3, 7.5, 2.5, 1000, 2, 6)
    wire = {name.encode(): value.encode() for name, value in measures.to_fields().items()}
    assert OwnerStats.parse(wire) == measures
    assert OwnerStats.parse({}) is None
    assert OwnerStats.parse({b"tables": b"many"}) is None
    found = told(collect_confidential(facts(CloudLedger("A"), stats=measures, inbox_entries=9)))
    assert found["spotfed_table_refresh_seconds_sum"] == {("A",): 7.5}
    assert found["spotfed_table_refresh_seconds_count"] == {("A",): 3}
    assert found["spotfed_table_last_refresh_seconds"] == {("A",): 2.5}
    assert found["spotfed_journal_entries"] == {("A",): 1000}
    assert found["spotfed_dead_letters"] == {("A",): 2}
    assert found["spotfed_montecarlo_batches"] == {("A",): 6}
    assert found["spotfed_inbox_entries"] == {("A",): 9}
    before = told(collect_confidential(facts(CloudLedger("A"), stats=OwnerStats())))
    assert before["spotfed_table_last_refresh_seconds"] == {}


# -- what a process counts -----------------------------------------------------------------------------------


def counted(meter: RequestMetrics) -> dict[str, dict[tuple[str, ...], float]]:
    return told(meter.collect())


def test_answers_are_counted_by_result_and_refusals_by_who_and_why() -> None:
    refusals = [
        RefusalView(cloud="A", reason=RefusalReason.RISK_TOO_HIGH),
        RefusalView(cloud="B", reason=RefusalReason.NO_CAPACITY),
        RefusalView(cloud="C", reason=RefusalReason.NOT_A_TARGET),
    ]
    lease = event(1, EventKind.ADMITTED, "x").lease
    assert isinstance(lease, Lease)
    meter = RequestMetrics()
    meter.count_results(
        [
            RequestAnswer(lease=lease, refusals=refusals[:1]),
            RequestAnswer(lease=None, refusals=refusals),
            InFlightError(),
        ],
        0.2,
        single=False,
    )
    meter.count_results([RequestAnswer(lease=lease, refusals=[])], 0.01, single=True)
    found = counted(meter)
    assert found["spotfed_spot_requests_total"] == {("granted",): 2, ("refused",): 1, ("failed",): 1}
    assert found["spotfed_refusals_total"] == {("A", "risk_too_high"): 2, ("B", "no_capacity"): 1}
    assert found["spotfed_admission_duration_seconds_count"] == {("single",): 1, ("list",): 1}
    assert found["spotfed_admission_duration_seconds_sum"]["list",] == pytest.approx(0.2)


def test_callers_make_up_no_labels() -> None:
    meter = RequestMetrics()
    meter.observe_answer("GET", "/v1/leases/{lease_id}", 200, 0.1)
    meter.observe_answer("BREW", None, 404, 0.1)
    assert set(counted(meter)["spotfed_http_request_duration_seconds_count"]) == {
        ("GET", "/v1/leases/{lease_id}", "200"),
        ("other", "other", "404"),
    }


def test_replies_are_shown_as_they_are_when_somebody_looks() -> None:
    meter, refused = RequestMetrics(), {"expired": 1}
    meter.watch_replies(lambda: len(refused), refused)
    assert counted(meter)["spotfed_replies_dropped_total"] == {("expired",): 1}
    refused["issuer"] = 4
    assert counted(meter)["spotfed_replies_dropped_total"] == {("expired",): 1, ("issuer",): 4}
    assert counted(meter)["spotfed_replies_awaited"] == {(): 2}
