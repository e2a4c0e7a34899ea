"""Caps on the cores of spot that each origin may hold on a cloud at once: the owner's side of quotas.

Without a cap nothing is counted. A cap changes no promise that was made, and evicts nobody.
"""

from __future__ import annotations

from dataclasses import dataclass

from cloudsim.model.instances import Quote
from cloudsim.model.refusals import Refusal, RefusalReason
from cloudsim.model.requests import Request
from cloudsim.scheduling.inventory import Inventory


@dataclass(frozen=True)
class SpotCaps:
    """The caps of one cloud.

    cores: the most cores of spot for each origin, None for no cap. by_origin: (origin, cores) for origins
    with a cap of their own.
    """

    cores: int | None = None
    by_origin: tuple[tuple[str, int], ...] = ()

    def most_cores(self, origin: str) -> int | None:
        """Return the most cores that an origin may hold; None where there is no cap."""
        return dict(self.by_origin).get(origin, self.cores)

    def apply_cap(self, answer: Quote | Refusal, request: Request, inventory: Inventory) -> Quote | Refusal:
        """Return the answer to a request, or a refusal where its origin would hold more than its cap."""
        most = self.most_cores(request.origin)
        if most is None or isinstance(answer, Refusal):
            return answer
        cores = sum(instance.cores for instance in inventory.spot() if instance.origin == request.origin)
        if cores + request.cores <= most:
            return answer
        return Refusal(answer.cloud, RefusalReason.OVER_SPOT_CAP, free_slots=answer.free_slots)


NO_CAPS = SpotCaps()
