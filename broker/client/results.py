"""Defines the answers to requests that are values, not errors: a granted and a refused request."""

from __future__ import annotations

from dataclasses import dataclass

from broker.contract import CounterOffers, Lease, RefusalView
from broker.schemas.on_demand import OnDemandOffer
from broker.schemas.problems import Problem

_NO_OFFERS = CounterOffers()


@dataclass(frozen=True)
class GrantedRequest:
    """A request was admitted: its lease, and the refusals of the clouds that were asked before."""

    lease: Lease
    refusals: tuple[RefusalView, ...] = ()


@dataclass(frozen=True)
class RefusedRequest:
    """No cloud admitted a request.

    ``refusals`` says why, by cloud; ``counter_offers`` holds the best of what would be accepted instead;
    ``on_demand`` lists where the instance can be had on-demand, cheapest first.
    """

    refusals: tuple[RefusalView, ...]
    counter_offers: CounterOffers = _NO_OFFERS
    on_demand: tuple[OnDemandOffer, ...] = ()


def make_refused(problem: Problem) -> RefusedRequest:
    """Return the refusal that a problem of type ``refused`` describes."""
    return RefusedRequest(
        tuple(problem.refusals or ()), problem.counter_offers or _NO_OFFERS, tuple(problem.on_demand or ())
    )
