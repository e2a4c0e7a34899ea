"""Values that are passed to and returned by the calls of ``broker.requests.store``."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from uuid import uuid4

from pydantic import BaseModel

from broker.contract import Lease, RefusalView, Reserve
from broker.observability import request_id


class AcceptOutcome(StrEnum):
    """The result of accepting a request or a call."""

    NEW = "new"  # ours to carry out
    ANSWERED = "answered"  # known, and this was the answer
    GRANTED = "granted"  # its record is lost, but this is its lease, which runs
    IN_FLIGHT = "in_flight"  # known, another process is at it
    MISMATCH = "mismatch"  # the id or key was used for something else


class RequestState(StrEnum):
    """The state of a request's record. The last two have an answer and never change."""

    UNKNOWN = "unknown"  # no such record
    OPEN = "open"
    ATTEMPTING = "attempting"
    COMMITTED = "committed"
    REFUSED = "refused"


class RequestAnswer(BaseModel):
    """The answer to a request, as it is stored and sent: a lease or none, and the refusals of clouds."""

    lease: Lease | None
    refusals: list[RefusalView]


@dataclass(frozen=True, slots=True)
class RequestAttempt:
    """An attempt of a request on one cloud.

    Attributes
    ----------
    number:
        Its number among the request's attempts, from 1.
    look_after_ms:
        After how many milliseconds another process may take the request over.
    call:
        The id of the API call that it belongs to; None outside of calls.
    """

    request: str
    number: int
    cloud: str
    command: Reserve
    look_after_ms: int
    call: str | None = field(default_factory=request_id.current)


@dataclass(frozen=True, slots=True)
class QuotaHold:
    """The part of its member's cap on spot that a request takes in the step in which it is accepted.

    It is held until the request is refused, or its lease has ended and ``QuotaHolds.release`` is called.

    Attributes
    ----------
    most_cores, most_instances:
        The caps of the member; None where there is none.
    refusal:
        The answer (JSON) to a request above the cap, in two parts: up to the largest size that would do, and
        from there on.
    """

    member: str
    cores: int
    most_cores: int | None
    most_instances: int | None
    refusal: tuple[str, str]


def _new_token() -> str:
    return uuid4().hex


@dataclass(frozen=True, slots=True)
class Accept:
    """A request to be recorded.

    Attributes
    ----------
    fingerprint:
        A digest of everything that makes two requests equal, their holder included.
    body:
        The request as JSON, for a process that takes it over.
    look_after_ms:
        After how many milliseconds another process may take it over.
    first:
        Attempt number 1, which is made in the same step; None if there is none yet.
    hold:
        The part of its member's cap that it takes; None without a cap.
    token:
        Identifies this object: sent again, it is recognised.
    """

    id: str
    fingerprint: str
    body: str
    look_after_ms: int
    first: RequestAttempt | None = None
    hold: QuotaHold | None = None
    token: str = field(default_factory=_new_token)


@dataclass(frozen=True, slots=True)
class Accepted:
    """The result of accepting a request.

    ``answer`` is JSON: an answer if ``outcome`` is ANSWERED, a lease if it is GRANTED; else it is None.
    """

    outcome: AcceptOutcome
    answer: str | None = None


@dataclass(frozen=True, slots=True)
class AttemptDecision:
    """A decision on an attempt: with an ``answer`` (JSON) it is committed, without one abandoned.

    ``is_running``: its lease runs, so that nobody has given the attempt up. ``at_s`` and ``reply_to`` go into
    the Confirm or Release that is sent to the attempt's cloud, for the API call ``call``. ``kept_s``: for how
    long the record of a committed request is kept from now on; None: for the usual time.
    """

    request: str
    number: int
    cloud: str
    answer: str | None = None
    at_s: float | None = None
    reply_to: str | None = None
    is_running: bool = False
    kept_s: float | None = None
    call: str | None = field(default_factory=request_id.current)


@dataclass(frozen=True, slots=True)
class RequestStatus:
    """The content of a request's record after a call, whichever process wrote it.

    ``attempt`` and ``cloud`` are those of the latest attempt, ``answer`` is JSON.
    """

    state: RequestState
    attempt: int = 0
    cloud: str | None = None
    answer: str | None = None

    def attempts(self, number: int, cloud: str) -> bool:
        """Return True if this very attempt is the open one."""
        return self.state is RequestState.ATTEMPTING and (self.attempt, self.cloud) == (number, cloud)


#: Begins the fingerprint of a request of a list of which all are admitted, or none is.
TOGETHER = "together:"


@dataclass(frozen=True, slots=True)
class Record:
    """The whole record of a request."""

    id: str
    fingerprint: str
    body: str
    status: RequestStatus

    @property
    def together(self) -> bool:
        """True if it is of a list of which all are admitted, or none is."""
        return self.fingerprint.startswith(TOGETHER)
