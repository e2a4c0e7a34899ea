"""What a member makes known of itself: what it is, and how it stands. ``broker.contract`` gives it on."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from broker.contract.fields import CloudId, Message
from broker.contract.version import since
from cloudsim.model.requests import Mode

#: As ``cloudsim.disclosure.levels.Disclosure``, which is heavy to import; a test keeps them equal.
DisclosureLevel = Literal["nothing", "mttr", "p10", "p90", "full"]


class NodeKind(Message):
    """So many neighbouring nodes that are alike; ``resources``: those beside cores, overcommit included."""

    nodes: int
    cores: int
    resources: dict[str, int] = Field(default_factory=dict)
    labels: dict[str, str] = Field(default_factory=dict)


class CloudInfo(Message):
    """What a member is; written when its owner opens. ``order`` breaks ties in routing.

    ``node_kinds``: its nodes in their order, for those who need more than cores. ``lineup``: who goes where
    and who is evicted for whom. ``grace_s``: so long before it must leave an instance is told so. What it
    sells: ``pools``, cores of each, the one that is evicted first at the head; ``slices_s``, the lifetimes
    that a shorter one is rounded up to. None of either where it makes no difference.

    For batch jobs: ``speed``, seconds of its time in one of wall time; ``runs_commands``, whether a node
    agent runs commands on its instances; and what its cores cost, US dollars an hour of wall time, None in a
    federation without prices. ``sells_on_demand``: other members may start on-demand instances here too.
    ``instances``: its leases are instances of a real cloud, by this driver; None: it is simulated.
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
    fair_share: bool = since(3, default=False)  # it wants to know who is refused for want of room
    speed: float = since(3, 1.0)
    runs_commands: bool = since(3, default=False)
    spot_usd_per_core_hour: float | None = since(3)
    on_demand_usd_per_core_hour: float | None = since(3)
    sells_on_demand: bool = since(3, default=False)
    instances: str | None = since(3)

    def most(self, resource: str) -> int:
        """The largest amount of a resource beside cores on one of its nodes."""
        return max((kind.resources.get(resource, 0) for kind in self.node_kinds), default=0)


class Room(Message):
    """Free cores, and free slots keyed by size in cores."""

    free_cores: int
    free_slots: dict[int, int]


class Advert(Message):
    """What a cloud says of itself, refreshed with every commit. ``free_slots`` is keyed by size in cores.

    ``admission``: to whom an SLA is a promise here. ``promised_room``: as a request with a promise sees it,
    which may take the cores of spot instances without one; None where none of these run. ``closed_nodes``: so
    many take nobody new (cordoned or drained), and their free cores and slots are not counted.
    ``disclosure``: how much the cloud tells. Below ``full`` free cores and slots are those of the empty cloud
    where there is any room, else 0, and what runs is told as 0. ``pool_cores``: of each pool, how many cores
    may still be sold; they may be in use by others above. Not told below ``full``.
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
        """The room for a request with or without a promise."""
        if promised and self.promised_room is not None:
            return self.promised_room
        return Room(free_cores=self.free_cores, free_slots=self.free_slots)
