"""Answers calls about on-demand instances of one cloud: start, start together, stop, show."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import uuid4

from broker.api.services.owner_calls import OwnerCalls
from broker.contract import Answer, Lease, OnDemandRequest, Show, StartAll, StartOnDemand, StopOnDemand


class OnDemandService:
    """Starts and stops on-demand instances for the own users of a cloud and for members that buy there.

    A call returns the owner's answer, or None if there was none in time: then the command is kept. It raises
    SetAsideError if the owner failed over it. ``origin`` is the origin that instances must have to be seen;
    None means the cloud's own users when starting, and any origin when stopping or showing.
    """

    def __init__(self, owners: OwnerCalls):
        self._owners = owners

    async def start(self, cloud: str, request: OnDemandRequest, origin: str | None = None) -> Answer | None:
        """Start an instance; ``request`` has an id."""
        assert request.id is not None
        command = StartOnDemand(
            id=f"{request.id}:start",
            reply_to=self._owners.reply_to,
            instance=request.id,
            cores=request.cores,
            lifetime_s=request.lifetime_s,
            origin=origin,
            **request.dump_needs(),
        )
        return await self._owners.call(cloud, command)

    async def start_all(
        self, cloud: str, requests: Sequence[OnDemandRequest], origin: str | None = None
    ) -> Answer | None:
        """Start several instances, or none of them."""
        command = StartAll(
            id=f"{requests[0].id}:start_all",
            reply_to=self._owners.reply_to,
            requests=tuple(requests),
            origin=origin,
        )
        return await self._owners.call(cloud, command)

    async def stop(self, cloud: str, instance: str, origin: str | None = None) -> Answer | None:
        """Stop an instance."""
        command = StopOnDemand(
            id=f"{instance}:stop", reply_to=self._owners.reply_to, instance=instance, origin=origin
        )
        return await self._owners.call(cloud, command)

    async def show(self, cloud: str, instance: str, origin: str | None = None) -> Answer | None:
        """Ask for an instance as it is now."""
        command_id = f"show-{uuid4().hex}"
        command = Show(id=command_id, reply_to=self._owners.reply_to, instance=instance, origin=origin)
        return await self._owners.call(cloud, command)


def matches_request(lease: Lease, request: OnDemandRequest, origin: str | None) -> bool:
    """Return whether a lease is what ``request`` asks for, and of this origin; None: of any.

    It is not if the id of the request was used for something else before.
    """
    needs = (request.resources, request.labels, request.group, request.spread)
    same = lease.cores == request.cores and (lease.amounts, lease.labels, lease.group, lease.spread) == needs
    return same and origin in (None, lease.origin)
