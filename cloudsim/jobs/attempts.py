"""Values that pass between planning and running: a job's position, the chosen plan, an attempt's result."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from cloudsim.jobs.job import Job, Overheads, StorageKind
from cloudsim.markets.revocation import Markets
from cloudsim.model.arrays import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from cloudsim.jobs.world import World

#: Work that is left of a job that was revoked at its very end.
LEAST_S = 1e-3


@dataclass(frozen=True)
class Replica:
    """A replica that runs in a market.

    Attributes
    ----------
    market
        Number of the market.
    bid
        US dollars an hour.
    since_s
        Start in seconds.
    """

    market: int
    bid: float
    since_s: float


@dataclass(frozen=True)
class Deadline:
    """Deadline of a job.

    Attributes
    ----------
    begun_s, due_s
        When it was submitted, and when it must have ended, in seconds.
    work_s
        Seconds of work that it had in the beginning.
    """

    begun_s: float
    due_s: float
    work_s: float

    def expected_s(self, at_s: float) -> float:
        """Return the work that is done by then if it advances evenly until it is due, in seconds."""
        return self.work_s * (at_s - self.begun_s) / (self.due_s - self.begun_s)


@dataclass(frozen=True)
class JobPosition:
    """Position of a job at a time.

    Attributes
    ----------
    at_s
        The time in seconds.
    job
        The job that is left from its last saved state on.
    saved_gb
        State that must be read to go on from there, 0 at the beginning.
    saved_at_s
        Time from which that state can be read.
    running
        Replicas that are further, by ``done_s``.
    done_s
        Seconds of the job's work that they are further; below 0 if they have not begun.
    only_on_demand
        The mechanism leaves no other choice.
    on_demand_since_s
        Start of an on-demand instance that runs the job, which is further by ``done_s``; None if none does.
    deadline
        None if the job has none.
    """

    at_s: float
    job: Job
    saved_gb: float = 0.0
    saved_at_s: float = 0.0
    running: tuple[Replica, ...] = ()
    done_s: float = 0.0
    revocations: int = 0
    only_on_demand: bool = False
    on_demand_since_s: float | None = None
    deadline: Deadline | None = None

    @property
    def left(self) -> Job:
        """The job that is left if what runs is saved now."""
        if self.done_s <= 0:
            return self.job
        return replace(self.job, work_s=max(self.job.work_s - self.done_s, LEAST_S))


@dataclass(frozen=True)
class AttemptPlan:
    """Plan of where and how a job goes on.

    Attributes
    ----------
    markets
        Numbers of the markets; none for on-demand.
    bids
        US dollars an hour, for each market.
    cost_usd, time_s
        Expected cost, and seconds, of all that is left of the job.
    keeps
        What runs, replicas or an on-demand instance, goes on as it is.
    until_s
        Time at which the job is planned again, if it waits or runs on-demand until then.
    """

    mechanism: Mechanism
    markets: tuple[int, ...]
    bids: tuple[float, ...]
    cost_usd: float
    time_s: float
    keeps: bool = False
    until_s: float = math.inf


@dataclass(frozen=True)
class Charge:
    """Amount paid for the instances of one attempt in one place.

    Attributes
    ----------
    market
        Number of the market; None for on-demand.
    share
        Share of each server, below 1 for a backup replica.
    """

    market: int | None
    start_s: float
    end_s: float
    usd: float
    instances: int = 1
    share: float = 1.0


@dataclass(frozen=True)
class AttemptResult:
    """Result of an attempt: where the job stands then, and what it cost."""

    state: JobPosition
    finished: bool
    charges: tuple[Charge, ...]


@dataclass(frozen=True, eq=False)
class MarketCandidates:
    """Candidates of a mechanism for running a job: c of them, in k markets each.

    Attributes
    ----------
    cost_usd, time_s
        float64[c], infinite where it cannot run.
    markets
        int64[c, k].
    bids
        float64[c, k].
    """

    cost_usd: FloatArray
    time_s: FloatArray
    markets: IntArray
    bids: FloatArray

    @classmethod
    def where(
        cls,
        usable: BoolArray,
        cost_usd: FloatArray,
        time_s: FloatArray,
        markets: IntArray,
        bids: FloatArray,
    ) -> MarketCandidates:
        """Make candidates, of which only those count that are ``usable`` and have a known, positive cost."""
        good = usable & (cost_usd > 0) & np.isfinite(cost_usd)
        return cls(np.where(good, cost_usd, np.inf), np.where(good, time_s, np.inf), markets, bids)


class Mechanism(ABC):
    """Way to survive revocations: ``estimate`` says what it costs, ``step`` does it, by the same terms.

    The other members say how it is carried out on live clouds; their defaults are those of a mechanism that
    keeps no state.
    """

    #: The job's state is kept, so the job must have a command that saves it.
    keeps_state: ClassVar[bool] = False
    #: The state is kept when the cloud gives notice, so the length of notices matters.
    saves_on_notice: ClassVar[bool] = False
    #: A slower replica runs on a shared on-demand server beside the spot instance.
    needs_backup: ClassVar[bool] = False

    @property
    @abstractmethod
    def name(self) -> str:
        """Name of ``mechanism_names``."""

    @property
    def storage(self) -> StorageKind:
        """Storage that the job writes to, by default the instance's own."""
        return StorageKind.LOCAL

    @abstractmethod
    def suits(self, job: Job, overheads: Overheads) -> bool:
        """Return True if the job can be run this way at all."""

    @abstractmethod
    def estimate(self, job: Job, markets: Markets, overheads: Overheads) -> MarketCandidates:
        """Return the expected cost and time of the whole job in every market."""

    @abstractmethod
    def step(
        self, plan: AttemptPlan, state: JobPosition, world: World, overheads: Overheads
    ) -> AttemptResult:
        """Run until the job is done, or something is revoked that makes the plan void."""

    def wall_s(self, job: Job, overheads: Overheads) -> float:
        """Return T': seconds from the start to the end of the job if nothing is revoked."""
        del overheads
        return job.work_s

    def interval_s(self, job: Job, overheads: Overheads) -> float | None:
        """Return the seconds of work between two saves; None if nothing is saved before a revocation."""
        del job, overheads
        return None

    def redo_s(self, job: Job, overheads: Overheads) -> float:
        """Return the most work that a revocation destroys, in seconds; by default that of one interval."""
        return self.interval_s(job, overheads) or 0.0
