"""Named line-ups: the filters, weighers and victim policies that a cloud can choose."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Any

from cloudsim.model.errors import SpecError
from cloudsim.model.plugins import (
    LINE_UPS,
    VICTIM_POLICIES,
    WEIGHERS,
    load_plugins,
    make_part,
    read_part,
    read_table,
)
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

    A name that begins with a brace is a table of parts in JSON, see ``compose_line_up``.

    Raises
    ------
    SpecError
        When there is none of that name; it names ``field`` and lists those that exist.
    """
    if isinstance(name, str) and name.startswith("{"):
        return replace(compose_line_up(read_table(name, field), field), name=name)
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


#: Victim policies by the first line-up of ours that has them; ``cheapest`` takes the weights of ``Cost``.
_VICTIMS: dict[str, Callable[..., VictimPolicy]] = {
    name: partial(lambda policy: policy, policy)
    for policy, name in {lineup.victims: lineup.name for lineup in reversed(LINEUPS)}.items()
} | {"cheapest": lambda **weights: Cheapest(Cost(**weights))}
_WEIGHERS: dict[str, Weigher] = {
    weigher.__name__.replace("_", "-"): weigher
    for weigher in (weighers.fewest_free_cores, weighers.most_free_cores, weighers.last_nodes)
}
_KEYS = ("victims", "weighers", "spot_weighers", "ranking", "cost_factor")


def compose_line_up(table: Mapping[str, Any], field: str) -> LineUp:
    """Return the line-up of a table of parts, which are ours or added by installed packages.

    Parameters
    ----------
    table
        ``victims``: the name of a victim policy, or a table with its ``name`` and parameters. ``weighers``
        and ``spot_weighers``: weights by the weigher's name, or a table of ``weight`` and parameters in place
        of a weight. ``ranking`` and ``cost_factor`` as in ``LineUp``.

    Raises
    ------
    SpecError
        When a key or a part is unknown, or refuses its parameters; it names the field.
    """
    if unknown := ", ".join(key for key in table if key not in _KEYS):
        raise SpecError(f"{unknown} is not one of {', '.join(_KEYS)}", field=field)
    where = f"{field}.victims"
    name, parameters = read_part(table.get("victims", YOUNGEST_JOB_FIRST.name), where)
    make = _find(name, _VICTIMS, VICTIM_POLICIES, where)
    victims: VictimPolicy = make_part(make, parameters, where)
    if not callable(victims):
        raise SpecError(f"{name} makes no victim policy, but {type(victims).__name__}", field=where)
    ranking, factor = table.get("ranking", Ranking.LEXICOGRAPHIC.value), table.get("cost_factor", 1.0)
    if ranking not in [known.value for known in Ranking]:
        raise SpecError(f"{ranking!r} is not one of {', '.join(Ranking)}", field=f"{field}.ranking")
    if not isinstance(factor, int | float):
        raise SpecError(f"{factor!r} is no number", field=f"{field}.cost_factor")
    for_all, for_spot = (
        _compose_weighers(table.get(key, {}), f"{field}.{key}") for key in ("weighers", "spot_weighers")
    )
    return LineUp("composed", victims, for_all, for_spot, ranking=Ranking(ranking), cost_factor=float(factor))


def _compose_weighers(table: Any, field: str) -> Weighers:
    if not isinstance(table, Mapping):
        raise SpecError("is no table of weights by the weigher's name", field=field)
    return tuple(_weigher(name, value, f"{field}.{name}") for name, value in table.items())


def _weigher(name: str, value: Any, field: str) -> tuple[Weigher, float]:
    parameters = dict(value) if isinstance(value, Mapping) else {"weight": value}
    weight = parameters.pop("weight", 1.0)
    if not isinstance(weight, int | float):
        raise SpecError(f"{weight!r} is no weight", field=field)
    weigher: Weigher = _find(name, _WEIGHERS, WEIGHERS, field)
    if not parameters:
        return weigher, float(weight)
    make_part(inspect.signature(weigher).bind, parameters, field, None, None)
    return partial(weigher, **parameters), float(weight)


def _find(name: str, ours: Mapping[str, Any], group: str, field: str) -> Any:
    parts = {**load_plugins(group, Callable), **ours}
    if name not in parts:
        raise SpecError(f"there is no {name!r}; there are: {', '.join(sorted(parts))}", field=field)
    return parts[name]
