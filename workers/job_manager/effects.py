"""What a job's journal asks for, carried out: room asked for, work given to node agents, instances given
back.

Everything here may be done again: ids follow from the job's, and whoever does it a second time finds it done.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import structlog

from broker.client import Client, NotFoundError, ProblemAnswer, RefusedRequest, UnavailableError
from broker.contract import ENDS, Lease, LeaseState, OnDemandRequest, RefusalView, SpotRequest
from broker.jobs.backup_servers import BackupServer, BackupServers
from broker.jobs.events import work_id
from broker.jobs.models import Outcome, Work
from broker.jobs.record import AttemptRecord, JobRecord
from broker.jobs.work_queue import WorkStore
from workers.job_manager.observation import Denied, Grant

log = structlog.get_logger(__name__)


class JobEffects:
    """Calls raise UnavailableError while the API is away, and redis.RedisError while the queue is."""

    def __init__(self, client: Client, works: WorkStore, servers: BackupServers):
        self._client, self._works, self._servers = client, works, servers

    # -- room ---------------------------------------------------------------------------------------------

    def ask(self, job: JobRecord, place: AttemptRecord) -> dict[str, Grant | Denied]:
        """The instances of an attempt, by work."""
        if place.plan.role == "backup":
            return {work: self._on_server(place, work) for work in place.works(job.id)}
        if not place.plan.spot:
            return {work: self._on_demand(place, work) for work in place.works(job.id)}
        return self._spot(job, place)

    def _spot(self, job: JobRecord, place: AttemptRecord) -> dict[str, Grant | Denied]:
        plan, works = place.plan, place.works(job.id)
        wishes = [
            SpotRequest(
                id=work,
                origin=job.submitted.origin,
                cores=plan.cores,
                lifetime_s=plan.lifetime_s,
                sla=plan.sla,
                targets=(plan.cloud,),
            )
            for work in works
        ]
        found: dict[str, Grant | Denied] = {}
        for work, answer in zip(works, self._client.requests.submit_many(wishes), strict=True):
            if isinstance(answer, RefusedRequest):
                found[work] = Denied(refusals_said(answer.refusals, plan.cloud))
            elif isinstance(answer, ProblemAnswer):
                if answer.problem.status in (429, 502, 503, 504):
                    raise UnavailableError(str(answer))
                found[work] = Denied(str(answer))
            else:
                found[work] = Grant(answer.lease.id, answer.lease.node)
        return found

    def _on_demand(self, place: AttemptRecord, name: str) -> Grant | Denied:
        plan = place.plan
        try:
            answer = self._client.on_demand.start(plan.cloud, OnDemandRequest(id=name, cores=plan.cores))
            if isinstance(answer, RefusedRequest):
                return Denied(refusals_said(answer.refusals, plan.cloud))
            lease: Lease | RefusedRequest = answer.lease
            if answer.lease.state is LeaseState.BOOKED:
                lease = self._client.on_demand.get(plan.cloud, name)
        except ProblemAnswer as problem:
            return Denied(str(problem))
        if isinstance(lease, RefusedRequest):
            return Denied(refusals_said(lease.refusals, plan.cloud))
        if lease.state in ENDS:
            return Denied("its instance was stopped before it began")
        return Grant(lease.id, lease.node, ready=lease.state is LeaseState.RUNNING)

    def _on_server(self, place: AttemptRecord, work: str) -> Grant | Denied:
        plan = place.plan
        server = self._servers.claim(work, plan.cloud, plan.cores, plan.share)
        answer = self._on_demand(place, server.id)
        return Grant(server.id, answer.node, answer.ready) if isinstance(answer, Grant) else answer

    # -- work ---------------------------------------------------------------------------------------------

    def put(self, job: JobRecord, place: AttemptRecord) -> None:
        """Tells the agent what it is to run, as it is now."""
        if place.promoted:
            for work in place.works(job.id):
                self._servers.widen(work, place.plan.share)
        self._works.put([work_of(job, place, rank) for rank in range(place.plan.instances)])

    # -- giving back --------------------------------------------------------------------------------------

    def free(self, job: JobRecord, place: AttemptRecord) -> None:
        """Takes the work of an attempt that has ended away from its agent, and gives its instances back."""
        works, cloud = place.works(job.id), place.plan.cloud
        self._works.drop(cloud, works)
        try:
            if _shares_server(place):
                for work in works:
                    server = self._servers.release(work)
                    if server is not None:
                        self.close(server)
            elif place.plan.spot:
                for lease in place.leases or self._granted(job, place):
                    self._client.leases.cancel(lease)
            else:
                for work in works:
                    self._client.on_demand.stop(cloud, work)
        except ProblemAnswer as problem:  # there is no such thing (any more)
            if not isinstance(problem, NotFoundError):
                log.warning("could not give an instance back", job=job.id, cloud=cloud, why=str(problem))

    def close(self, server: BackupServer) -> None:
        """Stops a shared server that nobody uses."""
        with suppress(NotFoundError):
            self._client.on_demand.stop(server.cloud, server.id)
        self._servers.forget(server.id)

    def _granted(self, job: JobRecord, place: AttemptRecord) -> Sequence[str]:
        """The leases of an attempt that ended before it was known what its requests had got: asking again
        gets the same answers."""
        ended = place.ended
        refused = ended is not None and ended.outcome is Outcome.REFUSED
        if refused and place.plan.instances == 1:
            return ()
        return [one.lease for one in self._spot(job, place).values() if isinstance(one, Grant)]


def _shares_server(place: AttemptRecord) -> bool:
    return place.plan.role == "backup" or place.promoted


def work_of(job: JobRecord, place: AttemptRecord, rank: int) -> Work:
    """What an agent is to run of an attempt on the instance of that rank."""
    plan, wish = place.plan, job.wish
    backup = _shares_server(place)
    kept = wish.checkpoint
    restore = None
    if plan.restored_from is not None and plan.restored_checkpoint:
        restore = (work_id(job.id, plan.restored_from), plan.restored_checkpoint)
    return Work(
        id=work_id(job.id, place.number, rank),
        job=job.id,
        attempt=place.number,
        rank=rank,
        size=plan.instances,
        cloud=plan.cloud,
        instance=place.leases[rank],
        spot=plan.spot,
        node=place.nodes[rank],
        command=wish.command,
        environment=dict(wish.environment),
        cores=plan.cores,
        memory_mb=wish.memory_limit_mb,
        server=place.leases[rank] if backup else None,
        share=plan.share,
        storage=plan.storage,
        checkpoint_s=plan.checkpoint_s,
        save=None if kept is None else kept.save,
        resume=None if kept is None else kept.restore,
        restore=restore,
        saves_on_notice=plan.saves_on_notice,
        wanted="save" if place.told is not None else "run",
        revision=place.revision,
    )


def refusals_said(refusals: Sequence[RefusalView], cloud: str) -> str:
    """Why a cloud refused, for people."""
    mine = next((one for one in refusals if one.cloud == cloud), None)
    if mine is None:
        return "it was not asked"
    reason = mine.reason.value.replace("_", " ").replace("-", " ")
    return f"{reason} ({mine.detail})" if mine.detail else reason
