"""Starts of several requests of which all are placed, or none is and nobody is evicted.

They are planned one after the other on a copy of the inventory, each meeting those before it. When all have a
place there, they are started on the cloud itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from cloudsim.cloud.cloud import Cloud
from cloudsim.model.changes import Change
from cloudsim.model.instances import Instance, Placement
from cloudsim.model.refusals import Refusal, RefusalReason
from cloudsim.model.requests import Request
from cloudsim.scheduling.inventory import Inventory
from cloudsim.scheduling.pipeline import explain, plan


def start_all(cloud: Cloud, requests: Sequence[Request], now_s: float) -> list[Change]:
    """Place requests of the cloud's own users, evicting if need be; or turn all of them away."""
    trial = cloud.inventory.copy()
    for number, request in enumerate(requests, start=1):
        reason = _plan_on_copy(cloud, trial, request, number, now_s)
        if reason is not None:
            removed, would_help = explain(trial, request, cloud.spec.lineup)
            refusal = Refusal(cloud.spec.id, reason, would_help, removed=removed)
            return cloud.turn_away(requests, now_s, refusal)
    return [change for request in requests for change in cloud.start_on_demand(request, now_s)]


def _plan_on_copy(
    cloud: Cloud, trial: Inventory, request: Request, number: int, now_s: float
) -> RefusalReason | None:
    """Place a request on the copy. Returns the reason if it cannot be placed."""
    placement = plan(trial, request, cloud.spec.lineup, now_s)
    if not isinstance(placement, Placement):
        return placement
    instance = Instance(
        request.id, request.kind, request.cores, placement.node, now_s, math.inf,
        number=cloud.history.instances + number, sla=request.sla, amounts=request.amounts,
        group=request.group, parts=placement.parts,
    )  # fmt: skip
    for victim in placement.victims:
        if cloud.gives_notice:
            trial.replace(replace(victim, evict_at_s=now_s + cloud.spec.grace_s))
        else:
            trial.remove(victim.id)
    if placement.waits or (placement.victims and cloud.gives_notice):
        trial.book(instance)
    else:
        trial.place(instance)
    return None
