"""Bodies of the HTTP API that are not messages of the contract; the server and the client share them."""

from __future__ import annotations

from pydantic import BaseModel

from broker.contract import Event, Lease


class Leases(BaseModel):
    """A page of leases. ``more``: there may be others, from ``next`` on (null: this is the last page)."""

    leases: list[Lease]
    more: bool = False
    next: str | None = None


class Cancellation(BaseModel):
    """``done`` False: the cancellation is kept, and is carried out when the cloud's owner returns."""

    done: bool
    lease: Lease


class StreamedEvent(BaseModel):
    """An event with its id in the merged stream."""

    id: str
    event: Event
