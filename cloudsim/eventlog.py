"""The recorded history of a cloud as prediction reads it: starts and *requested* stops, in exact order.

History holds the admitted instances only, each with its requested end, also those that were evicted before it
(PREDICTION.md "History": a deliberate departure from P1 §II, whose logs hold observed stops). Replaying it
from an empty cloud therefore gives the cloud's own trajectory again, and replaying it with one instance
more shows what that instance would have met.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

STOP, START_ON_DEMAND, START_SPOT = 0, 1, 2

#: Phase of an event within its instant: stops, on-demand starts, spot starts, then the stops of instances
#: that started in this very instant (an instance whose stop equals its start counts, and ends after all
#: starts of its instant).
PHASE_STOP, PHASE_ON_DEMAND, PHASE_SPOT, PHASE_SAME_INSTANT_STOP = 0, 1, 2, 3


BYTES_AN_EVENT = 33


@dataclass(frozen=True)
class EventLog:
    """Events in the order in which they happen; all columns have the same length.

    time_s: float64, seconds of the cloud's time, never falling.
    kind: int8, one of STOP, START_ON_DEMAND, START_SPOT.
    instance: int64, the instance's number in order of admission (dense, from 0). Start order is admission
    order, so among
        spot instances a larger number is a younger one.
    cores: int64, the instance's size.
    end_s: float64, the requested end as it was known at a start, inf where it was not (on-demand); of a stop
        its time. Left out, no end is known.
    """

    time_s: NDArray[np.float64]
    kind: NDArray[np.int8]
    instance: NDArray[np.int64]
    cores: NDArray[np.int64]
    end_s: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))

    def __post_init__(self) -> None:
        if not len(self.end_s):
            object.__setattr__(self, "end_s", np.full(len(self.time_s), np.inf))

    def __len__(self) -> int:
        return len(self.time_s)

    @classmethod
    def empty(cls) -> EventLog:
        """A log without events."""
        return cls(
            np.empty(0, np.float64), np.empty(0, np.int8), np.empty(0, np.int64), np.empty(0, np.int64)
        )

    @classmethod
    def concatenate(cls, parts: list[EventLog]) -> EventLog:
        """One log from consecutive ones."""
        if not parts:
            return cls.empty()
        return cls(
            np.concatenate([part.time_s for part in parts]),
            np.concatenate([part.kind for part in parts]),
            np.concatenate([part.instance for part in parts]),
            np.concatenate([part.cores for part in parts]),
            np.concatenate([part.end_s for part in parts]),
        )

    def to_bytes(self) -> bytes:
        """Columns one after the other, little-endian: float64, int8, int64, int64, float64."""
        return b"".join(
            column.astype(column.dtype.newbyteorder("<"), copy=False).tobytes()
            for column in (self.time_s, self.kind, self.instance, self.cores, self.end_s)
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> EventLog:
        """The inverse of ``to_bytes``. Raises ValueError when the length is not a whole number of events."""
        count, rest = divmod(len(data), BYTES_AN_EVENT)
        if rest:
            raise ValueError(
                f"an event log is {BYTES_AN_EVENT} bytes an event; {len(data)} is no whole number of them"
            )
        return cls(
            np.frombuffer(data, "<f8", count, 0).astype(np.float64),
            np.frombuffer(data, "<i1", count, 8 * count).astype(np.int8),
            np.frombuffer(data, "<i8", count, 9 * count).astype(np.int64),
            np.frombuffer(data, "<i8", count, 17 * count).astype(np.int64),
            np.frombuffer(data, "<f8", count, 25 * count).astype(np.float64),
        )
