"""What a call of the client comes to: values and one tree of errors.

ClientError                     base; the message says what to do
├── UnavailableError            no answer before the deadline: ask again with the same id
│   └── UntrustedError          TLS refused the connection: nothing was sent
├── ProblemAnswer               the API answered with a problem (in ``problem``)
│   ├── InputRefusedError       400, 413, 415, 422: the input cannot be used
│   ├── UnauthorizedError       401
│   ├── NotFoundError           404
│   └── EventsGoneError         410: the event stream no longer reaches back that far
└── ProtocolError               something answered that is not this API
"""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
from pydantic import BaseModel, ValidationError

from broker.api.schemas.on_demand import OnDemandOffer
from broker.api.schemas.problems import Problem
from broker.client.errors import (
    EventsGoneError,
    InputRefusedError,
    NotFoundError,
    ProblemAnswer,
    ProtocolError,
    UnauthorizedError,
    UntrustedError,
)
from broker.contract import CounterOffers, Lease, RefusalView, read_message
from broker.storage.tls import refusal

REFUSED = "urn:spotfed:problem:refused"

IN_FLIGHT = "urn:spotfed:problem:in-flight"

NOT_NOTICED = "urn:spotfed:problem:not-noticed"

_NO_OFFERS = CounterOffers()

_Model = TypeVar("_Model", bound=BaseModel)


@dataclass(frozen=True)
class GrantedRequest:
    """Admitted: the lease, and the refusals of clouds that were asked before."""

    lease: Lease
    refusals: tuple[RefusalView, ...] = ()


@dataclass(frozen=True)
class RefusedRequest:
    """Not admitted: why, by cloud, and the best of what would be accepted instead; and where it could be had
    on-demand, cheapest first."""

    refusals: tuple[RefusalView, ...]
    counter_offers: CounterOffers = _NO_OFFERS
    on_demand: tuple[OnDemandOffer, ...] = ()


_BY_STATUS: dict[int, type[ProblemAnswer]] = {
    400: InputRefusedError,
    401: UnauthorizedError,
    404: NotFoundError,
    410: EventsGoneError,
    413: InputRefusedError,
    415: InputRefusedError,
    422: InputRefusedError,
}


class ClientCalls(ABC):
    """A part of ``broker.client.Client``, which sends."""

    @abstractmethod
    def _send(
        self,
        method: str,
        path: str,
        body: BaseModel | Sequence[BaseModel] | None = None,
        parameters: dict[str, Any] | None = None,
    ) -> httpx.Response:
        """Sends until there is an answer that repeating would not change."""


def named(request: _Model) -> _Model:
    """With an id: the key under which it can be repeated."""
    known = getattr(request, "id", None) is not None
    return request if known else request.model_copy(update={"id": uuid.uuid4().hex})


def quoted(name: str) -> str:
    """As it stands in a path."""
    return quote(name, safe="/:@")


def parse(model: type[_Model], response: httpx.Response) -> _Model:
    """The body of an answer. Raises ProtocolError where it is something else."""
    try:
        return read_message(model, response.content)
    except ValidationError as error:
        raise ProtocolError(
            f"{response.url} answered {response.status_code} with something else than a {model.__name__}: "
            "is this a spotfed broker, of this version?"
        ) from error


def problem_of(response: httpx.Response) -> Problem:
    """The problem that was answered, or one made of the status where somebody else answered."""
    try:
        return read_message(Problem, response.content)
    except ValidationError:
        text = f"{response.url} answered {response.status_code} {response.reason_phrase}"
        return Problem(type="about:blank", title=text, status=response.status_code, detail=text)


def error_of(problem: Problem) -> ProblemAnswer:
    """The error that a problem is."""
    return _BY_STATUS.get(problem.status, ProblemAnswer)(problem)


def refused_of(problem: Problem) -> RefusedRequest:
    """The value that a refusal is."""
    return RefusedRequest(
        tuple(problem.refusals or ()), problem.counter_offers or _NO_OFFERS, tuple(problem.on_demand or ())
    )


def why_silent(error: Exception, url: httpx.URL) -> str:
    """What to say of an API that did not answer. Raises UntrustedError where asking again would not help."""
    refused = refusal(error, str(url), "ca")
    if refused is not None:
        raise UntrustedError(refused) from error
    said = f"{url} does not answer: {str(error) or type(error).__name__}"
    if url.scheme == "https" and isinstance(error, httpx.RemoteProtocolError | httpx.ReadError):
        # All that a client may hear of a server that wanted to see its certificate.
        said += " (should it want a certificate of ours: SPOTFED_CLIENT_CERT and SPOTFED_CLIENT_KEY)"
    return said
