"""The schedule of renewable leases: when each is promised more (``cloudsim.cloud.renewals``).

A lease that is not renewed ends at the end of its promise; its holder is warned before.
"""

from __future__ import annotations

from broker.contract import Lease, LeaseState
from cloudsim.cloud.renewals import GIVEN_UP_AT, RenewalTerms


def terms_of(lease: Lease) -> RenewalTerms | None:
    """Return the terms on which a lease is renewed; None if it has been promised all that it wants."""
    if lease.renewal_s is not None:
        return RenewalTerms(period_s=lease.renewal_s)
    if lease.wanted_until_s is not None and _ends_at_s(lease) < lease.wanted_until_s:
        return RenewalTerms(lease.wanted_until_s)
    return None


class RenewalSchedule:
    """Keeps the times at which running renewable leases are due for renewal, by id."""

    def __init__(self) -> None:
        self._due_s: dict[str, float] = {}
        self._bounded: set[str] = set()  # those that want an end

    def note(self, lease: Lease) -> None:
        """Take the present state of a lease into account."""
        terms = terms_of(lease)
        ends_anyway = lease.warned_at_s is not None or lease.evict_at_s is not None
        if terms is not None and lease.state is LeaseState.RUNNING and not ends_anyway:
            self._due_s[lease.id] = terms.due_s(_promised_at_s(lease), _ends_at_s(lease))
            if terms.is_bounded:
                self._bounded.add(lease.id)
        else:
            self._due_s.pop(lease.id, None)
            self._bounded.discard(lease.id)

    def next(self, *, bounded: bool = False) -> tuple[float, str] | None:
        """Return the time (cloud seconds) and id of the lease that is due next, or None.

        bounded: of those only that want an end.
        """
        leases = self._bounded if bounded else self._due_s
        return min(((self._due_s[lease], lease) for lease in leases), default=None)

    def postpone(self, lease: Lease, now_s: float) -> bool:
        """Put a lease off half-way to its end; return False, and do nothing, when the end is too near."""
        left_s = _ends_at_s(lease) - now_s
        if left_s <= GIVEN_UP_AT * (_ends_at_s(lease) - _promised_at_s(lease)):
            return False
        self._due_s[lease.id] = now_s + left_s / 2
        return True


def _ends_at_s(lease: Lease) -> float:
    assert lease.ends_at_s is not None
    return lease.ends_at_s


def _promised_at_s(lease: Lease) -> float:
    return lease.starts_at_s if lease.promised_at_s is None else lease.promised_at_s
