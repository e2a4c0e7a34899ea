"""Answers calls about one cloud: its table, its nodes, its time."""

from __future__ import annotations

from uuid import uuid4

from broker.api.services.owner_calls import OwnerCalls
from broker.contract import Answer, Done, Drain, Finish, Reopen, read_message
from broker.requests.errors import SilentError
from broker.requests.members import MembershipView
from broker.schemas.clouds import DrainRequest, Table


class CloudService:
    """Reads the tables of clouds, and sends the commands of those who operate them.

    A command returns the owner's answer, or None if there was none in time: then the command is kept. It
    raises SetAsideError if the owner failed over it.
    """

    def __init__(self, owners: OwnerCalls, membership: MembershipView):
        self._owners, self._membership = owners, membership

    async def table(self, cloud: str) -> Table | None:
        """Return the quantile table of a cloud as far as it discloses it, None before there is one."""
        table = await self._membership.table(cloud)
        return None if table is None else read_message(Table, table)

    async def drain(self, cloud: str, request: DrainRequest, principal: str) -> Answer | None:
        """Close nodes of a cloud and make their spot instances leave."""
        command = Drain(
            id=f"drain-{uuid4().hex}",
            reply_to=self._owners.reply_to,
            nodes=request.nodes,
            by=principal,
            dry_run=request.dry_run,
        )
        return await self._owners.call(cloud, command)

    async def reopen(self, cloud: str, nodes: tuple[int, ...] | None, principal: str) -> Answer | None:
        """Let nodes of a cloud take new instances again; ``nodes`` None: all of them."""
        command_id = f"reopen-{uuid4().hex}"
        command = Reopen(id=command_id, reply_to=self._owners.reply_to, nodes=nodes, by=principal)
        return await self._owners.call(cloud, command)

    async def finish(self, cloud: str) -> Done:
        """Let everything happen that is still to come on a cloud in trace time. Raises SilentError."""
        command = Finish(id=f"finish-{uuid4().hex}", reply_to=self._owners.reply_to)
        answer = await self._owners.call(cloud, command, self._owners.deadline_s(trace_time=True))
        if not isinstance(answer, Done):
            raise SilentError([cloud])
        return answer
