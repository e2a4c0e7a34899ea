"""Where a job stands when it is planned, and a way in which it could go on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from broker.jobs.models import Profile
from broker.jobs.record import JobRecord
from cloudsim.jobs.attempts import AttemptPlan, Mechanism
from cloudsim.jobs.job import Job, Overheads
from workers.job_manager.market import SpotOffer

#: What a job is taken to need that nobody has measured and that has no home to measure it on.
UNMEASURED = Profile(work_s=3600.0)
#: How much longer than expected a lease is asked for.
LEASE_MARGIN = 1.5
#: Of a job that has run for longer than its profile says, this share of its work is taken to be left.
_LEAST_LEFT = 0.05
_SLOWEST = 1.25  # how much longer than its work the slowest mechanism takes, about
_LEAST_LEASE_S = 10.0


@dataclass(frozen=True)
class LiveOverheads:
    """What starting, saving and restoring take under the process driver: no instance has to boot, and a state
    is copied to a disk near by. fixed_s: of each save and restore, whatever its size."""

    save_s_per_gb: float = 4.0
    restore_s_per_gb: float = 4.0
    fixed_s: float = 0.3
    remote_slowdown: float = 2.08
    boot_s: float = 1.0
    poll_s: float = 1.0

    def of(self, warning_s: float = 0.0) -> Overheads:
        """As ``cloudsim.jobs`` wants them, for clouds that give so much notice."""
        return Overheads(
            save_s_per_gb=self.save_s_per_gb,
            restore_s_per_gb=self.restore_s_per_gb,
            remote_slowdown=self.remote_slowdown,
            warning_s=max(warning_s - self.poll_s, 0.0),
            poll_s=self.poll_s,
            boot_spot_s=self.boot_s,
            boot_on_demand_s=self.boot_s,
        )


@dataclass(frozen=True)
class PlanningInput:
    """What a plan goes by. avoided: clouds not to be asked now, and why. home_full: the home had no room just
    now. on_demand_only: why, None: not."""

    job: JobRecord
    now: float
    avoided: Mapping[str, str] = field(default_factory=dict)
    home_full: bool = False
    on_demand_only: str | None = None
    overheads: LiveOverheads = field(default_factory=LiveOverheads)

    @property
    def profile(self) -> Profile:
        """What one instance needs, as far as is known."""
        return self.job.profile or UNMEASURED

    @property
    def left_s(self) -> float:
        """Work that is left from the last safe state on."""
        work_s = self.profile.work_s
        return max(work_s - self.job.safe_s, _LEAST_LEFT * work_s, 0.1)

    def left(self, done_s: float | None = None) -> Job:
        """What is left from there on, or from the last safe state on."""
        profile, wish = self.profile, self.job.wish
        work_s = self.left_s
        if done_s is not None:
            work_s = max(profile.work_s - done_s, _LEAST_LEFT * profile.work_s, 0.1)
        least_gb = self.overheads.fixed_s / self.overheads.save_s_per_gb
        return Job(
            work_s=work_s,
            memory_gb=profile.memory_gb + least_gb,
            io_share=profile.io_share,
            disk_gb=profile.disk_gb,
            slack=wish.slack,
            idempotent=wish.idempotent,
            instances=wish.instances,
        )

    @property
    def to_deadline_s(self) -> float:
        """Infinity without one."""
        at = self.job.deadline_at
        return math.inf if at is None else at - self.now

    @property
    def budget(self) -> float:
        """What may still be spent."""
        cap = self.job.wish.max_cost
        return math.inf if cap is None else cap - self.job.cost(self.now)


@dataclass(frozen=True)
class PlanOption:
    """A plan of ``cloudsim.jobs`` with the offers it means; none: on-demand."""

    plan: AttemptPlan
    offers: tuple[SpotOffer, ...]

    @property
    def mechanism(self) -> Mechanism:
        """How it survives."""
        return self.plan.mechanism

    @property
    def cost(self) -> float:
        """Expected, of all that is left."""
        return self.plan.cost_usd

    @property
    def time_s(self) -> float:
        """Expected, of all that is left."""
        return self.plan.time_s


def quoted_lifetime_s(standing: PlanningInput) -> float:
    """For which time, in wall time, clouds are asked for quotes and leases."""
    restore_s = standing.overheads.of().restore_s(standing.left().memory_gb)
    return max(LEASE_MARGIN * (_SLOWEST * standing.left_s + restore_s), _LEAST_LEASE_S)
