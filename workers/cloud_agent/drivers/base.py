"""What every instance driver does: it starts, lists and ends instances of one real cloud.

A driver keeps no state of its own: what the cloud lists is all there is, and an instance that spotfed started
carries the id of its lease there. Instances that carry none are foreign: they are counted and never touched.
Calls may be made again, and from several threads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol


class InstanceError(Exception):
    """The cloud did not do it; the message says why, for its operator. The call may be made again later."""


class NoRoomError(InstanceError):
    """The cloud reports that it has no room for the instance."""


class RefusedError(InstanceError):
    """The cloud will refuse it again: wrong credentials, an unknown image or size, a quota."""


class InstanceState(StrEnum):
    """How an instance stands, as its cloud lists it. An ended one counts as long as the cloud lists it."""

    STARTING = "starting"
    RUNNING = "running"
    ENDING = "ending"
    ENDED = "ended"


@dataclass(frozen=True)
class DesiredInstance:
    """An instance that a lease is to have. amounts: needed beside cores, by resource. user_data: what the
    instance runs as it starts, as its image understands it."""

    lease: str
    cores: int
    origin: str
    amounts: Mapping[str, int] = field(default_factory=dict)
    user_data: str | None = None


@dataclass(frozen=True)
class CloudInstance:
    """An instance that the cloud lists.

    id: the cloud's own. lease: whose it is; None: foreign. size: the cloud's word for it. cores: None where
    the cloud does not tell. ends_at: seconds since 1970, when the cloud has given notice to take it back by
    itself. why: it ended or is ending, in the cloud's words.
    """

    id: str
    lease: str | None
    state: InstanceState
    size: str
    cores: int | None
    addresses: tuple[str, ...] = ()
    ends_at: float | None = None
    why: str | None = None


class InstanceDriver(Protocol):
    """One cloud's instances. Raises InstanceErrors and nothing else."""

    def listed(self) -> list[CloudInstance]:
        """All instances, those of others too."""

    def start(self, wanted: DesiredInstance) -> None:
        """Asks for an instance of the lease; if the cloud has one that was asked for already, for no other.

        A cloud may tell later that it has no room, by an instance that ended before it ran: asked again, the
        driver removes that one and raises its fault. Raises NoRoomError, RefusedError.
        """

    def notice(self, lease: str, leaves_at: float) -> bool:
        """Tells the instance that it must leave then, seconds since 1970; False: this cloud cannot."""

    def end(self, lease: str) -> None:
        """Terminates the lease's instance at once; nothing happens when there is none (any more)."""

    def free_cores(self) -> int | None:
        """How many cores the cloud says it could still give; None: it does not tell."""
