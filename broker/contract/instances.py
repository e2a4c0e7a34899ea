"""What the instance agent of a cloud knows of its instances: shown to holders of leases, and the agent's own
memory over a restart."""

from __future__ import annotations

from typing import Literal

from broker.contract.fields import Id, Message


class InstanceRecord(Message):
    """An instance of a real cloud. ``lease``: whose it is; None: foreign, its cloud's users started it.

    ``own_id``: the cloud's own name, None before it is listed. ``since``: of the state, seconds since 1970.
    ``why``: it ended, or is not started yet, in the cloud's words. Of a foreign one: ``on_demand`` is the
    instance in its owner's books, ``counted`` whether it has room there, ``tries`` how often it was refused.
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
