"""Extensions: later ends for running spot instances, with a promise for the time that is added.

Where the youngest leave first, what becomes of an instance depends on the cloud's own users and on older spot
instances; those that are younger leave before it does. So it is in the place of an instance that is born now
and finds them gone: its risk is that of a birth with the free slots that there would be without it and
without all that are younger. Under other victim policies its risk is the mean of two:

* the conditional one of its age, P(evicted before L | alive at age a) = (risk(L) - risk(a)) / (1 - risk(a)),
  in the condition in which it was admitted. It does not know how full the cloud is now;
* that of an instance born now, with the free slots that there would be without it.

Examined once for each of 33,378 running instances, at a random age, for a random later time (8 x 4 as in P2
Figure 1, 240 h, eight seeds each, admitted at SLA .25; sizes 1, 2 and 4 of all, of the own load only, of spot
only; ``tests/unit/cloudsim/test_offers.py`` keeps a part of it):

                       predicted / evicted            evicted (accepted) at .01         log score
                       the mean      by place         the mean       by place           mean   by place
    uniform sizes      .092 / .069   .078 / .069      .0024 (1225)   .0044 (2750)       .209   .196
    bursts             .081 / .065   .072 / .065      .0028 (710)    .0051 (1576)       .198   .193
    sizes 1, 2, 4      .077 / .088   .070 / .088      .0044 (919)    .0124 (2018)       .260   .269
    of own load        .079 / .092   .069 / .092      .0071 (1134)   .0145 (2477)       .272   .283
    of spot            .091 / .072   .080 / .072      .0033 (911)    .0024 (2107)       .220   .203

Twice as many are promised more by their place. Where own users want several sizes both predict too little, as
tables do of newborns there (.125 / .175 of those that were admitted on "of own load"), and by its place an
instance is promised a little too much.
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
    table: QuantileTable, instance: Instance, now_s: float, free_slots: int, *, by_place: bool = True
) -> LifetimeDistribution | None:
    """Return the distribution of the seconds that a running instance has left; None without any sample.

    free_slots: those of its size, now, that there would be without it, and without those that are younger if
    the youngest leave first (``by_place``). Else its age is read, too.
    """
    newborn = table.distribution(instance.cores, max(free_slots, 1), instance.amounts)
    if by_place:
        return newborn
    if newborn is None or instance.free_slots is None:
        return None
    at_birth = table.distribution(instance.cores, instance.free_slots, instance.amounts)
    if at_birth is None:
        return None
    return LifetimeDistribution.mixture(at_birth.after(now_s - instance.start_s), newborn, 0.5)


def _longest_s(start_s: float, since_s: float, ahead_s: float) -> float:
    """Return the longest lifetime from ``start_s`` on that ends at most ``ahead_s`` after ``since_s``."""
    longest_s = since_s - start_s + ahead_s
    while longest_s > 0.0 and start_s + longest_s - since_s > ahead_s:
        longest_s = math.nextafter(longest_s, 0.0)  # the sums round: it must be accepted itself
    return longest_s


def examine_extension(
    cloud: str,
    instance: Instance,
    until_s: float,
    sla: float | None,
    now_s: float,
    table: QuantileTable | None,
    free_slots: int,
    rule: AdmissionRule = STRICT_RULE,
    *,
    by_place: bool = True,
) -> Extension | Refusal:
    """Examine whether a running spot instance may be promised to live until ``until_s``.

    The rule of evidence is that of admissions (``evidence_s``), for the time from now to then.

    sla: the largest acceptable probability of eviction from now to then; None for no guarantee. free_slots,
    by_place: see ``time_ahead``. A refusal's ``survives_s`` is the whole lifetime since the start that would
    be accepted, None when that is not longer than the present one.
    """
    assert until_s > instance.end_s, "an extension ends later"
    guaranteed = promises(Kind.SPOT, sla)
    if table is None or not table.has(instance.cores, instance.amounts):
        if guaranteed:
            return Refusal(cloud, RefusalReason.NO_TABLE)
        return Extension(until_s, None, None, None, None)
    # A table that rounds risks up for newborns bounds no survivor; the risk of the whole life does.
    since_s = now_s if table.conditional else instance.start_s
    ahead = time_ahead(table, instance, since_s, free_slots, by_place=by_place)
    evident_s = evidence_s(ahead, 1.0 if sla is None else sla, table.made_at_s, rule)
    risk, longest_s = 1.0, 0.0
    if ahead is not None:
        risk = ahead.risk(until_s - since_s)
        if sla is not None:
            longest_s = _longest_s(instance.start_s, since_s, min(ahead.survives_s(sla), evident_s))
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
        answer = examine_extension(
            cloud.id, instance, sold_s, sla, now_s, table, free_slots, cloud.admission,
            by_place=cloud.lineup.youngest_first,
        )  # fmt: skip
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
    survives_s = None if answer.survives_s is None else _longest_s(instance.start_s, now_s, answer.survives_s)
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
