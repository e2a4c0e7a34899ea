"""Play a job against price histories: plan, run, be revoked, and plan again for what is left, to its end."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cloudsim.jobs.attempts import AttemptPlan, Charge, Deadline, JobPosition
from cloudsim.jobs.job import Job, Overheads, StorageKind
from cloudsim.jobs.planner import PlacementPolicy
from cloudsim.jobs.world import World

#: A job that needs more attempts than this is a fault of the simulation.
_MOST_ATTEMPTS = 100_000


@dataclass(frozen=True)
class SimulatedAttempt:
    """One plan and what came of it; ``start_s`` is when it was made."""

    mechanism: str
    markets: tuple[str, ...]
    start_s: float
    end_s: float
    charges: tuple[Charge, ...]


@dataclass(frozen=True)
class SimulatedJob:
    """A finished job."""

    submitted_s: float
    finished_s: float
    cost_usd: float
    revocations: int
    attempts: tuple[SimulatedAttempt, ...]

    @property
    def time_s(self) -> float:
        """Seconds from submission to the end."""
        return self.finished_s - self.submitted_s


def simulate_job(
    job: Job,
    policy: PlacementPolicy,
    world: World,
    at_s: float,
    overheads: Overheads,
    deadline_s: float | None = None,
) -> SimulatedJob:
    """Run a job that is submitted at ``at_s`` to its end.

    At each moment the planner knows the prices up to then, and no later ones.

    Parameters
    ----------
    deadline_s
        Seconds after which it should have ended, which the policy may look at.
    """
    deadline = None if deadline_s is None else Deadline(at_s, at_s + deadline_s, job.work_s)
    state, attempts = JobPosition(at_s, job, deadline=deadline), list[SimulatedAttempt]()
    for _ in range(_MOST_ATTEMPTS):
        plan = policy.plan(state, world.known(state.at_s), overheads)
        left = _leave(state, plan, world, overheads)
        step = plan.mechanism.step(plan, left.state, world, overheads)
        charges = left.charges + step.charges
        names = tuple(world.histories[market].name for market in plan.markets)
        attempts.append(SimulatedAttempt(plan.mechanism.name, names, state.at_s, step.state.at_s, charges))
        if step.finished:
            spent = sum(charge.usd for attempt in attempts for charge in attempt.charges)
            return SimulatedJob(at_s, step.state.at_s, spent, step.state.revocations, tuple(attempts))
        state = step.state
    raise AssertionError(f"{job} did not end within {_MOST_ATTEMPTS} attempts of {policy.name}")


@dataclass(frozen=True)
class _Left:
    state: JobPosition
    charges: tuple[Charge, ...]


def _leave(state: JobPosition, plan: AttemptPlan, world: World, overheads: Overheads) -> _Left:
    """Stop what runs and the plan does not keep, replicas or an on-demand instance; it is saved first."""
    if plan.keeps or not (state.running or state.on_demand_since_s is not None):
        return _Left(state, ())
    job = state.job
    until_s = state.at_s + overheads.save_s(job, StorageKind.LOCAL)
    charges = tuple(
        world.spot(replica.market, replica.since_s, until_s, revoked=False, instances=job.instances)
        for replica in state.running
    )
    if state.on_demand_since_s is not None and until_s > state.on_demand_since_s:
        charges = (world.at_fixed_price(state.on_demand_since_s, until_s, job.instances),)
    saved = replace(
        state,
        job=state.left,
        saved_gb=overheads.state_gb(job, StorageKind.LOCAL),
        saved_at_s=until_s,
        running=(),
        on_demand_since_s=None,
        done_s=0.0,
    )
    return _Left(saved, charges)
