"""Changes: everything that can happen to a cloud, as values.

A decision is a list of changes; ``cloudsim.cloud.cloud.Cloud.apply`` makes them true. Times are seconds of
the cloud's own time.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from cloudsim.model.instances import Instance
from cloudsim.model.refusals import Refusal
from cloudsim.model.requests import Request


class End(StrEnum):
    """The ways in which an instance ends. It ends exactly once."""

    COMPLETED = "completed"
    EVICTED = "evicted"
    CANCELLED = "cancelled"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Started:
    """An instance was placed."""

    instance: Instance


@dataclass(frozen=True, slots=True)
class Ended:
    """An instance left its node.

    cause: the id of the request that needed the cores, or who asked for the end.
    """

    instance: Instance
    at_s: float
    how: End
    cause: str | None = None


@dataclass(frozen=True, slots=True)
class TurnedAway:
    """A request of the cloud's own load was refused."""

    request: Request
    at_s: float
    refusal: Refusal


@dataclass(frozen=True, slots=True)
class Extended:
    """A running spot instance was promised a later end.

    instance: the instance from now on, with the SLA and the risk of the time from ``at_s`` to its new end.
    cause: the id of the command that asked for it.
    """

    instance: Instance
    at_s: float
    cause: str | None = None


@dataclass(frozen=True, slots=True)
class Noticed:
    """A running spot instance was given notice to leave.

    instance: the instance from now on, with its ``evict_at_s``. cause: the id of the request that needs its
    room, or who drains the node.
    """

    instance: Instance
    at_s: float
    cause: str | None = None


@dataclass(frozen=True, slots=True)
class Booked:
    """An on-demand instance was booked: it starts on its node when the instances under notice have left.

    instance: the instance as if it started now; its lifetime counts from its true start. starts_by_s: when it
    starts at the latest.
    """

    instance: Instance
    at_s: float
    starts_by_s: float


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """A booking was given up before its start. Notices that were given for it stand."""

    instance: Instance
    at_s: float


@dataclass(frozen=True, slots=True)
class Cordoned:
    """Nodes were closed for new instances, or opened again. nodes: None for all nodes."""

    nodes: tuple[int, ...] | None
    closed: bool
    at_s: float


Change = Started | Ended | TurnedAway | Extended | Noticed | Booked | Withdrawn | Cordoned


#: The cause of an end begins so when somebody drains a node. Ids of requests have no spaces.
DRAIN = "drain by "
#: The cause begins so when the provider took an instance back, for no request that its owner knows.
TAKEN = "taken back: "
#: The cause of an extension that its cloud made by itself, because the lease wants more.
RENEWAL = "renewal"


def was_taken(cause: str | None) -> bool:
    """Return whether the provider took an instance back by itself."""
    return cause is not None and cause.startswith(TAKEN)


def for_nobody(cause: str | None) -> bool:
    """Return whether an eviction for this cause gives its room to no request of the history."""
    return cause is not None and cause.startswith((DRAIN, TAKEN))
