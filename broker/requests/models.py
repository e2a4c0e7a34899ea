"""What is asked of a request's record, and what stands in it. The calls are those of
``broker.requests.store``."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from uuid import uuid4

from pydantic import BaseModel

from broker.contract import Lease, RefusalView, Reserve


class AcceptOutcome(StrEnum):
    """What accepting a request or a call found."""

    NEW = "new"  # ours to carry out
    ANSWERED = "answered"  # known, and this was the answer
    IN_FLIGHT = "in_flight"  # known, another process is at it
    MISMATCH = "mismatch"  # the id or key was used for something else


class RequestState(StrEnum):
    """Where a request is in its life. The last two have an answer and never change."""

    UNKNOWN = "unknown"  # no such record
    OPEN = "open"
    ATTEMPTING = "attempting"
    COMMITTED = "committed"
    REFUSED = "refused"


def _token() -> str:
    return uuid4().hex


@dataclass(frozen=True, slots=True)
class RequestAttempt:
    """Attempt `number` (from 1) of a request, on one cloud; `look_after_ms` as in `Accept`."""

    request: str
    number: int
    cloud: str
    command: Reserve
    look_after_ms: int


@dataclass(frozen=True, slots=True)
class QuotaHold:
    """What a request takes of its member's cap on spot, in the step in which it is accepted.

    `most_cores` and `most_instances` at once; None: any. `refusal`: the answer (JSON) when it would be more,
    up to the largest size that would do, and from there on. It is held until the request is refused, or its
    lease has ended and `Holds.let_go` is told so.
    """

    member: str
    cores: int
    most_cores: int | None
    most_instances: int | None
    refusal: tuple[str, str]


@dataclass(frozen=True, slots=True)
class Accept:
    """A request to be noted. Sent again, the same object is recognised by its `token`.

    Attributes:
        id: of the request.
        fingerprint: of everything that makes two requests the same, its holder included.
        body: JSON, kept for the process that takes over.
        look_after_ms: from when on another process may take over.
        first: an attempt, number 1, that is made in the same step; None: none yet.
        hold: what it takes of its member's cap; None: it has none.
        token: of this call.
    """

    id: str
    fingerprint: str
    body: str
    look_after_ms: int
    first: RequestAttempt | None = None
    hold: QuotaHold | None = None
    token: str = field(default_factory=_token)


@dataclass(frozen=True, slots=True)
class Accepted:
    """What accepting found; `answer` is JSON where `outcome` is ANSWERED, else None."""

    outcome: AcceptOutcome
    answer: str | None = None


@dataclass(frozen=True, slots=True)
class AttemptDecision:
    """What shall become of an attempt on a cloud: with an answer (JSON) it is committed, without one
    abandoned.

    `at_s` and `reply_to` go into the Confirm or Release that is sent to the attempt's cloud.
    """

    request: str
    number: int
    cloud: str
    answer: str | None = None
    at_s: float | None = None
    reply_to: str | None = None


@dataclass(frozen=True, slots=True)
class RequestStatus:
    """What stands in a record after a call, whoever wrote it. `cloud` is that of the latest attempt."""

    state: RequestState
    attempt: int = 0
    cloud: str | None = None
    answer: str | None = None

    def attempts(self, number: int, cloud: str) -> bool:
        """Whether this very attempt is the open one."""
        return self.state is RequestState.ATTEMPTING and (self.attempt, self.cloud) == (number, cloud)


@dataclass(frozen=True, slots=True)
class Record:
    """Everything that is known of a request."""

    id: str
    fingerprint: str
    body: str
    standing: RequestStatus


class RequestAnswer(BaseModel):
    """The answer to a request, as it is stored and sent: a lease or none, and who refused."""

    lease: Lease | None
    refusals: list[RefusalView]
