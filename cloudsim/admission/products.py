"""Products: the pools of different stability and the fixed durations that a cloud sells (P3 §3.1 and §8).

A request that names no pool gets the uppermost one that keeps its promise, so that stable pools are left for
requests that need them. Without a promise an instance belongs to no pool: it gives way to all that have one.
A lifetime is rounded up to the next duration, which is promised, quoted and leased.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from cloudsim.admission.pools import Pools, PoolView
from cloudsim.model.instances import Instance, Quote
from cloudsim.model.refusals import Refusal, RefusalReason
from cloudsim.model.requests import Request
from cloudsim.scheduling.inventory import Inventory

#: Rounding alone may make an end late by this much.
_SLACK_S = 1e-3

Answer = TypeVar("Answer", bound=Quote | Refusal)
Examine = Callable[[Request, PoolView | None], Quote | Refusal]


@dataclass(frozen=True)
class Products:
    """The products of one cloud.

    pools: None where all spot is one product. slices_s: the durations that are sold in seconds, ascending;
    empty where any duration is sold.
    """

    pools: Pools | None = None
    slices_s: tuple[float, ...] = ()

    def sold_lifetime_s(self, lifetime_s: float) -> float | None:
        """Return the duration that is sold for a lifetime; None when all durations are shorter."""
        if not self.slices_s:
            return lifetime_s
        index = bisect_left(self.slices_s, lifetime_s)
        return self.slices_s[index] if index < len(self.slices_s) else None

    def round_up_request(self, request: Request) -> Request:
        """Return the request with the lifetime that is sold for it; unchanged where none is."""
        if not self.slices_s or request.lifetime_s is None:
            return request
        lifetime_s = self.sold_lifetime_s(request.lifetime_s)
        return request if lifetime_s is None else replace(request, lifetime_s=lifetime_s)

    def answer_request(
        self, cloud: str, request: Request, inventory: Inventory, examine: Examine
    ) -> Quote | Refusal:
        """Answer a spot request. ``examine`` answers for one pool, or for None where there are none."""
        sells = request.lifetime_s is None or self.sold_lifetime_s(request.lifetime_s) is not None
        if not sells:
            return Refusal(cloud, RefusalReason.NO_SUCH_PRODUCT, survives_s=self.slices_s[-1])
        request = self.round_up_request(request)
        if request.pool is not None and not (
            self.pools and request.promised and request.pool < len(self.pools)
        ):
            return Refusal(cloud, RefusalReason.NO_SUCH_PRODUCT)
        if self.pools is None or not request.promised:
            return self.round_down_offer(examine(request, None))
        views = self.pools.views(inventory, request.cores)
        refusals: list[Refusal] = []
        for view in views if request.pool is None else views[request.pool :][:1]:
            answer = self.round_down_offer(examine(request, view))
            if isinstance(answer, Quote):
                return replace(answer, pool=view.number)
            refusals.append(answer)
        # The one that is nearest to a promise; of equals the most stable, which is full last.
        return max(reversed(refusals), key=lambda refusal: refusal.survives_s or 0.0)

    def round_down_offer(self, answer: Answer) -> Answer:
        """Return the answer with a ``survives_s`` that is a duration on sale, too; 0 when all are longer."""
        if not self.slices_s or answer.survives_s is None:
            return answer
        index = bisect_right(self.slices_s, answer.survives_s)
        return replace(answer, survives_s=self.slices_s[index - 1] if index else 0.0)

    def sold_until_s(self, instance: Instance, until_s: float) -> float | None:
        """Return the end that is sold when a later one is wanted; None beyond the longest duration."""
        lifetime_s = self.sold_lifetime_s(until_s - instance.start_s - _SLACK_S)
        return None if lifetime_s is None else max(until_s, instance.start_s + lifetime_s)
