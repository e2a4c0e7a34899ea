"""The schedule of leases without a lifetime: when each is renewed, and for how long.

Each is promised a renewal period at a time, or what the SLA allows of it. A quarter of that before it
ends it is renewed by conditional survival; when that fails its holder is warned, and it ends at its end.
"""

from __future__ import annotations

from broker.contract import Lease, LeaseState
from cloudsim.cloud.cloud import Cloud
from cloudsim.model.changes import Change
from cloudsim.model.refusals import Refusal
from cloudsim.model.requests import Request

#: Renew a lease when this share of its last promise is left, or of a period where that is shorter.
RENEWED_AT = 0.25
#: Do not renew for less than this share of a period.
LEAST = 0.1
#: Without a table, try again half-way to the end until this share of the last promise is left.
GIVEN_UP_AT = 0.02

RENEWAL = "renewal"


class RenewalSchedule:
    """Keeps the times at which running leases without a lifetime are due for renewal, by id."""

    def __init__(self) -> None:
        self._due_s: dict[str, float] = {}

    def note(self, lease: Lease) -> None:
        """Take the present state of a lease into account."""
        if lease.renewal_s is None:
            return
        ends_anyway = lease.warned_at_s is not None or lease.evict_at_s is not None
        if lease.state is LeaseState.RUNNING and not ends_anyway:
            # A holder may have asked for more than a period, and a renewal must end later than that.
            share_s = RENEWED_AT * min(_promised_s(lease), lease.renewal_s)
            self._due_s[lease.id] = _ends_at_s(lease) - share_s
        else:
            self._due_s.pop(lease.id, None)

    def next(self) -> tuple[float, str] | None:
        """Return the time (cloud seconds) and id of the lease that is due next, or None."""
        return min(((due_s, lease) for lease, due_s in self._due_s.items()), default=None)

    def postpone(self, lease: Lease, now_s: float) -> bool:
        """Put a lease off half-way to its end; return False, and do nothing, when the end is too near."""
        left_s = _ends_at_s(lease) - now_s
        if left_s <= GIVEN_UP_AT * _promised_s(lease):
            return False
        self._due_s[lease.id] = now_s + left_s / 2
        return True


def first_lifetime_s(cloud: Cloud, request: Request) -> float:
    """Return the seconds to ask for with a request for a period: all of it, or as much as its SLA allows."""
    assert request.lifetime_s is not None
    answer = cloud.quote(request)
    survives_s = answer.survives_s or 0.0
    if isinstance(answer, Refusal) and survives_s >= LEAST * request.lifetime_s:
        return min(survives_s, request.lifetime_s)
    return request.lifetime_s


def renew(cloud: Cloud, lease: Lease, now_s: float) -> list[Change] | Refusal:
    """Extend a lease by a period from now on, or by as much of it as its SLA allows."""
    assert lease.renewal_s is not None
    changes = cloud.extend(lease.id, now_s + lease.renewal_s, now_s, cause=RENEWAL)
    if isinstance(changes, Refusal) and changes.survives_s is not None:
        until_s = min(lease.starts_at_s + changes.survives_s, now_s + lease.renewal_s)
        if until_s - _ends_at_s(lease) >= LEAST * lease.renewal_s:
            return cloud.extend(lease.id, until_s, now_s, cause=RENEWAL)
    return changes


def _ends_at_s(lease: Lease) -> float:
    assert lease.ends_at_s is not None
    return lease.ends_at_s


def _promised_s(lease: Lease) -> float:
    since_s = lease.starts_at_s if lease.promised_at_s is None else lease.promised_at_s
    return _ends_at_s(lease) - since_s
