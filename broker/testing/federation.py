"""Clouds in memory behind the HTTP API, on a clock that a test moves."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Sequence

import httpx
from pydantic import BaseModel, TypeAdapter

from broker.api import parsing, problems
from broker.api.problems import ProblemError
from broker.api.services.leases import new_end_s
from broker.client import Client
from broker.contract import (
    CounterOffers,
    Event,
    ExtensionRequest,
    Lease,
    LeaseState,
    QuoteRequest,
    QuoteView,
    RefusalView,
    SpotRequest,
    SpotRequests,
)
from broker.contract.convert import to_quote
from broker.requests.errors import SubmitError
from broker.schemas.clouds import Clouds, CloudView
from broker.schemas.leases import Cancellation, Leases
from broker.schemas.problems import Problem
from broker.schemas.quotes import Quotes
from broker.schemas.requests import Admission, Admissions, ListedResult, ListedResults
from broker.testing.cloud import FakeCloud
from cloudsim.federation.ranking import rank_quotes
from cloudsim.model.refusals import RefusalReason

_spot_requests = TypeAdapter(list[SpotRequest])
_FirstAnswer = Admission | Admissions | ProblemError


class InMemoryFederation:
    """A federation in memory, for tests of programs that use ``broker.client``.

    ``client`` gives a real ``Client`` whose calls never leave the process: its messages, errors and
    idempotency are those of the HTTP API, its clouds are ``FakeCloud``. Time stands still until ``advance``.
    Served are requests and lists of them, also all or nothing, quotes, leases with extension and end, clouds,
    and events with ``follow=False``. Any other call answers 501 and says so.

    Attributes
    ----------
    now_s
        The time of all clouds, in seconds.
    clouds
        The clouds by id, in the order in which they were added.
    """

    def __init__(self) -> None:
        self.now_s = 0.0
        self.clouds: dict[str, FakeCloud] = {}
        self._events: list[Event] = []
        # What each id stands for, and its answer; a list of all or nothing has one entry for each of its ids.
        self._answers: dict[str, tuple[SpotRequest | SpotRequests, _FirstAnswer]] = {}

    def add_cloud(
        self, cloud: str, nodes: Sequence[int] = (8,), *, survives_s: float = 86_400.0
    ) -> FakeCloud:
        """Add a cloud with ``nodes``, cores of each, that promises lifetimes of at most ``survives_s``."""
        self.clouds[cloud] = FakeCloud(cloud, nodes, survives_s, order=len(self.clouds))
        return self.clouds[cloud]

    def client(self) -> Client:
        """Return a client of this federation; close it as any other."""
        transport = httpx.MockTransport(self._answer)
        return Client("http://in-memory.invalid", "in-memory", deadline_s=1.0, transport=transport)

    def advance(self, seconds: float) -> None:
        """Let time pass; leases that end meanwhile are completed."""
        self.now_s += seconds
        due = [event for cloud in self.clouds.values() for event in cloud.complete_due(self.now_s)]
        self._events += sorted(due, key=lambda event: event.at_s)

    def start_on_demand(self, cloud: str, cores: int, instance: str | None = None) -> str:
        """Start an instance of a cloud's own users, which evicts spot where it must; return its id."""
        name = instance or f"{cloud}/own-{uuid.uuid4().hex[:8]}"
        self._events += self.clouds[cloud].start_on_demand(name, cores, self.now_s)
        return name

    def stop_on_demand(self, cloud: str, instance: str) -> None:
        """Stop an instance that ``start_on_demand`` started."""
        self.clouds[cloud].stop_on_demand(instance)

    def evict(self, lease: str) -> None:
        """Evict one lease, as its cloud does when it wants the room back."""
        event = self._cloud_of(lease).end(lease, LeaseState.EVICTED, self.now_s, "test")
        self._events += [event] if event else []

    # -- the HTTP API ----------------------------------------------------------------------------------------

    def _answer(self, request: httpx.Request) -> httpx.Response:
        try:
            for method, pattern, handler in self._routes():
                match = re.fullmatch(pattern, request.url.path)
                if request.method == method and match:
                    return handler(request, *match.groups())
        except (ProblemError, SubmitError) as error:
            problem = problems.translate(error).problem
            return _json(problem, problem.status)
        return _not_served(f"{request.method} {request.url.path} is not served by an in-memory federation")

    def _routes(self) -> tuple[tuple[str, str, Callable[..., httpx.Response]], ...]:
        return (
            ("POST", "/v1/requests", self._submit),
            ("POST", "/v1/quotes", self._quote),
            ("GET", "/v1/leases", self._list_leases),
            ("GET", "/v1/leases/([^/]+)", self._show_lease),
            ("DELETE", "/v1/leases/([^/]+)", self._cancel),
            ("POST", "/v1/leases/([^/]+)/extend", self._extend),
            ("GET", "/v1/clouds", self._list_clouds),
            ("GET", "/v1/clouds/([^/]+)", self._show_cloud),
            ("GET", "/v1/events", self._list_events),
        )

    def _submit(self, call: httpx.Request) -> httpx.Response:
        if not parsing.is_list(call.content):
            if parsing.is_group(call.content):
                return _json(self._admit_together(parsing.parse(SpotRequests, call.content)), 201)
            return _json(self._admit(parsing.parse(SpotRequest, call.content)), 201)
        items = parsing.parse_list(_spot_requests, SpotRequest, call.content)
        return _json(ListedResults(results=[self._list_result(item) for item in items]))

    def _list_result(self, item: SpotRequest | ProblemError) -> ListedResult:
        """Return the result of one item of a list, whose refusals stand beside the problem."""
        try:
            if isinstance(item, ProblemError):
                raise item
            admission = self._admit(item)
        except ProblemError as error:
            problem = error.problem.model_copy(update={"refusals": None})
            return ListedResult(problem=problem, refusals=error.problem.refusals or [])
        return ListedResult(lease=admission.lease, refusals=admission.refusals)

    def _admit(self, request: SpotRequest) -> Admission:
        """Place a request, or repeat the answer that its id got before."""
        name = request.id or uuid.uuid4().hex
        if name not in self._answers:
            self._answers[name] = (request, self._place(name, request))
        before, answer = self._answers[name]
        if before != request:
            raise problems.key_reused()
        if isinstance(answer, ProblemError):
            raise answer
        assert isinstance(answer, Admission)
        return answer

    def _admit_together(self, group: SpotRequests) -> Admissions:
        """Place all requests of a group or none, or repeat the answer that it got before."""
        names = [request.id or uuid.uuid4().hex for request in group.requests]
        known = [self._answers[name] for name in names if name in self._answers]
        if any(before != group for before, _ in known):
            raise problems.key_reused()
        answer = known[0][1] if known else self._place_together(names, group)
        self._answers |= dict.fromkeys(names, (group, answer))
        if isinstance(answer, ProblemError):
            raise answer
        assert isinstance(answer, Admissions)
        return answer

    def _place_together(self, names: Sequence[str], group: SpotRequests) -> Admissions | ProblemError:
        events, leases = list(self._events), {cloud.id: dict(cloud.leases) for cloud in self.clouds.values()}
        placed = [self._place(name, request) for name, request in zip(names, group.requests, strict=True)]
        admitted = [answer.lease for answer in placed if isinstance(answer, Admission)]
        if len(admitted) == len(placed):
            return Admissions(leases=admitted)
        self._events = events
        for cloud in self.clouds.values():
            cloud.leases = leases[cloud.id]
        refused = [answer.problem.refusals or [] for answer in placed if isinstance(answer, ProblemError)]
        return problems.refused_together([*refused, *([] for _ in admitted)])

    def _place(self, name: str, request: SpotRequest) -> Admission | ProblemError:
        quotes, refusals = self._judge(request)
        if not quotes:
            return problems.refused(refusals)
        cloud = self.clouds[quotes[0].cloud]
        event = cloud.grant(f"{name}.1", request.model_copy(update={"id": name}), self.now_s)
        self._events.append(event)
        assert event.lease is not None
        return Admission(lease=event.lease, refusals=refusals)

    def _judge(self, request: SpotRequest) -> tuple[list[QuoteView], list[RefusalView]]:
        """Ask the clouds that the request may go to; quotes are in the broker's own order."""
        quotes, refusals = [], []
        for cloud in self.clouds.values():
            if request.targets is None and cloud.id == request.origin:
                continue
            if request.targets is not None and cloud.id not in request.targets:
                continue
            if cloud.reachable:
                answer = cloud.quote(request, self.now_s)
            else:
                answer = RefusalView(cloud=cloud.id, reason=RefusalReason.UNREACHABLE, cores=request.cores)
            if isinstance(answer, QuoteView):
                quotes.append(answer)
            else:
                refusals.append(answer)
        ranked = rank_quotes((self.clouds[quote.cloud].order, to_quote(quote)) for quote in quotes)
        order = {quote.cloud: place for place, quote in enumerate(ranked)}
        return sorted(quotes, key=lambda quote: order[quote.cloud]), refusals

    def _quote(self, call: httpx.Request) -> httpx.Response:
        quotes, refusals = [], []
        for request in parsing.parse(QuoteRequest, call.content).requests():
            admitting, refusing = self._judge(request)
            quotes += admitting
            refusals += refusing
        return _json(Quotes(quotes=quotes, refusals=refusals))

    def _list_leases(self, call: httpx.Request) -> httpx.Response:
        """Answer with all leases on one page, filtered as asked."""
        wanted = call.url.params
        leases = [
            lease
            for cloud in self.clouds.values()
            for lease in cloud.leases.values()
            if wanted.get("state", lease.state.value) == lease.state.value
            and wanted.get("cloud", lease.cloud) == lease.cloud
            and wanted.get("origin", lease.origin) == lease.origin
        ]
        return _json(Leases(leases=leases))

    def _show_lease(self, _: httpx.Request, lease: str) -> httpx.Response:
        return _json(self._lease(lease))

    def _cancel(self, _: httpx.Request, lease: str) -> httpx.Response:
        event = self._cloud_of(lease).end(lease, LeaseState.CANCELLED, self.now_s)
        self._events += [event] if event else []
        return _json(Cancellation(done=True, lease=self._lease(lease)))

    def _extend(self, call: httpx.Request, lease: str) -> httpx.Response:
        request = parsing.parse(ExtensionRequest, call.content)
        cloud, before = self._cloud_of(lease), self._lease(lease)
        ends_at_s = new_end_s(request, before)
        if before.state is not LeaseState.RUNNING:
            reason, offers = RefusalReason.ENDED, CounterOffers()
        elif before.promised_sla is not None and ends_at_s - self.now_s > cloud.survives_s:
            reason = RefusalReason.NO_EVIDENCE
            offers = CounterOffers(lifetime_s=self.now_s + cloud.survives_s - before.starts_at_s)
        else:
            self._events.append(cloud.extend(lease, ends_at_s, self.now_s))
            return _json(self._lease(lease))
        refusal = RefusalView(cloud=cloud.id, reason=reason, cores=before.cores, counter_offers=offers)
        raise problems.refused([refusal])

    def _list_clouds(self, _: httpx.Request) -> httpx.Response:
        return _json(Clouds(clouds=[self._view(cloud) for cloud in self.clouds.values()]))

    def _show_cloud(self, _: httpx.Request, cloud: str) -> httpx.Response:
        if cloud not in self.clouds:
            raise problems.not_found("cloud")
        return _json(self._view(self.clouds[cloud]))

    def _list_events(self, call: httpx.Request) -> httpx.Response:
        """Answer with the events after ``Last-Event-ID`` as server-sent events, and end the stream."""
        if call.url.params.get("follow", "true").lower() == "true":
            return _not_served("time stands still here: read events with follow=False after each step")
        first = int(call.headers.get("Last-Event-ID", "0-0").partition("-")[0])
        wanted = call.url.params
        text = "".join(
            f"id: {number}-0\nevent: {event.kind}\ndata: {event.model_dump_json()}\n\n"
            for number, event in enumerate(self._events, start=1)
            if number > first
            and wanted.get("cloud", event.cloud) == event.cloud
            and event.lease is not None
            and wanted.get("origin", event.lease.origin) == event.lease.origin
        )
        return httpx.Response(200, text=text, headers={"Content-Type": "text/event-stream"})

    def _view(self, cloud: FakeCloud) -> CloudView:
        advert = cloud.advert(self.now_s)
        return CloudView(info=cloud.info, advert=advert, reachable=cloud.reachable, advert_age_s=0.0)

    def _cloud_of(self, lease: str) -> FakeCloud:
        for cloud in self.clouds.values():
            if lease in cloud.leases:
                return cloud
        raise problems.not_found("lease")

    def _lease(self, lease: str) -> Lease:
        return self._cloud_of(lease).leases[lease]


def _json(body: BaseModel, status: int = 200) -> httpx.Response:
    return httpx.Response(
        status, content=body.model_dump_json(), headers={"Content-Type": "application/json"}
    )


def _not_served(detail: str) -> httpx.Response:
    problem = Problem(type="urn:spotfed:problem:not-served", title="Unserved call", status=501, detail=detail)
    return _json(problem, problem.status)
