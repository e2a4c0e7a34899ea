"""On-demand instances that wait for room on their node: when each starts at the latest. Pure."""

from __future__ import annotations

import numpy as np

from cloudsim.inventory import Inventory
from cloudsim.requests import Instance
from cloudsim.scheduling.fit import fits


def starts_by_s(inventory: Inventory, wanted: Instance) -> float:
    """When an instance that is about to be booked starts at the latest, in the cloud's time.

    Those who wait on its node start in the order of their booking, as soon as enough of those have left who
    were given notice.
    """
    room = inventory.idle[:, wanted.node].copy()
    for booked in inventory.booked():
        if booked.node == wanted.node:
            room -= np.array(inventory.needed(booked))
    leaving = [
        (spot.evict_at_s, inventory.needed(spot))
        for spot in inventory.spot()
        if spot.node == wanted.node and spot.evict_at_s is not None
    ]
    needed = inventory.needed(wanted)
    for evict_at_s, freed in sorted(leaving):
        room += np.array(freed)
        if fits(room.tolist(), needed):
            return evict_at_s
    raise AssertionError(f"{wanted.id} would wait for room that nobody leaves")
