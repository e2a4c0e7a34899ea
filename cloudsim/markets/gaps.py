"""Find holes in a price history: EC2 repeats every price daily, so longer silence means nobody listened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cloudsim.model.arrays import FloatArray
from cloudsim.model.errors import SpecError


@dataclass(frozen=True)
class GapRule:
    """Rule by which silence is a gap. A gap ends with a market's own next record: changes in it were missed.

    The shortest known holes (data of 2013 and 2015: 50 h, 56 h and 13 h) are longer than both limits; silence
    of single markets without a hole (30 h) and of all markets (1 h) is shorter.

    Raises
    ------
    SpecError
        When a limit is not above 0.
    """

    #: Silence of one market above this is a gap from its last record on, seconds; None for no limit.
    max_gap_s: float | None = 36 * 3600.0
    #: Silence of all markets together above this is a gap in each of them, seconds; None for no limit.
    max_silence_s: float | None = 6 * 3600.0
    #: With fewer markets than this, a common silence proves nothing.
    markets_at_least: int = 8

    def __post_init__(self) -> None:
        for name in ("max_gap_s", "max_silence_s"):
            limit = getattr(self, name)
            if limit is not None and not limit > 0:
                raise SpecError(f"must be above 0, not {limit}", field=name)

    def silences(self, series: Sequence[FloatArray]) -> FloatArray:
        """Return when all markets were silent for too long, float64[silences, 2], unix seconds, ascending.

        Parameters
        ----------
        series
            Times of each market's records, ascending unix seconds.
        """
        if self.max_silence_s is None or len(series) < self.markets_at_least:
            return np.empty((0, 2))
        times = np.unique(np.concatenate(series))
        before = np.flatnonzero(np.diff(times) > self.max_silence_s)
        return np.column_stack([times[before], times[before + 1]])

    def gaps(self, at_s: FloatArray, last_s: float, silences: FloatArray) -> tuple[FloatArray, float]:
        """Return the gaps of one market, and until when its last price is known to have held.

        The gaps are float64[gaps, 2], unix seconds.

        Parameters
        ----------
        at_s
            Times of the market's records.
        last_s
            Last record of any market: until then the recorder ran, unless the market itself was silent for
            too long.
        silences
            Result of ``silences``.
        """
        starts: dict[float, float] = {}  # by the end of the gap
        ends_s = last_s
        if self.max_gap_s is not None:
            long = np.flatnonzero(np.diff(at_s) > self.max_gap_s)
            starts = dict(zip(at_s[long + 1].tolist(), at_s[long].tolist(), strict=True))
            if last_s - at_s[-1] > self.max_gap_s:
                ends_s = float(at_s[-1])
        for start_s, end_s in silences.tolist():
            following = int(np.searchsorted(at_s, end_s, side="left"))
            if start_s < at_s[0]:
                continue
            if following == len(at_s):
                ends_s = min(ends_s, start_s)
            else:
                end_of_gap_s = float(at_s[following])
                starts[end_of_gap_s] = min(start_s, starts.get(end_of_gap_s, start_s))
        gaps = [(start_s, end_s) for end_s, start_s in sorted(starts.items())]
        return np.array(gaps, dtype=np.float64).reshape(-1, 2), ends_s
