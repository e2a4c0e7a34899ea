"""Extensions: later ends for running spot instances, with a promise for the time that is added.

An instance that has run for a while may be promised more of the time that was not promised at first. Its risk
is the conditional one: P(evicted before L | alive at age a) = (risk(L) - risk(a)) / (1 - risk(a)), read from
the present table in the condition (free slots of its size) in which it was admitted.

Rejected: the smaller of this and the risk of an instance born now with today's free slots. Where all sizes
are equal the newborn's risk bounds it from above, as an older instance is displaced after a younger one; with
mixed sizes the older one may go first, when its node is the one that can make room. And the smaller of two
estimates is too low by selection. Examined once for each of 6,936 running instances, at a random age, for a
random later time (8 x 4 as in P2 Figure 1, 240 h, four seeds each; ``tests/unit/cloudsim/test_offers.py``
keeps a part of it):

    predicted / evicted      conditional      newborn          the smaller
    uniform sizes            .078 / .083      .137 / .083      .061 / .083
    bursts                   .070 / .064      .111 / .064      .057 / .064
    sizes 1, 2, 4            .075 / .095      .105 / .095      .064 / .095

Of those whose conditional risk was at most .01/.05/.10 were evicted .007/.033/.047, .010/.026/.037 and
.013/.036/.062 (.013: 3 of 231). docs/design/prediction.md "Unknown durations".
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cloudsim.admission.counter_offers import Ask
from cloudsim.admission.rule import evidence_s, reason_of_risk
from cloudsim.model.instances import Instance, Quote
from cloudsim.model.refusals import Refusal, RefusalReason
from cloudsim.model.requests import Kind, Request, promises

if TYPE_CHECKING:
    from cloudsim.cloud.spec import CloudSpec
    from cloudsim.prediction.lifetimes import LifetimeDistribution
    from cloudsim.prediction.tables import QuantileTable


@dataclass(frozen=True, slots=True)
class Extension:
    """The promise for a longer life: at most ``eviction_probability`` from now to ``until_s``.

    The estimate is None where no guarantee was asked and there is no table. survives_until_s: the latest end
    that keeps the SLA, None without a guarantee.
    """

    until_s: float
    eviction_probability: float | None
    survives_until_s: float | None
    table_version: str | None
    table_made_at_s: float | None


def conditional_risk(distribution: LifetimeDistribution, age_s: float, lifetime_s: float) -> float:
    """Return the probability that an instance alive at ``age_s`` is evicted before ``lifetime_s``.

    Both are seconds since its start. 1 where no sample was followed up or survived that long; 0 for a
    lifetime that is over.
    """
    if lifetime_s <= age_s:
        return 0.0
    past_risk = distribution.risk(age_s)
    if past_risk >= 1.0:
        return 1.0
    return (distribution.risk(lifetime_s) - past_risk) / (1.0 - past_risk)


def conditional_survives_s(distribution: LifetimeDistribution, age_s: float, sla: float) -> float:
    """Return the longest lifetime since its start whose ``conditional_risk`` is at most ``sla``.

    ``age_s`` if there is none. Exact: that lifetime itself is within the SLA. Raises SpecError unless 0 <=
    sla <= 1.
    """
    past_risk = distribution.risk(age_s)
    if past_risk >= 1.0:
        return age_s
    # The division rounds: step down while the lifetime would not be accepted itself.
    allowed = min(past_risk + sla * (1.0 - past_risk), 1.0)
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
    """Examine whether a running spot instance may be promised to live until ``until_s``.

    sla: the largest acceptable probability of eviction from now to then; None for no guarantee. A refusal's
    ``survives_s`` is the whole lifetime since the start that would be accepted, None when that is not longer
    than the present one.
    """
    assert until_s > instance.end_s, "an extension ends later"
    guaranteed = promises(Kind.SPOT, sla)
    if table is None or not table.has(instance.cores, instance.amounts):
        if guaranteed:
            return Refusal(cloud, RefusalReason.NO_TABLE)
        return Extension(until_s, None, None, None, None)
    # A table that rounds risks up for newborns bounds no survivor; the risk of the whole life does.
    age_s = now_s - instance.start_s if table.conditional else 0.0
    lifetime_s = until_s - instance.start_s
    risk, longest_s = 1.0, 0.0
    condition = instance.free_slots
    distribution = None
    if condition is not None:
        distribution = table.distribution(instance.cores, condition, instance.amounts)
    if distribution is not None:
        risk = conditional_risk(distribution, age_s, lifetime_s)
        longest_s = conditional_survives_s(distribution, age_s, sla) if sla is not None else 0.0
    if sla is None or not guaranteed or risk <= sla:
        survives_until_s = instance.start_s + longest_s if guaranteed else None
        return Extension(until_s, risk, survives_until_s, table.version, table.made_at_s)
    return Refusal(
        cloud,
        reason_of_risk(lifetime_s, evidence_s(distribution)),
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
    """Return a running instance with the later end that is sold for ``until_s``, or a refusal.

    sla and the refusal's ``survives_s``: see ``examine_extension``. as_newborn: answers a request for the
    instance as if it were a new one. That counts where a renewed instance takes the place of a newborn in the
    line-up's order, or where the table is about the position in a stack (``cloudsim.admission.pools``).
    """
    sold_s = cloud.products.sold_until_s(instance, until_s)
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
        return _longer_only(cloud.products.round_down_offer(answer), instance)
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
    """Convert the answer about the time from ``now_s`` on into one about the whole life."""
    survives_s = None if answer.survives_s is None else now_s + answer.survives_s - instance.start_s
    if isinstance(answer, Refusal):
        return replace(answer, survives_s=survives_s)
    survives_until_s = None if survives_s is None else instance.start_s + survives_s
    return Extension(
        until_s, answer.eviction_probability, survives_until_s, answer.table_version, answer.table_made_at_s
    )


def _longer_only(refusal: Refusal, instance: Instance) -> Refusal:
    """Return the refusal without a counter-offer that is no longer than the present lifetime."""
    longest_s = refusal.survives_s
    longer = longest_s is not None and longest_s > instance.end_s - instance.start_s
    return replace(refusal, survives_s=longest_s if longer else None)
