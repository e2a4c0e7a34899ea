"""Observe what concerns one job, and remember what only repeated observation tells.

That is since when a lease is gone, whether another phase lasts, and which leases are not extended.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import structlog

from broker.client import Client, NotFoundError, ProblemAnswer, RefusedRequest, UnavailableError
from broker.contract import ExtensionRequest, Lease, LeaseState
from broker.jobs.backup_servers import BackupServers
from broker.jobs.models import Profile, WorkReport
from broker.jobs.record import AttemptRecord, JobRecord
from broker.jobs.work_queue import WorkStore
from workers.job_manager.effects import JobEffects
from workers.job_manager.market_client import MarketClient
from workers.job_manager.observation import Denial, Grant, Observation
from workers.job_manager.planning_input import PlanningInput, quoted_lifetime_s
from workers.job_manager.running_job import is_other_phase
from workers.job_manager.state_machine import REMEMBERED_S, cool_down_s, count_occasions

#: The number of reports in a row that must tell of another phase.
SAMPLES = 3
#: A lease is extended by half of its length when less than this share of it is left.
_EXTEND_AT, _EXTEND_BY = 0.3, 0.5
#: Seconds at the beginning of an attempt whose usage is no phase.
_SETTLED_S = 5.0
#: Seconds of silence after which an agent may be away; then the owner is asked about on-demand instances.
_SILENT_S = 15.0


log = structlog.get_logger(__name__)


@dataclass
class _Memory:
    """The facts that are remembered about one job between observations.

    gone: when each ended lease was first seen so. phases: by attempt, how many reports in a row told of
    another phase, and when the last was made. final: leases that are not extended.
    """

    gone: dict[str, float] = field(default_factory=dict)
    phases: dict[int, tuple[int, float]] = field(default_factory=dict)
    final: set[str] = field(default_factory=set)


class JobObserver:
    """Observes jobs, several at once from different threads. Its methods raise redis.RedisError."""

    def __init__(
        self,
        client: Client,
        works: WorkStore,
        servers: BackupServers,
        effects: JobEffects,
        markets: MarketClient,
        now: Callable[[], float],
    ):
        """Take what it asks; ``now``: returns seconds since 1970."""
        self._client, self._works, self._servers = client, works, servers
        self._effects, self._markets, self._now = effects, markets, now
        self._memories: dict[str, _Memory] = {}
        self._lock = threading.Lock()

    def forget(self, job: str) -> None:
        """Forget what is remembered about a job that has ended."""
        with self._lock:
            self._memories.pop(job, None)

    def observe(self, job: JobRecord) -> Observation:
        """Observe all but the market, and extend leases that need it. What cannot be had is left out."""
        with self._lock:
            memory = self._memories.setdefault(job.id, _Memory())
        begun = [attempt for attempt in job.live if attempt.began_at is not None]
        reports: dict[str, WorkReport] = {}
        for attempt in begun:
            reports |= self._works.read_reports(attempt.plan.cloud, attempt.list_work_ids(job.id))
        leases = self._leases(job, begun, reports)
        now = self._now()
        for lease in leases.values():
            if not lease.state.is_open:
                memory.gone.setdefault(lease.id, now)
        for attempt in begun:
            self._extend(attempt, leases, memory)
        return Observation(
            now=now,
            reports=reports,
            leases=leases,
            gone=dict(memory.gone),
            grants=self._grants(job),
            cooled=self._cool_downs(job, now),
            known=self._known_profile(job),
            phases=self._phases(job, begun, reports, memory),
            final=frozenset(memory.final),
            shares=self._free_shares(job, begun),
        )

    def add_market(self, job: JobRecord, observation: Observation) -> Observation:
        """Return the observation with what the clouds offer; without, if the API is away."""
        if job.profile is None and observation.known is not None:
            job = replace(job, profile=observation.known)
        try:
            market = self._markets.market(job, quoted_lifetime_s(PlanningInput(job, observation.now)))
        except UnavailableError as error:
            log.warning("the market is not known", job=job.id, why=str(error))
            market = None
        return replace(observation, market=market, asked=True)

    # -- what is seen -------------------------------------------------------------------------------------

    def _leases(
        self, job: JobRecord, begun: list[AttemptRecord], reports: Mapping[str, WorkReport]
    ) -> dict[str, Lease]:
        spot = [
            (attempt.plan.cloud, lease) for attempt in begun if attempt.plan.spot for lease in attempt.leases
        ]
        leases = self._works.read_leases(spot)
        for attempt in begun:
            if attempt.plan.spot:
                continue
            attempt_reports = [reports.get(work) for work in attempt.list_work_ids(job.id)]
            if all(report is not None and report.at > self._now() - _SILENT_S for report in attempt_reports):
                continue
            for lease in attempt.leases:
                try:
                    lease_now = self._client.on_demand.get(attempt.plan.cloud, lease)
                except (UnavailableError, ProblemAnswer):
                    continue
                if isinstance(lease_now, Lease):
                    leases[lease] = lease_now
        return leases

    def _grants(self, job: JobRecord) -> dict[str, Grant | Denial]:
        grants: dict[str, Grant | Denial] = {}
        for attempt in job.live:
            if attempt.began_at is None and job.cancel is None:
                try:
                    grants |= self._effects.request_instances(job, attempt)
                except UnavailableError as error:
                    log.warning("nobody answers", job=job.id, cloud=attempt.plan.cloud, why=str(error))
        return grants

    def _cool_downs(self, job: JobRecord, now: float) -> dict[str, float]:
        if job.live:
            return {}
        try:
            speeds = {member.info.id: member.info.speed for member in self._markets.clouds()}
        except UnavailableError:
            return {}
        by_cloud = self._works.read_evictions(job.submitted.holder, list(speeds))
        cool_downs = {}
        for cloud, evictions in by_cloud.items():
            lately = [at for at in evictions.values() if at > now - REMEMBERED_S]
            if lately:
                cool_downs[cloud] = max(lately) + cool_down_s(count_occasions(lately), speeds[cloud])
        return cool_downs

    def _known_profile(self, job: JobRecord) -> Profile | None:
        name = job.wish.name
        return None if name is None else self._works.read_profile(job.submitted.holder, name)

    def _phases(
        self, job: JobRecord, begun: list[AttemptRecord], reports: Mapping[str, WorkReport], memory: _Memory
    ) -> dict[int, Profile]:
        phases = {}
        for attempt in begun:
            report = reports.get(attempt.list_work_ids(job.id)[0])
            if job.profile is None or report is None or report.usage is None:
                continue
            usage, (count, at) = report.usage, memory.phases.get(attempt.number, (0, 0.0))
            if report.at > at and usage.wall_s >= _SETTLED_S:
                other = is_other_phase(job.profile, usage.peak_memory_gb, usage.io_share)
                count = count + 1 if other else 0
                memory.phases[attempt.number] = (count, report.at)
            if count >= SAMPLES:
                changed = {
                    "memory_gb": max(usage.peak_memory_gb, 1e-3),
                    "io_share": min(max(usage.io_share, 0.0), 1.0),
                }
                phases[attempt.number] = job.profile.model_copy(update=changed)
        return phases

    def _free_shares(self, job: JobRecord, begun: list[AttemptRecord]) -> dict[int, float]:
        backups = [attempt for attempt in begun if attempt.plan.role == "backup"]
        if not backups:
            return {}
        shares = {}
        servers = self._servers.read_all().values()
        for attempt in backups:
            work = attempt.list_work_ids(job.id)[0]
            own = next((server for server in servers if work in server.claims), None)
            if own is not None:
                others = sum(share for name, share in own.claims.items() if name != work)
                shares[attempt.number] = min(max(1.0 - others, attempt.plan.share), 1.0)
        return shares

    # -- leases that last --------------------------------------------------------------------------------

    def _extend(self, attempt: AttemptRecord, leases: Mapping[str, Lease], memory: _Memory) -> None:
        """Extend leases that are near their end while the job still runs."""
        for name in attempt.leases:
            lease = leases.get(name)
            if lease is None or lease.state is not LeaseState.RUNNING or not attempt.plan.spot:
                continue
            if lease.ends_at_s is None or lease.evict_at_s is not None or name in memory.final:
                continue
            if lease.wanted_until_s is not None and lease.ends_at_s < lease.wanted_until_s:
                continue  # its cloud renews it
            whole_s = lease.ends_at_s - lease.starts_at_s
            if attempt.began_at is None or attempt.plan.lifetime_s is None:
                continue
            run_s = (self._now() - attempt.began_at) * attempt.plan.speed
            if whole_s - run_s > _EXTEND_AT * attempt.plan.lifetime_s:
                continue
            until_s = lease.ends_at_s + _EXTEND_BY * attempt.plan.lifetime_s
            request = ExtensionRequest(id=f"{name}-until-{until_s:.0f}", until_s=until_s)
            try:
                answer = self._client.leases.extend(name, request)
            except UnavailableError as error:
                log.warning("a lease was not extended", lease=name, why=str(error))
                continue
            except NotFoundError:
                continue
            except ProblemAnswer as problem:
                log.warning("a lease was not extended", lease=name, why=str(problem))
                memory.final.add(name)
                continue
            if isinstance(answer, RefusedRequest):
                memory.final.add(name)
