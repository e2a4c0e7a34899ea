"""Requests of a cloud's own users that make sense together only."""

from __future__ import annotations

from collections.abc import Sequence

from broker.contract import Answer, Done, LeaseGranted, LeasesGranted, RefusalView, StartAll
from cloudsim.all_or_nothing import start_all
from cloudsim.eventlog import PHASE_ON_DEMAND
from cloudsim.requests import Kind, Request
from workers.owner.event_writer import EventWriter
from workers.owner.passage import Passage
from workers.owner.state import State


def start_together(
    state: State, recorder: EventWriter, passage: Passage, command: StartAll, at_s: float
) -> Answer:
    """All leases, the refusal of all, or ``Done(found=False)`` where an id means something else already."""
    ids = [one.id or "" for one in command.requests]
    known = [state.known(one, Kind.ON_DEMAND) for one in ids]
    if any(known):
        return _as_one(known)
    at_s = passage.step(at_s, PHASE_ON_DEMAND)
    origin = command.origin or state.spec.cloud.id
    requests = [
        Request(one.id or "", Kind.ON_DEMAND, one.cores, one.lifetime_s, origin=origin, **one.needs)
        for one in command.requests
    ]
    recorder.record(start_all(state.cloud, requests, at_s), offers=False)
    return _as_one([state.known(one, Kind.ON_DEMAND) for one in ids])


def _as_one(answers: Sequence[Answer | None]) -> Answer:
    leases = tuple(one.lease for one in answers if isinstance(one, LeaseGranted))
    if len(leases) == len(answers):
        return LeasesGranted(leases=leases)
    refusal = answers[0]
    if isinstance(refusal, RefusalView) and all(isinstance(one, RefusalView) for one in answers):
        return refusal
    return Done(found=False)
