"""How time passes for an owner: what happens before a command's place in time happens before the command."""

from __future__ import annotations

import math

from broker.contract import Command
from cloudsim.cloud import AFTER_EVERYTHING
from cloudsim.eventlog import PHASE_ON_DEMAND, PHASE_SPOT
from workers.owner.event_writer import EventWriter
from workers.owner.extensions import Extensions
from workers.owner.state import State


class Passage:
    """The part of an owner that lets its cloud's time pass."""

    def __init__(self, state: State, recorder: EventWriter, extensions: Extensions):
        self._state, self._recorder, self._extensions = state, recorder, extensions

    def time_of(self, command: Command, now_s: float) -> float:
        """When a command is carried out. now_s: the cloud's time; in trace time the command's own counts."""
        cloud = self._state.cloud
        if self._state.spec.trace_time:
            now_s = cloud.now_s if command.at_s is None else command.at_s
        return max(now_s, cloud.now_s)

    def step(self, at_s: float, phase: int) -> float:
        """Advances to the place in time of a start or stop that is about to be made, and returns its time."""
        waited = (self._state.waited_s, PHASE_ON_DEMAND)
        if (at_s, phase) < max(self._state.place, waited):
            at_s = math.nextafter(at_s, math.inf)
        self.advance(at_s, phase)
        while (at_s, phase) < self._state.place:  # blocks of headroom moved own starts past their instant
            latest_s, latest = self._state.place
            at_s = latest_s if phase >= latest else math.nextafter(latest_s, math.inf)
            self.advance(at_s, phase)
        return at_s

    def advance(self, at_s: float, phase: int = PHASE_SPOT) -> None:
        """Lets happen what comes before, renewals at their very times: they come last in their instant."""
        cloud, renewals = self._state.cloud, self._state.renewals
        while (due := renewals.next()) is not None and (due[0], PHASE_SPOT) <= (at_s, phase):
            self._recorder.record(cloud.advance(due[0]))
            if renewals.next() == due:  # else it has ended
                self._extensions.renew(due[1], max(due[0], cloud.now_s))
        self._recorder.record(cloud.advance(at_s, phase))

    def finish(self) -> None:
        """To the last end: nothing is renewed any more."""
        self._recorder.record(self._state.cloud.advance(*AFTER_EVERYTHING))
