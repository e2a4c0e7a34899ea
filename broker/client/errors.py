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

from broker.api.schemas.problems import Problem


class ClientError(Exception):
    """Base of all errors of the client."""


class UnavailableError(ClientError):
    """No answer before the deadline. What was asked may still happen: ask again with the same id."""


class UntrustedError(UnavailableError):
    """TLS refused the connection, so nothing was sent; the message says what to change."""


class ProtocolError(ClientError):
    """Something answered that is not this API."""


class ProblemAnswer(ClientError):  # noqa: N818  - an answer, and the base of errors
    """The API answered with a problem."""

    def __init__(self, problem: Problem):
        self.problem = problem
        accepted = [f"{error.field}: {error.accepted}" for error in problem.errors or () if error.accepted]
        super().__init__(f"{problem.detail}{''.join(f' (accepted for {text})' for text in accepted)}")


class InputRefusedError(ProblemAnswer):
    """The input cannot be used; the message names the field and what is accepted."""


class UnauthorizedError(ProblemAnswer):
    """No API key was sent, or one that is not known there."""


class NotFoundError(ProblemAnswer):
    """There is no such thing."""


class EventsGoneError(ProblemAnswer):
    """The event stream no longer reaches back to that id.

    Read the leases and clouds, then follow with ``last_event_id=error.resume_after``: nothing is missed.
    """

    @property
    def resume_after(self) -> str | None:
        """Place in the stream just before what is true now was to be read."""
        return self.problem.resume_after
