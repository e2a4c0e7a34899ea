"""Nodes that are closed for new instances, and the leases that leave them.

Each function carries out one command at ``at_s`` (seconds of the cloud's time), and lets the time before it
pass first. A command that an earlier process of the owner has carried out (``OwnerState.orders``) changes
nothing.
"""

from __future__ import annotations

import math

import numpy as np

from broker.contract import Answer, Done, Drain, DrainReport, Leaving, Reopen, Staying
from cloudsim.history.event_log import PHASE_STOP
from cloudsim.model.changes import DRAIN, Change, Ended, Noticed
from cloudsim.model.instances import Instance
from cloudsim.model.requests import Kind
from cloudsim.model.reserved_ids import is_block
from workers.owner import clock
from workers.owner.event_writer import EventWriter
from workers.owner.state import OwnerState


def drain(state: OwnerState, writer: EventWriter, command: Drain, at_s: float) -> Answer:
    """Close nodes and make their spot instances leave, or only report which would (``dry_run``).

    Where an earlier process carried the command out, the report is of what has not been done of it yet.
    """
    # What leaves at once stops in the history, as if its user had stopped it.
    at_s = clock.step(state, writer, at_s, PHASE_STOP)
    cloud, nodes = state.cloud, command.nodes
    if not _nodes_exist(state, nodes):
        return Done(found=False)
    drained = frozenset(range(len(cloud.spec.node_cores)) if nodes is None else nodes)
    leaving_already = [
        instance
        for instance in cloud.inventory.youngest_spot()
        if instance.evict_at_s is not None and instance.node in drained
    ]
    changes: list[Change] = []
    if command.id not in state.orders:
        changes = cloud.drain(nodes, at_s, f"{DRAIN}{command.by}", dry_run=command.dry_run)
    closed = (drained if command.dry_run else frozenset()).union(
        np.flatnonzero(cloud.inventory.closed).tolist()
    )
    report = DrainReport(
        cloud=cloud.spec.id,
        dry_run=command.dry_run,
        at_s=at_s,
        closed_nodes=tuple(sorted(closed)),
        leaving=_leaving(leaving_already, changes),
        staying=tuple(
            _staying(instance)
            for instance in (*cloud.inventory, *cloud.inventory.booked())
            if instance.kind is Kind.ON_DEMAND
            and not drained.isdisjoint(instance.nodes)
            and not is_block(instance.id)
        ),
    )
    if not command.dry_run:
        writer.record(changes, command.by, order=command.id)
    return report


def reopen(state: OwnerState, writer: EventWriter, command: Reopen, at_s: float) -> Answer:
    """Let closed nodes take new instances again."""
    clock.advance(state, writer, at_s)
    if not _nodes_exist(state, command.nodes):
        return Done(found=False)
    if command.id not in state.orders:
        changes = state.cloud.reopen(command.nodes, state.cloud.now_s)
        writer.record(changes, command.by, order=command.id)
    return Done()


def _nodes_exist(state: OwnerState, nodes: tuple[int, ...] | None) -> bool:
    return nodes is None or all(0 <= node < len(state.spec.cloud.node_cores) for node in nodes)


def _leaving(leaving_already: list[Instance], changes: list[Change]) -> tuple[Leaving, ...]:
    """List those under notice before and those that leave because of ``changes``, youngest first."""
    leaving = [(instance, instance.evict_at_s) for instance in leaving_already]
    for change in changes:
        match change:
            case Noticed(instance):
                leaving.append((instance, instance.evict_at_s))
            case Ended(instance, at_s) if instance.kind is Kind.SPOT:
                leaving.append((instance, at_s))
    leaving.sort(key=lambda pair: -pair[0].number)
    return tuple(
        Leaving(
            lease=instance.id,
            origin=instance.origin,
            cores=instance.cores,
            node=instance.node,
            ends_at_s=instance.end_s,
            evict_at_s=evict_at_s,
        )
        for instance, evict_at_s in leaving
        if evict_at_s is not None
    )


def _staying(instance: Instance) -> Staying:
    ends_at_s = instance.end_s if math.isfinite(instance.end_s) else None
    return Staying(
        instance=instance.id,
        cores=instance.cores,
        node=instance.node,
        ends_at_s=ends_at_s,
        parts=instance.parts,
    )
