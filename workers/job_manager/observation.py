"""Values that hold what the job manager has observed of the world, for the pure state machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from broker.contract import Lease
from broker.jobs.models import Profile, WorkReport
from workers.job_manager.market import JobMarket
from workers.job_manager.planning_input import LiveOverheads


@dataclass(frozen=True)
class Grant:
    """An instance that was granted.

    ready: True if it runs; an on-demand instance may have to wait for its room.
    """

    lease: str
    node: int
    ready: bool = True


@dataclass(frozen=True)
class Denial:
    """An instance that was refused, and why, for people."""

    why: str


@dataclass(frozen=True)
class Observation:
    """The knowledge about a job at ``now``, seconds since 1970.

    A missing fact is unknown, and unknown is not lost.

    reports: by work. leases: by id. gone: when an ended lease was first seen so. grants: the answers to
    requests, by work. market: None until it is asked for; if ``asked``, it cannot be had. cooled: clouds that
    evicted jobs of the same holder, and until when they are left alone. known: the profile of earlier jobs of
    that name. phases: by attempt, needs that have departed from the profile for a while. final: leases that
    their clouds will not extend. shares: by attempt, the share of a backup's server that nobody else has
    claimed.
    """

    now: float
    reports: Mapping[str, WorkReport] = field(default_factory=dict)
    leases: Mapping[str, Lease] = field(default_factory=dict)
    gone: Mapping[str, float] = field(default_factory=dict)
    grants: Mapping[str, Grant | Denial] = field(default_factory=dict)
    market: JobMarket | None = None
    asked: bool = False
    cooled: Mapping[str, float] = field(default_factory=dict)
    known: Profile | None = None
    phases: Mapping[int, Profile] = field(default_factory=dict)
    final: frozenset[str] = frozenset()
    shares: Mapping[int, float] = field(default_factory=dict)
    overheads: LiveOverheads = field(default_factory=LiveOverheads)
