"""Calls that ask the federation for spot instances: ``client.requests``."""

from __future__ import annotations

import time
from collections.abc import Sequence

from broker.backoff import API_BACKOFF
from broker.client.errors import IN_FLIGHT, REFUSED, ProblemAnswer, ProtocolError, make_error
from broker.client.results import GrantedRequest, RefusedRequest, make_refused
from broker.client.transport import Resource, parse, with_id
from broker.contract import Lease, QuoteRequest, SpotRequest, SpotRequests
from broker.schemas.problems import Problem
from broker.schemas.quotes import Quotes
from broker.schemas.requests import Admission, Admissions, ListedResults


class RequestsResource(Resource):
    """Asks the federation for spot instances, and for quotes."""

    def submit(self, request: SpotRequest) -> GrantedRequest | RefusedRequest:
        """Ask the federation for one spot instance.

        A request without an id gets one, so that repeating it is safe.
        """
        response = self._transport.send("POST", "/v1/requests", with_id(request))
        if response.status_code == 409:
            return make_refused(parse(Problem, response))
        admission = parse(Admission, response)
        return GrantedRequest(admission.lease, tuple(admission.refusals))

    def submit_many(
        self, requests: Sequence[SpotRequest]
    ) -> list[GrantedRequest | RefusedRequest | ProblemAnswer]:
        """Submit up to 5,000 requests in one call and return their results in the same order.

        The result of a request that failed is its error, as a value. Requests that are still in flight are
        submitted again until the deadline.
        """
        requests = [with_id(request) for request in requests]
        results: dict[int, GrantedRequest | RefusedRequest | ProblemAnswer] = {}
        gives_up_s = time.monotonic() + self._transport.deadline_s
        for pause_s in API_BACKOFF.pauses():
            missing = [index for index in range(len(requests)) if index not in results]
            if not missing:
                break
            response = self._transport.send("POST", "/v1/requests", [requests[index] for index in missing])
            unfinished = False
            for index, item in zip(missing, parse(ListedResults, response).results, strict=True):
                if item.lease is not None:
                    results[index] = GrantedRequest(item.lease, tuple(item.refusals))
                elif item.problem is None:
                    raise ProtocolError("a result of the list holds neither a lease nor a problem")
                elif item.problem.type == REFUSED:
                    refusals = item.refusals  # in a list they are beside the problem
                    results[index] = make_refused(item.problem.model_copy(update={"refusals": refusals}))
                elif item.problem.type == IN_FLIGHT and time.monotonic() < gives_up_s:
                    unfinished = True
                else:
                    results[index] = make_error(item.problem)
            if unfinished:
                time.sleep(pause_s)
        return [results[index] for index in range(len(requests))]

    def submit_together(self, requests: Sequence[SpotRequest]) -> list[Lease] | RefusedRequest:
        """Submit up to 100 requests of which all are admitted, on whichever clouds, or none is.

        Returns the leases in the order of the requests, or the refusals of those that no cloud admits.
        """
        group = SpotRequests(all_or_nothing=True, requests=tuple(with_id(request) for request in requests))
        response = self._transport.send("POST", "/v1/requests", group)
        if response.status_code == 409:
            return make_refused(parse(Problem, response))
        return parse(Admissions, response).leases

    def quote(self, request: SpotRequest | QuoteRequest) -> Quotes:
        """Return what each cloud would promise now, in the order in which they would be asked.

        Changes nothing. A QuoteRequest may ask for several sizes at once.
        """
        return parse(Quotes, self._transport.send("POST", "/v1/quotes", request))
