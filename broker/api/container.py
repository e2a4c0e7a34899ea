"""Builds the services of one API process, and runs its background tasks."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Self
from uuid import uuid4

import redis
import redis.asyncio

from broker.api.auth import Authenticator, CallRateLimit
from broker.api.call_limits import CallLimits
from broker.api.event_feed import EventFeed
from broker.api.services.clouds import CloudService
from broker.api.services.federation_metrics import FederationSurvey
from broker.api.services.instances import InstanceService
from broker.api.services.jobs import JobService
from broker.api.services.leases import LeaseService
from broker.api.services.on_demand import OnDemandService
from broker.api.services.overflow import OverflowService
from broker.api.services.owner_calls import OwnerCalls
from broker.api.services.queue_watch import QueueWatch
from broker.api.services.quotes import QuoteService
from broker.api.services.renewal_offers import RenewalOfferService
from broker.api.services.request_metrics import RequestMetrics
from broker.contract import VERSION
from broker.identity.member_cache import MemberCache
from broker.identity.store import IdentityStore
from broker.jobs.bucket import Bucket
from broker.ledger.reader import LedgerReader
from broker.queue.celery_config import make_app
from broker.queue.send import Wakeups, ring, ring_for_job
from broker.requests.idempotency import IdempotencyKeys
from broker.requests.members import MembershipView
from broker.requests.owner_commands import OwnerCommands, OwnerNotifier
from broker.requests.quota import QuotaHolds, QuotaUse
from broker.requests.quota_reconciler import QuotaReconciler
from broker.requests.replies import Replies
from broker.requests.store import RequestStore
from broker.requests.submit import SubmissionService
from broker.settings import Settings, SettingsError
from broker.signing.parties import BROKER
from broker.signing.signer import MessageSigner
from broker.storage.connections import connect, connect_async
from broker.storage.keys import RedisKeys
from broker.storage.negotiation import ALIVE_TTL_S, FederationVersion
from broker.storage.outages import retry_through_outages
from broker.storage.replication import Replication, ReplicationBarrier
from broker.storage.scripts import load_scripts
from broker.webhooks.service import WebhookService
from broker.webhooks.worker import cancel_tasks

log = logging.getLogger(__name__)

_CANCEL_AGAIN_S = 2.0  # longer than the webhook worker needs to cancel tasks of its own
_SWEEP_S = 1.0
#: Seconds; a Redis that is silent for longer is away.
_TIMEOUTS = {"socket_timeout": 3.0, "socket_connect_timeout": 3.0}
_WRITES_TRUSTED_S = 1.0  # readiness is asked for by anybody, as often as they like

Work = Callable[[], Awaitable[None]]


class ApiServices:
    """Holds the connections, services and background tasks of one API process.

    It connects to nothing until it is entered. There are three pools of connections to Redis: ``redis`` for
    what answers at once, where calls wait for a connection if need be; one for the blocking reads of this
    process itself, so that callers cannot use up its connections; and one for code that runs on threads.
    """

    def __init__(self, settings: Settings, metrics: RequestMetrics | None = None):
        """Build everything. ``metrics`` counts the work of this process.

        Raises
        ------
        SettingsError
            When the settings do not name a Redis server, or key files cannot be used.
        """
        url = settings.redis_url
        if url is None:
            raise SettingsError(
                "SPOTFED_REDIS_URL: name the Redis server (`spotfed up` starts one of its own)"
            )
        self.settings, self.keys, self.name = settings, RedisKeys(settings.key_prefix), uuid4().hex
        self.metrics = metrics or RequestMetrics()
        self.redis = connect_async(url, max_connections=settings.redis_connections, **_TIMEOUTS)
        self._redis_readers = connect_async(url)
        self._redis_threads = connect(url, **_TIMEOUTS)
        replication = Replication(self._redis_threads, settings)
        self.replicated = ReplicationBarrier.from_replication(replication, self.keys.replication_channel)
        self.queue_watch = QueueWatch(self._redis_threads, settings)
        self._version = FederationVersion(self._redis_threads, self.keys)
        signing = MessageSigner.from_settings(settings, BROKER)
        celery = make_app(settings)

        self.identities = IdentityStore(self.redis, self.keys)
        self.member_cache = MemberCache(self.identities)
        self.quota_holds = QuotaHolds(self.redis, self.keys)
        self.authenticator = Authenticator(self.redis, self.keys, self.member_cache)
        self.rate_limit = CallRateLimit(settings.calls_per_s)
        self.call_limits = CallLimits(settings)
        self.event_feed = EventFeed(self._redis_readers, self.keys.all_events, self.replicated)

        self.ledgers = LedgerReader(self.redis, self.keys)
        self.membership = MembershipView(
            self.redis,
            self.keys,
            max_age_s=settings.advert_max_age_s,
            broken=self.ledgers.broken,
            signing=signing,
        )
        self.survey = FederationSurvey(
            self.redis,
            self.keys,
            self.membership,
            self.ledgers,
            self._version,
            dangers=lambda: self.queue_watch.present,
        )

        self.records = RequestStore(
            self.redis, self.keys, signing, speaks=self._version, bell=Wakeups(celery, self.keys.prefix)
        )
        self.idempotency = IdempotencyKeys(self.records)
        replies = Replies(self._redis_readers, self.keys, self.name, signing, replicated=self.replicated)
        self.metrics.watch_replies(lambda: replies.awaited, replies.refused)
        self._owner_notifier = OwnerNotifier(lambda cloud: ring(celery, cloud))
        commands = OwnerCommands(self.records, replies, self._owner_notifier)
        owners = OwnerCalls(settings, commands)

        self.submissions = SubmissionService(
            settings,
            self.records,
            self.membership,
            commands,
            member_of=self.member_cache.member_of,
            on_results=self.metrics.count_results,
        )
        self.quotes = QuoteService(owners, self.membership)
        self.leases = LeaseService(self.redis, self.keys, owners, self.membership)
        self.on_demand = OnDemandService(owners, self.submissions.sealer)
        self.clouds = CloudService(owners, self.membership)
        self._job_notifier = OwnerNotifier(lambda job: ring_for_job(celery, job))
        bucket = Bucket.from_settings(settings)
        self.jobs = JobService(
            self._redis_threads,
            self.keys,
            lambda job: self._job_notifier.ring([job]),
            settings.open_jobs,
            bucket,
        )
        self.instances = InstanceService(
            self.redis,
            self._redis_threads,
            self.keys,
            signing,
            lambda job: self._job_notifier.ring([job]),
            bucket,
            settings.jobs_kept_s,
        )
        self.webhooks = WebhookService(
            settings, self.redis, self._redis_readers, self.keys, self.name, self.member_cache.members
        )
        quota_reconciler = QuotaReconciler(
            self.redis, self._redis_readers, self.keys, self.quota_holds, self.member_cache
        )
        overflow = OverflowService(
            self._redis_readers,
            self.keys,
            self.name,
            submissions=self.submissions,
            leases=self.leases,
            records=self.records,
            membership=self.membership,
            commands=commands,
            signing=signing,
        )
        renewal_offers = RenewalOfferService(
            self._redis_readers, self.keys, self.name, self.quotes, self.membership, commands
        )

        self._work: tuple[tuple[str, Work], ...] = (
            ("replies", replies.run),
            ("sweeper", self._sweep),
            ("queue watch", self.queue_watch.run),
            ("ledger", self.ledgers.run),
            ("event feed", self.event_feed.run),
            ("overflow", overflow.run),
            ("migration", renewal_offers.run),
            ("quotas", quota_reconciler.run),
            ("webhooks", self.webhooks.run),
            ("states of jobs", self.instances.remove_old_states),
            ("event loop", self.metrics.measure_loop_lag),
        )
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = threading.Event()
        self._writes_until_s = 0.0
        self._herald = threading.Thread(target=self._announce_version, name="contract", daemon=True)

    async def require_writes(self) -> None:
        """Write to Redis, and to its replicas, unless a write of the last second succeeded.

        Raises redis.RedisError.
        """
        now_s = time.monotonic()
        if now_s >= self._writes_until_s:
            await self.redis.set(self.keys.process_version(self.name), VERSION, ex=ALIVE_TTL_S)
            await self.replicated.wait()
            self._writes_until_s = now_s + _WRITES_TRUSTED_S

    async def holding(self, origin: str) -> QuotaUse | None:
        """Return what the member of an origin holds of its cap on spot, None if the origin is no member's.

        Raises redis.RedisError.
        """
        member = await self.member_cache.member_of(origin)
        return None if member is None else QuotaUse(member, *await self.quota_holds.total(member.name))

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self._read_version)  # before this process writes anything
        self._herald.start()
        self._tasks = [asyncio.create_task(_restart(name, work), name=name) for name, work in self._work]
        return self

    async def __aexit__(self, *_: object) -> None:
        await cancel_tasks(self._tasks, _CANCEL_AGAIN_S)
        await self.webhooks.aclose()
        await self._owner_notifier.close()
        await self._job_notifier.close()
        self._stopping.set()
        await asyncio.to_thread(self._herald.join)
        self._redis_threads.close()
        for client in (self.redis, self._redis_readers):
            await client.aclose()

    def _read_version(self) -> None:
        try:
            load_scripts(self._redis_threads)
            self._version.refresh()
        except redis.RedisError as error:
            log.warning("the contract version of the federation is not known yet: %s", error)

    def _announce_version(self) -> None:
        self._version.keep_announced(self.name, self._stopping)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP_S)
            await retry_through_outages(self._sweep_once, "sweeper")

    async def _sweep_once(self) -> None:
        await asyncio.to_thread(load_scripts, self._redis_threads)  # a server that was restarted has none
        await self.authenticator.refresh()
        swept = await self.submissions.sweep()
        await self.leases.end_misplaced(again=swept > 0)  # it may have placed anew what runs elsewhere


async def _restart(name: str, work: Work) -> None:
    """Run ``work``, and run it again if it fails: a process without its tasks would answer nothing."""
    while True:
        try:
            await work()
        except Exception:
            log.exception("the task %r failed and is started again", name)
            await asyncio.sleep(1.0)
