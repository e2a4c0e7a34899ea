"""What one API process is made of, put together in one place, and its background tasks."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from typing import Self
from uuid import uuid4

import redis
import redis.asyncio

from broker.api.auth import Authenticator, Rates
from broker.api.services.clouds import CloudService
from broker.api.services.federation_metrics import FederationSurvey
from broker.api.services.jobs import JobService
from broker.api.services.overflow import OverflowService
from broker.api.services.renewal_offers import RenewalOfferService
from broker.api.services.request_metrics import RequestMetrics
from broker.api.task_end import end
from broker.identity.member_cache import MemberCache
from broker.identity.store import IdentityStore
from broker.ledger.reader import LedgerReader
from broker.queue.celery_config import make_app
from broker.queue.send import Wakeups, ring, ring_for_job
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
from broker.storage.negotiation import FederationVersion
from broker.storage.outages import retry_through_outages
from broker.webhooks.service import WebhookService

log = logging.getLogger(__name__)

_END_AGAIN_S = 2.0  # of tasks, some of which end others before
_SWEEP_S = 1.0
_ANSWER_S = 3.0  # a Redis that is silent for longer is away


class ApiServices:
    """Connections, services and tasks of this process. It connects to nothing until it is entered."""

    def __init__(self, settings: Settings, meter: RequestMetrics | None = None):
        """``meter``: counts the work of this process.

        Raises SettingsError when it is not told where Redis is, or its key files are wrong."""
        url = settings.redis_url
        if url is None:
            raise SettingsError(
                "SPOTFED_REDIS_URL: name the Redis server (`spotfed up` starts one of its own)"
            )
        self.settings, self.keys, self.name = settings, RedisKeys(settings.key_prefix), uuid4().hex
        self.redis = connect_async(url, socket_timeout=_ANSWER_S, socket_connect_timeout=_ANSWER_S)
        self.streaming = connect_async(url)
        self._reading, self._overflowing = connect_async(url), connect_async(url)
        self._warned, self._delivered = connect_async(url), connect_async(url)
        celery = make_app(settings)
        self._bells = OwnerNotifier(lambda cloud: ring(celery, cloud))
        self._contract = connect(url, socket_timeout=_ANSWER_S, socket_connect_timeout=_ANSWER_S)
        self._speaking = FederationVersion(self._contract, self.keys)
        signing = MessageSigner.from_settings(settings, BROKER)
        bell = Wakeups(celery, self.keys.prefix)
        self.records = RequestStore(self.redis, self.keys, signing, speaks=self._speaking, bell=bell)
        self.register = IdentityStore(self.redis, self.keys)
        self.roster, self.holds = MemberCache(self.register), QuotaHolds(self.redis, self.keys)
        self.books = LedgerReader(self.redis, self.keys)
        self.adverts = MembershipView(
            self.redis,
            self.keys,
            max_age_s=settings.advert_max_age_s,
            broken=self.books.broken,
            signing=signing,
        )
        self._replies = Replies(self._reading, self.keys, self.name, signing)
        self.meter = meter or RequestMetrics()
        self.meter.watch_replies(lambda: self._replies.awaited, self._replies.refused)
        exchange = OwnerCommands(self.records, self._replies, self._bells)
        self.service = SubmissionService(
            settings,
            self.records,
            self.adverts,
            exchange,
            member_of=self.roster.member_of,
            on_results=self.meter.count_results,
        )
        self.desk = CloudService(settings, self.redis, self.keys, self.adverts, exchange)
        self.authenticator = Authenticator(self.redis, self.keys, self.roster)
        self.rates = Rates(settings.calls_per_s)
        self._overflow = OverflowService(
            self._overflowing,
            self.keys,
            self.name,
            service=self.service,
            desk=self.desk,
            records=self.records,
            adverts=self.adverts,
            exchange=exchange,
            signing=signing,
        )
        self._migration = RenewalOfferService(
            self._warned, self.keys, self.name, self.desk, self.adverts, exchange
        )
        self.webhooks = WebhookService(
            settings, self.redis, self._delivered, self.keys, self.name, self.roster.members
        )
        self._jobs = connect(url, socket_timeout=_ANSWER_S, socket_connect_timeout=_ANSWER_S)
        self._job_bells = OwnerNotifier(lambda job: ring_for_job(celery, job))
        self.jobs = JobService(
            self._jobs, self.keys, lambda job: self._job_bells.ring([job]), settings.open_jobs
        )
        self._counted = connect_async(url)
        self.quotas = QuotaReconciler(self.redis, self._counted, self.keys, self.holds, self.roster)
        self.surveyor = FederationSurvey(self.redis, self.keys, self.adverts, self.books, self._speaking)
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = threading.Event()
        self._herald = threading.Thread(target=self._say_what_we_speak, name="contract", daemon=True)

    @property
    def call_takeover_ms(self) -> int:
        """After how long a call with an Idempotency-Key is held to be abandoned."""
        rounds = self.settings.max_clouds_asked
        longest_s = max(self.settings.trace_reply_deadline_s, rounds * self.settings.reply_deadline_s)
        return round(1000 * longest_s)

    async def holding(self, origin: str) -> QuotaUse | None:
        """What the member of an origin holds of its cap on spot; None: there is none. Raises RedisError."""
        member = await self.roster.member_of(origin)
        return None if member is None else QuotaUse(member, *await self.holds.total(member.name))

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self._look)  # before this process writes anything
        self._herald.start()
        for name, work in (
            ("replies", self._replies.run),
            ("sweeper", self._sweep),
            ("ledger", self.books.run),
            ("overflow", self._overflow.run),
            ("migration", self._migration.run),
            ("quotas", self.quotas.run),
            ("webhooks", self.webhooks.run),
            ("event loop", self.meter.measure_loop_lag),
        ):
            self._tasks.append(asyncio.create_task(_keep_up(name, work), name=name))
        return self

    async def __aexit__(self, *_: object) -> None:
        await end(self._tasks, _END_AGAIN_S)
        await self.webhooks.aclose()
        await self._bells.close()
        await self._job_bells.close()
        self._stopping.set()
        await asyncio.to_thread(self._herald.join)
        self._contract.close()
        self._jobs.close()
        readers = (self._reading, self._overflowing, self._warned, self._counted)
        for client in (self.redis, self.streaming, *readers):
            await client.aclose()
        await self._delivered.aclose()

    def _look(self) -> None:
        try:
            self._speaking.refresh()
        except redis.RedisError as error:
            log.warning("what the federation speaks is not known yet: %s", error)

    def _say_what_we_speak(self) -> None:
        self._speaking.keep_announced(self.name, self._stopping)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP_S)
            await retry_through_outages(self._sweep_once, "sweeper")

    async def _sweep_once(self) -> None:
        await self.authenticator.refresh()
        await self.service.sweep()


async def _keep_up(name: str, work: Callable[[], Awaitable[None]]) -> None:
    """A task that ends by a fault of ours is started again: without it, this process would answer nothing."""
    while True:
        try:
            await work()
        except Exception:
            log.exception("the task %r failed and is started again", name)
            await asyncio.sleep(1.0)
