"""Renewals: promises of an hour or a day at a time for spot instances that want longer in the end.

A renewable request is first promised as much of its lifetime as its SLA bears, if that is at least what it
would begin with. Some time before each promise ends the instance is promised the rest, or else as much of it
as conditional survival and the rule of evidence bear (``cloudsim.cloud.extensions``). Each promise counts. An
instance that is not renewed ends when its promise does, which breaks nothing.

Many instances that live on renewals stand in the way of the same peak of own users, and one that nobody has
seen the like of breaks all their promises at once, whatever the risk of each (B-A on 4 nodes of 8 cores: six
of them, promised for 35 days each after 100 days without one). So what a peak like no other would
break is bounded by what has been earned: see ``may_renew``.

A lease without a lifetime is renewable, too: it wants a period at a time, and has no end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from cloudsim.cloud.cloud import Cloud
from cloudsim.model.changes import RENEWAL, Change
from cloudsim.model.instances import Instance, Quote
from cloudsim.model.refusals import Refusal, RefusalReason
from cloudsim.model.requests import Request

#: Renew an instance when this share of its last promise is left, or of a period where that is shorter.
RENEWED_AT = 0.25
#: The period of instances with a lifetime in this respect: they are renewed an hour before a promise ends.
PERIOD_S = 4 * 3600.0
#: Do not renew for less than this share of a period.
LEAST = 0.1
#: Try again half-way to the end while more than this share is left of the time that there was at first.
GIVEN_UP_AT = 0.25


@dataclass(frozen=True, slots=True)
class RenewalTerms:
    """The terms on which an instance is renewed.

    until_s: the end that is wanted, inf for none. period_s: the most that is asked for at a time, inf for
    all that is wanted.
    """

    until_s: float = math.inf
    period_s: float = math.inf

    @property
    def is_bounded(self) -> bool:
        """True if an end is wanted."""
        return math.isfinite(self.until_s)

    @property
    def least_s(self) -> float:
        """The least time, in seconds, that is worth a renewal, unless it reaches the end that is wanted."""
        return LEAST * self._step_s

    @property
    def _step_s(self) -> float:
        return PERIOD_S if self.is_bounded else self.period_s

    def due_s(
        self, promised_at_s: float, ends_at_s: float, refused_at_s: float | None = None
    ) -> float | None:
        """Return when to renew an instance that was last promised, at ``promised_at_s``, its present end.

        refused_at_s: when that was refused last. None is returned for an instance that has all that it wants,
        and where the end is too near to try again.
        """
        if ends_at_s >= self.until_s:
            return None
        lead_s = RENEWED_AT * min(ends_at_s - promised_at_s, self._step_s)
        if refused_at_s is None:
            return ends_at_s - lead_s
        left_s = ends_at_s - refused_at_s
        return refused_at_s + left_s / 2 if left_s > GIVEN_UP_AT * lead_s else None


def first_request(cloud: Cloud, request: Request, *, is_bounded: bool = True) -> Request:
    """Return a request as it is made first: for less, where it is renewable and all is refused.

    Less is what the SLA allows, if that is at least what it would begin with. is_bounded: False where it
    wants a period at a time without an end.
    """
    if request.least_s is None or not request.promised:
        return request
    answer = cloud.quote(request)
    survives_s = answer.survives_s or 0.0
    if isinstance(answer, Quote) or survives_s < request.least_s:
        return request
    if is_bounded and not may_renew(cloud, request):
        return request
    return replace(request, lifetime_s=survives_s)


def may_renew(cloud: Cloud, request: Request | Instance) -> bool:
    """Return whether a running instance, or one that would start now, may live on renewals.

    It may where own users would have to want more than ever before to reach it, by more than their largest
    request: the spot instances as old as it fit in the room that is left then. Else one peak can break the
    promises of all those instances that do not, and they may be no more than the cloud may still break: its
    SLA of all that it has admitted, less those that it has evicted.
    """
    assert request.sla is not None
    spare_cores = sum(cloud.inventory.node_cores) - cloud.own_peak_cores - cloud.largest_own_cores
    depth_cores, exposed = 0, 0
    for instance in cloud.inventory.spot():
        if instance.id == request.id:
            break
        if instance.promised:
            depth_cores += instance.cores
            exposed += depth_cores > spare_cores
    account = cloud.ledger.account(request.sla)
    return (
        depth_cores + request.cores <= spare_cores
        or exposed + 1 <= request.sla * account.admitted - account.evicted
    )


def renew(cloud: Cloud, instance_id: str, terms: RenewalTerms, now_s: float) -> list[Change] | Refusal:
    """Extend an instance as far as it wants, or as far as its SLA allows if that is worth it."""
    instance = cloud.inventory.get(instance_id)
    assert instance is not None
    if terms.is_bounded and instance.evict_at_s is None and not may_renew(cloud, instance):
        return Refusal(cloud.spec.id, RefusalReason.RISK_TOO_HIGH)
    until_s = min(terms.until_s, now_s + terms.period_s)
    changes = cloud.extend(instance_id, until_s, now_s, cause=RENEWAL)
    if isinstance(changes, Refusal) and changes.survives_s is not None:
        shorter_s = min(instance.start_s + changes.survives_s, until_s)
        if shorter_s - instance.end_s >= min(terms.least_s, until_s - instance.end_s):
            return cloud.extend(instance_id, shorter_s, now_s, cause=RENEWAL)
    return changes
