"""What the job manager saw of the world, as values: the core is told, it never asks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from broker.contract import Lease
from broker.jobs.models import Profile, WorkReport
from workers.job_manager.market import JobMarket
from workers.job_manager.planning_input import LiveOverheads


@dataclass(frozen=True)
class Grant:
    """An instance was granted. ready: it runs; an on-demand one may have to wait for its room."""

    lease: str
    node: int
    ready: bool = True


@dataclass(frozen=True)
class Denial:
    """An instance was refused; why, for people."""

    why: str


@dataclass(frozen=True)
class Observation:
    """What is known at ``now``, seconds since 1970; what is missing is unknown, and unknown is not lost.

    reports: by work. leases: as they are, by id. gone: when a lease that has ended was first seen so.
    grants: what became of requests, by work. asked: somebody tried to get the market; None then: it cannot be
    had. cooled: clouds that evicted jobs of the same holder, and until when they are left alone. known: the
    profile of earlier jobs of that name. phases: what attempts need that has departed from the profile for a
    while. final: leases that their clouds will not extend. shares: of a backup's server, all that nobody else
    has claimed, by attempt.
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
