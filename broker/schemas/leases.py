"""Bodies of the calls about spot leases."""

from __future__ import annotations

from pydantic import BaseModel

from broker.contract import Lease


class Leases(BaseModel, defer_build=True):
    """One page of leases.

    more: whether there may be others. next: the cursor of the next page; null: this is the last one.
    """

    leases: list[Lease]
    more: bool = False
    next: str | None = None


class Cancellation(BaseModel, defer_build=True):
    """A lease that was cancelled.

    done: whether it has ended. If not, the cancellation is kept until the owner of its cloud returns.
    """

    done: bool
    lease: Lease
