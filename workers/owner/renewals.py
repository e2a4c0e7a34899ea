"""The schedule of renewable leases: when each is promised more (``cloudsim.cloud.renewals``).

The holder is warned of each renewal that is refused. It is tried again until the end of the promise is near;
a lease that is not renewed ends then.
"""

from __future__ import annotations

from broker.contract import Lease, LeaseState
from cloudsim.cloud.renewals import RenewalTerms


def terms_of(lease: Lease) -> RenewalTerms | None:
    """Return the terms on which a lease is renewed; None if it is not renewable."""
    if lease.renewal_s is not None:
        return RenewalTerms(period_s=lease.renewal_s)
    return None if lease.wanted_until_s is None else RenewalTerms(lease.wanted_until_s)


class RenewalSchedule:
    """Keeps the times at which running renewable leases are due for renewal, by id."""

    def __init__(self) -> None:
        self._due_s: dict[str, float] = {}
        self._bounded: set[str] = set()  # those that want an end

    def note(self, lease: Lease) -> None:
        """Take the present state of a lease into account."""
        due_s = None
        terms = terms_of(lease)
        if terms is not None and lease.state is LeaseState.RUNNING and lease.evict_at_s is None:
            assert lease.ends_at_s is not None
            promised_at_s = lease.starts_at_s if lease.promised_at_s is None else lease.promised_at_s
            due_s = terms.due_s(promised_at_s, lease.ends_at_s, lease.warned_at_s)
        self._due_s.pop(lease.id, None)
        self._bounded.discard(lease.id)
        if terms is not None and due_s is not None:
            self._due_s[lease.id] = due_s
            if terms.is_bounded:
                self._bounded.add(lease.id)

    def next(self, *, bounded: bool = False) -> tuple[float, str] | None:
        """Return the time (cloud seconds) and id of the lease that is due next, or None.

        bounded: of those only that want an end.
        """
        leases = self._bounded if bounded else self._due_s
        return min(((self._due_s[lease], lease) for lease in leases), default=None)
