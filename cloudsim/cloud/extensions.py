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

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cloudsim.model.instances import Instance, Quote
from cloudsim.model.refusals import Refusal, RefusalReason
from cloudsim.model.requests import Kind, Request, promises

if TYPE_CHECKING:
    from cloudsim.cloud.spec import CloudSpec
    from cloudsim.prediction.lifetimes import LifetimeDistribution
    from cloudsim.prediction.tables import QuantileTable

Ask = Callable[[Request], Quote | Refusal]

# -- a running instance --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Extension:
    """What would be promised for a longer life: at most ``eviction_probability``, from now to ``until_s``.

    The estimate is None where no guarantee was asked and there is nothing to go by. survives_until_s: the
    latest end that keeps the SLA, None where there is none to keep.
    """

    until_s: float
    eviction_probability: float | None
    survives_until_s: float | None
    table_version: str | None
    table_made_at_s: float | None


def conditional_risk(distribution: LifetimeDistribution, age_s: float, lifetime_s: float) -> float:
    """Probability that an instance alive at ``age_s`` is evicted before ``lifetime_s``, both since its start.

    1 where nobody was followed up so long, or nobody lived so long; 0 for a lifetime that is over.
    """
    if lifetime_s <= age_s:
        return 0.0
    behind = distribution.risk(age_s)
    if behind >= 1.0:
        return 1.0
    return (distribution.risk(lifetime_s) - behind) / (1.0 - behind)


def conditional_survives_s(distribution: LifetimeDistribution, age_s: float, sla: float) -> float:
    """The longest lifetime since its start whose ``conditional_risk`` is at most ``sla``; ``age_s`` if none.

    Exact: that lifetime itself is within the SLA. Raises SpecError unless 0 <= sla <= 1.
    """
    behind = distribution.risk(age_s)
    if behind >= 1.0:
        return age_s
    # The division rounds: step down while the lifetime found would not be accepted itself.
    allowed = min(behind + sla * (1.0 - behind), 1.0)
    while True:
        survives_s = distribution.survives_s(allowed)
        if survives_s <= age_s:
            return age_s
        if conditional_risk(distribution, age_s, survives_s) <= sla:
            return survives_s
        allowed = math.nextafter(distribution.risk(survives_s), 0.0)


def examine_extension(
    cloud: str,
    instance: Instance,
    until_s: float,
    sla: float | None,
    now_s: float,
    table: QuantileTable | None,
) -> Extension | Refusal:
    """Extension or refusal for a running spot instance that is to live until ``until_s``.

    sla: the largest acceptable probability of eviction from now to then; None: no guarantee. A refusal's
    ``survives_s`` is the whole lifetime since the start that would be accepted, None when that is not longer
    than the present one.
    """
    assert until_s > instance.end_s, "an extension ends later"
    guaranteed = promises(Kind.SPOT, sla)
    if table is None or not table.has(instance.cores, instance.amounts):
        if guaranteed:
            return Refusal(cloud, RefusalReason.NO_TABLE)
        return Extension(until_s, None, None, None, None)
    # What is rounded up for newborns is none for survivors; that of the whole life is no less than theirs.
    age_s = now_s - instance.start_s if table.conditional else 0.0
    lifetime_s = until_s - instance.start_s
    risk, longest_s, evidence = 1.0, 0.0, False
    condition = instance.free_slots
    distribution = None
    if condition is not None:
        distribution = table.distribution(instance.cores, condition, instance.amounts)
    if distribution is not None:
        risk = conditional_risk(distribution, age_s, lifetime_s)
        evidence = distribution.has_evidence(lifetime_s)
        longest_s = conditional_survives_s(distribution, age_s, sla) if sla is not None else 0.0
    if sla is None or not guaranteed or risk <= sla:
        survives_until_s = instance.start_s + longest_s if guaranteed else None
        return Extension(until_s, risk, survives_until_s, table.version, table.made_at_s)
    return Refusal(
        cloud,
        RefusalReason.RISK_TOO_HIGH if evidence else RefusalReason.NO_EVIDENCE,
        eviction_probability=risk,
        survives_s=longest_s if longest_s > instance.end_s - instance.start_s else None,
        table_version=table.version,
        table_made_at_s=table.made_at_s,
    )


def examine_longer(
    cloud: CloudSpec,
    instance: Instance,
    until_s: float,
    sla: float | None,
    now_s: float,
    table: QuantileTable | None,
    as_newborn: Ask,
) -> Instance | Refusal:
    """The instance with the later end that is sold for the wish, as it is from now on; or a refusal.

    sla, and the refusal's ``survives_s``: as for ``examine_extension``. as_newborn: the answer if it were
    asked for anew, which counts where its place in the order is from now on a newborn's, or where the table
    is about the position in a stack and asks for nothing else (``cloudsim.admission.pools``).
    """
    sold_s = cloud.products.extended_until_s(instance, until_s)
    if sold_s is None:
        refusal = Refusal(cloud.id, RefusalReason.NO_SUCH_PRODUCT, survives_s=cloud.products.slices_s[-1])
        return _longer_only(refusal, instance)
    answer: Extension | Refusal
    if cloud.lineup.renews or instance.pool is not None:
        answer = _as_extension(
            as_newborn(_as_request(instance, sold_s - now_s, sla)), instance, sold_s, now_s
        )
    else:
        answer = examine_extension(cloud.id, instance, sold_s, sla, now_s, table)
    if isinstance(answer, Refusal):
        return _longer_only(cloud.products.in_slices(answer), instance)
    longer = replace(instance, end_s=sold_s, sla=sla, risk=answer.eviction_probability)
    return replace(longer, renewed_at_s=now_s) if cloud.lineup.renews else longer


def _as_request(instance: Instance, lifetime_s: float, sla: float | None) -> Request:
    return Request(
        instance.id, Kind.SPOT, instance.cores, lifetime_s, sla, instance.origin, amounts=instance.amounts,
        labels=instance.labels, group=instance.group, spread=instance.spread, pool=instance.pool,
    )  # fmt: skip


def _as_extension(
    answer: Quote | Refusal, instance: Instance, until_s: float, now_s: float
) -> Extension | Refusal:
    """Of the whole life what was answered of the time from ``now_s`` on."""
    survives_s = None if answer.survives_s is None else now_s + answer.survives_s - instance.start_s
    if isinstance(answer, Refusal):
        return replace(answer, survives_s=survives_s)
    survives_until_s = None if survives_s is None else instance.start_s + survives_s
    return Extension(
        until_s, answer.eviction_probability, survives_until_s, answer.table_version, answer.table_made_at_s
    )


def _longer_only(refusal: Refusal, instance: Instance) -> Refusal:
    """Offers no lifetime that it has already."""
    longest_s = refusal.survives_s
    longer = longest_s is not None and longest_s > instance.end_s - instance.start_s
    return replace(refusal, survives_s=longest_s if longer else None)
