"""A stretch of a cloud's history as it travels from the owner to the Monte-Carlo workers."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from cloudsim.history.event_log import EventLog

_UNTIL = struct.Struct("<d")


@dataclass(frozen=True)
class HistoryChunk:
    """Events before ``until_s`` that the chunks before it do not hold."""

    until_s: float
    events: EventLog

    def to_bytes(self) -> bytes:
        """``until_s`` (little-endian float64), then the event log."""
        return _UNTIL.pack(self.until_s) + self.events.to_bytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> HistoryChunk:
        """The inverse of ``to_bytes``. Raises ValueError when the bytes are something else."""
        if len(data) < _UNTIL.size:
            raise ValueError("these bytes are no chunk of a history")
        return cls(_UNTIL.unpack_from(data)[0], EventLog.from_bytes(data[_UNTIL.size :]))
