"""Ask the API what the clouds offer a job: quotes, tables, prices, and which of them run commands."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from broker.client import Client, NotFoundError, ProblemAnswer, find_lifetimes
from broker.contract import CloudInfo, QuoteView, SpotRequest
from broker.jobs.record import JobRecord
from broker.jobs.work_queue import WorkStore
from broker.schemas.clouds import CloudView, Table
from cloudsim.disclosure.targeting import infer_survival, parse_disclosed
from cloudsim.model.arrays import FloatArray
from cloudsim.model.errors import SpecError
from cloudsim.model.refusals import RefusalReason
from cloudsim.model.requests import LEAST_S
from workers.job_manager.attempt_plan import LEAST_SLA
from workers.job_manager.effects import describe_refusal, make_launch
from workers.job_manager.market import HomeOnDemand, JobMarket, SpotLifetimes, SpotOffer

#: The SLA of quotes: only their risk counts, and no promise is made yet.
QUOTED_SLA = 0.99
#: Refusals after which an instance may still be had without a promise.
_UNPROMISED = frozenset({RefusalReason.NO_TABLE, RefusalReason.NO_EVIDENCE, RefusalReason.RISK_TOO_HIGH})
_CLOUDS_S, _TABLE_S = 1.0, 30.0

_Curve = Callable[[FloatArray], FloatArray]


class MarketClient:
    """Asks for markets. Safe to use from several threads; raises UnavailableError while the API is away."""

    def __init__(self, client: Client, works: WorkStore, clock_s: Callable[[], float] = time.monotonic):
        self._client, self._works, self._clock_s = client, works, clock_s
        self._lock = threading.Lock()
        self._clouds: tuple[float, list[CloudView]] = (-np.inf, [])
        self._tables: dict[str, tuple[float, Table | None]] = {}

    def clouds(self) -> list[CloudView]:
        """Return all members, as they were at most a moment ago."""
        with self._lock:
            at_s, clouds = self._clouds
            if self._clock_s() - at_s > _CLOUDS_S:
                clouds = self._client.clouds.list()
                self._clouds = (self._clock_s(), clouds)
            return clouds

    def cloud(self, cloud: str) -> CloudInfo | None:
        """Return a member, None if there is none of that id."""
        return next((member.info for member in self.clouds() if member.info.id == cloud), None)

    def market(self, job: JobRecord, lifetime_s: float) -> JobMarket:
        """Return what the clouds offer the job, for leases of ``lifetime_s`` in wall time."""
        job_request, home = job.wish, job.submitted.home
        able = [member for member in self.clouds() if member.reachable and member.info.runs_commands]
        agents = self._works.find_agents([member.info.id for member in able])
        refused = [(member.info.id, "its agent is away") for member in able if member.info.id not in agents]
        able = [member for member in able if member.info.id in agents]
        spots = [
            member
            for member in able
            if member.info.id != job.submitted.origin
            and (job_request.clouds is None or member.info.id in job_request.clouds)
        ]
        # A real cloud starts no on-demand instances for jobs.
        at_home = (member for member in able if member.info.id == home and member.info.instances is None)
        home_member = next(at_home, None)
        concerned = [member.info.spot_usd_per_core_hour for member in spots]
        concerned += [] if home_member is None else [home_member.info.on_demand_usd_per_core_hour]
        priced = bool(concerned) and all(price is not None for price in concerned)
        offers = []
        for member in spots:
            offer = self._offer(job, member, lifetime_s, priced=priced)
            if isinstance(offer, SpotOffer):
                offers.append(offer)
            else:
                refused.append((member.info.id, offer))
        offered = None
        if home_member is not None and job_request.cores <= home_member.info.largest_node:
            usd = home_member.info.on_demand_usd_per_core_hour if priced else None
            offered = HomeOnDemand(home_member.info.id, usd)
        return JobMarket(tuple(offers), offered, "usd" if priced else "core-hours", tuple(refused))

    def _offer(
        self, job: JobRecord, member: CloudView, lifetime_s: float, *, priced: bool
    ) -> SpotOffer | str:
        """Return what a cloud offers, or why it offers nothing."""
        info, job_request = member.info, job.wish
        if info.time != "wall":
            return "it runs in trace time"
        if job_request.cores > info.largest_node:
            return f"its largest node has {info.largest_node} cores"
        quoted_s = (lifetime_s + (info.boot_s or 0.0)) * info.speed
        spot_request = SpotRequest(
            origin=job.submitted.origin,
            cores=job_request.cores,
            lifetime_s=quoted_s,
            sla=QUOTED_SLA,
            targets=(info.id,),
            launch=None if info.instances is None else make_launch(job_request),
        )
        # Whole; else renewable, if it may begin again where a promise ends; else without a promise.
        ways: list[dict[str, Any]] = [{}, {"sla": None}]
        if job_request.idempotent and quoted_s > LEAST_S:
            ways.insert(1, {"sla": LEAST_SLA, "least_s": LEAST_S})
        try:
            for way in ways:
                answer = self._client.requests.quote(spot_request.model_copy(update=way))
                quote = next((quote for quote in answer.quotes if quote.cloud == info.id), None)
                refusal = next((refusal for refusal in answer.refusals if refusal.cloud == info.id), None)
                if quote is not None or refusal is None or refusal.reason not in _UNPROMISED:
                    break
        except ProblemAnswer as problem:
            return str(problem)
        if quote is None:
            return describe_refusal(answer.refusals, info.id)
        if quote.free_slots < job_request.instances:
            return f"it has room for {quote.free_slots} instances, not {job_request.instances}"
        promised_s = quote.survives_s if "least_s" in way and quote.survives_s else quoted_s
        return SpotOffer(
            cloud=info.id,
            wanted_s=quoted_s if promised_s < quoted_s else None,
            lifetimes=SpotLifetimes(
                lifetime_s=promised_s,
                risk=quote.eviction_probability,
                speed=info.speed,
                curve=self._curve(info, quote),
            ),
            usd=info.spot_usd_per_core_hour if priced else None,
            grace_s=info.grace_s / info.speed,
            table_version=quote.table_version,
            boots_agents=info.instances is not None,
        )

    def _curve(self, info: CloudInfo, quote: QuoteView) -> _Curve | None:
        """Return how long the cloud's instances usually live, as far as it discloses that."""
        table = self._table(info.id)
        if table is None:
            return None
        products = find_lifetimes(info, table, quote.cores)
        product = products.get(quote.pool) or next(iter(products.values()), None)
        if product is None:
            return None
        try:
            return infer_survival(parse_disclosed(table.disclosure, product.model_dump()))
        except SpecError:
            return None

    def _table(self, cloud: str) -> Table | None:
        with self._lock:
            at_s, table = self._tables.get(cloud, (-np.inf, None))
            if self._clock_s() - at_s > _TABLE_S:
                try:
                    table = self._client.clouds.get_table(cloud)
                except NotFoundError:
                    table = None
                self._tables[cloud] = (self._clock_s(), table)
            return table
