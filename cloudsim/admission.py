"""SLA admission: may this spot request be promised what it asks for? (P2 §2.3)

Strict mode: each admitted request's own risk of eviction before its lifetime is at most its SLA. A request
without an SLA is the papers' SLA-unaware baseline: it is admitted whenever it fits.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from cloudsim.inventory import Inventory
from cloudsim.requests import Quote, Reason, Refusal, Request

if TYPE_CHECKING:
    from cloudsim.prediction.tables import QuantileTable


class Mode(StrEnum):
    """To whom the SLA is a promise."""

    STRICT = "strict"  # to each: the request's own risk is at most its SLA
    POPULATION = "population"  # to all: the mean risk of the admitted is at most their SLA


@dataclass(frozen=True)
class AdmissionRule:
    """How a cloud decides whether a risk is small enough."""

    mode: Mode = Mode.STRICT


STRICT_RULE = AdmissionRule()


def examine(
    cloud: str, request: Request, inventory: Inventory, table: QuantileTable | None
) -> Quote | Refusal:
    """Quote or refusal for a spot request, from free slots now and the table's estimate."""
    if request.cores > inventory.largest_node:
        return Refusal(cloud, Reason.TOO_LARGE)
    free_slots = inventory.free_slots(request.cores)
    if free_slots == 0:
        return Refusal(cloud, Reason.NO_CAPACITY, free_slots=0)
    guaranteed = request.sla is not None and request.sla < 1
    if table is None or not table.has(request.cores):
        if guaranteed:
            return Refusal(cloud, Reason.NO_TABLE, free_slots=free_slots)
        return Quote(cloud, request.cores, free_slots, None, None, None, None)
    assert request.lifetime_s is not None, "a spot request names its lifetime"
    estimate = table.estimate(request.cores, free_slots, request.lifetime_s)
    sla = request.sla if request.sla is not None and guaranteed else 1.0
    if estimate.eviction_probability <= sla:
        survives_s = table.survives_s(request.cores, free_slots, sla) if guaranteed else None
        return Quote(
            cloud, request.cores, free_slots, estimate.eviction_probability, survives_s,
            table.version, table.made_at_s,
        )  # fmt: skip
    return Refusal(
        cloud,
        Reason.RISK_TOO_HIGH if estimate.evidence else Reason.NO_EVIDENCE,
        free_slots=free_slots,
        eviction_probability=estimate.eviction_probability,
        survives_s=table.survives_s(request.cores, free_slots, sla),
        table_version=table.version,
        table_made_at_s=table.made_at_s,
    )
