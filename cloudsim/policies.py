"""How a federation file says whom a cloud evicts and what it sells: ``eviction``, ``pools``, ``slices_h``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from cloudsim.errors import SpecError
from cloudsim.nodes import NodeDetails
from cloudsim.pools import POOLS, Pools
from cloudsim.requests import MOST_POOLS
from cloudsim.scheduling.lineups import LIFO_POOLS, YOUNGEST_JOB_FIRST, LineUp, eviction_lineup, lineup

_MOST_SLICES = 16
#: 002 §3.1 ends all intervals after two days; a year is for those who mean it.
_LONGEST_H = 8784.0


class Policies(NamedTuple):
    """The fields of ``CloudSpec`` of these names."""

    lineup: LineUp
    pools: int
    slices_s: tuple[float, ...]


def policies_of(
    table: Mapping[str, Any], where: str, node_cores: tuple[int, ...], details: NodeDetails
) -> Policies:
    """Those of a cloud in a federation file. Raises SpecError naming the field."""
    chosen = _lineup_of(table, where)
    pools = table.get("pools", POOLS)
    if "pools" in table and chosen != LIFO_POOLS:
        raise SpecError('goes with eviction = "lifo-pools"', field=f"{where}.pools")
    if isinstance(pools, bool) or not isinstance(pools, int):
        raise SpecError(f"{pools!r} is not a number of pools", field=f"{where}.pools")
    if chosen == LIFO_POOLS:
        Pools.cut(sum(node_cores), pools, field=f"{where}.pools")
        if details.amounts or details.labels:
            raise SpecError(
                "pools are bands of cores: leave out what its nodes have beside cores",
                field=f"{where}.eviction",
            )
    return Policies(chosen, pools, _slices_s(table.get("slices_h", []), f"{where}.slices_h"))


def pool_of(table: Mapping[str, Any], where: str) -> int | None:
    """``pool`` of a workload. Raises SpecError."""
    pool = table.get("pool")
    if pool is None or (isinstance(pool, int) and not isinstance(pool, bool) and 0 <= pool < MOST_POOLS):
        return pool
    raise SpecError(f"{pool!r} is not a pool from 0 to {MOST_POOLS - 1}", field=f"{where}.pool")


def _lineup_of(table: Mapping[str, Any], where: str) -> LineUp:
    if "eviction" in table:
        if "lineup" in table:
            raise SpecError("a line-up says who is evicted, too: leave one out", field=f"{where}.eviction")
        return eviction_lineup(table["eviction"], field=f"{where}.eviction")
    name = table.get("lineup", YOUNGEST_JOB_FIRST.name)
    if not isinstance(name, str) or not name:
        raise SpecError("is not text", field=f"{where}.lineup")
    return lineup(name, field=f"{where}.lineup")


def _slices_s(value: object, where: str) -> tuple[float, ...]:
    if not isinstance(value, list) or len(value) > _MOST_SLICES:
        raise SpecError(f"{value!r} is not a list of hours such as [1, 6, 24]", field=where)
    for hours in value:
        number = isinstance(hours, int | float) and not isinstance(hours, bool)
        if not number or not math.isfinite(hours) or not 0 < hours <= _LONGEST_H:
            raise SpecError(f"{hours!r} is not a number of hours, {_LONGEST_H:g} at most", field=where)
    if sorted(set(value)) != value:
        raise SpecError("hours rise from one to the next", field=where)
    return tuple(hours * 3600.0 for hours in value)
