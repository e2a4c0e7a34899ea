"""The HTTP API as Python calls: ``Client(url, api_key)``.

with Client() as client:                                  # SPOTFED_URL and SPOTFED_API_KEY
    answer = client.submit(SpotRequest(cores=2, lifetime_s=7200, sla=0.05))
    if isinstance(answer, RefusedRequest): ...            # a refusal is a value

Errors are one tree below ClientError, drawn in ``broker.api.outcomes``.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Self

import httpx
from httpx_sse import SSEError, connect_sse
from pydantic import BaseModel

from broker.api.schemas.clouds import Advance, Clouds, CloudView, DrainRequest, Table
from broker.api.schemas.events import StreamedEvent
from broker.api.schemas.leases import Cancellation, Leases
from broker.api.schemas.problems import Problem
from broker.api.schemas.quotes import Quotes
from broker.api.schemas.requests import Admission, ListedResults
from broker.backoff import API_BACKOFF, retry_after_s
from broker.client.errors import (
    ClientError,
    EventsGoneError,
    InputRefusedError,
    NotFoundError,
    ProblemAnswer,
    ProtocolError,
    UnauthorizedError,
    UnavailableError,
)
from broker.client.instances import InstanceCalls
from broker.client.jobs import JobCalls
from broker.client.members import IdentityCalls
from broker.client.on_demand import OnDemandCalls
from broker.client.results import (
    IN_FLIGHT,
    REFUSED,
    GrantedRequest,
    RefusedRequest,
    error_of,
    named,
    parse,
    problem_of,
    quoted,
    refused_of,
    why_silent,
)
from broker.client.targets import VolatileCalls
from broker.client.webhooks import WebhookCalls
from broker.contract import (
    Done,
    DrainReport,
    Event,
    ExtensionRequest,
    Lease,
    LeaseState,
    QuoteRequest,
    SpotRequest,
)
from broker.ledger.models import LedgerView
from broker.settings import settings
from broker.storage.tls import api_context

__all__ = [
    "Client",
    "ClientError",
    "EventsGoneError",
    "GrantedRequest",
    "InputRefusedError",
    "NotFoundError",
    "ProblemAnswer",
    "ProtocolError",
    "RefusedRequest",
    "UnauthorizedError",
    "UnavailableError",
]

MOST_LEASES = 1000  # that the API tells at once
DEADLINE_S = 60.0  # how long a call is repeated, and the longest pause that a server may ask for
_EVENT_SILENCE_S = 45.0  # the server sends a comment every 15 s


class Client(IdentityCalls, InstanceCalls, JobCalls, OnDemandCalls, VolatileCalls, WebhookCalls):
    """Calls one broker. Safe to use from several threads.

    Calls are repeated with the same id while the broker is away (503, no connection, still in flight), for at
    most ``deadline_s`` seconds in all; ``timeout_s`` bounds one try.
    """

    def __init__(
        self,
        url: str | None = None,
        api_key: str | None = None,
        *,
        deadline_s: float = DEADLINE_S,
        timeout_s: float = 30.0,
        transport: httpx.BaseTransport | None = None,
    ):
        """``url`` and ``api_key`` default to SPOTFED_URL and SPOTFED_API_KEY."""
        told = settings()
        if api_key is None and told.api_key is not None:
            api_key = told.api_key.get_secret_value()
        self._deadline_s = deadline_s
        self._http = httpx.Client(
            base_url=url or told.url,
            headers={"Authorization": f"Bearer {api_key}"} if api_key else {},
            timeout=timeout_s,
            transport=transport,
            verify=api_context(told),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    # -- requests -----------------------------------------------------------------------------------------

    def submit(self, request: SpotRequest) -> GrantedRequest | RefusedRequest:
        """Asks the federation for one spot instance. Without an id it gets one, so that repeating is safe."""
        response = self._send("POST", "/v1/requests", named(request))
        if response.status_code == 409:
            return refused_of(parse(Problem, response))
        admission = parse(Admission, response)
        return GrantedRequest(admission.lease, tuple(admission.refusals))

    def submit_many(
        self, requests: Sequence[SpotRequest]
    ) -> list[GrantedRequest | RefusedRequest | ProblemAnswer]:
        """Up to 5,000 requests in one call; results in their order. An item that failed is a value as well.

        Items that were still in flight are asked for again until the deadline.
        """
        wishes = [named(request) for request in requests]
        results: dict[int, GrantedRequest | RefusedRequest | ProblemAnswer] = {}
        deadline_s = time.monotonic() + self._deadline_s
        for pause_s in API_BACKOFF.pauses():
            missing = [index for index in range(len(wishes)) if index not in results]
            if not missing:
                break
            response = self._send("POST", "/v1/requests", [wishes[index] for index in missing])
            unfinished = False
            for index, item in zip(missing, parse(ListedResults, response).results, strict=True):
                if item.lease is not None:
                    results[index] = GrantedRequest(item.lease, tuple(item.refusals))
                elif item.problem is None:
                    raise ProtocolError("a result of the list holds neither a lease nor a problem")
                elif item.problem.type == REFUSED:
                    refusals = item.refusals  # in a list they are beside the problem
                    results[index] = refused_of(item.problem.model_copy(update={"refusals": refusals}))
                elif item.problem.type == IN_FLIGHT and time.monotonic() < deadline_s:
                    unfinished = True
                else:
                    results[index] = error_of(item.problem)
            if unfinished:
                time.sleep(pause_s)
        return [results[index] for index in range(len(wishes))]

    def quote(self, request: SpotRequest | QuoteRequest) -> Quotes:
        """What the clouds would promise now, in the order in which they would be asked. Changes nothing.

        A QuoteRequest may ask for several sizes at once.
        """
        return parse(Quotes, self._send("POST", "/v1/quotes", request))

    # -- leases -------------------------------------------------------------------------------------------

    def leases(
        self,
        *,
        state: LeaseState | None = None,
        cloud: str | None = None,
        origin: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Leases:
        """A page of spot leases, narrowed as told. ``cursor``: the ``next`` of the page before."""
        told = {"state": state and state.value, "cloud": cloud, "origin": origin}
        parameters = {**told, "limit": limit, "cursor": cursor}
        return parse(Leases, self._send("GET", "/v1/leases", parameters=parameters))

    def all_leases(
        self,
        *,
        state: LeaseState | None = None,
        cloud: str | None = None,
        origin: str | None = None,
        page: int = MOST_LEASES,
    ) -> Iterator[Lease]:
        """All of them, so many at a time, each once: as it was when it was read."""
        known: set[str] = set()
        cursor: str | None = None
        while True:
            found = self.leases(state=state, cloud=cloud, origin=origin, limit=page, cursor=cursor)
            for lease in found.leases:
                if lease.id not in known:
                    known.add(lease.id)
                    yield lease
            cursor = found.next
            if cursor is None:
                return

    def lease(self, lease: str) -> Lease:
        """One lease. Raises NotFoundError."""
        return parse(Lease, self._send("GET", f"/v1/leases/{quoted(lease)}"))

    def cancel(self, lease: str) -> Cancellation:
        """Ends a lease; kept while its cloud is silent (``done`` is False then). Raises NotFoundError."""
        return parse(Cancellation, self._send("DELETE", f"/v1/leases/{quoted(lease)}"))

    def extend(self, lease: str, request: ExtensionRequest) -> Lease | RefusedRequest:
        """Asks for a later end of a lease: the lease as it is then, or why not and what would be accepted.

        Without an id the request gets one, so that repeating is safe. Raises NotFoundError.
        """
        response = self._send("POST", f"/v1/leases/{quoted(lease)}/extend", named(request))
        if response.status_code == 409:
            return refused_of(parse(Problem, response))
        return parse(Lease, response)

    def acknowledge(self, lease: str) -> Lease:
        """Ends a lease that was told to leave before it must, so that who waits for its room can start.

        Raises NotFoundError, and ProblemAnswer (NOT_NOTICED) when it was not told.
        """
        return parse(Lease, self._send("POST", f"/v1/leases/{quoted(lease)}/acknowledge"))

    def ledger(
        self,
        *,
        cloud: str | None = None,
        origin: str | None = None,
        sla: float | None = None,
        by: Sequence[str] = ("cloud", "sla"),
    ) -> LedgerView:
        """Promised against realised evictions, broken down by some of cloud, origin, sla and table."""
        parameters = {"cloud": cloud, "origin": origin, "sla": sla, "by": ",".join(by)}
        return parse(LedgerView, self._send("GET", "/v1/ledger", parameters=parameters))

    # -- clouds -------------------------------------------------------------------------------------------

    def clouds(self) -> list[CloudView]:
        """The members in cloud order."""
        return parse(Clouds, self._send("GET", "/v1/clouds")).clouds

    def cloud(self, cloud: str) -> CloudView:
        """One member. Raises NotFoundError."""
        return parse(CloudView, self._send("GET", f"/v1/clouds/{quoted(cloud)}"))

    def table(self, cloud: str) -> Table:
        """A member's quantile table as far as it shows it. Raises NotFoundError."""
        return parse(Table, self._send("GET", f"/v1/clouds/{quoted(cloud)}/table"))

    def drain(self, cloud: str, nodes: Sequence[int] | None = None, *, dry_run: bool = False) -> DrainReport:
        """Closes nodes (None: all) and makes their spot instances leave; ``dry_run`` only tells who would."""
        wish = DrainRequest(nodes=None if nodes is None else tuple(nodes), dry_run=dry_run)
        return parse(DrainReport, self._send("POST", f"/v1/clouds/{quoted(cloud)}/drain", wish))

    def reopen(self, cloud: str, nodes: Sequence[int] | None = None) -> Done:
        """Lets nodes (None: all) take new instances again."""
        wish = DrainRequest(nodes=None if nodes is None else tuple(nodes))
        parameters = {"node": wish.nodes and list(wish.nodes)}
        path = f"/v1/clouds/{quoted(cloud)}/drain"
        return parse(Done, self._send("DELETE", path, parameters=parameters))

    def finish(self, cloud: str) -> Done:
        """Trace time only: lets everything happen that is still to come on that cloud."""
        return parse(Done, self._send("POST", f"/v1/clouds/{quoted(cloud)}/advance", Advance(finish=True)))

    # -- events -------------------------------------------------------------------------------------------

    def events(
        self,
        *,
        follow: bool = True,
        last_event_id: str | None = None,
        cloud: str | None = None,
        origin: str | None = None,
    ) -> Iterator[StreamedEvent]:
        """Public events in order, each once, across lost connections.

        They begin after ``last_event_id``; without it, with those to come (``follow``) or the oldest kept
        (not ``follow``, which ends when there are no more).

        Raises EventsGoneError, and UnavailableError when the broker stays away.
        """
        gives_up_s = time.monotonic() + self._deadline_s
        waits = API_BACKOFF.pauses()
        while True:
            parameters = _present({"cloud": cloud, "origin": origin, "follow": follow})
            headers = {"Last-Event-ID": last_event_id} if last_event_id else {}
            try:
                with connect_sse(
                    self._http,
                    "GET",
                    "/v1/events",
                    params=parameters,
                    headers=headers,
                    timeout=httpx.Timeout(10.0, read=_EVENT_SILENCE_S),
                ) as source:
                    if source.response.status_code != 200:
                        source.response.read()
                        self._raise_unless_temporary(source.response)
                    else:
                        for sent in source.iter_sse():
                            gives_up_s = time.monotonic() + self._deadline_s
                            waits = API_BACKOFF.pauses()
                            if sent.id:
                                last_event_id = sent.id
                            if sent.data:
                                yield StreamedEvent(id=sent.id, event=Event.model_validate_json(sent.data))
                        if not follow:
                            return
            except (httpx.TransportError, SSEError) as error:
                if (reason := why_silent(error, self._http.base_url)) and time.monotonic() > gives_up_s:
                    raise UnavailableError(reason) from error
            if time.monotonic() > gives_up_s:
                raise UnavailableError(f"{self._http.base_url} does not send events")
            time.sleep(next(waits))

    # -- how ----------------------------------------------------------------------------------------------

    def _send(
        self,
        method: str,
        path: str,
        body: BaseModel | Sequence[BaseModel] | None = None,
        parameters: dict[str, Any] | None = None,
    ) -> httpx.Response:
        """Sends until there is an answer that repeating would not change."""
        content, headers = _encoded(body)
        gives_up_s = time.monotonic() + self._deadline_s
        for pause_s in API_BACKOFF.pauses():
            told_s = 0.0
            try:
                response = self._http.request(
                    method, path, content=content, headers=headers, params=_present(parameters or {})
                )
            except httpx.TransportError as error:
                reason = why_silent(error, self._http.base_url)
            else:
                if response.is_success or not self._raise_unless_temporary(response):
                    return response
                reason = problem_of(response).detail
                told_s = min(retry_after_s(response) or 0.0, DEADLINE_S)
            wait_s = max(told_s, pause_s)
            if time.monotonic() + wait_s > gives_up_s:
                raise UnavailableError(f"{reason} (gave up after {self._deadline_s:g} s)")
            time.sleep(wait_s)
        raise AssertionError("pauses never end")

    @staticmethod
    def _raise_unless_temporary(response: httpx.Response) -> bool:
        """True: ask again. False: a refusal, which is an answer."""
        if response.status_code in (429, 502, 503, 504):
            return True
        problem = problem_of(response)
        if response.status_code == 409:
            if problem.type == IN_FLIGHT:
                return True
            if problem.type == REFUSED:
                return False
        raise error_of(problem)


def _encoded(body: BaseModel | Sequence[BaseModel] | None) -> tuple[bytes | None, dict[str, str]]:
    if body is None:
        return None, {}
    if isinstance(body, BaseModel):
        text = body.model_dump_json(exclude_defaults=True)
    else:
        text = f"[{','.join(item.model_dump_json(exclude_defaults=True) for item in body)}]"
    return text.encode(), {"Content-Type": "application/json"}


def _present(parameters: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in parameters.items() if value is not None}
