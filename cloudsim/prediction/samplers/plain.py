"""Sample the time until eviction under line-ups with parts in plain Python, by the scheduler itself.

No compiled replay knows what a function of one's own does, so each virtual instance goes on in a copy of the
cloud. That takes hundreds of times as long as ``line_up``: fewer births are followed.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cloudsim.history.event_log import EventLog
from cloudsim.model.requests import Amounts
from cloudsim.prediction.history_chunks import Chunk
from cloudsim.prediction.reference.line_up import VIRTUAL, ReferenceLineUpCloud
from cloudsim.prediction.samplers.replay import ReplaySampler, SamplerSpec

#: The most births that are followed, whatever is asked for.
PLAIN_BIRTHS = 200


class PlainSampler(ReplaySampler):
    """Samples one flavour under any line-up; births, boundaries and samples are those of ``ReplaySampler``.

    Parameters
    ----------
    amounts
        Amounts of other resources that the flavour needs.
    """

    def __init__(self, spec: SamplerSpec, cores: int, share: int = 0, shares: int = 1, amounts: Amounts = ()):
        spec = replace(spec, births=min(spec.births, PLAIN_BIRTHS))
        super().__init__(spec, cores, share, shares, amounts)
        self._cloud = ReferenceLineUpCloud(spec)
        self._clouds: dict[int, ReferenceLineUpCloud] = {}  # by row
        self._events = EventLog.empty()

    def feed(self, events: EventLog, until_s: float) -> None:
        """Go on with the history up to, not including, ``until_s``; see ``ReplaySampler.feed``."""
        before, self._events = self._events, events
        try:
            super().feed(events, until_s)
        except Exception:
            self._events = before
            raise

    def _count_free_slots(self, chunks: list[Chunk], count: int) -> NDArray[np.int32]:
        del chunks
        cloud, free_slots = self._cloud.copy(), np.empty(count + 1, np.int32)
        for row in range(count + 1):
            free_slots[row] = cloud.inventory.free_slots(self.cores, amounts=self.amounts)
            if row < count:
                cloud.play(self._events, row)
        return free_slots

    def _give_birth(
        self, chunk: Chunk, born: slice, gap: NDArray[np.int64], rank: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        del rank
        rows = self._take_rows(len(gap))
        self._row[born] = rows
        begin = gap - chunk.begin
        births = zip(rows.tolist(), begin.tolist(), self._birth_s[born].tolist(), strict=True)
        played = 0
        for row, before, birth_s in births:
            self._play(self._cloud, chunk, played, before)
            played = before
            self._clouds[row] = self._cloud.copy()
            self._clouds[row].give_birth(self.cores, self.amounts, birth_s)
        self._play(self._cloud, chunk, played, len(chunk.events.kind))
        return rows, begin

    def _advance(
        self,
        chunk: Chunk,
        rows: NDArray[np.int64],
        begin: NDArray[np.int64],
        end: NDArray[np.int64],
        evicted_by: NDArray[np.int64],
    ) -> None:
        parts = zip(rows.tolist(), begin.tolist(), end.tolist(), strict=True)
        evicted_by[:] = [self._play(self._clouds[row], chunk, first, last) for row, first, last in parts]
        self._clouds = {
            row: self._clouds[row] for row, event in zip(rows.tolist(), evicted_by, strict=True) if event < 0
        }

    def _play(self, cloud: ReferenceLineUpCloud, chunk: Chunk, begin: int, end: int) -> int:
        """Play events of a chunk, and return the one that evicted the virtual instance, or -1."""
        followed = VIRTUAL in cloud.inventory
        for event in range(begin, end):
            cloud.play(self._events, chunk.begin + event)
            if followed and VIRTUAL not in cloud.inventory:
                return event
        return -1

    def _join_equal_replays(self, chunk: Chunk) -> None:
        """Join none: whether two states are equal, only their parts could say."""
