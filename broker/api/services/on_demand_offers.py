"""Finds on-demand offers for a spot request that was refused. Pure.

An on-demand instance is never taken back. Clouds state prices in US dollars an hour of wall time; how long an
instance lasts in wall time follows from how fast the cloud's time passes.
"""

from __future__ import annotations

from collections.abc import Iterable

from broker.contract import NodeKind, SpotRequest
from broker.requests.routing import Member
from broker.schemas.on_demand import OnDemandOffer

MOST_OFFERS = 3
_HOUR_S = 3600.0


def on_demand_offers(request: SpotRequest, members: Iterable[Member]) -> list[OnDemandOffer]:
    """Return the cheapest offers of clouds that sell on-demand and have nodes on which the request fits.

    Only targets of the request are considered, if it names any; at most ``MOST_OFFERS`` offers are returned.
    A request that says what its instance runs is offered real clouds only.
    """
    offers = [
        (price, member.info.order, _offer(request, member, price))
        for member in members
        if (price := member.info.on_demand_usd_per_core_hour) is not None and _sells(member, request)
    ]
    return [offer for _, _, offer in sorted(offers, key=lambda item: item[:2])[:MOST_OFFERS]]


def _sells(member: Member, request: SpotRequest) -> bool:
    info, advert = member.info, member.advert
    if not (info.sells_on_demand and member.reachable and info.time == "wall"):
        return False
    if request.targets is not None and info.id not in request.targets:
        return False
    if request.launch is not None and info.instances is None:
        return False
    if advert is not None and info.cores - advert.on_demand_cores < request.cores:
        return False
    if not info.node_kinds:  # the cloud does not say what its nodes have beside cores
        return request.cores <= info.largest_node and not (request.resources or request.labels)
    return any(_fits(request, kind) for kind in info.node_kinds)


def _fits(request: SpotRequest, kind: NodeKind) -> bool:
    return (
        request.cores <= kind.cores
        and all(amount <= kind.resources.get(name, 0) for name, amount in request.resources.items())
        and request.labels.items() <= kind.labels.items()
    )


def _offer(request: SpotRequest, member: Member, price: float) -> OnDemandOffer:
    lasts_s = None if request.lifetime_s is None else request.lifetime_s / member.info.speed
    usd = None if lasts_s is None else price * request.cores * lasts_s / _HOUR_S
    return OnDemandOffer(cloud=member.info.id, cores=request.cores, usd_per_core_hour=price, usd=usd)
