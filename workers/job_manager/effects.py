"""Carry out what a job's journal asks for: request instances, assign work to node agents, give back.

All of it may be repeated: ids follow from the job's, and a second call finds the work done.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import structlog

from broker.client import Client, NotFoundError, ProblemAnswer, RefusedRequest, UnavailableError
from broker.contract import Lease, LeaseState, OnDemandRequest, RefusalView, SpotRequest
from broker.contract.launch import Launch
from broker.jobs.backup_servers import BackupServer, BackupServers
from broker.jobs.events import make_work_id
from broker.jobs.models import JobWish, Outcome, Work
from broker.jobs.record import AttemptRecord, JobRecord
from broker.jobs.work_queue import WorkStore
from workers.job_manager.observation import Denial, Grant

log = structlog.get_logger(__name__)


class JobEffects:
    """Carries out what journals ask for.

    Its methods raise UnavailableError while the API is away, and redis.RedisError while Redis is.
    """

    def __init__(self, client: Client, works: WorkStore, servers: BackupServers):
        self._client, self._works, self._servers = client, works, servers

    # -- room ---------------------------------------------------------------------------------------------

    def request_instances(self, job: JobRecord, attempt: AttemptRecord) -> dict[str, Grant | Denial]:
        """Request the instances of an attempt; return the answers by work."""
        if attempt.plan.role == "backup":
            return {work: self._request_on_server(attempt, work) for work in attempt.list_work_ids(job.id)}
        if not attempt.plan.spot:
            return {work: self._request_on_demand(attempt, work) for work in attempt.list_work_ids(job.id)}
        return self._request_spot(job, attempt)

    def _request_spot(self, job: JobRecord, attempt: AttemptRecord) -> dict[str, Grant | Denial]:
        plan, works = attempt.plan, attempt.list_work_ids(job.id)
        requests = [
            SpotRequest(
                id=work,
                origin=job.submitted.origin,
                cores=plan.cores,
                lifetime_s=plan.lifetime_s,
                least_s=plan.least_s,
                sla=plan.sla,
                targets=(plan.cloud,),
                launch=make_launch(job.wish) if plan.boots_agents else None,
            )
            for work in works
        ]
        grants: dict[str, Grant | Denial] = {}
        for work, answer in zip(works, self._client.requests.submit_many(requests), strict=True):
            if isinstance(answer, RefusedRequest):
                grants[work] = Denial(describe_refusal(answer.refusals, plan.cloud))
            elif isinstance(answer, ProblemAnswer):
                if answer.problem.status in (429, 502, 503, 504, 507):
                    raise UnavailableError(str(answer))
                grants[work] = Denial(str(answer))
            else:
                grants[work] = Grant(answer.lease.id, answer.lease.node)
        return grants

    def _request_on_demand(self, attempt: AttemptRecord, name: str) -> Grant | Denial:
        plan = attempt.plan
        try:
            answer = self._client.on_demand.start(plan.cloud, OnDemandRequest(id=name, cores=plan.cores))
            if isinstance(answer, RefusedRequest):
                return Denial(describe_refusal(answer.refusals, plan.cloud))
            lease: Lease | RefusedRequest = answer.lease
            if answer.lease.state is LeaseState.BOOKED:
                lease = self._client.on_demand.get(plan.cloud, name)
        except ProblemAnswer as problem:
            return Denial(str(problem))
        if isinstance(lease, RefusedRequest):
            return Denial(describe_refusal(lease.refusals, plan.cloud))
        if not lease.state.is_open:
            return Denial("its instance was stopped before it began")
        return Grant(lease.id, lease.node, ready=lease.state is LeaseState.RUNNING)

    def _request_on_server(self, attempt: AttemptRecord, work: str) -> Grant | Denial:
        plan = attempt.plan
        server = self._servers.claim(work, plan.cloud, plan.cores, plan.share)
        answer = self._request_on_demand(attempt, server.id)
        return Grant(server.id, answer.node, answer.ready) if isinstance(answer, Grant) else answer

    # -- work ---------------------------------------------------------------------------------------------

    def assign_work(self, job: JobRecord, attempt: AttemptRecord) -> None:
        """Tell the node agent what it is to run for the attempt, as it is planned now."""
        if attempt.promoted:
            for work in attempt.list_work_ids(job.id):
                self._servers.widen(work, attempt.plan.share)
        self._works.put([make_work(job, attempt, rank) for rank in range(attempt.plan.instances)])

    # -- giving back --------------------------------------------------------------------------------------

    def free(self, job: JobRecord, attempt: AttemptRecord) -> None:
        """Take the work of an ended attempt from its agent, and give its instances back."""
        works, cloud = attempt.list_work_ids(job.id), attempt.plan.cloud
        self._works.drop(cloud, works)
        try:
            if _shares_server(attempt):
                for work in works:
                    server = self._servers.release(work)
                    if server is not None:
                        self.close(server)
            elif attempt.plan.spot:
                for lease in attempt.leases or self._granted(job, attempt):
                    self._client.leases.cancel(lease)
            else:
                for work in works:
                    self._client.on_demand.stop(cloud, work)
        except ProblemAnswer as problem:  # it is gone already
            if not isinstance(problem, NotFoundError):
                log.warning("could not give an instance back", job=job.id, cloud=cloud, why=str(problem))

    def close(self, server: BackupServer) -> None:
        """Stop a shared server that nobody uses."""
        with suppress(NotFoundError):
            self._client.on_demand.stop(server.cloud, server.id)
        self._servers.forget(server.id)

    def _granted(self, job: JobRecord, attempt: AttemptRecord) -> Sequence[str]:
        """Return the leases of an attempt that ended before the answers to its requests were known.

        Requests that are repeated get the same answers.
        """
        ended = attempt.ended
        refused = ended is not None and ended.outcome is Outcome.REFUSED
        if refused and attempt.plan.instances == 1:
            return ()
        return [
            grant.lease for grant in self._request_spot(job, attempt).values() if isinstance(grant, Grant)
        ]


def make_launch(wish: JobWish) -> Launch:
    """Return what an instance of a real cloud is to run for a job: its node agent."""
    return Launch(agent=True, image=wish.image, instance_type=wish.instance_type)


def _shares_server(attempt: AttemptRecord) -> bool:
    return attempt.plan.role == "backup" or attempt.promoted


def make_work(job: JobRecord, attempt: AttemptRecord, rank: int) -> Work:
    """Return what the agent is to run for an attempt, on the instance of that rank."""
    plan, request = attempt.plan, job.wish
    backup = _shares_server(attempt)
    checkpoint = request.checkpoint
    restore = None
    if plan.restored_from is not None and plan.restored_checkpoint:
        restore = (make_work_id(job.id, plan.restored_from), plan.restored_checkpoint)
    return Work(
        id=make_work_id(job.id, attempt.number, rank),
        job=job.id,
        attempt=attempt.number,
        rank=rank,
        size=plan.instances,
        cloud=plan.cloud,
        instance=attempt.leases[rank],
        spot=plan.spot,
        node=attempt.nodes[rank],
        command=request.command,
        environment=dict(request.environment),
        cores=plan.cores,
        memory_mb=request.memory_limit_mb,
        server=attempt.leases[rank] if backup else None,
        share=plan.share,
        storage=plan.storage,
        checkpoint_s=plan.checkpoint_s,
        save=None if checkpoint is None else checkpoint.save,
        resume=None if checkpoint is None else checkpoint.restore,
        restore=restore,
        # How long the notice of a real cloud is shows only when it is given: then what can be saved is.
        saves_on_notice=plan.saves_on_notice or (plan.boots_agents and plan.checkpoint_s is not None),
        wanted="save" if attempt.save_reason is not None else "run",
        revision=attempt.revision,
    )


def describe_refusal(refusals: Sequence[RefusalView], cloud: str) -> str:
    """Say to people why a cloud refused."""
    refusal = next((refusal for refusal in refusals if refusal.cloud == cloud), None)
    if refusal is None:
        return "it was not asked"
    reason = refusal.reason.value.replace("_", " ").replace("-", " ")
    return f"{reason} ({refusal.detail})" if refusal.detail else reason
