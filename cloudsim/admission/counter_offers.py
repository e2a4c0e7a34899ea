"""Counter-offers of other sizes: the sizes at which a cloud would promise the same lifetime and SLA."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from cloudsim.model.instances import Quote
from cloudsim.model.refusals import Refusal
from cloudsim.model.requests import Request

#: Answers a request, without side effects.
Ask = Callable[[Request], Quote | Refusal]

#: The most sizes in a list of other sizes; the nearest ones are taken.
MOST_SIZES = 16


@dataclass(frozen=True, slots=True)
class AdmissibleSize:
    """The answer to a request at another size, with the same lifetime and SLA.

    admitted: True if it would be promised. survives_s: how long the SLA would be kept, in seconds.
    """

    cores: int
    admitted: bool
    free_slots: int | None
    eviction_probability: float | None
    survives_s: float | None


def other_sizes(request: Request, sizes: Iterable[int], ask: Ask) -> tuple[AdmissibleSize, ...]:
    """Return what ``ask`` answers at the ``MOST_SIZES`` other sizes nearest to the request, ascending."""
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
    """Return the largest of the ``sizes`` below the request's that would be admitted instead, or None."""
    smaller = sorted({size for size in sizes if size < request.cores}, reverse=True)
    return next((size for size in smaller if isinstance(ask(replace(request, cores=size)), Quote)), None)
