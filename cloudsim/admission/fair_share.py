"""What an origin may hold of a cloud while others want room there too: the owner's side of fairness.

Off unless it is told: then nothing is counted. While nobody waits, anybody may use all that is idle. An
origin *waits* for ``window_s`` of the cloud's time after a request of it was refused that would have been
admitted if no spot instance ran. While somebody waits who holds less than its share, those who hold theirs
get no more (reason ``over_fair_share``). What becomes free is kept for who waits, no longer than that.
Nobody is evicted, and what was promised stands; an extension takes no further cores and is not asked.

Shares are weighted and max-min fair: of the cores that own users leave, those who want more get the same for
each unit of weight, and what somebody does not use is divided among the others. An origin below its share is
never refused for this reason; its last instance may take it beyond, by less than the size of that instance.
Refused: counting that instance beforehand. Two who hold 4 of 12 cores each and want 4 more would then wait
for each other, and nobody could get an instance that is larger than its share. Names decide nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import accumulate

from cloudsim.cloud.inventory import Inventory
from cloudsim.model.instances import Quote
from cloudsim.model.refusals import Refusal, RefusalReason
from cloudsim.model.requests import Request

#: A refusal for one of these may be for want of room: the less there is, the higher the risk.
_FOR_WANT_OF_ROOM = frozenset(
    {RefusalReason.NO_CAPACITY, RefusalReason.NO_EVIDENCE, RefusalReason.RISK_TOO_HIGH}
)

Ask = Callable[[Request, Inventory], Quote | Refusal]


@dataclass(frozen=True)
class FairShare:
    """``window_s``: so long after a refusal an origin waits. ``weights``: of origins that have one of their
    own; 1 for all others."""

    window_s: float
    weights: tuple[tuple[str, float], ...] = ()

    def weight(self, origin: str) -> float:
        """Who weighs twice as much gets twice as much."""
        return dict(self.weights).get(origin, 1.0)

    def shares(self, inventory: Inventory, wanting: Iterable[str]) -> dict[str, float]:
        """The share in cores of each origin that wants more (there is one), or holds something."""
        held, greedy = held_cores(inventory), frozenset(wanting)
        usable = int(inventory.free_normal[0][~inventory.closed].sum())
        weights = {origin: self.weight(origin) for origin in {*held, *greedy}}
        wants = sorted(
            (math.inf if origin in greedy else held[origin] / weight, weight)
            for origin, weight in weights.items()
        )
        level = _level(usable, wants)
        return {origin: level * weight for origin, weight in weights.items()}


class Contention:
    """Who waits for room on one cloud. ``refused_at_s``: when an origin was last refused for want of it, of
    those that wait. ``rule`` None: nobody does."""

    def __init__(self, rule: FairShare | None):
        self._rule = rule
        self.refused_at_s: dict[str, float] = {}

    def now(self, now_s: float) -> dict[str, float]:
        """Of those that wait: when each was last refused."""
        longest_s = self._rule.window_s if self._rule else 0.0
        return {origin: at_s for origin, at_s in self.refused_at_s.items() if now_s - at_s <= longest_s}

    def note(self, origin: str, at_s: float) -> None:
        """It was refused."""
        if self._rule is not None:
            self.refused_at_s = self.now(at_s) | {origin: at_s}

    def since(self, at_s: float, origin: str) -> str | None:
        """The origin if it was refused at that very moment."""
        return origin if self.refused_at_s.get(origin) == at_s else None

    def heard(
        self, answer: Quote | Refusal, request: Request, inventory: Inventory, now_s: float, ask: Ask
    ) -> None:
        """The answer to a request that is meant. ``ask``: what the answer would be if that were what runs."""
        if self._rule is None or isinstance(answer, Quote):
            return
        waits = answer.reason is RefusalReason.OVER_FAIR_SHARE
        if answer.reason in _FOR_WANT_OF_ROOM:
            waits = isinstance(ask(request, inventory.without_spot()), Quote)
        if waits:
            self.note(request.origin, now_s)

    def applied(
        self, answer: Quote | Refusal, request: Request, inventory: Inventory, now_s: float
    ) -> Quote | Refusal:
        """The answer to a request, or a refusal where it is somebody else's turn."""
        if self._rule is None or isinstance(answer, Refusal):
            return answer
        others = self.now(now_s).keys() - {request.origin}
        if not others:
            return answer
        held = held_cores(inventory)
        shares = self._rule.shares(inventory, {request.origin, *others})
        if held[request.origin] < shares[request.origin]:
            return answer
        if not any(held[origin] < shares[origin] for origin in others):
            return answer
        return Refusal(answer.cloud, RefusalReason.OVER_FAIR_SHARE, free_slots=answer.free_slots)


def held_cores(inventory: Inventory) -> Counter[str]:
    """Spot cores by origin."""
    held: Counter[str] = Counter()
    for one in inventory.spot():
        held[one.origin] += one.cores
    return held


def _level(cores: float, wants: list[tuple[float, float]]) -> float:
    """Cores for each unit of weight once all are served in steps: who has enough leaves the rest to the
    others. wants: (cores wanted for each unit of weight, weight), ascending."""
    weights = list(accumulate(weight for _, weight in reversed(wants)))[::-1]  # of this one and all after it
    for (wanted, own), weight in zip(wants, weights, strict=True):
        if wanted * weight >= cores:
            return cores / weight
        cores -= wanted * own
    raise AssertionError("somebody wants all it can get")
