"""Looks at what concerns one job, and keeps what only looking several times tells: since when a lease is
gone, whether another phase lasts, which leases are not extended."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import structlog

from broker.client import Client, NotFoundError, ProblemAnswer, RefusedRequest, UnavailableError
from broker.contract import ENDS, ExtensionRequest, Lease, LeaseState
from broker.jobs.backup_servers import BackupServers
from broker.jobs.models import Profile, WorkReport
from broker.jobs.record import AttemptRecord, JobRecord
from broker.jobs.work_queue import WorkStore
from workers.job_manager.effects import JobEffects
from workers.job_manager.market_client import MarketClient
from workers.job_manager.observation import Denied, Grant, Observation
from workers.job_manager.planning_input import PlanningInput, quoted_lifetime_s
from workers.job_manager.running_job import departs
from workers.job_manager.state_machine import REMEMBERED_S, cool_down_s, occasions

#: So many reports in a row must tell of another phase.
SAMPLES = 3
#: A lease is extended when less than this share of it is left, by half of it.
_EXTEND_AT, _EXTEND_BY = 0.3, 0.5
#: What is used in the first seconds of an attempt is no phase.
_SETTLED_S = 5.0
#: An agent that has said nothing for so long may be away: then the owner is asked about on-demand instances.
_SILENT_S = 15.0


log = structlog.get_logger(__name__)


@dataclass
class _Memory:
    """Of one job. phases: by attempt, how many reports in a row told of another phase, and when the last was
    made."""

    gone: dict[str, float] = field(default_factory=dict)
    phases: dict[int, tuple[int, float]] = field(default_factory=dict)
    final: set[str] = field(default_factory=set)


class JobObserver:
    """Safe to use from several threads, for different jobs. Calls raise redis.RedisError."""

    def __init__(
        self,
        client: Client,
        works: WorkStore,
        servers: BackupServers,
        doing: JobEffects,
        looking: MarketClient,
        now: Callable[[], float],
    ):
        """``now``: seconds since 1970."""
        self._client, self._works, self._servers = client, works, servers
        self._doing, self._looking, self._now = doing, looking, now
        self._memories: dict[str, _Memory] = {}
        self._lock = threading.Lock()

    def forget(self, job: str) -> None:
        """It has ended."""
        with self._lock:
            self._memories.pop(job, None)

    def see(self, job: JobRecord) -> Observation:
        """All but the market. What cannot be had is left out."""
        with self._lock:
            memory = self._memories.setdefault(job.id, _Memory())
        begun = [one for one in job.live if one.began_at is not None]
        reports: dict[str, WorkReport] = {}
        for place in begun:
            reports |= self._works.read_reports(place.plan.cloud, place.works(job.id))
        leases = self._leases(job, begun, reports)
        now = self._now()
        for lease in leases.values():
            if lease.state in ENDS:
                memory.gone.setdefault(lease.id, now)
        for place in begun:
            self._extend(place, leases, memory)
        return Observation(
            now=now,
            reports=reports,
            leases=leases,
            gone=dict(memory.gone),
            grants=self._grants(job),
            cooled=self._cooled(job, now),
            known=self._known(job),
            phases=self._phases(job, begun, reports, memory),
            final=frozenset(memory.final),
            shares=self._shares(job, begun),
        )

    def with_market(self, job: JobRecord, seen: Observation) -> Observation:
        """The same with what the clouds offer; without, where the API is away."""
        if job.profile is None and seen.known is not None:
            job = replace(job, profile=seen.known)
        try:
            market = self._looking.market(job, quoted_lifetime_s(PlanningInput(job, seen.now)))
        except UnavailableError as error:
            log.warning("the market is not known", job=job.id, why=str(error))
            market = None
        return replace(seen, market=market, asked=True)

    # -- what is seen -------------------------------------------------------------------------------------

    def _leases(
        self, job: JobRecord, begun: list[AttemptRecord], reports: Mapping[str, WorkReport]
    ) -> dict[str, Lease]:
        spot = [(one.plan.cloud, lease) for one in begun if one.plan.spot for lease in one.leases]
        leases = self._works.read_leases(spot)
        for place in begun:
            if place.plan.spot:
                continue
            told = [reports.get(work) for work in place.works(job.id)]
            if all(one is not None and one.at > self._now() - _SILENT_S for one in told):
                continue
            for lease in place.leases:
                try:
                    found = self._client.on_demand.get(place.plan.cloud, lease)
                except (UnavailableError, ProblemAnswer):
                    continue
                if isinstance(found, Lease):
                    leases[lease] = found
        return leases

    def _grants(self, job: JobRecord) -> dict[str, Grant | Denied]:
        grants: dict[str, Grant | Denied] = {}
        for place in job.live:
            if place.began_at is None and job.cancel is None:
                try:
                    grants |= self._doing.ask(job, place)
                except UnavailableError as error:
                    log.warning("nobody answers", job=job.id, cloud=place.plan.cloud, why=str(error))
        return grants

    def _cooled(self, job: JobRecord, now: float) -> dict[str, float]:
        if job.live:
            return {}
        try:
            speeds = {one.info.id: one.info.speed for one in self._looking.clouds()}
        except UnavailableError:
            return {}
        found = self._works.read_evictions(job.submitted.holder, list(speeds))
        cooled = {}
        for cloud, evictions in found.items():
            lately = [at for at in evictions.values() if at > now - REMEMBERED_S]
            if lately:
                cooled[cloud] = max(lately) + cool_down_s(occasions(lately), speeds[cloud])
        return cooled

    def _known(self, job: JobRecord) -> Profile | None:
        name = job.wish.name
        return None if name is None else self._works.read_profile(job.submitted.holder, name)

    def _phases(
        self, job: JobRecord, begun: list[AttemptRecord], reports: Mapping[str, WorkReport], memory: _Memory
    ) -> dict[int, Profile]:
        found = {}
        for place in begun:
            report = reports.get(place.works(job.id)[0])
            if job.profile is None or report is None or report.usage is None:
                continue
            used, (count, at) = report.usage, memory.phases.get(place.number, (0, 0.0))
            if report.at > at and used.wall_s >= _SETTLED_S:
                other = departs(job.profile, used.peak_memory_gb, used.io_share)
                count = count + 1 if other else 0
                memory.phases[place.number] = (count, report.at)
            if count >= SAMPLES:
                changed = {
                    "memory_gb": max(used.peak_memory_gb, 1e-3),
                    "io_share": min(max(used.io_share, 0.0), 1.0),
                }
                found[place.number] = job.profile.model_copy(update=changed)
        return found

    def _shares(self, job: JobRecord, begun: list[AttemptRecord]) -> dict[int, float]:
        backups = [one for one in begun if one.plan.role == "backup"]
        if not backups:
            return {}
        shares = {}
        servers = self._servers.all().values()
        for place in backups:
            work = place.works(job.id)[0]
            mine = next((one for one in servers if work in one.claims), None)
            if mine is not None:
                others = sum(share for name, share in mine.claims.items() if name != work)
                shares[place.number] = min(max(1.0 - others, place.plan.share), 1.0)
        return shares

    # -- leases that last --------------------------------------------------------------------------------

    def _extend(self, place: AttemptRecord, leases: Mapping[str, Lease], memory: _Memory) -> None:
        """Has leases last longer that near their end while the job still runs."""
        for name in place.leases:
            lease = leases.get(name)
            if lease is None or lease.state is not LeaseState.RUNNING or not place.plan.spot:
                continue
            if lease.ends_at_s is None or lease.evict_at_s is not None or name in memory.final:
                continue
            whole_s = lease.ends_at_s - lease.starts_at_s
            if place.began_at is None or place.plan.lifetime_s is None:
                continue
            run_s = (self._now() - place.began_at) * place.plan.speed
            if whole_s - run_s > _EXTEND_AT * place.plan.lifetime_s:
                continue
            until_s = lease.ends_at_s + _EXTEND_BY * place.plan.lifetime_s
            wish = ExtensionRequest(id=f"{name}-until-{until_s:.0f}", until_s=until_s)
            try:
                answer = self._client.leases.extend(name, wish)
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
