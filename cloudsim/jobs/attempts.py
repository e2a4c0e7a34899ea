"""What passes between planning and running: where a job stands, what was chosen, what an attempt gave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from cloudsim.jobs.job import Job, Overheads
from cloudsim.markets.prices import BoolArray, FloatArray, IntArray
from cloudsim.markets.revocation import Markets

if TYPE_CHECKING:
    from cloudsim.jobs.world import World


@dataclass(frozen=True)
class Replica:
    """A replica that runs in a market since a time, seconds."""

    market: int
    bid: float
    since_s: float


@dataclass(frozen=True)
class JobPosition:
    """Where a job stands at ``at_s``. job: what is left of it from its last saved state on.

    saved_gb: what must be read to go on from there, 0 at the beginning; it is readable at ``saved_at_s``.
    running: replicas that are further, by ``done_s`` of the job's work; below 0 where they have not begun.
    only_on_demand: the mechanism leaves no other choice.
    """

    at_s: float
    job: Job
    saved_gb: float = 0.0
    saved_at_s: float = 0.0
    running: tuple[Replica, ...] = ()
    done_s: float = 0.0
    revocations: int = 0
    only_on_demand: bool = False


@dataclass(frozen=True)
class AttemptPlan:
    """Where and how to go on. markets: by number, none is on-demand; bids: US dollars an hour, for each.

    cost_usd, time_s: what the whole of the rest is expected to cost and to take. keeps: the replicas that run
    go on as they are.
    """

    mechanism: Mechanism
    markets: tuple[int, ...]
    bids: tuple[float, ...]
    cost_usd: float
    time_s: float
    keeps: bool = False


@dataclass(frozen=True)
class Charge:
    """What was paid for the instances of one attempt in one place; market None: on-demand.

    share: of each server, below 1 for a backup replica.
    """

    market: int | None
    start_s: float
    end_s: float
    usd: float
    instances: int = 1
    share: float = 1.0


@dataclass(frozen=True)
class AttemptResult:
    """How an attempt ended: where the job stands then, and what it cost."""

    state: JobPosition
    finished: bool
    charges: tuple[Charge, ...]


@dataclass(frozen=True, eq=False)
class MarketCandidates:
    """Ways in which a mechanism could run a job: c of them in k markets each.

    cost_usd, time_s: shape (c,), infinite where it cannot. markets, bids: shape (c, k).
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
        """Those that are ``usable`` and whose cost is known and positive."""
        good = usable & (cost_usd > 0) & np.isfinite(cost_usd)
        return cls(np.where(good, cost_usd, np.inf), np.where(good, time_s, np.inf), markets, bids)


class Mechanism(Protocol):
    """A way to survive revocations: ``estimate`` says what it costs, ``step`` does it, by the same terms."""

    @property
    def name(self) -> str:
        """As people say it."""
        ...

    def suits(self, job: Job, overheads: Overheads) -> bool:
        """Whether the job can be run so at all."""
        ...

    def estimate(self, job: Job, markets: Markets, overheads: Overheads) -> MarketCandidates:
        """The expected cost and time of the whole job in every market."""
        ...

    def step(
        self, plan: AttemptPlan, state: JobPosition, world: World, overheads: Overheads
    ) -> AttemptResult:
        """Run until the job is done, or something is revoked that makes the plan void."""
        ...
