"""SLA admission: may this spot request be promised what it asks for? (P2 §2.3)

Strict mode: each admitted request's own risk of eviction before its lifetime is at most its SLA. Population
mode (``population.py``): the mean risk of the admitted is. A request without an SLA, as in the papers'
SLA-unaware baseline, is admitted whenever it fits; it is promised nothing, and gives way to all others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cloudsim.admission.pools import PoolView
from cloudsim.admission.population import Threshold
from cloudsim.cloud.inventory import Inventory
from cloudsim.model.instances import Quote
from cloudsim.model.refusals import Refusal, RefusalReason
from cloudsim.model.requests import Mode, Request

if TYPE_CHECKING:
    from cloudsim.prediction.tables import QuantileTable


@dataclass(frozen=True)
class AdmissionRule:
    """How a cloud decides whether a risk is small enough.

    history_lifetimes: a lifetime is promised with SLA p only when the history is at least
    history_lifetimes / p times as long: four lifetimes at .01, one at .04 and above. However many samples
    there are, a history of two lifetimes has seen the like twice: on the papers' traces B-A on 5 and 4 nodes
    breaks .01 by six instances of some sixty days each that a single peak evicted, promised after 130 days
    without such a peak. 0 asks for no more than one sample followed up so long (the papers' rule).
    """

    mode: Mode = Mode.STRICT
    history_lifetimes: float = 0.04

    def longest_s(self, sla: float, history_s: float) -> float:
        """The longest lifetime that so much history can speak for."""
        return history_s * sla / self.history_lifetimes if self.history_lifetimes else math.inf


STRICT_RULE = AdmissionRule()
#: As P1 and P2 describe it.
PAPERS_ADMISSION = AdmissionRule(history_lifetimes=0.0)


def examine(
    cloud: str,
    request: Request,
    inventory: Inventory,
    table: QuantileTable | None,
    now_s: float,
    rule: AdmissionRule = STRICT_RULE,
    threshold: Threshold | None = None,
    allowed: NDArray[np.bool_] | None = None,
    pool: PoolView | None = None,
) -> Quote | Refusal:
    """Quote or refusal for a spot request, from free slots now and the table's estimate.

    threshold: of the request's SLA, in population mode; None compares with the SLA itself (strict mode).
    allowed: nodes that the request may go to, bool (nodes,); None for all. Slots elsewhere do not count: with
    fewer of them the risk is read more carefully. pool: that it would be sold from; the risk is the pool's.
    """
    if inventory.lacks(request) or (allowed is not None and not allowed.any()):
        too_large = inventory.lacks(request)
        return Refusal(cloud, RefusalReason.TOO_LARGE if too_large else RefusalReason.NO_SUCH_NODE)
    free_slots = inventory.free_slots(
        request.cores, promised=request.promised, amounts=request.amounts, allowed=allowed
    )
    if pool is not None:
        free_slots = min(free_slots, max(pool.room_cores, 0) // request.cores)
    if free_slots == 0:
        return Refusal(cloud, RefusalReason.NO_CAPACITY, free_slots=0)
    if not request.promised:
        # The table is about instances with a promise; this one gives way to them.
        return Quote(cloud, request.cores, free_slots, None, None, None, None)
    cores, amounts = pool.flavour if pool else (request.cores, request.amounts)
    if table is None or not table.has(cores, amounts):
        return Refusal(cloud, RefusalReason.NO_TABLE, free_slots=free_slots)
    assert request.lifetime_s is not None, "a spot request names its lifetime"
    assert request.sla is not None
    threshold = threshold or Threshold(request.sla, 0.0)
    horizons_s = table.release_horizons_s(cores, amounts)
    if horizons_s:
        room = inventory.free_slots_as_spot_leaves(request.cores, [now_s + one for one in horizons_s])
        ages_s = inventory.on_demand_ages_s(now_s) if table.rule.on_demand_ages else ()
        distribution = table.informed_distribution(request.cores, room, ages_s)
    else:
        distribution = table.distribution(cores, pool.condition if pool else free_slots, amounts)
    risk = distribution.risk(request.lifetime_s) if distribution else 1.0
    spoken_for_s = rule.longest_s(request.sla, table.made_at_s)
    survives_s = min(threshold.longest_s(distribution), spoken_for_s) if distribution else 0.0
    known = distribution is not None and distribution.has_evidence(request.lifetime_s)
    evidence = known and request.lifetime_s <= spoken_for_s
    if evidence and threshold.admits(risk, request.lifetime_s):
        return Quote(cloud, request.cores, free_slots, risk, survives_s, table.version, table.made_at_s)
    return Refusal(
        cloud,
        RefusalReason.RISK_TOO_HIGH if evidence else RefusalReason.NO_EVIDENCE,
        free_slots=free_slots,
        eviction_probability=risk,
        survives_s=survives_s,
        table_version=table.version,
        table_made_at_s=table.made_at_s,
    )
