"""Fair shares: how much of a cloud an origin may hold while others want room there too.

A cloud without the rule counts nothing. While no origin waits, each may use all that is idle. An origin
*waits* for ``window_s`` of the cloud's time after the refusal of a request that would have been admitted if
no spot instance ran. While an origin waits that holds less than its share, those that hold theirs get no more
(reason ``over_fair_share``): room that becomes free is kept for the waiting origin, no longer than that.
Nobody is evicted, and promises stand; an extension takes no further cores and is not examined.

Shares are weighted and max-min fair: of the cores that own users leave, the origins that want more get the
same for each unit of weight, and cores that an origin does not use are divided among the others. An origin
below its share is never refused for this reason; its last instance may take it beyond, by less than the size
of that instance. Rejected: counting that instance beforehand. Two origins that hold 4 of 12 cores each and
want 4 more would then wait for each other, and none could get an instance larger than its share. The names of
origins decide nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import accumulate

from cloudsim.model.instances import Quote
from cloudsim.model.refusals import Refusal, RefusalReason
from cloudsim.model.requests import Request
from cloudsim.scheduling.inventory import Inventory

#: Refusals for these reasons may be for want of room: the less there is, the higher the risk.
_FOR_WANT_OF_ROOM = frozenset(
    {RefusalReason.NO_CAPACITY, RefusalReason.NO_EVIDENCE, RefusalReason.RISK_TOO_HIGH}
)

Ask = Callable[[Request, Inventory], Quote | Refusal]


@dataclass(frozen=True)
class FairShare:
    """The rule of fair shares of one cloud.

    window_s: how long an origin waits after a refusal, in seconds of the cloud's time. weights: (origin,
    weight) for origins with a weight of their own; 1 for all others.
    """

    window_s: float
    weights: tuple[tuple[str, float], ...] = ()

    def weight(self, origin: str) -> float:
        """Return the weight of an origin: twice the weight gets twice the share."""
        return dict(self.weights).get(origin, 1.0)

    def shares(self, inventory: Inventory, wanting: Iterable[str]) -> dict[str, float]:
        """Return the share in cores of each origin that wants more or holds something.

        wanting: the origins that want more, at least one.
        """
        by_origin, greedy = held_cores(inventory), frozenset(wanting)
        usable = int(inventory.free_normal[0][~inventory.closed].sum())
        weights = {origin: self.weight(origin) for origin in {*by_origin, *greedy}}
        wants = sorted(
            (math.inf if origin in greedy else by_origin[origin] / weight, weight)
            for origin, weight in weights.items()
        )
        level = _level(usable, wants)
        return {origin: level * weight for origin, weight in weights.items()}


class Contention:
    """The origins that wait for room on one cloud.

    refused_at_s: by waiting origin, when it was last refused for want of room. rule: None if no origin ever
    waits.
    """

    def __init__(self, rule: FairShare | None):
        self._rule = rule
        self.refused_at_s: dict[str, float] = {}

    def waiting_origins(self, now_s: float) -> dict[str, float]:
        """Return when each of the waiting origins was last refused."""
        longest_s = self._rule.window_s if self._rule else 0.0
        return {origin: at_s for origin, at_s in self.refused_at_s.items() if now_s - at_s <= longest_s}

    def note_refusal(self, origin: str, at_s: float) -> None:
        """Note that an origin was refused for want of room."""
        if self._rule is not None:
            self.refused_at_s = self.waiting_origins(at_s) | {origin: at_s}

    def origin_refused_at(self, at_s: float, origin: str) -> str | None:
        """Return the origin if it was refused at that very moment, else None."""
        return origin if self.refused_at_s.get(origin) == at_s else None

    def note_answer(
        self, answer: Quote | Refusal, request: Request, inventory: Inventory, now_s: float, ask: Ask
    ) -> None:
        """Note the answer to a request, if it makes the request's origin wait.

        ask: returns the answer to the request on another inventory.
        """
        if self._rule is None or isinstance(answer, Quote):
            return
        waits = answer.reason is RefusalReason.OVER_FAIR_SHARE
        if answer.reason in _FOR_WANT_OF_ROOM:
            waits = isinstance(ask(request, inventory.without_spot()), Quote)
        if waits:
            self.note_refusal(request.origin, now_s)

    def apply_shares(
        self, answer: Quote | Refusal, request: Request, inventory: Inventory, now_s: float
    ) -> Quote | Refusal:
        """Return the answer to a request, or a refusal where another origin's turn comes first."""
        if self._rule is None or isinstance(answer, Refusal):
            return answer
        others = self.waiting_origins(now_s).keys() - {request.origin}
        if not others:
            return answer
        by_origin = held_cores(inventory)
        shares = self._rule.shares(inventory, {request.origin, *others})
        if by_origin[request.origin] < shares[request.origin]:
            return answer
        if not any(by_origin[origin] < shares[origin] for origin in others):
            return answer
        return Refusal(answer.cloud, RefusalReason.OVER_FAIR_SHARE, free_slots=answer.free_slots)


def held_cores(inventory: Inventory) -> Counter[str]:
    """Return the cores of running spot instances by origin."""
    by_origin: Counter[str] = Counter()
    for instance in inventory.spot():
        by_origin[instance.origin] += instance.cores
    return by_origin


def _level(cores: float, wants: list[tuple[float, float]]) -> float:
    """Return the cores for each unit of weight: an origin that has enough leaves the rest to the others.

    wants: (cores wanted for each unit of weight, weight), ascending.
    """
    weights = list(accumulate(weight for _, weight in reversed(wants)))[::-1]  # of this one and all after it
    for (wanted, own), weight in zip(wants, weights, strict=True):
        if wanted * weight >= cores:
            return cores / weight
        cores -= wanted * own
    raise AssertionError("no origin wants all it can get")
