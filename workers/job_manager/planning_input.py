"""The input of a plan: where a job stands, and an option in which it could go on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from broker.jobs.models import Profile
from broker.jobs.record import JobRecord
from cloudsim.jobs.attempts import AttemptPlan, Deadline, JobPosition, Mechanism
from cloudsim.jobs.job import Job, Overheads
from workers.job_manager.market import SpotOffer

#: The profile of a job that nobody has measured and that has no home to be measured at.
UNMEASURED = Profile(work_s=3600.0)
#: The length of a lease in expected lengths.
LEASE_MARGIN = 1.5
#: The share of the work that counts as left when a job has run for longer than its profile says.
_LEAST_LEFT = 0.05
_SLOWEST = 1.25  # the time that the slowest mechanism takes for a second of work, about
_LEAST_LEASE_S = 10.0


@dataclass(frozen=True)
class LiveOverheads:
    """The times that starting, saving and restoring take with the process driver.

    No instance has to boot, and checkpoints are copied to a disk near by. fixed_s: seconds of each save and
    restore, whatever the size.
    """

    save_s_per_gb: float = 4.0
    restore_s_per_gb: float = 4.0
    fixed_s: float = 0.3
    remote_slowdown: float = 2.08
    boot_s: float = 1.0
    poll_s: float = 1.0

    def of(self, warning_s: float = 0.0) -> Overheads:
        """Return the overheads for ``cloudsim.jobs``, for clouds that give notice of ``warning_s``."""
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
    """The input of a plan, beside the market.

    now: seconds since 1970. avoided: clouds not to be asked now, and why. home_full: True if the home had no
    room just now. on_demand_only: why only on-demand is allowed, None if spot is allowed too. saved_s: work
    that counts as safe because it would be saved first; None for the last safe state.
    """

    job: JobRecord
    now: float
    avoided: Mapping[str, str] = field(default_factory=dict)
    home_full: bool = False
    on_demand_only: str | None = None
    overheads: LiveOverheads = field(default_factory=LiveOverheads)
    saved_s: float | None = None

    @property
    def profile(self) -> Profile:
        """The needs of one instance, as far as they are known."""
        return self.job.profile or UNMEASURED

    @property
    def left_s(self) -> float:
        """Seconds of work that are left from the last safe state on."""
        work_s = self.profile.work_s
        safe_s = self.job.safe_s if self.saved_s is None else self.saved_s
        return max(work_s - safe_s, _LEAST_LEFT * work_s, 0.1)

    def left(self, done_s: float | None = None) -> Job:
        """Return the work that is left after ``done_s``, by default after the last safe state."""
        profile, request = self.profile, self.job.wish
        work_s = self.left_s
        if done_s is not None:
            work_s = max(profile.work_s - done_s, _LEAST_LEFT * profile.work_s, 0.1)
        least_gb = self.overheads.fixed_s / self.overheads.save_s_per_gb
        return Job(
            work_s=work_s,
            memory_gb=profile.memory_gb + least_gb,
            io_share=profile.io_share,
            disk_gb=profile.disk_gb,
            slack=request.slack,
            idempotent=request.idempotent,
            instances=request.instances,
        )

    def position(self, on_demand_since_s: float | None = None) -> JobPosition:
        """Return where the job stands, for policies that look at its deadline.

        Parameters
        ----------
        on_demand_since_s
            Start of the on-demand instance that runs it and would be saved first, None if none does.
        """
        begun_at, due_at = self.job.submitted.at, self.job.deadline_at
        left = self.left(self.job.safe_s)
        done_s = 0.0 if self.saved_s is None else self.saved_s - self.job.safe_s
        return JobPosition(
            self.now,
            left,
            done_s=min(max(done_s, 0.0), (1.0 - _LEAST_LEFT) * left.work_s),
            on_demand_since_s=on_demand_since_s,
            deadline=None if due_at is None else Deadline(begun_at, due_at, self.profile.work_s),
        )

    @property
    def to_deadline_s(self) -> float:
        """Seconds until the deadline, infinity without one."""
        at = self.job.deadline_at
        return math.inf if at is None else at - self.now

    @property
    def budget(self) -> float:
        """The cost that the job may still cause."""
        cap = self.job.wish.max_cost
        return math.inf if cap is None else cap - self.job.cost(self.now)


@dataclass(frozen=True)
class PlanOption:
    """A plan of ``cloudsim.jobs`` with the offers that it uses; none means on-demand."""

    plan: AttemptPlan
    offers: tuple[SpotOffer, ...]

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism by which the job survives evictions."""
        return self.plan.mechanism

    @property
    def cost(self) -> float:
        """The expected cost of all that is left."""
        return self.plan.cost_usd

    @property
    def time_s(self) -> float:
        """The expected time of all that is left."""
        return self.plan.time_s


def quoted_lifetime_s(planning: PlanningInput) -> float:
    """Return the length, in wall time, for which clouds are asked for quotes and leases."""
    restore_s = planning.overheads.of().restore_s(planning.left().memory_gb)
    return max(LEASE_MARGIN * (_SLOWEST * planning.left_s + restore_s), _LEAST_LEASE_S)
