"""Mask the answers of a cloud that does not disclose everything.

See docs/design/volatile-resources.md "In the product".

Lifetimes follow from the load of the cloud's own users: anybody who sees free slots come and go can replay
it. So below ``full`` a cloud reveals only whether there is room. Where a number of free slots is needed it
gives that of the empty cloud, which its nodes reveal anyway; it is therefore ranked as the loosest fit.
``masked_tables`` hides what its risks are read from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cloudsim.disclosure.levels import SHARES, Disclosure
from cloudsim.disclosure.masked_tables import CoarseTable
from cloudsim.model.instances import Quote
from cloudsim.model.refusals import Refusal, RefusalReason
from cloudsim.model.requests import Request
from cloudsim.prediction.tables import QuantileTable


def mask_answer(
    answer: Quote | Refusal,
    request: Request,
    level: Disclosure,
    table: QuantileTable | None,
    node_cores: Sequence[int],
) -> Quote | Refusal:
    """Return the answer to a spot request as a cloud of that level gives it.

    Parameters
    ----------
    table
        The table that the cloud decides by.
    node_cores
        Cores of each node of the cloud.
    """
    if level is Disclosure.FULL:
        return answer
    least = 0
    if request.promised and isinstance(table, CoarseTable):
        least = table.least_free_slots(request.cores, request.amounts)
    if answer.free_slots is not None and answer.free_slots < least:
        return Refusal(answer.cloud, RefusalReason.NO_CAPACITY, free_slots=0)
    if isinstance(answer, Quote):
        return replace(answer, free_slots=empty_slots(node_cores, request.cores))
    return mask_refusal(answer, level)


def mask_refusal(refusal: Refusal, level: Disclosure) -> Refusal:
    """Remove from a refusal how much room is left, and who would have to leave to make some."""
    if level is Disclosure.FULL:
        return refusal
    if refusal.reason is RefusalReason.NO_TABLE and level not in SHARES:
        return Refusal(refusal.cloud, RefusalReason.NOT_DISCLOSED)
    slots = 0 if refusal.free_slots == 0 else None
    return replace(refusal, free_slots=slots, eviction_would_help=False, removed=())


def empty_slots(node_cores: Sequence[int], cores: int) -> int:
    """Return the slots of a size on a cloud where nothing runs."""
    return sum(node // cores for node in node_cores)
