"""Calls about on-demand instances: ``client.on_demand``."""

from __future__ import annotations

from collections.abc import Sequence

from broker.client.results import GrantedRequest, RefusedRequest, make_refused
from broker.client.transport import Resource, parse, quote_id, with_id
from broker.contract import Lease, Needs, OnDemandRequest, SpotRequest
from broker.contract.instances import InstanceRecord
from broker.schemas.on_demand import OnDemandOffer
from broker.schemas.problems import Problem
from broker.schemas.requests import Admission


class OnDemandResource(Resource):
    """Starts and stops on-demand instances.

    A cloud's own users may, and others on clouds that sell on-demand instances.
    """

    def start(self, cloud: str, request: OnDemandRequest) -> GrantedRequest | RefusedRequest:
        """Ask a cloud for an on-demand instance.

        A request without an id gets one, so that repeating it is safe.

        Raises
        ------
        NotFoundError
            When the cloud is unknown.
        """
        response = self._transport.send("POST", f"/v1/clouds/{quote_id(cloud)}/on-demand", with_id(request))
        if response.status_code == 409:
            return make_refused(parse(Problem, response))
        return GrantedRequest(parse(Admission, response).lease)

    def get(self, cloud: str, instance: str) -> Lease | RefusedRequest:
        """Return an on-demand instance as it is now; it is booked until it starts.

        Raises
        ------
        NotFoundError
            When the cloud or the instance is unknown.
        """
        response = self._transport.send("GET", _path(cloud, instance))
        return (
            make_refused(parse(Problem, response)) if response.status_code == 409 else parse(Lease, response)
        )

    def get_instance(self, cloud: str, instance: str) -> InstanceRecord:
        """Return the name, addresses and state of an instance that was bought on a real cloud.

        Raises
        ------
        NotFoundError
            When the cloud or the instance is unknown, before it is asked for, and some time after its end.
        """
        path = f"/v1/clouds/{quote_id(cloud)}/on-demand-instances/{quote_id(instance)}"
        return parse(InstanceRecord, self._transport.send("GET", path))

    def stop(self, cloud: str, instance: str) -> None:
        """Stop an on-demand instance.

        Raises
        ------
        NotFoundError
            When the cloud or the instance is unknown.
        """
        self._transport.send("DELETE", _path(cloud, instance))

    def take_first(
        self, request: SpotRequest, offers: Sequence[OnDemandOffer]
    ) -> tuple[Lease, OnDemandOffer] | None:
        """Start an on-demand instance instead of a refused spot request, by the first offer that has room.

        The instance runs for the request's whole lifetime. Returns its lease and the offer, or None if no
        offer has room. Repeating the call with the same request id starts nothing twice.
        """
        needs = request.model_dump(include=set(Needs.model_fields))
        on_demand = OnDemandRequest(
            id=request.id, cores=request.cores, lifetime_s=request.lifetime_s, launch=request.launch, **needs
        )
        for offer in offers:
            answer = self.start(offer.cloud, with_id(on_demand))
            if isinstance(answer, GrantedRequest):
                return answer.lease, offer
        return None


def _path(cloud: str, instance: str) -> str:
    return f"/v1/clouds/{quote_id(cloud)}/on-demand/{quote_id(instance)}"
