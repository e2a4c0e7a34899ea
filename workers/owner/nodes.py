"""Other nodes for a cloud that has a journal: what is in the way of them, and the change itself."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from broker.contract.convert import to_node_kinds
from cloudsim.cloud.node_plan import NodePlan, plan_nodes
from cloudsim.cloud.spec import CloudSpec
from cloudsim.history.event_log import PHASE_STOP
from cloudsim.model.instances import Instance
from cloudsim.model.nodes import groups_of, shape_of
from cloudsim.model.requests import Kind
from cloudsim.scheduling.inventory import Misfit
from workers.owner import clock
from workers.owner.event_writer import EventWriter
from workers.owner.state import OwnerState

_MOST_NAMED = 20


class NodesError(Exception):
    """The federation file gives a cloud nodes on which its instances cannot run; the message names them."""

    def __init__(self, cloud: str, why: str):
        super().__init__(why)
        self.cloud = cloud


def plan_for(state: OwnerState, spec: CloudSpec) -> NodePlan:
    """Plan the nodes of a specification for what runs on a cloud now."""
    cloud = state.cloud
    starts_by_s = {
        lease.id: lease.starts_by_s for lease in state.booked.values() if lease.starts_by_s is not None
    }
    return plan_nodes(cloud.inventory, spec, cloud.headroom.present(cloud.inventory), starts_by_s)


def take_nodes(state: OwnerState, writer: EventWriter) -> None:
    """Let a recovered cloud go on with the nodes of its specification.

    Raises
    ------
    NodesError
        When instances are in the way; nothing has changed then.
    """
    cloud, spec = state.cloud, state.spec.cloud
    at_s, plan = cloud.now_s, plan_for(state, spec)
    if plan.blocks and not plan.misfits:
        at_s = clock.step(state, writer, at_s, PHASE_STOP)  # they stop in the history
        plan = plan_for(state, spec)
    if plan.misfits:
        raise NodesError(spec.id, describe_misfits(spec, plan.misfits))
    writer.record(cloud.take_nodes(plan, at_s), "nodes")


def describe_misfits(spec: CloudSpec, misfits: Iterable[Misfit]) -> str:
    """Return which instances are in the way of a cloud's nodes, and what to do, for people."""
    names = [
        f"{'lease' if one.kind is Kind.SPOT else 'own instance'} {one.id} ({_cores_text(one, misfit.node)}) "
        f"on node {misfit.node}, which {misfit.why}"
        for misfit in misfits
        for one in misfit.instances
    ]
    more = [f"and {len(names) - _MOST_NAMED} more"] if len(names) > _MOST_NAMED else []
    nodes = "".join(f" --node {misfit.node}" for misfit in misfits)
    shape = shape_of(groups_of(spec.node_cores, spec.details))
    return (
        f"cloud {spec.id} does not fit the nodes of its federation file, {shape}. "
        f"In the way: {'; '.join([*names[:_MOST_NAMED], *more])}. They are kept. "
        "Give the cloud the nodes again that it had and start its owner. Then empty the nodes "
        f"(`spotfed cloud drain {spec.id}{nodes}`; own instances stay until their users stop them), and "
        f"change the file when `spotfed cloud apply {spec.id} --dry-run` finds nothing in the way"
    )


def _cores_text(instance: Instance, node: int) -> str:
    here = dict(instance.parts).get(node, instance.cores)
    return f"{instance.cores} cores" if here == instance.cores else f"{here} of its {instance.cores} cores"


def describe_change(state: OwnerState, spec: CloudSpec) -> dict[str, Any]:
    """Return what other nodes would mean for a cloud, as ``spotfed cloud apply`` reads it."""
    plan, now_s = plan_for(state, spec), state.cloud.now_s
    return {
        "cloud": spec.id,
        "node_kinds": [kind.model_dump() for kind in to_node_kinds(spec.node_cores, spec.details)],
        "moved_headroom": [block.id for block in plan.blocks],
        "in_the_way": [
            {
                "instance": instance.id,
                "kind": instance.kind.value,
                "cores": instance.cores,
                "node": misfit.node,
                "why": misfit.why,
                "ends_in_s": instance.end_s - now_s if math.isfinite(instance.end_s) else None,
            }
            for misfit in plan.misfits
            for instance in misfit.instances
        ],
    }
