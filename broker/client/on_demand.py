"""The calls about on-demand instances, as part of ``broker.client.Client``."""

from __future__ import annotations

from collections.abc import Sequence

from broker.api.schemas.on_demand import OnDemandOffer
from broker.api.schemas.problems import Problem
from broker.api.schemas.requests import Admission
from broker.client.results import (
    ClientCalls,
    GrantedRequest,
    RefusedRequest,
    named,
    parse,
    quoted,
    refused_of,
)
from broker.contract import Lease, Needs, OnDemandRequest, SpotRequest


class OnDemandCalls(ClientCalls):
    """Of a cloud's own users, and of others where it sells on-demand."""

    def start_on_demand(self, cloud: str, request: OnDemandRequest) -> GrantedRequest | RefusedRequest:
        """A request of the cloud's own users, or on one that sells on-demand to others. Without an id it gets
        one. Raises NotFoundError."""
        response = self._send("POST", f"/v1/clouds/{quoted(cloud)}/on-demand", named(request))
        if response.status_code == 409:
            return refused_of(parse(Problem, response))
        return GrantedRequest(parse(Admission, response).lease)

    def on_demand(self, cloud: str, instance: str) -> Lease | RefusedRequest:
        """An on-demand instance as it is now: booked until it starts. Raises NotFoundError."""
        response = self._send("GET", f"/v1/clouds/{quoted(cloud)}/on-demand/{quoted(instance)}")
        return refused_of(parse(Problem, response)) if response.status_code == 409 else parse(Lease, response)

    def stop_on_demand(self, cloud: str, instance: str) -> None:
        """Stops an on-demand instance. Raises NotFoundError."""
        self._send("DELETE", f"/v1/clouds/{quoted(cloud)}/on-demand/{quoted(instance)}")

    def take_on_demand(
        self, request: SpotRequest, offers: Sequence[OnDemandOffer]
    ) -> tuple[Lease, OnDemandOffer] | None:
        """In the place of a request that was refused: on-demand by the first of the offers that has room, for
        its whole lifetime; None: none has, or there is none. Repeating it with an id starts nothing twice.
        """
        needs = request.model_dump(include=set(Needs.model_fields))  # those that on-demand knows as well
        wish = OnDemandRequest(id=request.id, cores=request.cores, lifetime_s=request.lifetime_s, **needs)
        for offer in offers:
            answer = self.start_on_demand(offer.cloud, named(wish))
            if isinstance(answer, GrantedRequest):
                return answer.lease, offer
        return None
