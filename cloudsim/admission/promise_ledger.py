"""The ledger of promises: what was promised at each SLA, and what came of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cloudsim.model.changes import End
from cloudsim.model.instances import Instance

#: The least time in seconds for which a peak of own load keeps a cloud full.
PEAK_S = 3600.0


@dataclass
class Account:
    """The account of one SLA: its admitted spot instances.

    running, completed, evicted: instances whose promise is open, was kept and was broken. pending: the sum of
    the risks with which the running ones were admitted. An instance that its holder ended early says nothing
    about the promise and leaves the account.
    """

    running: int = 0
    completed: int = 0
    evicted: int = 0
    pending: float = 0.0

    @property
    def admitted(self) -> int:
        """The number of promises that were made and not withdrawn by their holder."""
        return self.running + self.completed + self.evicted

    def balance(self, allowed: float) -> float:
        """Return the evictions that may still come when the share ``allowed`` of the admitted may be evicted.

        Those expected of the running ones are not counted; negative when the promise is overdrawn
        (docs/design/prediction.md "Population mode").
        """
        return allowed * self.admitted - self.evicted - self.pending


class PromiseLedger:
    """The accounts of a cloud by SLA, kept from the starts and ends of spot instances with a promise."""

    def __init__(self) -> None:
        self._accounts: dict[float, Account] = {}

    def __iter__(self) -> Iterator[tuple[float, Account]]:
        """Yield SLAs and their accounts, strictest first."""
        yield from sorted(self._accounts.items())

    def account(self, sla: float) -> Account:
        """Return the account of an SLA; one that is not kept when nothing was promised yet."""
        return self._accounts.get(sla, Account())

    def record_start(self, instance: Instance) -> None:
        """Record an admission."""
        if not instance.promised:
            return
        assert instance.sla is not None
        account = self._accounts.setdefault(instance.sla, Account())
        account.running += 1
        account.pending += instance.risk or 0.0

    def record_end(self, instance: Instance, how: End) -> None:
        """Record the end of an instance that had started."""
        if not instance.promised:
            return
        assert instance.sla is not None
        account = self.account(instance.sla)
        account.running -= 1
        account.pending = account.pending - (instance.risk or 0.0) if account.running else 0.0
        account.completed += how is End.COMPLETED
        account.evicted += how is End.EVICTED
