"""Answers calls about spot leases: read, list, end, extend, acknowledge."""

from __future__ import annotations

import logging
from contextlib import suppress

import redis.asyncio

from broker.api.services.owner_calls import OwnerCalls
from broker.contract import (
    LONGEST_S,
    Acknowledge,
    Answer,
    Cancel,
    Extend,
    ExtensionRequest,
    Lease,
    LeaseGranted,
)
from broker.contract.instances import InstanceRecord
from broker.contract.leases import parse_attempt_id
from broker.leases.pages import CursorError, LeaseFilter, LeasePages
from broker.leases.store import MISPLACED, LeaseStore, record_retention_s
from broker.requests.errors import SetAsideError, UnsuitableError
from broker.requests.members import MembershipView
from broker.schemas.leases import Cancellation
from broker.storage.keys import RedisKeys

log = logging.getLogger(__name__)


class LeaseService:
    """Reads leases from Redis and sends the commands of their holders to the owners of their clouds."""

    def __init__(
        self,
        client: redis.asyncio.Redis,
        keys: RedisKeys,
        owners: OwnerCalls,
        membership: MembershipView,
    ):
        self._owners, self._membership = owners, membership
        self._epochs: dict[str, int] = {}  # by cloud, in which its leases were looked at
        self._store = LeaseStore(client, keys)
        self._list = LeasePages(client, keys, membership.infos, self._store)

    async def get(self, lease_id: str) -> Lease | None:
        """Return a spot lease as it is now, None if there is none of that id."""
        return await self._store.get(lease_id)

    async def get_instance(self, lease: Lease) -> InstanceRecord | None:
        """Return the instance of a lease on a real cloud, None if its agent knows none."""
        return await self._store.get_instance(lease)

    async def page(
        self, wanted: LeaseFilter, limit: int, cursor: str | None = None
    ) -> tuple[list[Lease], str | None]:
        """Return a page of leases and the cursor of the next page; see ``LeasePages.read_page``.

        Raises UnsuitableError if the cursor is not one of a page of leases.
        """
        try:
            return await self._list.read_page(wanted, limit, cursor)
        except CursorError as error:
            raise UnsuitableError("cursor", str(error)) from error

    async def cancel(self, lease_id: str, principal: str) -> None:
        """End a lease if it exists, and ignore an owner that failed over the command: it has logged that."""
        lease = await self.get(lease_id)
        if lease is not None:
            with suppress(SetAsideError):
                await self.end(lease, principal)

    async def end(self, lease: Lease, principal: str) -> Cancellation:
        """End a lease for its holder; an owner that is away finds the command when it returns.

        Raises SetAsideError if the owner failed over the command.
        """
        if not lease.state.is_open:
            return Cancellation(done=True, lease=lease)
        command = Cancel(
            id=f"{lease.id}:cancel", reply_to=self._owners.reply_to, lease=lease.id, by=principal
        )
        member = await self._membership.member(lease.cloud)
        deadline_s = None if member and member.reachable else 0.0
        match await self._owners.call(lease.cloud, command, deadline_s):
            case LeaseGranted(lease=ended):
                return Cancellation(done=True, lease=ended)
            case None:
                return Cancellation(done=False, lease=lease)
            case _:  # the owner no longer remembers how the lease ended
                return Cancellation(done=True, lease=await self.get(lease.id) or lease)

    async def end_misplaced(self, *, again: bool = False) -> None:
        """End the misplaced leases of clouds whose owner is new, see ``broker.leases.store.is_misplaced``.

        An owner that comes back to a Redis that was restored from an older copy brings its leases along.
        ``again``: look at all clouds. Raises redis.RedisError.
        """
        if again:
            self._epochs.clear()
        for member in await self._membership.members():
            cloud, epoch = member.info.id, member.advert.epoch if member.advert is not None else 0
            if self._epochs.get(cloud, 0) == epoch:
                continue
            for lease in await self._store.find_misplaced(cloud):
                log.warning("lease %s runs on %s, its request elsewhere: it is ended there", lease.id, cloud)
                command = Cancel(id=f"{lease.id}:misplaced", lease=lease.id, by=MISPLACED)
                await self._owners.commands.send({cloud: [command]})
            self._epochs[cloud] = epoch

    async def extend(
        self, lease: Lease, until_s: float, request: ExtensionRequest, extension: str
    ) -> Answer | None:
        """Ask for a later end of a lease.

        Parameters
        ----------
        lease
            The lease as it is now.
        until_s
            The end asked for, in seconds of the cloud's time; see ``new_end_s``.
        request
            The body of the call.
        extension
            Names this extension: the same name gets the same answer.

        Returns
        -------
        Answer | None
            The owner's answer; None if there was none in time: then the command is kept.

        Raises
        ------
        UnsuitableError
            When the request does not suit the cloud's time, or names an SLA and the lease has no guarantee.
        SetAsideError
            When the owner failed over the command.
        """
        member = await self._membership.member(lease.cloud)
        trace_time = member is not None and member.info.time == "trace"
        if trace_time != (request.at_s is not None):
            raise UnsuitableError("at_s", "say it in trace time, and only there")
        if request.sla is not None and (lease.promised_sla is None or lease.promised_sla >= 1):
            raise UnsuitableError("sla", "this lease was promised nothing, and gives way to those that were")
        command = Extend(
            id=f"{lease.id}:extend:{extension}",
            reply_to=self._owners.reply_to,
            at_s=request.at_s,
            lease=lease.id,
            extension=extension,
            until_s=until_s,
            sla=request.sla,
        )
        kept_s = record_retention_s(until_s - lease.starts_at_s)
        await self._owners.commands.records.keep({parse_attempt_id(lease.id)[0]: kept_s})
        return await self._owners.call(lease.cloud, command, self._owners.deadline_s(trace_time=trace_time))

    async def acknowledge(self, lease: Lease, principal: str) -> Answer | None:
        """Tell the owner that the holder of a lease under notice is done with it.

        Return the owner's answer; None if there was none in time: then the command is kept. Raises
        SetAsideError if the owner failed over it.
        """
        command = Acknowledge(
            id=f"{lease.id}:acknowledge", reply_to=self._owners.reply_to, lease=lease.id, by=principal
        )
        return await self._owners.call(lease.cloud, command)


def new_end_s(request: ExtensionRequest, lease: Lease) -> float:
    """Return the end that an extension asks for, in seconds of the cloud's time.

    Raises UnsuitableError unless exactly one of ``lifetime_s`` and ``until_s`` is given and can be used.
    """
    if request.lifetime_s is not None and request.until_s is not None:
        raise UnsuitableError("until_s", "there is a lifetime_s as well")
    if request.until_s is not None:
        return request.until_s
    if request.lifetime_s is None:
        raise UnsuitableError("lifetime_s", "there is no until_s either")
    if lease.starts_at_s + request.lifetime_s > LONGEST_S:
        raise UnsuitableError("lifetime_s", "the lease would end later than any can")
    return lease.starts_at_s + request.lifetime_s


def is_extended(lease: Lease, until_s: float, sla: float | None, *, rounded_up: bool = False) -> bool:
    """Return whether a lease has the end and the SLA that were asked for.

    ``rounded_up``: the cloud sells slices of time, and the end may be a later one. ``sla`` None: any.
    """
    assert lease.ends_at_s is not None, "a spot lease has an end"
    has_end = lease.ends_at_s >= until_s if rounded_up else lease.ends_at_s == until_s
    return has_end and sla in (None, lease.promised_sla)
