"""Leases without a lifetime: when each is to be renewed, and for how long. Pure.

Such a lease is promised a renewal period at a time, or what the SLA allows of it. A quarter of that before it
ends it is renewed by conditional survival; when that fails its holder is warned, and it ends at its end.
"""

from __future__ import annotations

from broker.contract import Lease, LeaseState
from cloudsim.cloud import Cloud
from cloudsim.requests import Change, Reason, Refusal, Request

#: Share of what was promised last, a period at most, that is left when the lease is renewed.
RENEWED_AT = 0.25
#: With less than this share of a period to be had, there is nothing to renew for.
LEAST = 0.1
#: Without a table it is tried again half-way to the end, until so small a share is left.
GIVEN_UP_AT = 0.02

RENEWAL = "renewal"


class RenewalSchedule:
    """When running leases without a lifetime are to be renewed, by id."""

    def __init__(self) -> None:
        self._due_s: dict[str, float] = {}

    def note(self, lease: Lease) -> None:
        """The lease as it is now."""
        if lease.renewal_s is None:
            return
        told = lease.warned_at_s is not None or lease.evict_at_s is not None
        if lease.state is LeaseState.RUNNING and not told:
            # Of a period at most: a holder may have asked for more, and a renewal must end later than that.
            share_s = RENEWED_AT * min(_promised_s(lease), lease.renewal_s)
            self._due_s[lease.id] = _ends_at_s(lease) - share_s
        else:
            self._due_s.pop(lease.id, None)

    def next(self) -> tuple[float, str] | None:
        """Time and id of the lease that is to be renewed next; None: there is none."""
        return min(((due_s, lease) for lease, due_s in self._due_s.items()), default=None)

    def postpone(self, lease: Lease, now_s: float) -> bool:
        """Half-way to the end; False when that is too near."""
        left_s = _ends_at_s(lease) - now_s
        if left_s <= GIVEN_UP_AT * _promised_s(lease):
            return False
        self._due_s[lease.id] = now_s + left_s / 2
        return True


def first_lifetime_s(cloud: Cloud, request: Request) -> float:
    """What a request for a period is to ask for: the period, or what its SLA allows of it."""
    assert request.lifetime_s is not None
    answer = cloud.quote(request)
    survives_s = answer.survives_s or 0.0
    if isinstance(answer, Refusal) and survives_s >= LEAST * request.lifetime_s:
        return min(survives_s, request.lifetime_s)
    return request.lifetime_s


def renew(cloud: Cloud, lease: Lease, now_s: float) -> list[Change] | Refusal:
    """Promises a period from now on, or what the lease's SLA allows of it."""
    assert lease.renewal_s is not None
    changes = cloud.extend(lease.id, now_s + lease.renewal_s, now_s, cause=RENEWAL)
    if isinstance(changes, Refusal) and changes.survives_s is not None:
        until_s = min(lease.starts_at_s + changes.survives_s, now_s + lease.renewal_s)
        if until_s - _ends_at_s(lease) >= LEAST * lease.renewal_s:
            return cloud.extend(lease.id, until_s, now_s, cause=RENEWAL)
    return changes


def may_wait(refusal: Refusal) -> bool:
    """Whether trying again before the end can help: an owner that has just started has no table yet."""
    return refusal.reason is Reason.NO_TABLE


def _ends_at_s(lease: Lease) -> float:
    assert lease.ends_at_s is not None
    return lease.ends_at_s


def _promised_s(lease: Lease) -> float:
    since_s = lease.starts_at_s if lease.promised_at_s is None else lease.promised_at_s
    return _ends_at_s(lease) - since_s
