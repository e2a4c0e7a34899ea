"""What a fleet reads of the federation: its own leases, and the clouds' clocks and prices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from broker.api.schemas.clouds import CloudView
from broker.client import Client, NotFoundError
from broker.contract import Lease, LeaseState
from broker.fleet.state_file import FleetError, prefix_of

#: The most that the API lists at once.
_PAGE = 1000


@dataclass(frozen=True)
class FleetSnapshot:
    """The members as they were just read."""

    views: Mapping[str, CloudView]

    def remaining_s(self, lease: Lease) -> float | None:
        """Wall time that is left of it; None: its cloud renews it, or does not answer."""
        view = self.views.get(lease.cloud)
        if lease.renewal_s is not None or lease.ends_at_s is None or view is None or view.advert is None:
            return None
        return self.left_s(lease) / view.info.speed

    def left_s(self, lease: Lease) -> float:
        """Time of its cloud that is left of a lease that has an end there."""
        view = self.views[lease.cloud]
        assert lease.ends_at_s is not None
        assert view.advert is not None
        return lease.ends_at_s - view.advert.at_s - (view.advert_age_s or 0.0) * view.info.speed

    def lifetime_s(self, cloud: str, lifetime_s: float | None) -> float | None:
        """What a lifetime in the cloud's time is in wall time."""
        view = self.views.get(cloud)
        return None if lifetime_s is None or view is None else lifetime_s / view.info.speed

    def price_usd_per_hour(self, lease: Lease) -> float | None:
        """Of an instance, in wall time; None: its cloud does not tell."""
        view = self.views.get(lease.cloud)
        price = None if view is None else view.info.spot_usd_per_core_hour
        return None if price is None else price * lease.cores

    def others(
        self, avoid: frozenset[str], origin: str, targets: tuple[str, ...] | None
    ) -> tuple[str, ...] | None:
        """Whom a request asks that avoids some; None: all but the origin."""
        if not avoid:
            return targets
        known = targets or tuple(cloud for cloud in self.views if cloud != origin)
        return tuple(cloud for cloud in known if cloud not in avoid)


def read_market(client: Client) -> FleetSnapshot:
    """As it is now."""
    return FleetSnapshot({view.info.id: view for view in client.clouds.list()})


def running(client: Client, name: str, origin: str, market: FleetSnapshot) -> dict[str, Lease]:
    """The fleet's leases that run, oldest first. Raises FleetError where there are too many to be listed."""
    found = client.leases.list(state=LeaseState.RUNNING, origin=origin, limit=_PAGE)
    leases = found.leases
    if found.more:
        leases = []
        for cloud in market.views:
            listed = client.leases.list(state=LeaseState.RUNNING, cloud=cloud, origin=origin, limit=_PAGE)
            if listed.more:
                raise FleetError(
                    f"{origin} has more than {_PAGE} leases on {cloud}: use an --origin of its own"
                )
            leases += listed.leases
    mine = [lease for lease in leases if lease.request.startswith(prefix_of(name))]
    return {lease.id: lease for lease in sorted(mine, key=lambda lease: _age(lease.request))}


def one(client: Client, lease: str) -> Lease | None:
    """A lease as it is now; None: there is no such one any more."""
    try:
        return client.leases.get(lease)
    except NotFoundError:
        return None


def _age(request: str) -> tuple[int, str]:
    """Later requests have larger numbers."""
    number = request.rpartition("-")[2]
    return (int(number) if number.isdigit() else 0, request)
