"""What a cloud sells: pools of different stability, and fixed durations (002 §3.1 and §8).

Requests that name no pool get the uppermost one that keeps their promise, so that what is stable is left for
those who need it. Without a promise an instance belongs to no pool: it gives way to all that have one.
A lifetime is rounded up to the next duration, which is what is promised, quoted and leased.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from cloudsim.admission.pools import Pools, PoolView
from cloudsim.cloud.inventory import Inventory
from cloudsim.model.instances import Instance, Quote
from cloudsim.model.refusals import Refusal, RefusalReason
from cloudsim.model.requests import Request

#: By so much an end may be late by rounding alone.
_SLACK_S = 1e-3

Answered = TypeVar("Answered", bound=Quote | Refusal)
Examine = Callable[[Request, PoolView | None], Quote | Refusal]


@dataclass(frozen=True)
class Products:
    """pools: None where all spot is one product. slices_s: durations, ascending; none where any is sold."""

    pools: Pools | None = None
    slices_s: tuple[float, ...] = ()

    def lifetime_s(self, lifetime_s: float) -> float | None:
        """The duration that is sold for a lifetime; None when all are shorter."""
        if not self.slices_s:
            return lifetime_s
        index = bisect_left(self.slices_s, lifetime_s)
        return self.slices_s[index] if index < len(self.slices_s) else None

    def sold(self, request: Request) -> Request:
        """The request with the lifetime that is sold for it; as it is where there is none."""
        if not self.slices_s or request.lifetime_s is None:
            return request
        lifetime_s = self.lifetime_s(request.lifetime_s)
        return request if lifetime_s is None else replace(request, lifetime_s=lifetime_s)

    def answer(self, cloud: str, request: Request, inventory: Inventory, examine: Examine) -> Quote | Refusal:
        """The answer to a spot request; ``examine`` answers for one pool, or None where there are none."""
        if self.slices_s and request.lifetime_s is not None and self.lifetime_s(request.lifetime_s) is None:
            return Refusal(cloud, RefusalReason.NO_SUCH_PRODUCT, survives_s=self.slices_s[-1])
        request = self.sold(request)
        if request.pool is not None and not (
            self.pools and request.promised and request.pool < len(self.pools)
        ):
            return Refusal(cloud, RefusalReason.NO_SUCH_PRODUCT)
        if self.pools is None or not request.promised:
            return self.in_slices(examine(request, None))
        views = self.pools.views(inventory, request.cores)
        refusals: list[Refusal] = []
        for view in views if request.pool is None else views[request.pool :][:1]:
            answer = self.in_slices(examine(request, view))
            if isinstance(answer, Quote):
                return replace(answer, pool=view.number)
            refusals.append(answer)
        # The one that is nearest to a promise; of equals the most stable, which is full last.
        return max(reversed(refusals), key=lambda one: one.survives_s or 0.0)

    def in_slices(self, answer: Answered) -> Answered:
        """What is offered instead is a duration that is sold, too."""
        if not self.slices_s or answer.survives_s is None:
            return answer
        index = bisect_right(self.slices_s, answer.survives_s)
        return replace(answer, survives_s=self.slices_s[index - 1] if index else 0.0)

    def extended_until_s(self, instance: Instance, until_s: float) -> float | None:
        """The end that is sold when a later one is wanted; None beyond the longest duration."""
        lifetime_s = self.lifetime_s(until_s - instance.start_s - _SLACK_S)
        return None if lifetime_s is None else max(until_s, instance.start_s + lifetime_s)
