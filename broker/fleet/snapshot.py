"""Reads what a fleet needs of the federation: its own leases, and the clouds' clocks and prices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from broker.client import Client, NotFoundError
from broker.contract import Lease, LeaseState
from broker.fleet.state_file import FleetError, request_prefix
from broker.schemas.clouds import CloudView

#: The most that the API lists at once.
_PAGE = 1000


@dataclass(frozen=True)
class FleetSnapshot:
    """The clouds of the federation as they were just read, by id."""

    views: Mapping[str, CloudView]

    def remaining_s(self, lease: Lease) -> float | None:
        """Return the wall time that is left of a lease; None: its cloud renews it, or does not answer."""
        view = self.views.get(lease.cloud)
        if lease.renewal_s is not None or lease.ends_at_s is None or view is None or view.advert is None:
            return None
        return self.left_s(lease) / view.info.speed

    def left_s(self, lease: Lease) -> float:
        """Return the time that is left of a lease with an end, in seconds of its cloud's time."""
        view = self.views[lease.cloud]
        assert lease.ends_at_s is not None
        assert view.advert is not None
        return lease.ends_at_s - view.advert.at_s - (view.advert_age_s or 0.0) * view.info.speed

    def lifetime_s(self, cloud: str, lifetime_s: float | None) -> float | None:
        """Convert a lifetime in a cloud's time to wall time; None for none, or an unknown cloud."""
        view = self.views.get(cloud)
        return None if lifetime_s is None or view is None else lifetime_s / view.info.speed

    def price_usd_per_hour(self, lease: Lease) -> float | None:
        """Return the price of an instance for an hour of wall time; None: its cloud does not tell one."""
        view = self.views.get(lease.cloud)
        price = None if view is None else view.info.spot_usd_per_core_hour
        return None if price is None else price * lease.cores

    def targets(
        self, avoid: frozenset[str], origin: str, targets: tuple[str, ...] | None
    ) -> tuple[str, ...] | None:
        """Return the targets of a request without the clouds to avoid; None: all clouds but the origin."""
        if not avoid:
            return targets
        known = targets or tuple(cloud for cloud in self.views if cloud != origin)
        return tuple(cloud for cloud in known if cloud not in avoid)


def read_snapshot(client: Client) -> FleetSnapshot:
    """Read the clouds of the federation."""
    return FleetSnapshot({view.info.id: view for view in client.clouds.list()})


def running_leases(client: Client, name: str, origin: str, market: FleetSnapshot) -> dict[str, Lease]:
    """Return the running leases of a fleet by id, oldest first.

    Raises
    ------
    FleetError
        When the origin has more leases on a cloud than the API lists at once.
    """
    page = client.leases.list(state=LeaseState.RUNNING, origin=origin, limit=_PAGE)
    leases = page.leases
    if page.more:
        leases = []
        for cloud in market.views:
            page = client.leases.list(state=LeaseState.RUNNING, cloud=cloud, origin=origin, limit=_PAGE)
            if page.more:
                raise FleetError(
                    f"{origin} has more than {_PAGE} leases on {cloud}: use an --origin of its own"
                )
            leases += page.leases
    own = [lease for lease in leases if lease.request.startswith(request_prefix(name))]
    return {lease.id: lease for lease in sorted(own, key=lambda lease: _request_order(lease.request))}


def find_lease(client: Client, lease_id: str) -> Lease | None:
    """Return a lease as it is now; None: it is not known any more."""
    try:
        return client.leases.get(lease_id)
    except NotFoundError:
        return None


def _request_order(request_id: str) -> tuple[int, str]:
    """Return a sort key: later requests of a fleet have larger numbers."""
    number = request_id.rpartition("-")[2]
    return (int(number) if number.isdigit() else 0, request_id)
