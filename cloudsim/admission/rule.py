"""SLA admission: whether a spot request may be promised what it asks for (P2 §2.3).

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
from cloudsim.admission.population import Threshold, risk_of_peaks
from cloudsim.model.instances import Quote
from cloudsim.model.refusals import Refusal, RefusalReason
from cloudsim.model.requests import Door, Mode, Request
from cloudsim.scheduling.inventory import Inventory

if TYPE_CHECKING:
    from cloudsim.prediction.lifetimes import LifetimeDistribution
    from cloudsim.prediction.tables import QuantileTable


@dataclass(frozen=True)
class AdmissionRule:
    """The rule by which a cloud decides whether a risk is small enough.

    mode: to whom the SLA is a promise. history_lifetimes: see ``evidence_s``; 0 asks for no more than one
    sample followed up so long (the papers' rule). overflow_peaks: see
    ``risk_of_peaks``; 0 takes overflow for any other request. peaks: the same for all requests, on a cloud
    that takes all its spot back at once.
    """

    mode: Mode = Mode.STRICT
    history_lifetimes: float = 0.04
    overflow_peaks: float = 1.0
    peaks: float = 0.0

    def peaks_of(self, door: Door) -> float:
        """Return how many peaks more than the history has shown a request leaves room for."""
        return max(self.peaks, self.overflow_peaks) if door is Door.OVERFLOW else self.peaks


STRICT_RULE = AdmissionRule()
#: The rule that P1 and P2 describe.
PAPERS_ADMISSION = AdmissionRule(history_lifetimes=0.0, overflow_peaks=0.0)


def evidence_s(
    distribution: LifetimeDistribution | None,
    sla: float = 1.0,
    history_s: float = math.inf,
    rule: AdmissionRule = PAPERS_ADMISSION,
) -> float:
    """Return the longest lifetime in seconds that the samples support; 0 when there are none.

    Some sample was followed up that long, and the history, ``history_s`` long, is at least
    ``rule.history_lifetimes / sla`` times as long: four lifetimes at SLA .01, one at .04 and above. However
    many samples there are, a history of two lifetimes has seen the like twice: on the papers' traces B-A on 5
    and 4 nodes breaks .01 by six instances of some sixty days each that a single peak evicted, promised after
    130 days without a peak like it.

    For a running instance the distribution and the lifetime are those of the time ahead of it.
    """
    if distribution is None:
        return 0.0
    if not rule.history_lifetimes:
        return distribution.followed_up_s
    return min(distribution.followed_up_s, history_s * sla / rule.history_lifetimes)


def reason_of_risk(lifetime_s: float, evident_s: float) -> RefusalReason:
    """Return why a lifetime is not promised: its risk is too high, or unknown beyond ``evidence_s``."""
    return RefusalReason.RISK_TOO_HIGH if lifetime_s <= evident_s else RefusalReason.NO_EVIDENCE


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
    """Answer a spot request, from the free slots now and the table's estimate.

    Parameters
    ----------
    threshold
        Of the request's SLA, in population mode; None compares with the SLA itself (strict mode).
    allowed
        The nodes that the request may go to, bool (nodes,); None for all. Slots elsewhere do not count: with
        fewer of them the risk is read more carefully.
    pool
        The pool that it would be sold from; the risk is the pool's.
    """
    too_large = inventory.lacks(request)
    if too_large or (allowed is not None and not allowed.any()):
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
    peaks = rule.peaks_of(request.door)
    peaks_per_s = peaks / table.made_at_s if peaks else 0.0
    threshold = threshold.with_peaks(peaks_per_s)
    horizons_s = table.release_horizons_s(cores, amounts)
    if horizons_s:
        ends_s = [now_s + horizon_s for horizon_s in horizons_s]
        room = inventory.free_slots_as_spot_leaves(request.cores, ends_s)
        ages_s = inventory.on_demand_ages_s(now_s) if table.rule.on_demand_ages else ()
        distribution = table.informed_distribution(request.cores, room, ages_s)
    else:
        distribution = table.distribution(cores, pool.condition if pool else free_slots, amounts)
    evident_s = evidence_s(distribution, request.sla, table.made_at_s, rule)
    risk, survives_s = 1.0, 0.0
    if distribution is not None:
        risk = distribution.risk(request.lifetime_s)
        survives_s = min(threshold.longest_s(distribution), evident_s)
    is_admitted = request.lifetime_s <= evident_s and threshold.admits(risk, request.lifetime_s)
    risk = min(risk + risk_of_peaks(peaks_per_s, request.lifetime_s), 1.0)
    if is_admitted:
        return Quote(cloud, request.cores, free_slots, risk, survives_s, table.version, table.made_at_s)
    return Refusal(
        cloud,
        reason_of_risk(request.lifetime_s, evident_s),
        free_slots=free_slots,
        eviction_probability=risk,
        survives_s=survives_s,
        table_version=table.version,
        table_made_at_s=table.made_at_s,
    )
