"""Sends one command to the owner of one cloud and waits for its answer."""

from __future__ import annotations

from broker.contract import Answer, Command, RefusalView
from broker.requests.errors import SetAsideError
from broker.requests.owner_commands import OwnerCommands
from broker.settings import Settings
from cloudsim.model.refusals import RefusalReason


class OwnerCalls:
    """Calls owners and awaits their answers, within the reply deadlines of the settings."""

    def __init__(self, settings: Settings, commands: OwnerCommands):
        self.settings, self.commands = settings, commands

    @property
    def reply_to(self) -> str:
        """The reply stream of this process, which commands name as the place to answer to."""
        return self.commands.reply_to

    def deadline_s(self, *, trace_time: bool) -> float:
        """Return how long an owner is waited for, in seconds."""
        return self.settings.trace_reply_deadline_s if trace_time else self.settings.reply_deadline_s

    async def call(self, cloud: str, command: Command, deadline_s: float | None = None) -> Answer | None:
        """Send a command to the owner of ``cloud`` and return its answer.

        None means that the owner did not answer in time: the command is kept in its inbox and will be carried
        out. ``deadline_s``: how long to wait, in seconds; None: the reply deadline of wall time.

        Raises
        ------
        SetAsideError
            When the owner failed over the command, which is not carried out.
        redis.RedisError
            When Redis does not answer.
        """
        deadline_s = self.deadline_s(trace_time=False) if deadline_s is None else deadline_s
        answer = (await self.commands.ask({cloud: [command]}, deadline_s)).get(command.id)
        if isinstance(answer, RefusalView) and answer.reason is RefusalReason.UNREACHABLE:
            raise SetAsideError(cloud)
        return answer
