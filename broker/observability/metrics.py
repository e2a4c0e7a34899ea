"""The federation in Prometheus' words: what is in Redis, seen by any API process alike. Pure.

Names end in their unit, counters in ``_total``; no label holds what callers can make up (ids, paths,
origins). An SLA is told as the smallest of ``SLA_BOUNDS`` that it is not above. Counters about leases are
folds of the public events that are kept, by each API process: take the ``max`` over processes, not the sum.

**Who is told what.** What a cloud's advert tells is public to every key. All else is for operators, who see
every event and all accounts anyhow. What a cloud does not disclose in its advert (there it says 0) is left
out, for operators too.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily
from prometheus_client.metrics_core import Metric

from broker.contract import EventKind
from broker.ledger.ledger import CloudLedger
from broker.observability.owner_stats import OwnerStats
from broker.requests.routing import Member

SLA_BOUNDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0)
_YES_NO = {True: "yes", False: "no"}


@dataclass(frozen=True)
class CloudMetrics:
    """What is known of a member. None: it is not told, or not known (yet)."""

    member: Member
    ledger: CloudLedger
    inbox_entries: int = 0
    measures: OwnerStats | None = None

    @property
    def id(self) -> str:
        """Of the cloud."""
        return self.member.info.id


@dataclass(frozen=True)
class QueueMetrics:
    """What is known of Redis and of what lies there. ``max_memory_bytes``: 0 where there is no limit."""

    memory_bytes: int
    max_memory_bytes: int
    open_requests: int
    montecarlo_workers: int
    webhooks: Mapping[str, int] = field(default_factory=dict)
    webhook_lag_s: float = 0.0


@dataclass(frozen=True)
class Facts:
    """What a scrape tells of the federation. ``queue`` None: Redis does not answer, nothing else is known.
    ``versions``: of this code and of the contract that the federation speaks."""

    clouds: Sequence[CloudMetrics]
    queue: QueueMetrics | None
    versions: tuple[str, int]


def sla_label(sla: float) -> str:
    """The smallest of ``SLA_BOUNDS`` that an SLA is not above."""
    return f"{SLA_BOUNDS[bisect_left(SLA_BOUNDS, sla)]:g}"


def public(facts: Facts) -> Iterator[Metric]:
    """What the adverts tell."""
    members = [one.member for one in facts.clouds]
    told = [(one.info.id, one.advert) for one in members if one.advert is not None]
    open_ones = [(cloud, advert) for cloud, advert in told if advert.disclosure == "full"]
    yield _gauge(
        "spotfed_cloud_reachable",
        "Whether the cloud's owner answers (1) or not (0)",
        {one.info.id: int(one.reachable) for one in members},
    )
    yield _gauge(
        "spotfed_cloud_advert_age_seconds",
        "How long ago the cloud last said how it stands",
        {one.info.id: one.advert_age_s for one in members if one.advert_age_s is not None},
    )
    yield _gauge(
        "spotfed_cloud_cores", "Cores of the cloud", {one.info.id: one.info.cores for one in members}
    )
    yield _gauge(
        "spotfed_cloud_free_cores", "Cores nobody uses", {cloud: one.free_cores for cloud, one in open_ones}
    )
    yield _gauge(
        "spotfed_cloud_own_cores",
        "Cores that the cloud's own users use",
        {cloud: one.on_demand_cores for cloud, one in open_ones},
    )
    yield _gauge(
        "spotfed_cloud_spot_cores",
        "Cores that spot instances use",
        {cloud: one.spot_cores for cloud, one in open_ones},
    )
    yield _gauge(
        "spotfed_cloud_spot_leases",
        "Spot instances that run",
        {cloud: one.spot_leases for cloud, one in open_ones},
    )
    yield _gauge(
        "spotfed_cloud_closed_nodes",
        "Nodes that take nobody new (drained)",
        {cloud: advert.closed_nodes for cloud, advert in told},
    )
    yield _gauge(
        "spotfed_table_age_seconds",
        "Age of the quantile table in use, in the cloud's own time",
        {
            cloud: advert.at_s - advert.table_made_at_s
            for cloud, advert in told
            if advert.table_made_at_s is not None
        },
    )


def confidential(facts: Facts) -> Iterator[Metric]:
    """The rest, for operators."""
    code, contract = facts.versions
    build = GaugeMetricFamily("spotfed_build_info", "Versions, as labels", labels=["version", "contract"])
    build.add_metric([code, str(contract)], 1)
    yield build
    up = GaugeMetricFamily("spotfed_redis_up", "Whether Redis answers this process (1) or not (0)")
    up.add_metric([], int(facts.queue is not None))
    yield up
    if facts.queue is not None:
        yield from _of_queue(facts.queue)
    yield from _of_leases(facts.clouds)
    yield from _of_promises(facts.clouds)
    yield from _of_owners(facts.clouds)


def _of_queue(queue: QueueMetrics) -> Iterator[Metric]:
    for name, text, value in (
        ("spotfed_redis_memory_used_bytes", "Memory that Redis uses", queue.memory_bytes),
        ("spotfed_redis_memory_max_bytes", "Memory that it may use; 0: no limit", queue.max_memory_bytes),
        ("spotfed_open_requests", "Spot requests that have no answer yet", queue.open_requests),
        ("spotfed_montecarlo_workers", "Monte-Carlo workers that live", queue.montecarlo_workers),
        (
            "spotfed_webhook_lag_seconds",
            "Age of the oldest event that an active webhook has not got",
            queue.webhook_lag_s,
        ),
    ):
        family = GaugeMetricFamily(name, text)
        family.add_metric([], value)
        yield family
    yield _gauge("spotfed_webhooks", "Webhooks, by their state", queue.webhooks, label="state")


def _of_leases(clouds: Sequence[CloudMetrics]) -> Iterator[Metric]:
    admissions = CounterMetricFamily(
        "spotfed_spot_admissions",
        "Spot instances admitted, by whether anything was promised",
        labels=["cloud", "promise"],
    )
    ends = CounterMetricFamily(
        "spotfed_spot_ends", "Spot instances that ended, by how", labels=["cloud", "promise", "end"]
    )
    evictions = CounterMetricFamily(
        "spotfed_evictions",
        "Spot instances evicted: because of a drain, taken back by a real cloud, or as somebody who goes "
        "first needed the room",
        labels=["cloud", "promise", "cause"],
    )
    missing = CounterMetricFamily(
        "spotfed_ledger_missing_events",
        "Public events that are in no count of this process, as they were not kept",
        labels=["cloud"],
    )
    for one in clouds:
        cloud, tally = one.id, one.ledger.counts
        for promised, word in _YES_NO.items():
            admissions.add_metric([cloud, word], tally.admitted[promised])
            for end in (kind.value for kind in EventKind if kind.ends_lease):
                ends.add_metric([cloud, word, end], tally.ended[promised, end])
            for cause in ("demand", "drain", "taken"):
                evictions.add_metric([cloud, word, cause], tally.evicted[promised, cause])
        missing.add_metric([cloud], one.ledger.missing)
    yield from (admissions, ends, evictions, missing)


def _of_promises(clouds: Sequence[CloudMetrics]) -> Iterator[Metric]:
    labels = ["cloud", "sla"]
    running = GaugeMetricFamily("spotfed_promises_running", "Promises that run, by SLA", labels=labels)
    settled = CounterMetricFamily(
        "spotfed_promises_settled", "Promises that were kept to their end, or broken", labels=labels
    )
    broken = CounterMetricFamily(
        "spotfed_promises_broken", "Promises that were broken: the instance was evicted", labels=labels
    )
    allowed = CounterMetricFamily(
        "spotfed_promises_allowed",
        "Evictions that the settled promises allowed: the sum of their SLAs",
        labels=labels,
    )
    expected = CounterMetricFamily(
        "spotfed_promises_expected",
        "Evictions that were expected of the settled promises: the sum of the risks that were told",
        labels=labels,
    )
    doubted = GaugeMetricFamily(
        "spotfed_promises_doubted",
        "SLAs at which the cloud demonstrably evicts more than it allows, lately",
        labels=labels,
    )
    for one in clouds:
        cloud, sums = one.id, _sums(one.ledger)
        verdicts = Counter(map(sla_label, one.member.broken))
        for sla, sum_ in sums.items():
            running.add_metric([cloud, sla], sum_.running)
            settled.add_metric([cloud, sla], sum_.settled)
            broken.add_metric([cloud, sla], sum_.broken)
            allowed.add_metric([cloud, sla], sum_.allowed)
            expected.add_metric([cloud, sla], sum_.expected)
            doubted.add_metric([cloud, sla], verdicts[sla])
    yield from (running, settled, broken, allowed, expected, doubted)


@dataclass
class _Sum:
    running: int = 0
    settled: int = 0
    broken: int = 0
    allowed: float = 0.0
    expected: float = 0.0


def _sums(ledger: CloudLedger) -> dict[str, _Sum]:
    """By label of the SLA: the accounts of all origins and tables."""
    found: dict[str, _Sum] = {}
    for key, account in ledger.accounts.items():
        sum_ = found.setdefault(sla_label(key.sla), _Sum())
        settled = account.completed + account.evicted
        sum_.running += account.running
        sum_.settled += settled
        sum_.broken += account.evicted
        sum_.allowed += key.sla * settled
        sum_.expected += account.settled_risk
    return found


def _of_owners(clouds: Sequence[CloudMetrics]) -> Iterator[Metric]:
    yield _gauge(
        "spotfed_inbox_entries",
        "Entries in the cloud's inbox that its owner has not handled",
        {one.id: one.inbox_entries for one in clouds},
    )
    measured = {one.id: one.measures for one in clouds if one.measures is not None}
    refreshes = SummaryMetricFamily(
        "spotfed_table_refresh_seconds",
        "How long the cloud's tables took to make, since its owner started",
        labels=["cloud"],
    )
    for cloud, one in measured.items():
        refreshes.add_metric([cloud], count_value=one.tables, sum_value=one.tables_s)
    yield refreshes
    yield _gauge(
        "spotfed_table_last_refresh_seconds",
        "How long the last of them took",
        {cloud: one.last_table_s for cloud, one in measured.items() if one.tables},
    )
    yield _gauge(
        "spotfed_montecarlo_batches",
        "Batches of the cloud's table under way that no Monte-Carlo worker has brought yet",
        {cloud: one.batches for cloud, one in measured.items()},
    )
    yield _gauge(
        "spotfed_journal_entries",
        "Entries of the cloud's journal in Redis",
        {cloud: one.journal_entries for cloud, one in measured.items()},
    )
    yield _gauge(
        "spotfed_dead_letters",
        "What the cloud's owner put aside, for people to look at",
        {cloud: one.dead_letters for cloud, one in measured.items()},
    )


def _gauge(name: str, text: str, values: Mapping[str, float], *, label: str = "cloud") -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=[label])
    for value, amount in values.items():
        family.add_metric([value], amount)
    return family
