"""Renewals: promises of an hour or a day at a time for spot instances that want longer in the end.

A renewable request is first promised as much of its lifetime as its SLA bears, if that is at least what it
would begin with. Some time before each promise ends the instance is promised the rest, or else as much of it
as conditional survival and the rule of evidence bear (``cloudsim.cloud.extensions``). Each promise counts. An
instance that is not renewed ends when its promise does, which breaks nothing.

A lease without a lifetime is renewable, too: it wants a period at a time, and has no end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from cloudsim.cloud.cloud import Cloud
from cloudsim.model.changes import Change
from cloudsim.model.instances import Quote
from cloudsim.model.refusals import Refusal
from cloudsim.model.requests import Request

#: Renew an instance when this share of its last promise is left, or of a period where that is shorter.
RENEWED_AT = 0.25
#: The period of instances with a lifetime in this respect: they are renewed an hour before a promise ends.
PERIOD_S = 4 * 3600.0
#: Do not renew for less than this share of a period.
LEAST = 0.1
#: Without a table, try again half-way to the end until this share of the last promise is left.
GIVEN_UP_AT = 0.02

RENEWAL = "renewal"
#: What a renewable request begins with at least, unless it says so itself, in seconds.
LEAST_S = 3600.0


@dataclass(frozen=True, slots=True)
class RenewalTerms:
    """The terms on which an instance is renewed.

    until_s: the end that is wanted, inf for none. period_s: the most that is asked for at a time, inf for
    all that is wanted.
    """

    until_s: float = math.inf
    period_s: float = math.inf

    @property
    def least_s(self) -> float:
        """The least time, in seconds, that is worth a renewal, unless it reaches the end that is wanted."""
        return LEAST * min(self.period_s, PERIOD_S)

    def due_s(self, promised_at_s: float, ends_at_s: float) -> float:
        """Return when an instance is renewed whose last promise is from ``promised_at_s`` to ``ends_at_s``."""
        return ends_at_s - RENEWED_AT * min(ends_at_s - promised_at_s, self.period_s, PERIOD_S)


def first_request(cloud: Cloud, request: Request) -> Request:
    """Return a request as it is made first: for less, where it is renewable and all is refused.

    Less is what the SLA allows, if that is at least what it would begin with.
    """
    if request.least_s is None or not request.promised:
        return request
    answer = cloud.quote(request)
    if isinstance(answer, Quote):
        return request
    survives_s = answer.survives_s or 0.0
    return replace(request, lifetime_s=survives_s) if survives_s >= request.least_s else request


def renew(cloud: Cloud, instance_id: str, terms: RenewalTerms, now_s: float) -> list[Change] | Refusal:
    """Extend an instance as far as it wants, or as far as its SLA allows if that is worth it."""
    instance = cloud.inventory.get(instance_id)
    assert instance is not None
    until_s = min(terms.until_s, now_s + terms.period_s)
    changes = cloud.extend(instance_id, until_s, now_s, cause=RENEWAL)
    if isinstance(changes, Refusal) and changes.survives_s is not None:
        shorter_s = min(_end_s(instance.start_s, changes.survives_s), until_s)
        if shorter_s - instance.end_s >= min(terms.least_s, until_s - instance.end_s):
            return cloud.extend(instance_id, shorter_s, now_s, cause=RENEWAL)
    return changes


def _end_s(start_s: float, lifetime_s: float) -> float:
    """Return the latest end of a lifetime, which sums round up now and then."""
    end_s = start_s + lifetime_s
    while end_s - start_s > lifetime_s:
        end_s = math.nextafter(end_s, -math.inf)
    return end_s
