"""Reads which on-demand instances of a cloud its owner has sold; they start as those of leases do."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from broker.contract import Answer, Lease, LeasesGranted, LeaseState, ListSold
from workers.cloud_agent.background_calls import BackgroundCalls
from workers.cloud_agent.owner_client import OwnerClient

#: Seconds between two questions to the owner.
ASK_S = 2.0
#: The kind of this module's calls.
SOLD = "sold"
_ANSWER_S = 5.0


class SoldLeases:
    """The on-demand leases of other members. Their owner shows them to nobody but the cloud's agent."""

    def __init__(self, owner: OwnerClient, calls: BackgroundCalls, now_s: Callable[[], float]):
        self._owner, self._calls, self._now_s = owner, calls, now_s
        self._leases: dict[str, Lease] = {}
        self._due_s = float("-inf")
        #: True once the owner has answered this agent: what it does not name from then on has ended.
        self.is_known = False

    def step(self) -> None:
        """Ask the owner if it is time."""
        now_s = self._now_s()
        if now_s >= self._due_s and self._calls.begin(SOLD, SOLD, self._ask):
            self._due_s = now_s + ASK_S

    def _ask(self) -> Answer | None:
        command = ListSold(id=f"sold:{time.time():.3f}", reply_to=self._owner.reply_to)
        return self._owner.ask([command], _ANSWER_S).get(command.id)

    def note_answer(self, answer: Answer | None) -> None:
        """Note the owner's answer, None if there was none."""
        if isinstance(answer, LeasesGranted):
            self.is_known = True
            ended = {"state": LeaseState.CANCELLED}
            past = {name: lease.model_copy(update=ended) for name, lease in self._leases.items()}
            self._leases = past | {lease.id: lease for lease in answer.leases}

    def add_to(self, leases: Mapping[str, Lease | None]) -> dict[str, Lease | None]:
        """Return leases, by id, with those that were sold.

        Ended ones that are not among them are forgotten.
        """
        self._leases = {
            name: lease for name, lease in self._leases.items() if lease.state.is_open or name in leases
        }
        return {**leases, **self._leases}
