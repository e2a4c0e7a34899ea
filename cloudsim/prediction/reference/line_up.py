"""Replay with one virtual instance by the scheduler itself: what ``LineUpSampler`` must equal.

It is hundreds of times slower. It uses ``Inventory`` and ``plan``, and shares nothing with the kernel but
the log. ``PlainSampler`` follows line-ups with it that no kernel knows.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace as changed

import numpy as np

from cloudsim.history.event_log import (
    APART,
    NO_GROUP,
    NO_SPREAD,
    RENEWAL,
    START_ON_DEMAND,
    STOP,
    TOGETHER,
    EventLog,
)
from cloudsim.model.instances import Instance, Placement
from cloudsim.model.requests import Amounts, Kind, Request, Spread
from cloudsim.prediction.reference.youngest_first import ReferenceSample
from cloudsim.prediction.samplers.replay import SamplerSpec
from cloudsim.scheduling.inventory import Inventory
from cloudsim.scheduling.lineups import lineup
from cloudsim.scheduling.pipeline import plan

VIRTUAL = "virtual"
_SPREADS = {NO_SPREAD: None, TOGETHER: Spread.TOGETHER, APART: Spread.APART}


class ReferenceLineUpCloud:
    """One replay under a line-up.

    Attributes
    ----------
    shift
        Added to the numbers of instances that start from now on: 1 once the virtual instance is born.
    """

    def __init__(self, spec: SamplerSpec):
        self.spec, self.lineup = spec, lineup(spec.lineup)
        self.inventory = Inventory(spec.node_cores, spec.details)
        self.next_number, self.shift = 0, 0
        self.evictions = 0

    def copy(self) -> ReferenceLineUpCloud:
        """Return a copy that goes on by itself."""
        other = copy(self)
        other.inventory = self.inventory.copy()
        return other

    def start(self, request: Request, number: int, now_s: float) -> None:
        """Place an instance if it can be placed, evicting if it may."""
        placement = plan(self.inventory, request, self.lineup, now_s)
        self.next_number = number + 1
        if not isinstance(placement, Placement):
            return
        for victim in placement.victims:
            self.inventory.remove(victim.id)
            self.evictions += 1
        instance = Instance(
            request.id, request.kind, request.cores, placement.node, now_s, np.inf, number,
            sla=request.sla, amounts=request.amounts, group=request.group,
        )  # fmt: skip
        self.inventory.place(instance)
        if request.kind is Kind.SPOT and self.spec.always_youngest and VIRTUAL in self.inventory:
            virtual = self.inventory.remove(VIRTUAL)
            self.inventory.place(changed(virtual, number=2**60 + number))

    def play(self, events: EventLog, row: int) -> None:
        """Replay one event of the log."""
        number, now_s = int(events.instance[row]), float(events.time_s[row])
        if events.kind[row] == STOP:
            if str(number) in self.inventory:
                self.inventory.remove(str(number))
            return
        if events.kind[row] == RENEWAL:
            renewed = self.inventory.get(str(number))
            if renewed is not None:
                self.inventory.replace(changed(renewed, renewed_at_s=now_s))
            return
        self.start(_request(events, row), number + self.shift, now_s)

    def give_birth(self, cores: int, amounts: Amounts, now_s: float) -> int:
        """Place the virtual instance under the cloud's next number; return the free slots before."""
        free_slots = self.inventory.free_slots(cores, amounts=amounts)
        if free_slots:
            request = Request(VIRTUAL, Kind.SPOT, cores, None, self.spec.sla, amounts=amounts)
            self.start(request, self.next_number, now_s)
            self.shift = 1
        return free_slots


def _request(events: EventLog, row: int) -> Request:
    on_demand = events.kind[row] == START_ON_DEMAND
    kind = Kind.ON_DEMAND if on_demand else Kind.SPOT
    request = Request(
        str(events.instance[row]), kind, int(events.cores[row]), None, None if on_demand else 0.05
    )
    details = events.details
    if details is None:
        return request
    amounts = zip(details.resources, details.amounts[row].tolist(), strict=True)
    group = int(details.group[row])
    return changed(
        request,
        sla=None if on_demand else float(details.sla[row]),
        amounts=tuple((name, amount) for name, amount in amounts if amount),
        labels=details.label_sets[details.labels[row]],
        group=None if group == NO_GROUP else f"group-{group}",
        spread=_SPREADS[int(details.spread[row])],
    )


def replay(
    spec: SamplerSpec, events: EventLog, until_s: float, cores: int, birth_s: float, amounts: Amounts = ()
) -> ReferenceSample | None:
    """Replay a virtual spot instance of a flavour until its eviction or ``until_s``.

    None when there is no free slot at its birth.

    Parameters
    ----------
    events
        The whole history from an empty cloud.
    birth_s
        Time of birth in seconds.
    """
    cloud = ReferenceLineUpCloud(spec)
    born: int | None = None
    for row, time_s in enumerate(events.time_s.tolist()):
        if time_s >= until_s:
            break
        if born is None and time_s > birth_s:
            born = cloud.give_birth(cores, amounts, birth_s)
            if born == 0:
                return None
        cloud.play(events, row)
        if born and VIRTUAL not in cloud.inventory:
            return ReferenceSample(born, time_s - birth_s, True)
    if born is None:
        born = cloud.give_birth(cores, amounts, birth_s)
    return ReferenceSample(born, until_s - birth_s, False) if born else None
