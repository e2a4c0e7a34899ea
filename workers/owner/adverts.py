"""The advert of a cloud: what it says of itself to the federation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from broker.contract import Advert, Room
from cloudsim.cloud.cloud import Cloud
from cloudsim.disclosure.levels import Disclosure
from cloudsim.disclosure.masked_tables import CoarseTable
from cloudsim.disclosure.masking import empty_slots
from cloudsim.model.requests import Kind
from cloudsim.scheduling.inventory import Inventory
from workers.owner.state import OwnerState

#: Clouds with larger nodes advertise powers of two, their whole node, and the sizes in their table.
_ALL_SIZES_UP_TO = 64


def advertised_sizes(largest_node: int) -> NDArray[np.int64]:
    """Return the sizes whose free slots a cloud advertises to begin with, as int64[sizes].

    They are all sizes up to the largest node, or on large nodes powers of two and the whole node.
    """
    if largest_node <= _ALL_SIZES_UP_TO:
        return np.arange(1, largest_node + 1, dtype=np.int64)
    powers = 2 ** np.arange(int(math.log2(largest_node)) + 1, dtype=np.int64)
    return np.union1d(powers, [largest_node]).astype(np.int64)


def advertise(state: OwnerState, epoch: int, sizes: NDArray[np.int64], now: str) -> Advert:
    """Return the advert of a cloud in this state. ``sizes``: int64[sizes], in cores. ``now``: RFC 3339."""
    inventory, table = state.cloud.inventory, state.cloud.table
    free = inventory.free[~inventory.closed]
    advert = Advert(
        cloud=state.spec.cloud.id,
        at=now,
        at_s=state.cloud.now_s,
        epoch=epoch,
        free_cores=int(free.sum()),
        on_demand_cores=inventory.used_cores(Kind.ON_DEMAND),
        spot_cores=inventory.used_cores(Kind.SPOT),
        spot_leases=len(inventory.spot()),
        free_slots=_slots(free, sizes),
        table_version=table.version if table else None,
        table_made_at_s=table.made_at_s if table else None,
        evicted=state.evicted,
        admitted=state.admitted,
        promised_room=_promised_room(inventory, sizes),
        admission=state.cloud.spec.admission.mode,
        closed_nodes=int(inventory.closed.sum()),
        disclosure=state.cloud.spec.disclosure.value,
        pool_cores=_pool_cores(state.cloud),
    )
    return advert if state.cloud.spec.disclosure is Disclosure.FULL else _masked(advert, state.cloud)


def _masked(advert: Advert, cloud: Cloud) -> Advert:
    """Reduce the advert of a cloud that does not disclose everything to whether there is room.

    Nothing is left of what runs there (see ``cloudsim.disclosure.masking``).
    """
    table, node_cores = cloud.table, cloud.spec.node_cores

    def mask_room(room: Room | Advert, *, promised: bool) -> Room:
        slots = {}
        for size, free in room.free_slots.items():
            least = table.least_free_slots(size) if promised and isinstance(table, CoarseTable) else 1
            slots[size] = empty_slots(node_cores, size) if free >= least else 0
        return Room(free_cores=sum(node_cores) if any(slots.values()) else 0, free_slots=slots)

    plain = mask_room(advert.room(promised=False), promised=False)
    nothing: dict[str, Any] = {"pool_cores": ()} | dict.fromkeys(
        ("on_demand_cores", "spot_cores", "spot_leases", "evicted", "admitted"), 0
    )
    return advert.model_copy(
        update={
            **dict(plain),
            **nothing,
            "promised_room": mask_room(advert.room(promised=True), promised=True),
        }
    )


def _pool_cores(cloud: Cloud) -> tuple[int, ...]:
    """Return the free cores of each pool; 0 for a pool that own users reach into."""
    pools = cloud.spec.products.pools
    if pools is None:
        return ()
    return tuple(
        max(view.room_cores, 0) if view.condition > 0 else 0 for view in pools.views(cloud.inventory, 1)
    )


def _promised_room(inventory: Inventory, sizes: NDArray[np.int64]) -> Room | None:
    if not inventory.any_yields:
        return None
    free = inventory.room(promised=True)[0][~inventory.closed]
    return Room(free_cores=int(free.sum()), free_slots=_slots(free, sizes))


def _slots(free: NDArray[np.int64], sizes: NDArray[np.int64]) -> dict[int, int]:
    """Return how many instances of each size the free cores have room for."""
    slots = (free[:, None] // sizes).sum(axis=0)
    return dict(zip(sizes.tolist(), slots.tolist(), strict=True))
