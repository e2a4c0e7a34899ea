"""Nodes that are closed for new instances, and what leaves them."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable

import numpy as np

from broker.contract import Answer, Done, Drain, DrainReport, Leaving, Reopen, Staying
from cloudsim.model.changes import DRAIN
from cloudsim.cloud.headroom import is_block
from cloudsim.model.changes import Change, Ended, Noticed
from cloudsim.model.instances import Instance
from cloudsim.model.requests import Kind
from workers.recorder import Recorder
from workers.state import ORDERS_KEPT, State


class Draining:
    """The part of an owner that drains nodes. Time has been let pass before it is called."""

    def __init__(self, state: State, recorder: Recorder):
        self._state, self._recorder = state, recorder
        self._answered: OrderedDict[str, Answer] = OrderedDict()

    def drain(self, command: Drain, at_s: float) -> Answer:
        """Closes nodes and makes their spot instances leave, or only tells who would; the same code path.

        A command that comes again changes nothing, whatever was opened or closed meanwhile. Its answer is
        the same; where an owner before carried it out, it is what has not been done of it yet.
        """
        return self._once(command.id, lambda: self._drain(command, at_s))

    def reopen(self, command: Reopen, at_s: float) -> Answer:
        """Lets nodes take new instances again. As often as it comes, once."""
        return self._once(command.id, lambda: self._reopen(command, at_s))

    def _once(self, command: str, act: Callable[[], Answer]) -> Answer:
        if command not in self._answered:
            self._answered[command] = act()
            if len(self._answered) > ORDERS_KEPT:
                self._answered.popitem(last=False)
        return self._answered[command]

    def _drain(self, command: Drain, at_s: float) -> Answer:
        cloud, nodes = self._state.cloud, command.nodes
        drained = frozenset(range(len(cloud.spec.node_cores)) if nodes is None else nodes)
        if not self._exist(nodes):
            return Done(found=False)
        told = [one for one in cloud.inventory.youngest_spot() if one.evict_at_s is not None]
        changes: list[Change] = []
        if command.id not in self._state.orders:
            changes = cloud.drain(nodes, at_s, f"{DRAIN}{command.by}", dry_run=command.dry_run)
        closed = (drained if command.dry_run else frozenset()).union(
            np.flatnonzero(cloud.inventory.closed).tolist()
        )
        report = DrainReport(
            cloud=cloud.spec.id,
            dry_run=command.dry_run,
            at_s=at_s,
            closed_nodes=tuple(sorted(closed)),
            leaving=_leaving([one for one in told if one.node in drained], changes),
            staying=tuple(
                _staying(one)
                for one in (*cloud.inventory, *cloud.inventory.booked())
                if one.kind is Kind.ON_DEMAND and one.node in drained and not is_block(one.id)
            ),
        )
        if not command.dry_run:
            self._recorder.record(changes, command.by, order=command.id)
        return report

    def _reopen(self, command: Reopen, at_s: float) -> Answer:
        if not self._exist(command.nodes):
            return Done(found=False)
        if command.id not in self._state.orders:
            changes = self._state.cloud.reopen(command.nodes, at_s)
            self._recorder.record(changes, command.by, order=command.id)
        return Done()

    def _exist(self, nodes: tuple[int, ...] | None) -> bool:
        return nodes is None or all(0 <= node < len(self._state.spec.cloud.node_cores) for node in nodes)


def _leaving(told: list[Instance], changes: list[Change]) -> tuple[Leaving, ...]:
    """Youngest first: those told before, and those who leave because of the changes."""
    leaving = [(one, one.evict_at_s) for one in told]
    for change in changes:
        match change:
            case Noticed(one):
                leaving.append((one, one.evict_at_s))
            case Ended(one, at_s) if one.kind is Kind.SPOT:
                leaving.append((one, at_s))
    leaving.sort(key=lambda pair: -pair[0].number)
    return tuple(_leaves(one, leaves_s) for one, leaves_s in leaving if leaves_s is not None)


def _leaves(one: Instance, evict_at_s: float) -> Leaving:
    return Leaving(
        lease=one.id,
        origin=one.origin,
        cores=one.cores,
        node=one.node,
        ends_at_s=one.end_s,
        evict_at_s=evict_at_s,
    )


def _staying(one: Instance) -> Staying:
    ends_at_s = one.end_s if math.isfinite(one.end_s) else None
    return Staying(instance=one.id, cores=one.cores, node=one.node, ends_at_s=ends_at_s)
