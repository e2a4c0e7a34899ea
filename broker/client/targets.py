"""Choosing a lifetime by what the clouds disclose, as part of ``broker.client.Client``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from urllib.parse import quote

from broker.api.schemas.clouds import CloudView, Lifetimes, Table
from broker.client.errors import NotFoundError
from broker.client.results import ClientCalls, parse
from broker.contract import CloudInfo


@dataclass(frozen=True)
class LifetimeTarget:
    """The lifetime to ask a cloud for, see ``cloudsim.disclosure.targeting.TargetChoice``. ``pool``: and
    which of its
    pools, where it sells some. ``lifetime_s`` None: it cannot be chosen by what is told, and ``why``."""

    cloud: str
    cores: int
    value: str
    disclosure: str | None
    lifetime_s: float | None = None
    chance: float | None = None
    value_h: float | None = None
    value_per_core_hour: float | None = None
    sla: float | None = None
    pool: int | None = None
    why: str | None = None


class VolatileCalls(ClientCalls):
    """Of whoever uses spot instances without knowing how long they will live."""

    def target(self, cloud: str, *, cores: int = 1, value: str = "linear") -> LifetimeTarget:
        """The lifetime that is worth most. ``value``: a name in ``cloudsim.disclosure.targeting.VALUES``.

        Raises NotFoundError for a cloud that is no member, SpecError for a value that is none.
        """
        from cloudsim.disclosure.targeting import choose_target, find_value, parse_disclosed

        worth = find_value(value)
        path = f"/v1/clouds/{quote(cloud, safe='')}"
        info = parse(CloudView, self._send("GET", path)).info
        try:
            table = parse(Table, self._send("GET", f"{path}/table"))
        except NotFoundError:
            return LifetimeTarget(cloud, cores, value, None, why="has no table yet: try again in a while")
        level = table.disclosure
        if level == "nothing":
            why = "tells nothing of its lifetimes: choose one yourself, and ask without a guarantee"
            return LifetimeTarget(cloud, cores, value, level, why=why)
        found = []
        for pool, told in told_products(info, table, cores).items():
            choice = choose_target(parse_disclosed(level, told.model_dump()), worth)
            if choice is not None:
                figures = (choice.lifetime_s, choice.chance, choice.value_h, choice.value_per_core_hour)
                found.append(LifetimeTarget(cloud, cores, value, level, *figures, sla=choice.sla, pool=pool))
        if not found:
            why = "has no lifetimes of this size to choose by: ask for a quote of it, and again in a while"
            return LifetimeTarget(cloud, cores, value, level, why=why)
        return max(found, key=lambda one: (one.value_h or 0.0, one.lifetime_s or 0.0))


def told_products(info: CloudInfo, table: Table, cores: int) -> Mapping[int | None, Lifetimes]:
    """What is told of an instance of that size, by the pool it would be sold from, each at its top; by None
    where there are no pools."""
    if not info.pools:
        plain = [one for one in table.lifetimes if one.cores == cores and not one.amounts]
        return {None: plain[0]} if plain else {}
    from cloudsim.prediction.samples import STACK_TOP

    tops = list(accumulate(reversed(info.pools)))[::-1]
    by_top = {one.amounts[STACK_TOP]: one for one in table.lifetimes if STACK_TOP in one.amounts}
    return {pool: by_top[top] for pool, top in enumerate(tops) if top in by_top and info.pools[pool] >= cores}
