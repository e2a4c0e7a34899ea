"""Bugs of the cloud that an owner decides about: its time, its notices, its victims, its room."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cloudsim.cloud.cloud import Cloud
from cloudsim.model.changes import Change, Cordoned, End, Extended, Noticed, Started
from cloudsim.model.instances import Instance, Placement
from cloudsim.model.nodes import NodeDetails
from cloudsim.model.refusals import Refusal, RefusalReason
from cloudsim.scheduling.eviction import oldest_first, youngest_first
from cloudsim.scheduling.fit import nodes_with_room
from cloudsim.scheduling.inventory import Inventory, Misfit
from cloudsim.scheduling.pipeline import _plan_gang
from cloudsim.scheduling.victims import _needed
from tests.simulation.bugs.bug import Bug, mutation

CLOUD_BUGS: list[Bug] = []

Sound = Callable[..., Any]


@mutation(CLOUD_BUGS, "extended after a notice", Cloud.extend, seed=1)
def extend_under_notice(
    sound: Sound,
    cloud: Cloud,
    instance_id: str,
    until_s: float,
    now_s: float,
    sla: float | None,
    cause: str | None,
) -> list[Change] | Refusal:
    instance = cloud.inventory.get(instance_id)
    if instance is None or instance.evict_at_s is None:
        answer: list[Change] | Refusal = sound(cloud, instance_id, until_s, now_s, sla, cause)
        return answer
    changes: list[Change] = [Extended(replace(instance, end_s=until_s), now_s, cause)]
    cloud._apply_all(changes)
    return changes


@mutation(CLOUD_BUGS, "promised before no guarantee", youngest_first, seed=13)
def promised_first(_sound: Sound, inventory: Inventory) -> Iterable[Instance]:
    running = [instance for instance in inventory.youngest_spot() if instance.evict_at_s is None]
    return sorted(running, key=lambda instance: instance.yields)


@mutation(CLOUD_BUGS, "oldest first", youngest_first, seed=1)
def not_the_youngest_first(_sound: Sound, inventory: Inventory) -> Iterable[Instance]:
    return oldest_first(inventory)


@mutation(CLOUD_BUGS, "evicted without need", _needed, seed=6)
def all_needed(
    _sound: Sound, _inventory: Inventory, marked: list[Instance], _room: object, _request: object
) -> tuple[Instance, ...]:
    return tuple(marked)


@mutation(CLOUD_BUGS, "cancelled after a notice", Cloud._counted_end, seed=1)
def counted_as_said(
    _sound: Sound, _cloud: Cloud, _instance: Instance, how: End, cause: str | None
) -> tuple[End, str | None]:
    return how, cause


@mutation(CLOUD_BUGS, "notice without eviction", Cloud.expect_end, seed=6)
def expect_no_eviction(sound: Sound, cloud: Cloud, instance: Instance) -> None:
    sound(cloud, replace(instance, evict_at_s=None))


@mutation(CLOUD_BUGS, "eviction without notice", Cloud.gives_notice, seed=3)
def give_no_notice(_sound: Sound, _cloud: Cloud) -> bool:
    return False


@mutation(CLOUD_BUGS, "half the notice", Cloud._notice, seed=1)
def give_half_the_notice(
    _sound: Sound, cloud: Cloud, victim: Instance, now_s: float, cause: str | None
) -> Noticed:
    return Noticed(replace(victim, evict_at_s=now_s + cloud.spec.grace_s / 2), now_s, cause)


@mutation(CLOUD_BUGS, "who waits never starts", Cloud._start_waiting, seed=6)
def start_nobody(_sound: Sound, _cloud: Cloud, _node: int, _at_s: float) -> list[Change]:
    return []


@mutation(CLOUD_BUGS, "closed nodes stay open", Inventory.close, seed=1)
def leave_open(_sound: Sound, _inventory: Inventory, _nodes: object, *, closed: bool) -> None:
    return None


@mutation(CLOUD_BUGS, "drain lets stay", Cloud.drain, seed=1)
def close_only(
    _sound: Sound,
    cloud: Cloud,
    nodes: tuple[int, ...] | None,
    now_s: float,
    _cause: str | None,
    *,
    dry_run: bool,
) -> list[Change]:
    changes: list[Change] = [Cordoned(nodes, closed=True, at_s=now_s)]
    if not dry_run:
        cloud._apply_all(changes)
    return changes


@mutation(CLOUD_BUGS, "a core is booked twice", nodes_with_room)
def room_for_one_core_more(
    sound: Sound, free: NDArray[np.int64], needed: tuple[int, ...]
) -> NDArray[np.bool_]:
    passed: NDArray[np.bool_] = sound(free, (needed[0] - 1, *needed[1:]))
    return passed


@mutation(CLOUD_BUGS, "ends come late", Cloud.advance, seed=1)
def advance_late(sound: Sound, cloud: Cloud, now_s: float, phase: int) -> list[Change]:
    changes: list[Change] = sound(cloud, now_s - 2.0, phase)
    if math.isfinite(now_s):
        cloud.now_s = max(cloud.now_s, now_s)
    return changes


@mutation(CLOUD_BUGS, "acknowledged without a notice", Cloud.acknowledge, seed=0)
def end_without_notice(_sound: Sound, cloud: Cloud, instance_id: str, at_s: float) -> list[Change]:
    if cloud.inventory.get(instance_id) is None:
        return []
    return cloud.end(instance_id, at_s, End.EVICTED)


@mutation(CLOUD_BUGS, "what ran on nodes that are gone is not read", Cloud.widen, seed=17)
def widen_nothing(_sound: Sound, _cloud: Cloud, _nodes: int, _instance: Instance | None) -> None:
    return None


@mutation(CLOUD_BUGS, "nodes in use go", Inventory.misfits, seed=17)
def no_misfits(
    _sound: Sound, _inventory: Inventory, _node_cores: tuple[int, ...], _details: NodeDetails
) -> tuple[Misfit, ...]:
    return ()


@mutation(CLOUD_BUGS, "nodes with room for all are refused", Inventory.misfits, seed=84)
def all_misfits(
    _sound: Sound, inventory: Inventory, node_cores: tuple[int, ...], _details: NodeDetails
) -> tuple[Misfit, ...]:
    there = tuple(inventory)
    return (Misfit(0, "is another one", there),) if there and node_cores != inventory.node_cores else ()


@mutation(CLOUD_BUGS, "a member of a gang is left behind", Inventory.remove)
def leave_the_last_behind(sound: Sound, inventory: Inventory, instance_id: str) -> Instance:
    instance: Instance = sound(inventory, instance_id)
    if instance.parts:
        inventory._use(instance, inventory.footprint(instance)[-1:], 1)
    return instance


@mutation(CLOUD_BUGS, "a gang starts on too few nodes", _plan_gang)
def plan_one_node(sound: Sound, *arguments: object) -> Placement | RefusalReason:
    placement: Placement | RefusalReason = sound(*arguments)
    if isinstance(placement, RefusalReason):
        return placement
    return replace(placement, parts=placement.parts[:1])


@mutation(CLOUD_BUGS, "a gang evicts on its first node only", _plan_gang, seed=13)
def plan_few_victims(sound: Sound, *arguments: object) -> Placement | RefusalReason:
    placement: Placement | RefusalReason = sound(*arguments)
    if isinstance(placement, RefusalReason):
        return placement
    there = tuple(victim for victim in placement.victims if victim.node == placement.node)
    return replace(placement, victims=there)


@mutation(CLOUD_BUGS, "who waits behind a gang overtakes it", Cloud._start_waiting, seed=54)
def start_whoever_has_room(sound: Sound, cloud: Cloud, nodes: Iterable[int], at_s: float) -> list[Change]:
    changes: list[Change] = sound(cloud, nodes, at_s)
    for booked in cloud.inventory.booked():
        if cloud.inventory.has_room(booked):
            started = Started(replace(booked, start_s=at_s, end_s=at_s + booked.end_s - booked.start_s))
            cloud.apply(started)
            changes.append(started)
    return changes
