"""The requests of a replay, one row each, for data frames: what was asked, promised, and what came of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from cloudsim.model.changes import End
from cloudsim.model.instances import Quote
from cloudsim.model.refusals import Refusal
from cloudsim.model.requests import Request

if TYPE_CHECKING:
    import pandas as pd


@dataclass
class RequestOutcome:
    """A spot request of a replay and what became of it.

    Attributes
    ----------
    overflow
        True if a cloud sent it that had turned an own request away.
    asked_at_s
        Seconds of the federation.
    cloud
        The cloud that admitted it; None if none did.
    free_slots, eviction_probability
        The condition and the risk under which it was admitted; the risk is None without an SLA.
    refusals
        The reasons of the clouds that did not quote, as "cloud: reason", separated by "; ".
    end
        How the instance ended; None if the request was refused.
    """

    request: str
    origin: str
    overflow: bool
    asked_at_s: float
    cores: int
    lifetime_s: float
    sla: float | None
    cloud: str | None = None
    free_slots: int | None = None
    eviction_probability: float | None = None
    refusals: str = ""
    end: str | None = None
    ended_at_s: float | None = None


#: The types of columns that Python's values leave open.
_TYPES = {
    **dict.fromkeys(("origin", "cloud", "end"), "category"),
    **dict.fromkeys(("asked_at_s", "lifetime_s", "sla", "eviction_probability", "ended_at_s"), "float64"),
    "overflow": "bool",
    "cores": "int64",
    "free_slots": "Int64",
}


class RequestOutcomes:
    """The outcomes of all spot requests of a replay, in the order in which they were made."""

    def __init__(self) -> None:
        self._by_id: dict[str, RequestOutcome] = {}

    def asked(self, request: Request, at_s: float, *, overflow: bool) -> None:
        """Begin the row of a request."""
        assert request.lifetime_s is not None
        self._by_id[request.id] = RequestOutcome(
            request.id, request.origin, overflow, at_s, request.cores, request.lifetime_s, request.sla
        )

    def admitted(self, request_id: str, quote: Quote) -> None:
        """Write down the promise under which a cloud admitted a request."""
        outcome = self._by_id[request_id]
        outcome.cloud, outcome.free_slots = quote.cloud, quote.free_slots
        outcome.eviction_probability = quote.eviction_probability

    def refused(self, request_id: str, refusal: Refusal) -> None:
        """Write down why one of the clouds that were asked gave no quote."""
        outcome = self._by_id[request_id]
        reason = f"{refusal.cloud}: {refusal.reason.value}"
        outcome.refusals = f"{outcome.refusals}; {reason}" if outcome.refusals else reason

    def ended(self, request_id: str, how: End, at_s: float) -> None:
        """Write down the end of an instance."""
        outcome = self._by_id[request_id]
        outcome.end, outcome.ended_at_s = how.value, at_s

    def to_frame(self) -> pd.DataFrame:
        """Return one row a request with the columns of ``RequestOutcome`` (pandas is imported here)."""
        import pandas as pd

        frame = pd.DataFrame(
            [asdict(outcome) for outcome in self._by_id.values()],
            columns=list(RequestOutcome.__dataclass_fields__),
        )
        return frame.astype(_TYPES)
