"""Requests of a cloud's own users for which it found no room, and the room that its owner frees for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from cloudsim.model.reserved_ids import FREED_S
from workers.cloud_agent.drivers.base import CloudInstance

#: Seconds that a cloud may take to end instances: a user who is refused again meanwhile gets no further room.
SETTLE_S = 60.0
#: Clouds tell times in whole seconds.
_ROUNDED_S = 1.0
#: Seconds from when an instance is not listed any more to when its cloud has given its room back.
_GIVEN_BACK_S = 2.0


@dataclass
class UserRefusal:
    """A request that failed. Times are seconds since 1970.

    freed_at: when the owner freed room for it, None if it has not. settled_at: when the instances that had to
    leave had gone. is_over: the room was taken, or is meant for a later request of this user.
    """

    instance: CloudInstance
    cores: int
    freed_at: float | None = None
    settled_at: float | None = None
    is_over: bool = False


class UserRefusals:
    """Keeps the refusals that the cloud lists, each of which frees room once."""

    def __init__(self) -> None:
        self._refusals: dict[str, UserRefusal] = {}

    def note_listing(
        self,
        foreign: Mapping[str, CloudInstance],
        cores_of: Callable[[CloudInstance], int | None],
        now: float,
        *,
        is_settled: bool,
    ) -> None:
        """Note what the cloud lists of its own users; ``now`` in seconds since 1970.

        is_settled: all instances that were to end have gone. Refusals that are older than the room would be
        kept are nobody's concern any more.
        """
        if is_settled:
            for refusal in self._refusals.values():
                if refusal.freed_at is not None and refusal.settled_at is None:
                    refusal.settled_at = now
        for own_id in self._refusals.keys() - foreign.keys():
            refusal = self._refusals[own_id]
            if now - (refusal.freed_at or refusal.instance.no_room_at or 0.0) > SETTLE_S:
                del self._refusals[own_id]  # until then its user may be trying again
        failed = [one for one in foreign.values() if one.no_room_at is not None]
        for instance in sorted(failed, key=lambda one: (one.no_room_at, one.id)):
            cores, known = cores_of(instance), self._refusals.get(instance.id)
            if cores is not None and known is None:
                known = self._refusals[instance.id] = UserRefusal(instance, cores)
                earlier = self._room_under_way(instance)
                if earlier is not None:
                    earlier.is_over = True
                    known.freed_at, known.settled_at = earlier.freed_at, earlier.settled_at
            if known is not None and now - (instance.no_room_at or now) > FREED_S:
                known.is_over = True

    def _room_under_way(self, instance: CloudInstance) -> UserRefusal | None:
        """Return the refusal whose room the instance would have taken, had the cloud been ready."""
        for refusal in self._of(instance):
            assert instance.no_room_at is not None
            if refusal.freed_at is not None:
                until = refusal.freed_at + SETTLE_S
                if refusal.settled_at is not None:
                    until = min(until, refusal.settled_at + _GIVEN_BACK_S)
                if refusal.freed_at - _ROUNDED_S < instance.no_room_at < until:
                    return refusal
        return None

    def due(self) -> Iterator[UserRefusal]:
        """Yield the requests for which room is to be freed."""
        for refusal in self._refusals.values():
            if refusal.freed_at is None and not refusal.is_over:
                yield refusal

    def note_freed(self, own_id: str, now: float) -> None:
        """Note that the owner frees room for a request; ``now`` in seconds since 1970."""
        if own_id in self._refusals:
            self._refusals[own_id].freed_at = now

    def note_unfreed(self, own_id: str) -> UserRefusal | None:
        """Note that the owner can free no room for a request; return it, None if it is not known."""
        refusal = self._refusals.get(own_id)
        if refusal is not None:
            refusal.is_over = True
        return refusal

    def note_arrival(self, instance: CloudInstance) -> None:
        """Note that an instance of an own user has come: it takes the room that was freed for that user.

        One that was asked for after the refusal needs none to be freed any more.
        """
        for refusal in self._of(instance):
            failed_at = refusal.instance.no_room_at or 0.0
            if refusal.freed_at is not None or (instance.created_at or 0.0) >= failed_at:
                refusal.is_over = True
                return

    def _of(self, instance: CloudInstance) -> Iterator[UserRefusal]:
        """Yield what was refused to the same user, of the same size, and has not been made good."""
        for refusal in self._refusals.values():
            other = refusal.instance
            if not refusal.is_over and (other.account, other.size) == (instance.account, instance.size):
                yield refusal
