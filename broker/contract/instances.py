"""Instance records: what a cloud's cloud agent remembers of its instances and shows to their holders."""

from __future__ import annotations

from typing import Literal

from broker.contract.fields import Id, Message

#: The message about an instance of an ended lease that still runs begins so; it is shown as a foreign one.
STUCK = "cannot be ended: "


class InstanceRecord(Message):
    """An instance of a real cloud.

    Attributes
    ----------
    lease:
        The lease that it belongs to; None for a foreign instance, which the cloud's own users started.
    own_id:
        The cloud's own name for it; None before the cloud lists it.
    since:
        The time at which its state began, in seconds since 1970.
    why:
        The cloud's message about an instance that ended or has not started yet.
    on_demand, counted, tries:
        For a foreign instance: its id in its owner's books, whether it has room there, and how often it was
        refused.
    """

    lease: Id | None
    own_id: str | None = None
    state: Literal["asked", "starting", "running", "ending", "ended"] = "asked"
    since: float
    size: str | None = None
    cores: int | None = None
    addresses: tuple[str, ...] = ()
    why: str | None = None
    on_demand: Id | None = None
    counted: bool = False
    tries: int = 0
