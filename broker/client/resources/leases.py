"""Calls about the leases of spot instances: ``client.leases``."""

from __future__ import annotations

from collections.abc import Iterator

from broker.client.results import RefusedRequest, make_refused
from broker.client.transport import Resource, parse, quote_id, with_id
from broker.contract import ExtensionRequest, Lease, LeaseState
from broker.contract.instances import InstanceRecord
from broker.schemas.leases import Cancellation, Leases
from broker.schemas.problems import Problem

MOST_LEASES = 1000  # in one page of the API


class LeasesResource(Resource):
    """Reads, extends and ends the leases of spot instances. Unknown leases raise NotFoundError."""

    def list(
        self,
        *,
        state: LeaseState | None = None,
        cloud: str | None = None,
        origin: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Leases:
        """Return one page of leases, only those that match. ``cursor``: ``next`` of the page before."""
        filters = {"state": state and state.value, "cloud": cloud, "origin": origin}
        parameters = {**filters, "limit": limit, "cursor": cursor}
        return parse(Leases, self._transport.send("GET", "/v1/leases", parameters=parameters))

    def list_all(
        self,
        *,
        state: LeaseState | None = None,
        cloud: str | None = None,
        origin: str | None = None,
        page: int = MOST_LEASES,
    ) -> Iterator[Lease]:
        """Yield all leases that match, each once, as it was when its page was read.

        ``page`` is the number of leases to read at a time.
        """
        seen: set[str] = set()
        cursor: str | None = None
        while True:
            leases = self.list(state=state, cloud=cloud, origin=origin, limit=page, cursor=cursor)
            for lease in leases.leases:
                if lease.id not in seen:
                    seen.add(lease.id)
                    yield lease
            cursor = leases.next
            if cursor is None:
                return

    def get(self, lease: str) -> Lease:
        """Return one lease by its id."""
        return parse(Lease, self._transport.send("GET", _path(lease)))

    def cancel(self, lease: str) -> Cancellation:
        """End a lease. While its cloud does not answer, the command is kept and ``done`` is False."""
        return parse(Cancellation, self._transport.send("DELETE", _path(lease)))

    def extend(self, lease: str, request: ExtensionRequest) -> Lease | RefusedRequest:
        """Ask for a later end of a lease; return the extended lease, or why not and what would be accepted.

        A request without an id gets one, so that repeating it is safe.
        """
        response = self._transport.send("POST", f"{_path(lease)}/extend", with_id(request))
        if response.status_code == 409:
            return make_refused(parse(Problem, response))
        return parse(Lease, response)

    def acknowledge(self, lease: str) -> Lease:
        """End a lease under notice before its time, so that those who wait for its room can start.

        Raises
        ------
        ProblemAnswer
            When the lease is not under notice (type NOT_NOTICED).
        """
        return parse(Lease, self._transport.send("POST", f"{_path(lease)}/acknowledge"))

    def get_instance(self, lease: str) -> InstanceRecord:
        """Return the instance that a lease has on its real cloud.

        Raises
        ------
        NotFoundError
            When it has none, or none yet.
        """
        return parse(InstanceRecord, self._transport.send("GET", f"{_path(lease)}/instance"))


def _path(lease: str) -> str:
    return f"/v1/leases/{quote_id(lease)}"
