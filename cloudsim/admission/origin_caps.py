"""How many cores of spot each origin may hold on a cloud at once: the owner's side of quotas.

Off unless it is told: then nothing is counted. A cap changes no promise that was made, and evicts nobody.
"""

from __future__ import annotations

from dataclasses import dataclass

from cloudsim.cloud.inventory import Inventory
from cloudsim.model.instances import Quote
from cloudsim.model.refusals import Refusal, RefusalReason
from cloudsim.model.requests import Request


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
        return Refusal(answer.cloud, RefusalReason.OVER_SPOT_CAP, free_slots=answer.free_slots)


NO_CAPS = SpotCaps()
