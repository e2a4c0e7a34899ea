"""Answers calls about on-demand instances of one cloud: start, start together, stop, show."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from uuid import uuid4

from broker.api.problems import not_ready
from broker.api.services.owner_calls import OwnerCalls
from broker.contract import Answer, Lease, OnDemandRequest, Show, StartAll, StartOnDemand, StopOnDemand
from broker.requests.errors import UnsuitableError
from broker.requests.launches import LaunchSealer


class OnDemandService:
    """Starts and stops on-demand instances for the own users of a cloud and for members that buy there.

    A call returns the owner's answer, or None if there was none in time: then the command is kept. It raises
    SetAsideError if the owner failed over it. ``origin`` is the origin that instances must have to be seen;
    None means the cloud's own users when starting, and any origin when stopping or showing.
    """

    def __init__(self, owners: OwnerCalls, sealer: LaunchSealer):
        self._owners, self._sealer = owners, sealer

    async def start(self, cloud: str, request: OnDemandRequest, origin: str | None = None) -> Answer | None:
        """Start an instance; ``request`` has an id. Raises UnsuitableError, ProblemError (503)."""
        (request,) = await self._seal(cloud, [request])
        assert request.id is not None
        command = StartOnDemand(
            id=f"{request.id}:start",
            reply_to=self._owners.reply_to,
            instance=request.id,
            cores=request.cores,
            lifetime_s=request.lifetime_s,
            origin=origin,
            launch=request.launch,
            **request.dump_needs(),
        )
        return await self._owners.call(cloud, command)

    async def start_all(
        self, cloud: str, requests: Sequence[OnDemandRequest], origin: str | None = None
    ) -> Answer | None:
        """Start several instances, or none of them. Raises UnsuitableError, ProblemError (503)."""
        requests = await self._seal(cloud, requests)
        command = StartAll(
            id=f"{requests[0].id}:start_all",
            reply_to=self._owners.reply_to,
            requests=tuple(requests),
            origin=origin,
        )
        return await self._owners.call(cloud, command)

    async def _seal(self, cloud: str, requests: Sequence[OnDemandRequest]) -> list[OnDemandRequest]:
        """Return the requests without the secrets of their launches, which the cloud's agent may read.

        Raises UnsuitableError, ProblemError (503).
        """
        if any(request.launch is not None and request.launch.agent for request in requests):
            raise UnsuitableError("launch", "agent is for batch jobs, which run on spot: leave it out")
        carries = any(request.launch is not None and request.launch.carried for request in requests)
        if carries and not await self._sealer.can_seal_for(cloud):
            raise not_ready(
                f"the agent of {cloud} has not told its key yet, which the launch is encrypted for"
            )
        names: dict[Hashable, str] = {}
        return [
            request
            if request.launch is None
            else request.model_copy(
                update={"launch": await self._sealer.seal_for(request.launch, (cloud,), names)}
            )
            for request in requests
        ]

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
    asked = request.launch and request.launch.without_secrets()
    held = lease.launch and lease.launch.model_copy(update={"sealed": None})
    return same and asked == held and origin in (None, lease.origin)
