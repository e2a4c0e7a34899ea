"""Offers beside the plain answer: longer leases for running instances, and other sizes for new ones.

An instance that has run for a while may be promised more of the time that was not promised at first. Its risk
is the conditional one: P(evicted before L | alive at age a) = (risk(L) - risk(a)) / (1 - risk(a)), read from
the present table in the condition (free slots of its size) in which it was admitted.

Refused: the smaller of this and the risk of an instance born now with today's free slots. Where all sizes
are equal the newborn's risk bounds it from above, as an older instance is displaced after a younger one; with
mixed sizes the older one may go first, when its node is the one that can make room. And the smaller of two
estimates is too low by selection. Asked once of each of 6,936 running instances, at a random age, for a
random later time (8 x 4 as in P2 Figure 1, 240 h, four seeds each; ``tests/unit/cloudsim/test_offers.py``
keeps a part of it):

    predicted / evicted      conditional      newborn          the smaller
    uniform sizes            .078 / .083      .137 / .083      .061 / .083
    bursts                   .070 / .064      .111 / .064      .057 / .064
    sizes 1, 2, 4            .075 / .095      .105 / .095      .064 / .095

Of those whose conditional risk was at most .01/.05/.10 were evicted .007/.033/.047, .010/.026/.037 and
.013/.036/.062 (.013: 3 of 231). PREDICTION.md "Beyond the papers" 7.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cloudsim.cloud.extensions import Ask
from cloudsim.model.instances import Quote
from cloudsim.model.requests import Request

if TYPE_CHECKING:
    pass

#: A list of other sizes names at most so many, the nearest ones.
MOST_SIZES = 16

# -- other sizes ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AdmissibleSize:
    """The same lifetime and SLA at another size: whether it would be promised, its own risk, and how long the
    SLA would be kept."""

    cores: int
    admitted: bool
    free_slots: int | None
    eviction_probability: float | None
    survives_s: float | None


def other_sizes(request: Request, sizes: Iterable[int], ask: Ask) -> tuple[AdmissibleSize, ...]:
    """What ``ask`` says of the same request at other ``sizes``, ascending: the ``MOST_SIZES`` nearest."""
    others = sorted(set(sizes) - {request.cores}, key=lambda size: (abs(size - request.cores), size))
    offers: list[AdmissibleSize] = []
    for cores in sorted(others[:MOST_SIZES]):
        answer = ask(replace(request, cores=cores))
        offers.append(
            AdmissibleSize(
                cores,
                isinstance(answer, Quote),
                answer.free_slots,
                answer.eviction_probability,
                answer.survives_s,
            )
        )
    return tuple(offers)


def largest_admitted(request: Request, sizes: Iterable[int], ask: Ask) -> int | None:
    """The largest of the ``sizes`` below the request's that would be admitted instead, or None."""
    smaller = sorted({size for size in sizes if size < request.cores}, reverse=True)
    return next((size for size in smaller if isinstance(ask(replace(request, cores=size)), Quote)), None)
