"""Adverts: what a member cloud publishes about itself, its description and its present room."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from broker.contract.field_docs import describe_fields
from broker.contract.fields import CloudId, Message
from broker.contract.version import since
from cloudsim.model.requests import Mode

#: The values of ``cloudsim.disclosure.levels.Disclosure``, which is heavy to import; a test keeps them equal.
DisclosureLevel = Literal["nothing", "mttr", "p10", "p90", "full"]


class NodeKind(Message):
    """A run of ``nodes`` equal nodes; ``resources`` are those beside cores, with overcommitment."""

    nodes: int
    cores: int
    resources: dict[str, int] = Field(default_factory=dict)
    labels: dict[str, str] = Field(default_factory=dict)


class CloudInfo(Message):
    """The description of a member cloud, written when its owner opens."""

    model_config = ConfigDict(json_schema_extra=describe_fields)

    id: CloudId
    order: int
    """Its place among the clouds; breaks ties in routing."""
    nodes: str
    """Its nodes in the notation of federation files."""
    cores: int
    largest_node: int
    """The cores of its largest node."""
    time: Literal["wall", "trace"]
    overflow: bool = False
    node_kinds: tuple[NodeKind, ...] = ()
    """Its nodes in their order, with the resources and labels that requests may need."""
    lineup: str | None = None
    """The name of its policies for placement and eviction."""
    grace_s: float = 0.0
    """The length of the notice before an eviction."""
    pools: tuple[int, ...] = since(3, ())
    """The cores of each spot pool that it sells, the pool that is evicted first at the head."""
    slices_s: tuple[float, ...] = since(3, ())
    """The lifetimes that it sells; a shorter one is rounded up to the next."""
    fair_share: bool = since(3, default=False)
    """True if it shares room fairly, and has to see requests that it will refuse for want of room."""
    speed: float = since(3, 1.0)
    """Seconds of its time in one second of wall time."""
    runs_commands: bool = since(3, default=False)
    """True if a node agent runs the commands of batch jobs on its instances."""
    spot_usd_per_core_hour: float | None = since(3)
    """The price of a spot core for an hour of wall time; null in a federation without prices."""
    on_demand_usd_per_core_hour: float | None = since(3)
    """The price of an on-demand core for an hour of wall time; null in a federation without prices."""
    sells_on_demand: bool = since(3, default=False)
    """True if other members may start on-demand instances here."""
    boot_s: float | None = since(4)
    """Seconds that an instance takes before it runs a batch job; null where it takes none."""
    instances: str | None = since(3)
    """The driver of the real cloud whose instances its leases are; null for a simulated cloud."""

    def most(self, resource: str) -> int:
        """Return the largest amount of a resource beside cores on one node."""
        return max((kind.resources.get(resource, 0) for kind in self.node_kinds), default=0)


class Room(Message):
    """Free room: cores, and free slots by size in cores."""

    free_cores: int
    free_slots: dict[int, int]


class Advert(Message):
    """The present state of a cloud, published with every commit of its owner.

    Below the disclosure level ``full``, free cores and slots are those of the empty cloud where there is any
    room and else 0, what runs is 0, and ``pool_cores`` is empty.
    """

    model_config = ConfigDict(json_schema_extra=describe_fields)

    cloud: CloudId
    at: str
    """Wall time (RFC 3339, UTC)."""
    at_s: float
    """The cloud's own time."""
    epoch: int
    free_cores: int
    on_demand_cores: int
    spot_cores: int
    spot_leases: int
    free_slots: dict[int, int]
    """The number of free slots by size in cores."""
    table_version: str | None
    table_made_at_s: float | None
    evicted: int
    """The number of evictions so far."""
    admitted: int
    """The number of admissions so far."""
    promised_room: Room | None = None
    """The room for a request with a promise, which may take cores of spot instances without one.

    It is null where none of these run.
    """
    admission: Mode = Mode.STRICT
    """The mode of admission: to whom an SLA is a promise."""
    closed_nodes: int = 0
    """The number of cordoned or drained nodes; their free cores and slots are not counted."""
    disclosure: DisclosureLevel = since(3, "full")
    """How much the cloud discloses."""
    pool_cores: tuple[int, ...] = since(3, ())
    """The cores of each pool that may still be sold; other instances may be using them now."""

    def room(self, *, promised: bool) -> Room | Advert:
        """Return the room for a request with or without a promise."""
        return self.promised_room if promised and self.promised_room is not None else self
