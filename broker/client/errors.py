"""Defines the errors of the client, in one tree.

ClientError                     base; the message says what to do
├── UnavailableError            no answer before the deadline: repeat the call with the same id
│   └── UntrustedError          TLS refused the connection: nothing was sent
├── ProblemAnswer               the API answered with a problem (in ``problem``)
│   ├── InputRefusedError       400, 413, 415, 422: the input cannot be used
│   ├── UnauthorizedError       401
│   ├── NotFoundError           404
│   └── EventsGoneError         410: the event stream no longer reaches back that far
└── ProtocolError               something answered that is not this API
"""

from __future__ import annotations

import httpx
from pydantic import ValidationError

from broker.contract import read_message
from broker.schemas.problems import Problem

#: Types of the problems that callers tell apart.
REFUSED = "urn:spotfed:problem:refused"
IN_FLIGHT = "urn:spotfed:problem:in-flight"
NOT_NOTICED = "urn:spotfed:problem:not-noticed"


class ClientError(Exception):
    """Base class of all errors that the client raises."""


class UnavailableError(ClientError):
    """No answer came before the deadline. The call may still take effect: repeat it with the same id."""


class UntrustedError(UnavailableError):
    """TLS refused the connection, so nothing was sent; the message says what to change."""


class ProtocolError(ClientError):
    """Something answered that is not this API."""


class ProblemAnswer(ClientError):  # noqa: N818  - an answer, and the base of errors
    """The API answered with a problem, which ``problem`` holds."""

    def __init__(self, problem: Problem):
        self.problem = problem
        accepted = [f"{error.field}: {error.accepted}" for error in problem.errors or () if error.accepted]
        super().__init__(f"{problem.detail}{''.join(f' (accepted for {text})' for text in accepted)}")


class InputRefusedError(ProblemAnswer):
    """The input cannot be used; the message names the field and what is accepted."""


class UnauthorizedError(ProblemAnswer):
    """The call carried no API key, or one that the API does not know."""


class NotFoundError(ProblemAnswer):
    """The API knows nothing by this name or id, or does not show it to this key."""


class EventsGoneError(ProblemAnswer):
    """The event stream no longer reaches back to the given event id.

    Read the leases and clouds, then stream with ``last_event_id=error.resume_after``: nothing is missed.
    """

    @property
    def resume_after(self) -> str | None:
        """Event id to resume after, once the present state was read."""
        return self.problem.resume_after


_BY_STATUS: dict[int, type[ProblemAnswer]] = {
    400: InputRefusedError,
    401: UnauthorizedError,
    404: NotFoundError,
    410: EventsGoneError,
    413: InputRefusedError,
    415: InputRefusedError,
    422: InputRefusedError,
}


def read_problem(response: httpx.Response) -> Problem:
    """Return the problem in a response; make one from the status if something else, a proxy say, answered."""
    try:
        return read_message(Problem, response.content)
    except ValidationError:
        text = f"{response.url} answered {response.status_code} {response.reason_phrase}"
        return Problem(type="about:blank", title=text, status=response.status_code, detail=text)


def make_error(problem: Problem) -> ProblemAnswer:
    """Return the error for a problem; its class depends on the status."""
    return _BY_STATUS.get(problem.status, ProblemAnswer)(problem)
