"""Named line-ups: the filters, weighers and victim policies that a cloud can choose."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from cloudsim.model.errors import SpecError
from cloudsim.model.plugins import LINE_UPS, load_plugins
from cloudsim.scheduling import eviction, filters, weighers
from cloudsim.scheduling.eviction import ByKey, Cost
from cloudsim.scheduling.filters import Filter
from cloudsim.scheduling.victims import Cheapest, InOrder, VictimPolicy
from cloudsim.scheduling.weighers import Weigher

Weighers = tuple[tuple[Weigher, float], ...]


class Ranking(StrEnum):
    """The ways in which several weighers, and the cost of the victims, become one choice."""

    LEXICOGRAPHIC = "lexicographic"  # the cost, then weigher by weigher: each only among equals
    WEIGHTED = "weighted"  # the sum of all, each stretched to 0..1: small differences of cost are lost


@dataclass(frozen=True)
class LineUp:
    """The rules by which a cloud places and evicts.

    victims: the policy that chooses who leaves. weighers: (weigher, factor) for on-demand instances; factors
    count in a WEIGHTED ranking only. spot_weighers: those for spot instances. filters: a node passes all of
    them. cost_factor: the factor of the victims' cost in a WEIGHTED ranking. draws: of equal nodes one is
    drawn, by the request's id, instead of the first. renews: a spot instance that is extended counts as the
    newest from then on, as a renewed unit does in docs/design/volatile-resources.md "One sample, in this
    order"; else it keeps its place.
    """

    name: str
    victims: VictimPolicy
    weighers: Weighers = ()
    spot_weighers: Weighers = ()
    filters: tuple[Filter, ...] = filters.ALL
    ranking: Ranking = Ranking.LEXICOGRAPHIC
    cost_factor: float = 1.0
    draws: bool = False
    renews: bool = False

    @property
    def youngest_first(self) -> bool:
        """True if the youngest instance leaves first, and extensions make none younger."""
        return self.victims == InOrder(ByKey()) and not self.renews


YOUNGEST_JOB_FIRST = LineUp("youngest-job-first", InOrder(ByKey()))

#: Spot from the other end of the node order, so that on-demand instances meet it late.
SPOT_LAST_FIT = replace(
    YOUNGEST_JOB_FIRST, name="youngest-job-first-spot-last-fit", spot_weighers=((weighers.last_nodes, 1.0),)
)
#: Spot on the fullest node with room: empty nodes are left to large instances.
SPOT_BEST_FIT = replace(
    YOUNGEST_JOB_FIRST,
    name="youngest-job-first-spot-best-fit",
    spot_weighers=((weighers.fewest_free_cores, 1.0),),
)
#: Spot on the emptiest node.
SPOT_WORST_FIT = replace(
    YOUNGEST_JOB_FIRST,
    name="youngest-job-first-spot-worst-fit",
    spot_weighers=((weighers.most_free_cores, 1.0),),
)


def largest_sla(_cores: Any, sla: Any) -> Any:
    """Return the key by which the largest SLA, the likeliest eviction that was agreed to, leaves first."""
    return -sla


OLDEST_JOB_FIRST = LineUp("oldest-job-first", InOrder(ByKey(oldest=True)))
RANDOM_VICTIMS = LineUp("random-victims", InOrder(eviction.random_order))
WEAKEST_PROMISE_FIRST = LineUp("weakest-promise-first", InOrder(ByKey(largest_sla)))

#: The policy of the paper (P5 Algorithms 4 and 5, corrected as in docs/design/preemption.md).
PARTIAL_HOUR = LineUp("partial-hour", Cheapest(Cost(partial_hour_s=1.0)))
#: The partial hour, ranked as OpenStack and the paper rank: by a sum of min-max normalised weighers.
PARTIAL_HOUR_WEIGHTED = replace(
    PARTIAL_HOUR,
    name="partial-hour-weighted",
    ranking=Ranking.WEIGHTED,
    weighers=((weighers.most_free_cores, 1.0),),
    spot_weighers=((weighers.most_free_cores, 1.0),),
)
LEAST_LOST_WORK = LineUp("least-lost-work", Cheapest(Cost(core_s=1.0)))
FEWEST_VICTIMS = LineUp("fewest-victims", Cheapest(Cost(instance=1.0)))
PROMISE_KEEPING = LineUp("promise-keeping", Cheapest(Cost(promise=1.0)))
#: Consolidation (P5 §6): each instance on the fullest node with room, so that whole nodes fall idle.
CONSOLIDATION = replace(
    YOUNGEST_JOB_FIRST,
    name="consolidation",
    weighers=((weighers.fewest_free_cores, 1.0),),
    spot_weighers=((weighers.fewest_free_cores, 1.0),),
)

LINEUPS = (
    YOUNGEST_JOB_FIRST,
    SPOT_LAST_FIT,
    SPOT_BEST_FIT,
    SPOT_WORST_FIT,
    OLDEST_JOB_FIRST,
    RANDOM_VICTIMS,
    WEAKEST_PROMISE_FIRST,
    PARTIAL_HOUR,
    PARTIAL_HOUR_WEIGHTED,
    LEAST_LOST_WORK,
    FEWEST_VICTIMS,
    PROMISE_KEEPING,
    CONSOLIDATION,
)

#: "FIFO" of P3 §3.1: a renewed instance goes to the back.
FIFO = replace(OLDEST_JOB_FIRST, name="fifo", renews=True)
#: "LIFO" in which a renewal makes an instance the newest, which leaves first.
LIFO_RECENCY = replace(YOUNGEST_JOB_FIRST, name="lifo-recency", renews=True)
#: "LIFO-Pools" as products (``cloudsim.admission.pools``).
LIFO_POOLS = LineUp("lifo-pools", InOrder(eviction.upper_pools_first, sparing_last=True))

#: The policies of P3 §3.1 by their names there. Some are members of LINEUPS under a second name.
EVICTIONS = {
    "lifo": YOUNGEST_JOB_FIRST,
    "lifo-recency": LIFO_RECENCY,
    "fifo": FIFO,
    "random": RANDOM_VICTIMS,
    "lifo-pools": LIFO_POOLS,
}

_BY_NAME = {lineup.name: lineup for lineup in (*LINEUPS, *EVICTIONS.values())}


def lineup(name: object, *, field: str = "lineup") -> LineUp:
    """Return the line-up of that name: one of ours, or one that an installed package adds.

    Raises
    ------
    SpecError
        When there is none of that name; it names ``field`` and lists those that exist.
    """
    if isinstance(name, str) and name in _BY_NAME:
        return _BY_NAME[name]
    added: dict[str, LineUp] = load_plugins(LINE_UPS, LineUp)
    if isinstance(name, str) and name in added:
        return replace(added[name], name=name)
    known = ", ".join(sorted({*_BY_NAME, *added}))
    raise SpecError(f"no line-up is called {name!r}; there are: {known}", field=field)


def eviction_lineup(name: object, *, field: str = "eviction") -> LineUp:
    """Return the line-up of an eviction policy.

    Raises
    ------
    SpecError
        When there is none of that name; it names ``field`` and lists those that exist.
    """
    if not isinstance(name, str) or name not in EVICTIONS:
        known = ", ".join(sorted(EVICTIONS))
        raise SpecError(f"no eviction policy is called {name!r}; there are: {known}", field=field)
    return EVICTIONS[name]
