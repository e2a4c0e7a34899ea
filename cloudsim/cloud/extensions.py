"""Extensions: later ends for running spot instances, with a promise for the time that is added.

An instance that has run for a while may be promised more of the time that was not promised at first. Two
things are known of it: its age, with the free slots at its birth, and the free slots now. The present table
has a risk for each of them:

* the conditional one of its age, P(evicted before L | alive at age a) = (risk(L) - risk(a)) / (1 - risk(a)),
  in the condition in which it was admitted. It knows that younger instances are displaced first, and not how
  full the cloud is now;
* that of an instance born now, with the free slots that there would be without it. It knows the present, and
  nothing of those younger ones.

Its risk is the mean of the two. Examined once for each of 24,564 running instances, at a random age, for a
random later time (8 x 4 as in P2 Figure 1, 240 h, eight seeds each, admitted at SLA .25; sizes 1, 2 and 4 of
all, of the own load only, of spot only; ``tests/unit/cloudsim/test_offers.py`` keeps a part of it):

                       predicted / evicted                              evicted (accepted) at .01
                       conditional   newborn       the mean             conditional   the mean
    uniform sizes      .077 / .085   .126 / .085   .101 / .085          .0016 (621)   .0000 (746)
    bursts             .070 / .072   .110 / .072   .090 / .072          .0196 (459)   .0093 (430)
    sizes 1, 2, 4      .053 / .074   .072 / .074   .063 / .074          .0151 (796)   .0013 (780)
    of own load        .065 / .088   .092 / .088   .079 / .088          .0138 (1018)  .0079 (1007)
    of spot            .052 / .056   .088 / .056   .070 / .056          .0211 (852)   .0047 (855)

With as many promises as by the conditional risk alone, .01 is kept on all five; at .05 the mean accepts .92
as many, of which .8 to 2.4 in a hundred are evicted instead of 3.0 to 3.8. The smaller of the two is too low
by selection (1.3 to 1.9 times), the greater accepts a third less at .01.
docs/design/prediction.md "Unknown durations".
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cloudsim.admission.counter_offers import Ask
from cloudsim.admission.rule import STRICT_RULE, AdmissionRule, evidence_s, reason_of_risk
from cloudsim.model.instances import Instance, Quote
from cloudsim.model.refusals import Refusal, RefusalReason
from cloudsim.model.requests import Kind, Request, promises
from cloudsim.prediction.lifetimes import LifetimeDistribution

if TYPE_CHECKING:
    from cloudsim.cloud.spec import CloudSpec
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


def time_ahead(
    table: QuantileTable, instance: Instance, now_s: float, free_slots: int
) -> LifetimeDistribution | None:
    """Return the distribution of the seconds that a running instance has left; None without any sample.

    free_slots: those of its size, now, that there would be without it.
    """
    if instance.free_slots is None:
        return None
    at_birth = table.distribution(instance.cores, instance.free_slots, instance.amounts)
    newborn = table.distribution(instance.cores, max(free_slots, 1), instance.amounts)
    if at_birth is None or newborn is None:
        return None
    return LifetimeDistribution.mixture(at_birth.after(now_s - instance.start_s), newborn, 0.5)


def examine_extension(
    cloud: str,
    instance: Instance,
    until_s: float,
    sla: float | None,
    now_s: float,
    table: QuantileTable | None,
    free_slots: int,
    rule: AdmissionRule = STRICT_RULE,
) -> Extension | Refusal:
    """Examine whether a running spot instance may be promised to live until ``until_s``.

    The rule of evidence is that of admissions (``evidence_s``), for the time from now to then.

    sla: the largest acceptable probability of eviction from now to then; None for no guarantee. free_slots:
    see ``time_ahead``. A refusal's ``survives_s`` is the whole lifetime since the start that would be
    accepted, None when that is not longer than the present one.
    """
    assert until_s > instance.end_s, "an extension ends later"
    guaranteed = promises(Kind.SPOT, sla)
    if table is None or not table.has(instance.cores, instance.amounts):
        if guaranteed:
            return Refusal(cloud, RefusalReason.NO_TABLE)
        return Extension(until_s, None, None, None, None)
    # A table that rounds risks up for newborns bounds no survivor; the risk of the whole life does.
    since_s = now_s if table.conditional else instance.start_s
    ahead = time_ahead(table, instance, since_s, free_slots)
    evident_s = evidence_s(ahead, 1.0 if sla is None else sla, table.made_at_s, rule)
    risk, longest_s = 1.0, 0.0
    if ahead is not None:
        risk = ahead.risk(until_s - since_s)
        if sla is not None:
            ahead_s = min(ahead.survives_s(sla), evident_s)
            longest_s = since_s - instance.start_s + ahead_s
            while longest_s > 0.0 and instance.start_s + longest_s - since_s > ahead_s:
                longest_s = math.nextafter(longest_s, 0.0)  # the sums round: it must be accepted itself
    if sla is None or not guaranteed or (risk <= sla and until_s - since_s <= evident_s):
        survives_until_s = instance.start_s + longest_s if guaranteed else None
        return Extension(until_s, risk, survives_until_s, table.version, table.made_at_s)
    return Refusal(
        cloud,
        reason_of_risk(until_s - since_s, evident_s),
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
    free_slots: int,
    as_newborn: Ask,
) -> Instance | Refusal:
    """Return a running instance with the later end that is sold for ``until_s``, or a refusal.

    sla, free_slots and the refusal's ``survives_s``: see ``examine_extension``. as_newborn: answers a request
    for the instance as if it were a new one. That counts where a renewed instance takes the place of a
    newborn in the line-up's order, or where the table is about the position in a stack
    (``cloudsim.admission.pools``).
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
        answer = examine_extension(cloud.id, instance, sold_s, sla, now_s, table, free_slots, cloud.admission)
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
