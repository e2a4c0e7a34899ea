"""Collects the metrics of the whole federation from Redis, for ``GET /metrics`` of any API process.

One scrape target is enough: clouds, leases, promises and owners are told from Redis, alike by every API
process, so take the ``max`` over processes, not the sum. (What one process measures of its own work is in
``broker.api.services.request_metrics``.)

Names end in their unit, counters in ``_total``; no label holds anything that callers can make up (ids, paths,
origins). An SLA is shown as the smallest of ``SLA_BOUNDS`` that it does not exceed. Figures in the adverts of
clouds are public to every key, all others are for operators. A figure that a cloud does not disclose is left
out, for operators too.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata

import redis
import redis.asyncio
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily
from prometheus_client.metrics_core import Metric

from broker.contract import EventKind
from broker.ledger.ledger import CloudLedger
from broker.ledger.reader import LedgerReader
from broker.observability.owner_stats import OwnerStats
from broker.requests.members import MembershipView
from broker.requests.routing import Member
from broker.storage.connections import is_busy
from broker.storage.keys import RedisKeys
from broker.webhooks.store import WebhookStore

SURVEY_S = 1.0
SLA_BOUNDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0)
#: A Monte-Carlo worker reports every second or two; one that is silent for longer is dead.
_WORKER_SILENCE_S = 6
_YES_NO = {True: "yes", False: "no"}
_EVICTION_CAUSES = ("demand", "drain", "taken")


@dataclass(frozen=True)
class CloudMetrics:
    """Holds what is known of one cloud. ``stats`` is None until its owner has reported."""

    member: Member
    ledger: CloudLedger
    inbox_entries: int = 0
    stats: OwnerStats | None = None

    @property
    def cloud(self) -> str:
        """Id of the cloud."""
        return self.member.info.id


@dataclass(frozen=True)
class RedisMetrics:
    """Holds what is known of Redis and of the work that waits in it.

    ``max_memory_bytes`` is 0 without a limit; ``webhooks`` counts webhooks by state; ``dangers`` tells of
    each kind whether Redis is unsafe in that way.
    """

    memory_bytes: int
    max_memory_bytes: int
    open_requests: int
    montecarlo_workers: int
    webhooks: Mapping[str, int] = field(default_factory=dict)
    webhook_lag_s: float = 0.0
    dangers: Mapping[str, bool] = field(default_factory=dict)


@dataclass(frozen=True)
class FederationFacts:
    """Holds everything that a scrape shows of the federation.

    ``redis`` is None if Redis does not answer; nothing else is known then. ``versions`` are those of this
    code and of the contract that the federation speaks. ``redis_busy``: Redis runs a script that does not
    end.
    """

    clouds: Sequence[CloudMetrics]
    redis: RedisMetrics | None
    versions: tuple[str, int]
    redis_busy: bool = False


class FederationSurvey:
    """Reads the facts for scrapes from Redis, and keeps them for ``SURVEY_S`` seconds."""

    def __init__(
        self,
        client: redis.asyncio.Redis,
        keys: RedisKeys,
        adverts: MembershipView,
        books: LedgerReader,
        speaks: Callable[[], int],
        monotonic: Callable[[], float] = time.monotonic,
        dangers: Callable[[], Mapping[str, bool]] = dict,
    ):
        self._client, self._keys, self._monotonic = client, keys, monotonic
        self._adverts, self._books, self._speaks, self._dangers = adverts, books, speaks, dangers
        self._webhooks = WebhookStore(client, keys)
        self._lock = asyncio.Lock()
        self._until_s = float("-inf")
        self._facts = FederationFacts((), None, ("", 0))

    async def read_facts(self) -> FederationFacts:
        """Return the present facts; without Redis, facts that say so."""
        async with self._lock:
            if self._monotonic() >= self._until_s:
                versions = metadata.version("spotfed"), self._speaks()
                try:
                    members = await self._adverts.members()
                    clouds, redis_metrics = await self._read_redis(members)
                except (redis.RedisError, OSError) as error:
                    self._facts = FederationFacts((), None, versions, redis_busy=is_busy(error))
                else:
                    self._facts = FederationFacts(clouds, redis_metrics, versions)
                self._until_s = self._monotonic() + SURVEY_S
            return self._facts

    async def _read_redis(self, members: tuple[Member, ...]) -> tuple[list[CloudMetrics], RedisMetrics]:
        keys = self._keys
        async with self._client.pipeline(transaction=False) as pipeline:
            pipeline.info("memory")
            pipeline.time()
            pipeline.zcard(keys.open_requests)
            pipeline.zrange(keys.samplers, 0, -1, withscores=True)
            for member in members:
                pipeline.xlen(keys.inbox(member.info.id))
                pipeline.hgetall(keys.owner_stats(member.info.id))
            memory, now, open_requests, workers, *by_cloud = await pipeline.execute()
        clouds = []
        for member, inbox_entries, stats in zip(members, by_cloud[::2], by_cloud[1::2], strict=True):
            cloud = member.info.id
            ledger = self._books.ledgers.get(cloud) or CloudLedger(cloud)
            clouds.append(CloudMetrics(member, ledger, inbox_entries, OwnerStats.parse(stats)))
        backlog = await self._webhooks.backlog()
        return clouds, RedisMetrics(
            memory_bytes=int(memory.get("used_memory", 0)),
            max_memory_bytes=int(memory.get("maxmemory", 0)),
            open_requests=open_requests,
            montecarlo_workers=sum(seen_s >= now[0] - _WORKER_SILENCE_S for _, seen_s in workers),
            webhooks=backlog.states,
            webhook_lag_s=backlog.lag_s,
            dangers=self._dangers(),
        )


def sla_label(sla: float) -> str:
    """Return the smallest of ``SLA_BOUNDS`` that an SLA does not exceed, as a label."""
    return f"{SLA_BOUNDS[bisect_left(SLA_BOUNDS, sla)]:g}"


def collect_public(facts: FederationFacts) -> Iterator[Metric]:
    """Yield the metrics that every key may see: those that clouds advertise."""
    members = [metrics.member for metrics in facts.clouds]
    adverts = {member.info.id: member.advert for member in members if member.advert is not None}
    open_adverts = {cloud: advert for cloud, advert in adverts.items() if advert.disclosure == "full"}
    yield _make_gauge(
        "spotfed_cloud_reachable",
        "Whether the cloud's owner answers (1) or not (0)",
        {member.info.id: int(member.reachable) for member in members},
    )
    yield _make_gauge(
        "spotfed_cloud_advert_age_seconds",
        "Time since the cloud's last advert",
        {member.info.id: member.advert_age_s for member in members if member.advert_age_s is not None},
    )
    yield _make_gauge(
        "spotfed_cloud_cores", "Cores of the cloud", {member.info.id: member.info.cores for member in members}
    )
    for name, text, attribute in (
        ("spotfed_cloud_free_cores", "Cores that nobody uses", "free_cores"),
        ("spotfed_cloud_own_cores", "Cores that the cloud's own users use", "on_demand_cores"),
        ("spotfed_cloud_spot_cores", "Cores that spot instances use", "spot_cores"),
        ("spotfed_cloud_spot_leases", "Spot instances that run", "spot_leases"),
    ):
        yield _make_gauge(
            name, text, {cloud: getattr(advert, attribute) for cloud, advert in open_adverts.items()}
        )
    yield _make_gauge(
        "spotfed_cloud_closed_nodes",
        "Drained nodes, which take no new instances",
        {cloud: advert.closed_nodes for cloud, advert in adverts.items()},
    )
    yield _make_gauge(
        "spotfed_table_age_seconds",
        "Age of the quantile table in use, in the cloud's own time",
        {
            cloud: advert.at_s - advert.table_made_at_s
            for cloud, advert in adverts.items()
            if advert.table_made_at_s is not None
        },
    )


def collect_confidential(facts: FederationFacts) -> Iterator[Metric]:
    """Yield the metrics that only operators may see."""
    code, contract = facts.versions
    build = GaugeMetricFamily("spotfed_build_info", "Versions, as labels", labels=["version", "contract"])
    build.add_metric([code, str(contract)], 1)
    yield build
    yield GaugeMetricFamily(
        "spotfed_redis_up", "Whether Redis answers this process (1) or not (0)", int(facts.redis is not None)
    )
    yield GaugeMetricFamily(
        "spotfed_redis_busy", "Whether Redis runs a script that does not end (1)", int(facts.redis_busy)
    )
    if facts.redis is not None:
        yield from _collect_redis(facts.redis)
    yield from _collect_leases(facts.clouds)
    yield from _collect_promises(facts.clouds)
    yield from _collect_owners(facts.clouds)


def _collect_redis(metrics: RedisMetrics) -> Iterator[Metric]:
    for name, text, value in (
        ("spotfed_redis_memory_used_bytes", "Memory that Redis uses", metrics.memory_bytes),
        ("spotfed_redis_memory_max_bytes", "Memory limit of Redis; 0: no limit", metrics.max_memory_bytes),
        ("spotfed_open_requests", "Spot requests without an answer yet", metrics.open_requests),
        ("spotfed_montecarlo_workers", "Monte-Carlo workers alive", metrics.montecarlo_workers),
        (
            "spotfed_webhook_lag_seconds",
            "Age of the oldest event that an active webhook has not received",
            metrics.webhook_lag_s,
        ),
    ):
        yield GaugeMetricFamily(name, text, value)
    yield _make_gauge("spotfed_webhooks", "Webhooks, by state", metrics.webhooks, label="state")
    yield _make_gauge(
        "spotfed_redis_unsafe",
        "Whether Redis is unsafe (1) by its policy, persistence, replicas or memory",
        {name: int(is_there) for name, is_there in metrics.dangers.items()},
        label="danger",
    )


def _collect_leases(clouds: Sequence[CloudMetrics]) -> Iterator[Metric]:
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
        "Spot instances evicted: for a drain, taken back by a real cloud, or because their room was needed",
        labels=["cloud", "promise", "cause"],
    )
    missing = CounterMetricFamily(
        "spotfed_ledger_missing_events",
        "Public events that are in no count of this process, because they were no longer kept",
        labels=["cloud"],
    )
    for metrics in clouds:
        cloud, counts = metrics.cloud, metrics.ledger.counts
        for promised, word in _YES_NO.items():
            admissions.add_metric([cloud, word], counts.admitted[promised])
            for end in (kind.value for kind in EventKind if kind.ends_lease):
                ends.add_metric([cloud, word, end], counts.ended[promised, end])
            for cause in _EVICTION_CAUSES:
                evictions.add_metric([cloud, word, cause], counts.evicted[promised, cause])
        missing.add_metric([cloud], metrics.ledger.missing)
    yield from (admissions, ends, evictions, missing)


def _collect_promises(clouds: Sequence[CloudMetrics]) -> Iterator[Metric]:
    labels = ["cloud", "sla"]
    running = GaugeMetricFamily("spotfed_promises_running", "Promises that run, by SLA", labels=labels)
    settled = CounterMetricFamily(
        "spotfed_promises_settled", "Promises that were kept to their end or broken", labels=labels
    )
    broken = CounterMetricFamily("spotfed_promises_broken", "Promises broken by an eviction", labels=labels)
    allowed = CounterMetricFamily(
        "spotfed_promises_allowed",
        "Evictions that the settled promises allowed: the sum of their SLAs",
        labels=labels,
    )
    expected = CounterMetricFamily(
        "spotfed_promises_expected",
        "Evictions expected among the settled promises: the sum of the risks given to their holders",
        labels=labels,
    )
    doubted = GaugeMetricFamily(
        "spotfed_promises_doubted",
        "SLAs at which the cloud has lately evicted demonstrably more than it allows",
        labels=labels,
    )
    for metrics in clouds:
        verdicts = Counter(map(sla_label, metrics.member.broken))
        for sla, sums in _sum_accounts(metrics.ledger).items():
            values = [metrics.cloud, sla]
            running.add_metric(values, sums.running)
            settled.add_metric(values, sums.settled)
            broken.add_metric(values, sums.broken)
            allowed.add_metric(values, sums.allowed)
            expected.add_metric(values, sums.expected)
            doubted.add_metric(values, verdicts[sla])
    yield from (running, settled, broken, allowed, expected, doubted)


@dataclass
class _AccountSums:
    """Sums the accounts of all origins and tables at one label of SLA."""

    running: int = 0
    settled: int = 0
    broken: int = 0
    allowed: float = 0.0
    expected: float = 0.0


def _sum_accounts(ledger: CloudLedger) -> dict[str, _AccountSums]:
    """Return the sums of a cloud's accounts, by the label of their SLA."""
    by_label: dict[str, _AccountSums] = {}
    for key, account in ledger.accounts.items():
        sums = by_label.setdefault(sla_label(key.sla), _AccountSums())
        settled = account.completed + account.evicted
        sums.running += account.running
        sums.settled += settled
        sums.broken += account.evicted
        sums.allowed += key.sla * settled
        sums.expected += account.settled_risk
    return by_label


def _collect_owners(clouds: Sequence[CloudMetrics]) -> Iterator[Metric]:
    yield _make_gauge(
        "spotfed_inbox_entries",
        "Entries in the cloud's inbox that its owner has not handled",
        {metrics.cloud: metrics.inbox_entries for metrics in clouds},
    )
    by_cloud = {metrics.cloud: metrics.stats for metrics in clouds if metrics.stats is not None}
    refreshes = SummaryMetricFamily(
        "spotfed_table_refresh_seconds",
        "Time that the cloud's tables took to make, since its owner started",
        labels=["cloud"],
    )
    for cloud, stats in by_cloud.items():
        refreshes.add_metric([cloud], count_value=stats.tables, sum_value=stats.tables_s)
    yield refreshes
    yield _make_gauge(
        "spotfed_table_last_refresh_seconds",
        "Time that the latest table took to make",
        {cloud: stats.last_table_s for cloud, stats in by_cloud.items() if stats.tables},
    )
    for attribute, (name, text) in OwnerStats.gauges().items():
        yield _make_gauge(name, text, {cloud: getattr(stats, attribute) for cloud, stats in by_cloud.items()})


def _make_gauge(
    name: str, text: str, values: Mapping[str, float], *, label: str = "cloud"
) -> GaugeMetricFamily:
    """Return a gauge with one sample for each item of ``values``, whose key is the label."""
    family = GaugeMetricFamily(name, text, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family
