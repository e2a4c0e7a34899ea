"""Calls that choose a lifetime by what a cloud discloses: ``client.targets``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from urllib.parse import quote

from broker.client.errors import NotFoundError
from broker.client.transport import Resource, parse
from broker.contract import CloudInfo
from broker.schemas.clouds import CloudView, Lifetimes, Table


@dataclass(frozen=True)
class LifetimeTarget:
    """The lifetime to ask a cloud for, see ``cloudsim.disclosure.targeting.TargetChoice``.

    ``pool`` is the number of the pool to ask, on a cloud that sells pools. ``lifetime_s`` is None if the
    cloud does not disclose enough to choose; ``why`` then says what to do.
    """

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


class TargetsResource(Resource):
    """Chooses lifetimes for users of spot instances that come without a guarantee."""

    def choose(self, cloud: str, *, cores: int = 1, value: str = "linear") -> LifetimeTarget:
        """Return the lifetime that is worth most on a cloud.

        Parameters
        ----------
        cloud
            Id of the cloud.
        cores
            Size of the instance.
        value
            Worth of a lifetime: a name in ``cloudsim.disclosure.targeting.VALUES``.

        Raises
        ------
        NotFoundError
            When the cloud is unknown.
        SpecError
            When ``value`` is unknown.
        """
        # numpy is heavy, and only this call needs it
        from cloudsim.disclosure.targeting import choose_target, find_value, parse_disclosed

        worth = find_value(value)
        path = f"/v1/clouds/{quote(cloud, safe='')}"
        info = parse(CloudView, self._transport.send("GET", path)).info
        try:
            table = parse(Table, self._transport.send("GET", f"{path}/table"))
        except NotFoundError:
            return LifetimeTarget(cloud, cores, value, None, why="has no table yet: try again in a while")
        level = table.disclosure
        if level == "nothing":
            why = "tells nothing of its lifetimes: choose one yourself, and ask without a guarantee"
            return LifetimeTarget(cloud, cores, value, level, why=why)
        targets = []
        for pool, lifetimes in find_lifetimes(info, table, cores).items():
            choice = choose_target(parse_disclosed(level, lifetimes.model_dump()), worth)
            if choice is not None:
                figures = (choice.lifetime_s, choice.chance, choice.value_h, choice.value_per_core_hour)
                targets.append(
                    LifetimeTarget(cloud, cores, value, level, *figures, sla=choice.sla, pool=pool)
                )
        if not targets:
            why = "has no lifetimes of this size to choose by: ask for a quote of it, and again in a while"
            return LifetimeTarget(cloud, cores, value, level, why=why)
        return max(targets, key=lambda target: (target.value_h or 0.0, target.lifetime_s or 0.0))


def find_lifetimes(info: CloudInfo, table: Table, cores: int) -> Mapping[int | None, Lifetimes]:
    """Return the disclosed lifetimes of an instance of ``cores`` cores, by the number of its pool.

    An instance is taken at the top of its pool. A cloud without pools has one entry at most, under None.
    """
    if not info.pools:
        plain = [
            lifetimes for lifetimes in table.lifetimes if lifetimes.cores == cores and not lifetimes.amounts
        ]
        return {None: plain[0]} if plain else {}
    from cloudsim.prediction.samples import STACK_TOP

    tops = list(accumulate(reversed(info.pools)))[::-1]
    by_top = {
        lifetimes.amounts[STACK_TOP]: lifetimes
        for lifetimes in table.lifetimes
        if STACK_TOP in lifetimes.amounts
    }
    return {pool: by_top[top] for pool, top in enumerate(tops) if top in by_top and info.pools[pool] >= cores}
