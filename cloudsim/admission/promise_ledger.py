"""What was promised and what came of it: one account for each SLA."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cloudsim.model.changes import End
from cloudsim.model.instances import Instance


@dataclass
class Account:
    """The admitted spot instances of one SLA. running: those whose promise is still open.

    pending: the sum of the risks that the running ones were admitted with. An instance that its owner ended
    early tells nothing about the promise and leaves the account.
    """

    running: int = 0
    completed: int = 0
    evicted: int = 0
    pending: float = 0.0

    @property
    def admitted(self) -> int:
        """Promises made and not withdrawn by their holder."""
        return self.running + self.completed + self.evicted

    def balance(self, allowed: float) -> float:
        """Evictions that may still come when the share ``allowed`` of the admitted may be evicted, beyond
        those that are expected of the running ones; negative when the promise is overdrawn (PREDICTION.md
        "Population mode")."""
        return allowed * self.admitted - self.evicted - self.pending


class PromiseLedger:
    """Accounts by SLA, from the starts and ends of spot instances that were promised something."""

    def __init__(self) -> None:
        self._accounts: dict[float, Account] = {}

    def __iter__(self) -> Iterator[tuple[float, Account]]:
        """SLAs and their accounts, strictest first."""
        yield from sorted(self._accounts.items())

    def account(self, sla: float) -> Account:
        """The account of an SLA; an empty one when nothing was promised yet."""
        return self._accounts.setdefault(sla, Account())

    def started(self, instance: Instance) -> None:
        """An admission."""
        if not instance.promised:
            return
        assert instance.sla is not None
        account = self.account(instance.sla)
        account.running += 1
        account.pending += instance.risk or 0.0

    def ended(self, instance: Instance, how: End) -> None:
        """The end of an instance that had started."""
        if not instance.promised:
            return
        assert instance.sla is not None
        account = self.account(instance.sla)
        account.running -= 1
        account.pending = account.pending - (instance.risk or 0.0) if account.running else 0.0
        account.completed += how is End.COMPLETED
        account.evicted += how is End.EVICTED
