"""A cloud with headroom: any commands, with crashes between them; its history replays to what happened."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.contract import EventKind
from cloudsim.model.reserved_ids import is_block
from cloudsim.prediction.history_chunks import HistoryCutter
from tests.unit.workers.owners import (
    FOREVER_S,
    Live,
    check_history_replays,
    confirm,
    harmless_table,
    reserve,
    spec,
    start,
    stop,
)
from tests.unit.workers.test_owner_machine import CARE, COMMANDS, CROWDS, OWN_LOADS, play, steps_of

BLOCKS = st.sampled_from([(1,), (2,), (2, 1), (3, 3), (4, 1)])
NAMES = st.sampled_from(["od-1", "od-2", "od-3", "A/freed-1", "A/freed-2", "A/headroom-0"])
OF_BLOCKS: st.SearchStrategy[Any] = st.one_of(
    st.builds(start, NAMES, st.integers(1, 4), st.sampled_from([None, 1.0, 3.0])), st.builds(stop, NAMES)
)


def live_with(blocks: tuple[int, ...], grace_s: float, own_load: Any, trace_time: bool) -> Live:
    told = spec((4, 3), grace_s, own_load=own_load, trace_time=trace_time, renewal_s=2.0)
    told = replace(told, cloud=replace(told.cloud, headroom=blocks))
    return Live(told, harmless_table((4, 3)))


@settings(max_examples=150)
@given(
    blocks=BLOCKS,
    steps=steps_of(COMMANDS, OF_BLOCKS),
    own_load=st.one_of(st.none(), OWN_LOADS),
    trace_time=st.booleans(),
)
def test_the_history_of_a_cloud_with_headroom_replays_to_what_happened(
    blocks: tuple[int, ...], steps: list[Any], own_load: Any, trace_time: bool
) -> None:
    live = live_with(blocks, 0.0, own_load, trace_time)
    play(live, steps, trace_time, promised=True)
    check_history_replays(live.owner, live.events)


@settings(max_examples=150)
@given(
    blocks=BLOCKS,
    crowd=CROWDS,
    steps=steps_of(COMMANDS, CARE, OF_BLOCKS),
    own_load=st.one_of(st.none(), OWN_LOADS),
    trace_time=st.booleans(),
    promised=st.booleans(),
    grace_s=st.sampled_from([0.0, 0.5, 2.0]),
)
def test_with_notices_and_drains_every_block_is_placed_as_soon_as_it_can_be(
    blocks: tuple[int, ...],
    crowd: list[int],
    steps: list[Any],
    own_load: Any,
    trace_time: bool,
    promised: bool,
    grace_s: float,
) -> None:
    live = live_with(blocks, grace_s, own_load, trace_time)
    for number, cores in enumerate(crowd):
        live.tell(reserve(f"crowd-{number}.1", cores, 30.0, 0.5 if promised else None))
        live.tell(confirm(f"crowd-{number}.1"))
    play(live, steps, trace_time, promised)
    log = copy.deepcopy(live.owner.cloud.history).cut(FOREVER_S)
    HistoryCutter().cut(log, 0.0, FOREVER_S)  # in order, and nothing stops that does not run
    cloud = live.owner.cloud
    assert not cloud.headroom.surplus(cloud.inventory)
    for cores in cloud.headroom.missing():
        open_nodes = ~cloud.inventory.closed
        assert not (cloud.inventory.free_normal[0][open_nodes] >= cores).any()
    evicted = [one for one in live.events if one.kind is EventKind.EVICTED and one.lease is not None]
    assert not any(is_block(one.lease.id) for one in evicted if one.lease is not None)
