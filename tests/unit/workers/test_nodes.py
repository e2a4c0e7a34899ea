"""A cloud goes on with other nodes than its journal has, or says which instances are in the way."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from broker.contract import EventKind, LeaseGranted, LeaseState
from cloudsim.model.nodes import NodeDetails
from tests.unit.workers.owners import (
    NOW,
    Live,
    confirm,
    drain,
    reopen,
    reserve,
    show,
    snapshot,
    spec,
    start,
    stop,
)
from workers.owner import snapshots
from workers.owner.nodes import NodesError
from workers.owner.owner import Owner

ZONES = (frozenset({("zone", "north")}), frozenset({("zone", "south")}))


def reshape(live: Live, *nodes: int, details: NodeDetails | None = None, **changes: Any) -> None:
    """The next owner, under a file with other nodes: from the journal, and the same from a snapshot."""
    cloud = replace(
        live.spec.cloud,
        node_cores=nodes or live.spec.cloud.node_cores,
        details=details or NodeDetails(),
        **changes,
    )
    changed = replace(live.spec, cloud=cloud)
    packed = snapshots.pack(snapshots.take(live.owner.state, "1-1", "0" * 64))
    owners = [
        Owner.recover(changed, live.owner.epoch + 1, live.events),
        Owner.recover(
            changed, live.owner.epoch + 1, [], snapshots.restored(changed, snapshots.unpack(packed))
        ),
    ]
    decisions = [owner.take_nodes(NOW) for owner in owners]
    for owner in owners:
        owner.validate()
    assert snapshot(owners[0]) == snapshot(owners[1])
    assert decisions[0] == decisions[1]
    assert owners[0].cloud.inventory.node_cores == cloud.node_cores
    live.spec, live.owner = changed, owners[0]
    live.take(decisions[0])
    again = Owner.recover(changed, live.owner.epoch + 1, live.events)
    assert not again.take_nodes(NOW), "the journal holds the change"
    assert snapshot(again) == snapshot(live.owner)
    live.advance(live.owner.cloud.now_s)


def refused(live: Live, *nodes: int, **changes: Any) -> str:
    before = snapshot(live.owner)
    with pytest.raises(NodesError) as refusal:
        reshape(live, *nodes, **changes)
    live.crash()
    assert snapshot(live.owner) == before, "under the nodes that it had it goes on"
    return str(refusal.value)


def running(live: Live, lease: str, cores: int = 1, **options: Any) -> int:
    """Have a spot lease admitted, and return its node."""
    assert isinstance(live.tell(reserve(lease, cores, **options)), LeaseGranted)
    granted = live.tell(confirm(lease)).lease
    assert granted.state is LeaseState.RUNNING
    return int(granted.node)


# -- smaller -------------------------------------------------------------------------------------------------


def test_an_empty_drained_node_can_go() -> None:
    """CASES2 20: a lease on node 1, drain it, start with one node."""
    live = Live(spec((4, 4)))
    assert [running(live, name, 4) for name in ("a.1", "b.1")] == [0, 1]
    live.tell(drain(1), 10.0)
    reshape(live, 4)
    assert live.owner.state.answer_log.get("a.1").node == 0  # type: ignore[union-attr]
    assert not live.owner.cloud.inventory.any_closed
    live.crash()
    reshape(live, 4, 4)
    assert running(live, "c.1", 4) == 1, "what comes back is a new node, and open"


def test_nodes_can_become_smaller_where_nothing_runs() -> None:
    live = Live(spec((8, 8, 8, 8)))
    assert running(live, "a.1", 8) == 0
    live.tell(start("own", 8), 1.0)
    live.tell(drain(0), 10.0)
    live.tell(stop("own"), 11.0)
    reshape(live, 2, 2, 2, 2)
    assert live.owner.advert(NOW).free_cores == 6, "node 0 is still closed"
    live.tell(reopen(), 12.0)
    assert running(live, "b.1", 2) == 0


def test_instances_in_the_way_are_named_and_kept() -> None:
    live = Live(spec((4, 4)))
    assert [running(live, name, 3) for name in ("a.1", "b.1")] == [0, 1]
    live.tell(start("own"), 1.0)
    text = refused(live, 4)
    assert "lease b.1 (3 cores) on node 1, which would be gone" in text
    assert "a.1" not in text
    assert "own instance own" not in text
    assert "spotfed cloud drain A --node 1" in text
    text = refused(live, 3, 3)
    assert "lease a.1 (3 cores) on node 0, which would have 3 cores" in text
    assert "own instance own (1 cores) on node 0" in text
    assert "node 1" not in text
    assert live.owner.state.answer_log.get("b.1").state is LeaseState.RUNNING  # type: ignore[union-attr]


def test_many_instances_in_the_way_make_no_endless_text() -> None:
    live = Live(spec((4, 40)))
    live.tell(drain(0))
    for number in range(40):
        assert running(live, f"a{number}.1") == 1
    assert "and 20 more" in refused(live, 4)


# -- own users -----------------------------------------------------------------------------------------------


def test_an_own_instance_that_waits_for_its_node_is_in_the_way() -> None:
    live = Live(spec((4, 4), grace_s=60.0))
    assert [running(live, name, 4) for name in ("a.1", "b.1")] == [0, 1]
    waits = live.tell(start("own", 4), 1.0).lease
    assert (waits.state, waits.node) == (LeaseState.BOOKED, 1)
    text = refused(live, 4)
    assert "lease b.1 (4 cores) on node 1" in text
    assert "own instance own (4 cores) on node 1" in text
    live.advance(61.0)
    assert live.tell(show("own"), 61.0).lease.state is LeaseState.RUNNING


def test_who_waits_starts_at_once_where_its_node_has_grown() -> None:
    live = Live(spec((4,), grace_s=60.0))
    running(live, "a.1", 4)
    live.tell(start("own", 4), 1.0)
    reshape(live, 8)
    own = live.tell(show("own"), 2.0).lease
    assert (own.state, own.starts_at_s) == (LeaseState.RUNNING, 1.0)
    live.advance(100.0)
    live.crash()


def test_who_waits_is_not_kept_waiting_longer_by_less_room() -> None:
    live = Live(spec((8,), grace_s=10.0))
    for name, cores, at_s in (("a.1", 4, 0.0), ("b.1", 2, 0.0)):
        assert live.tell(reserve(name, cores, 1000.0), at_s)
        live.tell(confirm(name), at_s)
    live.tell(start("own", 4), 1.0)  # b.1 leaves for it at 11
    live.tell(drain(0), 5.0)  # a.1 leaves at 15
    assert live.tell(show("own"), 5.0).lease.starts_by_s == 11.0
    assert "too little room for its start in time" in refused(live, 6)
    live.advance(11.0)
    assert live.tell(show("own"), 11.0).lease.state is LeaseState.RUNNING


def test_headroom_moves_out_of_the_way() -> None:
    live = Live(spec((4, 4)))
    live.spec = replace(live.spec, cloud=replace(live.spec.cloud, headroom=(4,)))
    live.owner = Owner(live.spec, 1)
    assert running(live, "a.1", 2) == 1, "the block is on node 0"
    reshape(live, 2, 4)
    assert live.kinds()[-3:] == [EventKind.CANCELLED, EventKind.EVICTED, EventKind.ADMITTED]
    assert [one.node for one in live.owner.cloud.inventory if one.cores == 4] == [1]
    live.crash()


# -- closed nodes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [(), (2,)])
def test_a_cloud_that_was_drained_as_a_whole_stays_closed(order: tuple[int, ...]) -> None:
    live = Live(spec((4, 4, 4)))
    live.tell(drain(), 1.0)
    if order:
        live.tell(reopen(*order), 2.0)
    reshape(live, 4, 4)
    assert live.owner.cloud.inventory.closed.tolist() == [True, True]
    reshape(live, 4, 4, 4, 4)
    assert live.owner.cloud.inventory.closed.all(), "nodes that are added are closed too"
    live.tell(reopen(), 3.0)
    reshape(live, 4, 4, 4, 4, 4)
    assert not live.owner.cloud.inventory.any_closed


# -- other nodes ---------------------------------------------------------------------------------------------


def test_groups_in_another_order_keep_what_fits() -> None:
    live = Live(spec((4, 4, 8)))
    assert running(live, "a.1", 4) == 0
    reshape(live, 8, 4, 4)
    assert running(live, "b.1", 4) == 0, "node 0 is the large one now"
    assert "lease a.1 (4 cores) on node 0, which would have 4 cores" in refused(live, 4, 4, 8)


def test_a_lease_keeps_its_labels_and_resources() -> None:
    live = Live(spec((4, 4)))
    live.spec = replace(
        live.spec, cloud=replace(live.spec.cloud, details=NodeDetails((("gpu", (0, 2)),), ZONES))
    )
    live.owner = Owner(live.spec, 1)
    wish = reserve("a.1", 2).model_copy(update={"labels": {"zone": "south"}, "resources": {"gpu": 1}})
    live.tell(wish)
    assert live.tell(confirm("a.1")).lease.node == 1
    assert running(live, "b.1", 2) == 0
    text = refused(live, details=NodeDetails((("gpu", (0, 2)),), ZONES[::-1]))
    assert "lease a.1 (2 cores) on node 1, which would lack a label or a resource that they need" in text
    assert "b.1" not in text
    assert "lease a.1" in refused(live), "no labels and no gpu at all"
    assert "which would have 0 gpu" in refused(live, details=NodeDetails((("gpu", (2, 0)),), ZONES))
    south = (frozenset({("rack", "1")}), frozenset({("zone", "south"), ("rack", "2")}))
    reshape(live, 4, 2, details=NodeDetails((("gpu", (0, 1)), ("memory", (100, 100))), south))
    live.advance(1000.0)
    reshape(live, 4)
    live.crash()


def test_a_journal_that_never_told_its_nodes_is_read_under_any() -> None:
    """Versions before wrote the same entries, and snapshots that do not say where added nodes are closed."""
    live = Live(spec((8, 8, 8, 8)))
    for number in range(4):
        live.tell(start(f"own{number}", 8, 100.0), 1.0)
    live.tell(drain(3), 2.0)
    live.advance(200.0)
    old = snapshots.pack(snapshots.take(live.owner.state, "1-1", "0" * 64)).replace(
        b'"closed_from":null,', b""
    )
    changed = spec((1,))
    for owner in (
        Owner.recover(changed, 2, live.events),
        Owner.recover(changed, 2, [], snapshots.restored(changed, snapshots.unpack(old))),
    ):
        assert [e.kind for e in owner.take_nodes(NOW).events] == [EventKind.CORDONED]
        owner.validate()
        assert owner.cloud.history.instances == 4
