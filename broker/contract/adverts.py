"""Adverts: what a member cloud publishes about itself, its description and its present room."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

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
    """The description of a member cloud, written when its owner opens.

    Attributes
    ----------
    order:
        Its place among the clouds; breaks ties in routing.
    nodes:
        Its nodes in the notation of federation files.
    largest_node:
        The cores of its largest node.
    node_kinds:
        Its nodes in their order, with the resources and labels that requests may need.
    lineup:
        The name of its policies for placement and eviction.
    grace_s:
        The length of the notice before an eviction, in seconds.
    pools:
        The cores of each spot pool that it sells, the pool that is evicted first at the head; empty without
        pools.
    slices_s:
        The lifetimes that it sells, in seconds; a shorter one is rounded up to the next.
    fair_share:
        True if it shares room fairly and has to see requests that it will refuse for want of room.
    speed:
        Seconds of its time in one second of wall time.
    runs_commands:
        True if a node agent runs the commands of batch jobs on its instances.
    spot_usd_per_core_hour, on_demand_usd_per_core_hour:
        The prices of a core for an hour of wall time, in US dollars; None in a federation without prices.
    sells_on_demand:
        True if other members may start on-demand instances here.
    instances:
        The driver of the real cloud whose instances its leases are; None for a simulated cloud.
    """

    id: CloudId
    order: int
    nodes: str
    cores: int
    largest_node: int
    time: Literal["wall", "trace"]
    overflow: bool = False
    node_kinds: tuple[NodeKind, ...] = ()
    lineup: str | None = None
    grace_s: float = 0.0
    pools: tuple[int, ...] = since(3, ())
    slices_s: tuple[float, ...] = since(3, ())
    fair_share: bool = since(3, default=False)
    speed: float = since(3, 1.0)
    runs_commands: bool = since(3, default=False)
    spot_usd_per_core_hour: float | None = since(3)
    on_demand_usd_per_core_hour: float | None = since(3)
    sells_on_demand: bool = since(3, default=False)
    instances: str | None = since(3)

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

    Attributes
    ----------
    at, at_s:
        Wall time (RFC 3339, UTC) and the cloud's own time in seconds.
    free_slots:
        The number of free slots by size in cores.
    evicted, admitted:
        The numbers of evictions and admissions so far.
    promised_room:
        The room for a request with a promise, which may take cores of spot instances without one; None where
        no such instances run.
    admission:
        The mode of admission: to whom an SLA is a promise.
    closed_nodes:
        The number of nodes that take no new instances (cordoned or drained); their free cores and slots are
        not counted.
    disclosure:
        How much the cloud discloses.
    pool_cores:
        The cores of each pool that may still be sold; other instances may be using them now.
    """

    cloud: CloudId
    at: str
    at_s: float
    epoch: int
    free_cores: int
    on_demand_cores: int
    spot_cores: int
    spot_leases: int
    free_slots: dict[int, int]
    table_version: str | None
    table_made_at_s: float | None
    evicted: int
    admitted: int
    promised_room: Room | None = None
    admission: Mode = Mode.STRICT
    closed_nodes: int = 0
    disclosure: DisclosureLevel = since(3, "full")
    pool_cores: tuple[int, ...] = since(3, ())

    def room(self, *, promised: bool) -> Room:
        """Return the room for a request with or without a promise."""
        if promised and self.promised_room is not None:
            return self.promised_room
        return Room(free_cores=self.free_cores, free_slots=self.free_slots)
