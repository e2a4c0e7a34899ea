"""Messages of cloud agents: records of their instances, and catalogues of what leases may be there."""

from __future__ import annotations

from typing import Literal

from broker.contract.fields import CloudId, Id, Message
from broker.contract.launch import LaunchRules
from broker.contract.version import since as since_version
from cloudsim.model.flavours import CloudFlavour

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
    is_sold:
        True if the lease is on-demand that another member bought.
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
    is_sold: bool = since_version(4, default=False)


class InstanceCatalogue(Message):
    """The instances that leases may be on a real cloud: its agent lists them, its owner promises them.

    Attributes
    ----------
    flavours:
        The flavours that leases get, in the order in which they are preferred.
    rules:
        What holders may choose.
    key:
        The agent's public key (JWK), for which the secrets of launches are encrypted.
    faults:
        What the agent found wrong with the cloud, in words.
    """

    cloud: CloudId
    flavours: tuple[CloudFlavour, ...]
    rules: LaunchRules = LaunchRules()
    key: str | None = None
    faults: tuple[str, ...] = ()
