"""What the clouds offer a job, asked through the API: quotes, tables, prices, and who runs commands."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import numpy as np

from broker.api.schemas.clouds import CloudView, Table
from broker.client import Client, NotFoundError, ProblemAnswer, find_lifetimes
from broker.contract import CloudInfo, QuoteView, SpotRequest
from broker.jobs.record import JobRecord
from broker.jobs.work_queue import WorkStore
from cloudsim.disclosure.target_choice import disclosed_of
from cloudsim.markets.prices import FloatArray
from cloudsim.model.errors import SpecError
from cloudsim.model.refusals import RefusalReason
from cloudsim.volatile.targeting import believed
from workers.job_manager.effects import refusals_said
from workers.job_manager.market import HomeOnDemand, JobMarket, SpotLifetimes, SpotOffer

#: Quotes are asked for at this SLA: the risk is what counts, and no promise is made yet.
QUOTED_SLA = 0.99
#: Where nothing is promised for so long, an instance may still be had without a promise.
_UNPROMISED = frozenset({RefusalReason.NO_TABLE, RefusalReason.NO_EVIDENCE, RefusalReason.RISK_TOO_HIGH})
_CLOUDS_S, _TABLE_S = 1.0, 30.0

_Curve = Callable[[FloatArray], FloatArray]


class MarketClient:
    """Safe to use from several threads. Calls raise UnavailableError while the API is away."""

    def __init__(self, client: Client, works: WorkStore, clock_s: Callable[[], float] = time.monotonic):
        self._client, self._works, self._clock_s = client, works, clock_s
        self._lock = threading.Lock()
        self._clouds: tuple[float, list[CloudView]] = (-np.inf, [])
        self._tables: dict[str, tuple[float, Table | None]] = {}

    def clouds(self) -> list[CloudView]:
        """All members, as they were a moment ago at most."""
        with self._lock:
            at_s, found = self._clouds
            if self._clock_s() - at_s > _CLOUDS_S:
                found = self._client.clouds.list()
                self._clouds = (self._clock_s(), found)
            return found

    def cloud(self, cloud: str) -> CloudInfo | None:
        """One member; None where there is none of that id."""
        return next((one.info for one in self.clouds() if one.info.id == cloud), None)

    def market(self, job: JobRecord, lifetime_s: float) -> JobMarket:
        """What there is for the job. lifetime_s: wall time for which its leases are asked."""
        wish, home = job.wish, job.submitted.home
        able = [one for one in self.clouds() if one.reachable and one.info.runs_commands]
        agents = self._works.find_agents([one.info.id for one in able])
        refused = [(one.info.id, "its node agent is away") for one in able if one.info.id not in agents]
        able = [one for one in able if one.info.id in agents]
        spots = [
            one
            for one in able
            if one.info.id != job.submitted.origin and (wish.clouds is None or one.info.id in wish.clouds)
        ]
        at_home = next((one for one in able if one.info.id == home), None)
        concerned = [one.info.spot_usd_per_core_hour for one in spots]
        concerned += [] if at_home is None else [at_home.info.on_demand_usd_per_core_hour]
        priced = bool(concerned) and all(price is not None for price in concerned)
        offers = []
        for one in spots:
            found = self._offer(job, one, lifetime_s, priced=priced)
            if isinstance(found, SpotOffer):
                offers.append(found)
            else:
                refused.append((one.info.id, found))
        offered = None
        if at_home is not None and wish.cores <= at_home.info.largest_node:
            usd = at_home.info.on_demand_usd_per_core_hour if priced else None
            offered = HomeOnDemand(at_home.info.id, usd)
        return JobMarket(tuple(offers), offered, "usd" if priced else "core-hours", tuple(refused))

    def _offer(
        self, job: JobRecord, member: CloudView, lifetime_s: float, *, priced: bool
    ) -> SpotOffer | str:
        """What a cloud offers, or why nothing."""
        info, wish = member.info, job.wish
        if info.time != "wall":
            return "it runs in trace time"
        if wish.cores > info.largest_node:
            return f"its largest node has {info.largest_node} cores"
        asked = SpotRequest(
            origin=job.submitted.origin,
            cores=wish.cores,
            lifetime_s=lifetime_s * info.speed,
            sla=QUOTED_SLA,
            targets=(info.id,),
        )
        try:
            answer = self._client.requests.quote(asked)
            quote = next((one for one in answer.quotes if one.cloud == info.id), None)
            refusal = next((one for one in answer.refusals if one.cloud == info.id), None)
            if quote is None and refusal is not None and refusal.reason in _UNPROMISED:
                answer = self._client.requests.quote(asked.model_copy(update={"sla": None}))
                quote = next((one for one in answer.quotes if one.cloud == info.id), None)
        except ProblemAnswer as problem:
            return str(problem)
        if quote is None:
            return refusals_said(answer.refusals, info.id)
        if quote.free_slots < wish.instances:
            return f"it has room for {quote.free_slots} instances, not {wish.instances}"
        return SpotOffer(
            cloud=info.id,
            lifetimes=SpotLifetimes(
                lifetime_s=lifetime_s * info.speed,
                risk=quote.eviction_probability,
                speed=info.speed,
                curve=self._curve(info, quote),
            ),
            usd=info.spot_usd_per_core_hour if priced else None,
            grace_s=info.grace_s / info.speed,
            table_version=quote.table_version,
        )

    def _curve(self, info: CloudInfo, quote: QuoteView) -> _Curve | None:
        """How long its instances usually live, as far as it discloses that."""
        table = self._table(info.id)
        if table is None:
            return None
        products = find_lifetimes(info, table, quote.cores)
        told = products.get(quote.pool) or next(iter(products.values()), None)
        if told is None:
            return None
        try:
            return believed(disclosed_of(table.disclosure, told.model_dump()))
        except SpecError:
            return None

    def _table(self, cloud: str) -> Table | None:
        with self._lock:
            at_s, found = self._tables.get(cloud, (-np.inf, None))
            if self._clock_s() - at_s > _TABLE_S:
                try:
                    found = self._client.clouds.get_table(cloud)
                except NotFoundError:
                    found = None
                self._tables[cloud] = (self._clock_s(), found)
            return found
