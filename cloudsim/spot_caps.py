"""How many cores of spot each origin may hold on a cloud at once: the owner's side of quotas.

Off unless it is told: then nothing is counted. A cap changes no promise that was made, and evicts nobody.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cloudsim.errors import SpecError
from cloudsim.inventory import Inventory
from cloudsim.requests import Quote, Reason, Refusal, Request


@dataclass(frozen=True)
class SpotCaps:
    """``cores``: of each origin (None: any); ``by_origin``: of those that have one of their own."""

    cores: int | None = None
    by_origin: tuple[tuple[str, int], ...] = ()

    def of(self, origin: str) -> int | None:
        """The most cores that an origin may hold; None: any."""
        return dict(self.by_origin).get(origin, self.cores)

    def applied(self, answer: Quote | Refusal, request: Request, inventory: Inventory) -> Quote | Refusal:
        """The answer to a request, or a refusal where it would be admitted beyond its origin's cap."""
        most = self.of(request.origin)
        if most is None or isinstance(answer, Refusal):
            return answer
        held = sum(one.cores for one in inventory.spot() if one.origin == request.origin)
        if held + request.cores <= most:
            return answer
        return Refusal(answer.cloud, Reason.OVER_SPOT_CAP, free_slots=answer.free_slots)


NO_CAPS = SpotCaps()


def spot_caps_of(table: Mapping[str, Any], where: str) -> SpotCaps:
    """``spot_cap_cores`` and ``spot_caps`` of a cloud in a federation file. Raises SpecError."""
    single = table.get("spot_caps", {})
    if not isinstance(single, Mapping):
        raise SpecError(f"{single!r} is not a table such as {{ B = 48 }}", field=f"{where}.spot_caps")
    caps = {name: _cap(cores, f"{where}.spot_caps.{name}") for name, cores in single.items()}
    every = table.get("spot_cap_cores")
    return SpotCaps(
        None if every is None else _cap(every, f"{where}.spot_cap_cores"), tuple(sorted(caps.items()))
    )


def _cap(cores: object, where: str) -> int:
    if isinstance(cores, bool) or not isinstance(cores, int) or cores < 0:
        raise SpecError(f"{cores!r} is not a number of cores", field=where)
    return cores
