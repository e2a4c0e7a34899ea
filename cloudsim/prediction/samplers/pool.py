"""Sample the time until own users reach a position in the stack, for every time of birth.

``cloudsim.admission.pools`` explains the stack. Only own requests count, and all births between two of their
events share their fate: they are one interval sample, as in ``uniform``. Nothing is drawn at random, and
nothing is replayed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cloudsim.history.event_log import NO_SPREAD, START_ON_DEMAND, STOP, EventLog, check_times
from cloudsim.model.requests import Amounts
from cloudsim.prediction.samplers.replay import SamplerSpec, check_boundary, check_share
from cloudsim.prediction.samples import Samples


class PoolSampler:
    """Samples all births at one position of the stack; the interface is that of ``UniformSampler``.

    The work is not worth splitting: share 0 returns all samples, other shares none.

    Attributes
    ----------
    until_s
        The boundary fed last, in seconds.

    Parameters
    ----------
    top_cores
        The position T in the stack, in cores from the bottom.
    amounts
        Amounts of the flavour that marks the position (``STACK_TOP``).
    """

    def __init__(self, spec: SamplerSpec, top_cores: int, amounts: Amounts, share: int = 0, shares: int = 1):
        check_share(1, share, shares)
        self.spec, self.amounts, self.share = spec, amounts, share
        self.until_s = 0.0
        self._top = top_cores
        self._nodes = np.array(spec.node_cores, np.int64)
        self._unused = int(self._nodes.sum())  # cores not used by own users
        self._running = np.empty(0, np.int64)  # own instances, by number
        # Own starts and stops so far: time, cores left afterwards, and whether it ends running instances.
        self._time_s, self._left = np.zeros(1), np.array([self._unused])
        self._ends = np.zeros(1, np.bool_)

    def feed(self, events: EventLog, until_s: float) -> None:
        """Go on with the history up to, not including, ``until_s``.

        A refused feed changes nothing.

        Parameters
        ----------
        events
            Events in [previous ``until_s``, ``until_s``), going on where the last feed ended.
        until_s
            The new boundary in seconds.

        Raises
        ------
        SpecError
            When the boundary goes back.
        InputError
            When the events are out of order.
        """
        check_boundary(self.until_s, until_s)
        check_times(events, self.until_s, until_s)
        starts = events.kind == START_ON_DEMAND
        running = np.union1d(self._running, events.instance[starts])
        stops = (events.kind == STOP) & np.isin(events.instance, running)
        own = starts | stops
        cores, begins = events.cores[own].astype(np.int64), starts[own]
        left = self._unused - np.cumsum(np.where(begins, cores, -cores))
        if len(left):
            before = np.concatenate(([self._unused], left[:-1]))
            ends = begins & ((before <= self._top + self._too_small(cores)) | _restricted(events)[own])
            self._time_s = np.concatenate((self._time_s, events.time_s[own]))
            self._left = np.concatenate((self._left, left))
            self._ends = np.concatenate((self._ends, ends))
            self._unused = int(left[-1])
            self._running = np.setdiff1d(running, events.instance[stops])
        self.until_s = until_s

    def _too_small(self, cores: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return W(s): the most cores that nodes may have left without room for a request of s cores.

        Parameters
        ----------
        cores
            int64[requests], s of each.
        """
        sizes, which = np.unique(cores, return_inverse=True)
        most = np.array([np.minimum(self._nodes, size - 1).sum() for size in sizes.tolist()], np.int64)
        return most[which]

    def samples(self) -> Samples:
        """Return all intervals of births up to ``until_s``.

        Intervals whose instances still run are right-censored.
        """
        if self.share:
            return Samples.empty(1, self.until_s, self.amounts)
        born_until_s = np.append(self._time_s[1:], self.until_s)
        room = (self._left >= self._top) & (born_until_s > self._time_s)
        birth_s, born_until_s, left = self._time_s[room], born_until_s[room], self._left[room]
        ends = np.flatnonzero(self._ends)
        first = np.searchsorted(ends, np.flatnonzero(room), side="right")
        evicted = first < len(ends)
        end_s = np.append(self._time_s[ends], self.until_s)[first]
        return Samples(
            1,
            self.until_s,
            0,
            np.arange(len(birth_s)),
            birth_s,
            (left - self._top + 1).astype(np.int32),
            end_s - birth_s + self.spec.grace_s,
            evicted,
            born_until_s - birth_s,
            amounts=self.amounts,
        )


def _restricted(events: EventLog) -> NDArray[np.bool_]:
    """Mark requests that may not go to every node: how many cores they find is not known."""
    details = events.details
    if details is None:
        return np.zeros(len(events), np.bool_)
    restricted: NDArray[np.bool_] = (details.labels != 0) | (details.spread != NO_SPREAD)
    return restricted
