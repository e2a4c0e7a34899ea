"""Draining nodes, as the owner does it and as it would."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from broker.contract import Done, DrainReport, EventKind, LeaseState, RefusalView
from cloudsim.history.event_log import STOP
from cloudsim.model.refusals import RefusalReason
from tests.unit.workers.owners import (
    FOREVER_S,
    NOW,
    Live,
    acknowledge,
    ask,
    check_journal,
    confirm,
    drain,
    harmless_table,
    not_found,
    reopen,
    reserve,
    show,
    spec,
    start,
)
from workers.owner import snapshots
from workers.owner.owner import Owner
from workers.owner.state import ORDERS_KEPT

ENDS_S = 1000.0


def cloud(grace_s: float = 0.0) -> Live:
    """Two nodes of 4 cores. On node 0: vm (1 core), a and b; on node 1: c; all but vm until 1000 s."""
    live = Live(spec((4, 4), grace_s), harmless_table((4, 4)))
    live.tell(start("vm", cores=1))
    for name, cores in (("a.1", 2), ("b.1", 1), ("c.1", 3)):
        live.tell(reserve(name, cores=cores, lifetime_s=ENDS_S, sla=0.5))
        live.tell(confirm(name))
    return live


def leaving(report: Any) -> list[tuple[str, int, float]]:
    assert isinstance(report, DrainReport), report
    return [(one.lease, one.node, one.evict_at_s) for one in report.leaving]


def staying(report: Any) -> list[tuple[str, int]]:
    assert isinstance(report, DrainReport), report
    return [(one.instance, one.node) for one in report.staying]


@pytest.mark.parametrize("grace_s", [0.0, 30.0])
def test_a_dry_run_tells_what_would_happen_and_changes_nothing(grace_s: float) -> None:
    live = cloud(grace_s)
    before = list(live.events)
    would = live.tell(drain(0, dry_run=True), 10.0)
    assert (would.dry_run, would.at_s, would.closed_nodes) == (True, 10.0, (0,))
    assert leaving(would) == [("b.1", 0, 10.0 + grace_s), ("a.1", 0, 10.0 + grace_s)], "youngest first"
    assert staying(would) == [("vm", 0)]
    assert live.events == before
    live.crash()
    did = live.tell(drain(0), 10.0)
    assert did == would.model_copy(update={"dry_run": False}), "the same code path"
    live.crash()


def test_without_grace_they_are_evicted_at_once_and_nobody_comes_after_them() -> None:
    live = cloud()
    live.tell(drain(0), 10.0)
    evicted = [event for event in live.events if event.kind is EventKind.EVICTED]
    assert [(event.lease.id, event.at_s) for event in evicted if event.lease] == [
        ("b.1", 10.0),
        ("a.1", 10.0),
    ]
    assert {event.cause for event in evicted} == {"drain by admin"}
    assert [event.sequence for event in evicted] == [4, 5], "the holders hear of it"
    refusal = live.tell(reserve("r.1", cores=2), 11.0)
    assert isinstance(refusal, RefusalView)
    assert refusal.reason is RefusalReason.NO_CAPACITY
    live.crash()
    check_journal(live.events)


def test_with_grace_they_are_told_and_leave_when_it_ends() -> None:
    live = cloud(30.0)
    live.tell(drain(0), 10.0)
    assert EventKind.EVICTED not in live.kinds()
    live.crash()
    live.tell(acknowledge("b.1"), 20.0)
    again = live.tell(drain(0), 25.0)
    assert leaving(again) == [("a.1", 0, 40.0)], "told once, whoever asks again is told the same"
    live.crash()
    live.advance(50.0)
    assert [(i.id, i.node) for i in live.owner.cloud.inventory] == [("vm", 0), ("c.1", 1)]
    ended = [(e.lease.id, e.at_s) for e in live.events if e.lease and e.kind is EventKind.EVICTED]
    assert ended == [("b.1", 20.0), ("a.1", 40.0)]
    live.crash()
    check_journal(live.events)


def test_a_whole_cloud_is_drained_and_opened_again() -> None:
    live = cloud()
    report = live.tell(drain(), 10.0)
    assert report.closed_nodes == (0, 1)
    assert [name for name, _, _ in leaving(report)] == ["c.1", "b.1", "a.1"]
    assert live.tell(ask(sla=None), 11.0).reason is RefusalReason.NO_SUCH_NODE
    turned_away = live.tell(start("more"), 11.0)
    assert (turned_away.reason, turned_away.removed) == (RefusalReason.NO_SUCH_NODE, {"cordon": 2})
    assert live.tell(reopen(1), 12.0) == Done()
    live.crash()
    assert live.tell(reserve("r.1"), 13.0).lease.node == 1
    assert live.tell(reopen(), 14.0) == Done()
    live.crash()
    assert live.tell(reserve("s.1"), 15.0).lease.node == 0
    cordons = [e for e in live.events if e.kind is EventKind.CORDONED]
    assert [(e.nodes, e.closed, e.cause) for e in cordons] == [
        (None, True, "admin"), ((1,), False, "admin"), (None, False, "admin"),
    ]  # fmt: skip


def test_room_on_closed_nodes_is_not_advertised() -> None:
    live = cloud()
    assert live.owner.advert(NOW).closed_nodes == 0
    live.tell(drain(0), 10.0)
    advert = live.owner.advert(NOW)
    assert (advert.closed_nodes, advert.free_cores, advert.free_slots) == (1, 1, {1: 1, 2: 0, 3: 0, 4: 0})
    assert advert.spot_leases == 1
    live.tell(reserve("n.1", cores=1), 11.0)  # without a guarantee: promised requests see its room
    room = live.owner.advert(NOW).promised_room
    assert room is not None
    assert (room.free_cores, room.free_slots[1]) == (1, 1)
    live.tell(reopen(), 12.0)
    assert live.owner.advert(NOW).free_cores == 3


def test_nodes_that_do_not_exist_change_nothing() -> None:
    live = cloud()
    before = list(live.events)
    assert not_found(live.tell(drain(0, 2), 10.0))
    assert not_found(live.tell(reopen(7), 10.0))
    assert live.events == before


def test_who_waits_on_a_drained_node_still_gets_its_room() -> None:
    live = cloud(30.0)
    live.tell(start("next", cores=4), 5.0)  # evicts where the youngest are
    node = live.tell(show("next"), 6.0).lease.node
    report = live.tell(drain(node), 10.0)
    assert ("next", node) in staying(report)
    live.crash()
    live.advance(100.0)
    assert live.tell(show("next"), 101.0).lease.state is LeaseState.RUNNING


def test_what_left_a_drained_node_stops_in_the_history() -> None:
    live = cloud(30.0)
    live.tell(drain(0), 10.0)
    live.advance(50.0)
    log = copy.deepcopy(live.owner.cloud.history).cut(FOREVER_S)
    stops = [at_s for at_s, kind in zip(log.time_s.tolist(), log.kind.tolist(), strict=True) if kind == STOP]
    assert stops == [40.0, 40.0, ENDS_S], "a and b; c stays to its end"
    live.crash()


def test_a_command_that_comes_again_changes_nothing_and_gets_the_same_answer() -> None:
    live = cloud()
    close, open_again = drain(0), reopen(0)
    closed = live.tell(close, 10.0)
    opened = live.tell(open_again, 20.0)
    written = list(live.events)
    assert live.tell(close, 30.0) == closed, "late, when the nodes are long open again"
    assert live.tell(open_again, 30.0) == opened
    assert live.events == written
    start_again = live.tell(start("vm2", cores=1), 40.0)
    assert start_again.lease.node == 0


@pytest.mark.parametrize("snapshot", [False, True])
def test_the_next_owner_knows_what_was_carried_out(snapshot: bool) -> None:
    """The answer was lost with the owner, and who did not hear it sends the command again."""
    live = cloud(30.0)
    close, open_again, would = drain(0), reopen(0), drain(dry_run=True)
    closed = live.tell(close, 10.0)
    live.tell(would, 11.0)
    restart(live, snapshot=snapshot)
    again = live.tell(close, 12.0)
    assert (again.dry_run, again.closed_nodes) == (False, (0,))
    assert (leaving(again), staying(again)) == (leaving(closed), staying(closed))
    assert again.at_s == 12.0
    live.tell(open_again, 20.0)
    written = list(live.events)
    restart(live, snapshot=snapshot)
    late = live.tell(close, 21.0)
    assert (late.closed_nodes, leaving(late)) == ((), leaving(closed)), "who was told leaves all the same"
    assert live.tell(open_again, 22.0) == Done()
    assert live.events == written
    assert live.tell(would, 23.0).closed_nodes == (0, 1), "what changed nothing is asked anew"
    live.tell(drain(0), 30.0)
    assert len(live.events) == len(written) + 1, "another one is another one"
    live.crash()


def test_so_many_commands_are_remembered() -> None:
    live = cloud()
    first, *others = [reopen(0) for _ in range(ORDERS_KEPT + 1)]
    for command in (first, *others):
        live.tell(command, 10.0)
    live.crash()
    live.tell(others[0], 11.0)
    assert live.kinds().count(EventKind.CORDONED) == ORDERS_KEPT + 1
    live.tell(first, 12.0)
    assert live.kinds().count(EventKind.CORDONED) == ORDERS_KEPT + 2


def restart(live: Live, *, snapshot: bool) -> None:
    """The next owner, from a snapshot or from the journal."""
    if not snapshot:
        live.crash()
        return
    packed = snapshots.pack(snapshots.take(live.owner.state, "1-1", "0" * 64))
    live.owner = Owner.recover(live.spec, 9, [], snapshots.restored(live.spec, snapshots.unpack(packed)))
    live.owner.cloud.table = live.table


def test_a_gang_on_one_of_the_nodes_is_named_with_all_of_its_own() -> None:
    live = Live(spec((4, 4, 4)))
    live.tell(start("wide", cores=6))
    (report,) = live.tell(drain(1, dry_run=True), 10.0).staying
    assert (report.instance, report.node, report.parts) == ("wide", 0, ((0, 4), (1, 2)))
    assert live.tell(drain(2, dry_run=True), 10.0).staying == ()
