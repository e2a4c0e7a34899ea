"""Named line-ups: which filters, weighers and eviction order a cloud plays with."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cloudsim.errors import SpecError
from cloudsim.scheduling.eviction import Order, youngest_first
from cloudsim.scheduling.filters import Filter, has_room
from cloudsim.scheduling.weighers import Weigher, fewest_free_cores, last_nodes, most_free_cores

Weighers = tuple[tuple[Weigher, float], ...]


@dataclass(frozen=True)
class LineUp:
    """What the pipeline runs. Each weigher goes with its factor.

    ``spot_weighers`` place spot instances, ``weighers`` all others. Prediction knows first-fit only, in its
    replays of recorded instances as for the virtual one: with other weighers its risks are those of another
    placement, and a promise has to be measured instead of trusted (experiment ``placement``).
    """

    name: str
    filters: tuple[Filter, ...]
    weighers: Weighers
    eviction_order: Order
    spot_weighers: Weighers = ()


YOUNGEST_JOB_FIRST = LineUp("youngest-job-first", (has_room,), (), youngest_first)

#: Spot from the other end of the node order, so that on-demand instances meet it late.
SPOT_LAST_FIT = replace(
    YOUNGEST_JOB_FIRST, name="youngest-job-first-spot-last-fit", spot_weighers=((last_nodes, 1.0),)
)
#: Spot on the fullest node with room: empty nodes are left to large instances.
SPOT_BEST_FIT = replace(
    YOUNGEST_JOB_FIRST, name="youngest-job-first-spot-best-fit", spot_weighers=((fewest_free_cores, 1.0),)
)
#: Spot on the emptiest node.
SPOT_WORST_FIT = replace(
    YOUNGEST_JOB_FIRST, name="youngest-job-first-spot-worst-fit", spot_weighers=((most_free_cores, 1.0),)
)

LINEUPS = (YOUNGEST_JOB_FIRST, SPOT_LAST_FIT, SPOT_BEST_FIT, SPOT_WORST_FIT)

_BY_NAME = {lineup.name: lineup for lineup in LINEUPS}


def lineup(name: str) -> LineUp:
    """The line-up of that name. Raises SpecError listing those that exist."""
    try:
        return _BY_NAME[name]
    except KeyError:
        known = ", ".join(sorted(_BY_NAME))
        raise SpecError(f"no line-up is called {name!r}; there are: {known}", field="lineup") from None
