"""Case 20: a federation file that no longer fits a journal: it opens, or says what is in the way."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest

from broker.contract import Confirm, EventKind, LeaseState, Reserve
from broker.journal.archive import Archive
from broker.journal.verify import verify_journal
from cloudsim.cloud.spec import CloudSpec
from tests.integration.test_workers_runtime import Bench, Make
from tests.unit.workers.owners import check_journal, confirm, drain, reserve, spec
from workers.owner.nodes import NodesError
from workers.owner.owner_group import OwnerGroup
from workers.owner.process import OwnerProcess


class Became(BaseException):
    """The process would have become another one."""


def become() -> NoReturn:
    raise Became


def next_owner(bench: Bench, *nodes: int) -> OwnerProcess:
    """A process under a file with these nodes."""
    owner = bench.spec.owner
    bench.spec = replace(bench.spec, owner=replace(owner, cloud=replace(owner.cloud, node_cores=nodes)))
    bench.runtime = bench.make()
    return bench.runtime


@pytest.fixture
def bench(make_bench: Make) -> Bench:
    """A cloud of two nodes with a lease on each."""
    bench = make_bench(spec((4, 4)))
    bench.runtime.open()
    commands: list[Reserve | Confirm] = []
    for name in ("a.1", "b.1"):
        commands += [all_of_a_node(name), confirm(name)]
    answers = bench.tell(*commands)
    assert [answer.answer.lease.node for answer in answers] == [0, 0, 1, 1]  # type: ignore[union-attr]
    return bench


def all_of_a_node(attempt: str) -> Reserve:
    return reserve(attempt, 4, lifetime_s=1e6)


def make_way(bench: Bench, *nodes: int) -> None:
    group = OwnerGroup({"A": bench.runtime}, lambda *_: become(), lambda _: become())
    group.make_way({"A": CloudSpec("A", nodes)}, become)


def is_sound(bench: Bench, directory: Path) -> bool:
    return verify_journal("A", bench.journal.entries, Archive(directory)).bad is None


@pytest.mark.parametrize("live", [False, True])
def test_a_drained_node_goes_and_another_comes(bench: Bench, tmp_path: Path, live: bool) -> None:
    bench.tell(drain(1))
    if live:
        with pytest.raises(Became):
            make_way(bench, 4)
    else:
        bench.runtime.close()
    next_owner(bench, 4).open()
    assert [one.id for one in bench.runtime._owner.cloud.inventory] == ["a.1"]
    bench.runtime.close()
    next_owner(bench, 4, 8).open()
    (held, _) = bench.tell(reserve("c.1", 8), confirm("c.1"))
    assert held.answer.lease.node == 1  # type: ignore[union-attr]
    check_journal(bench.events())
    assert is_sound(bench, tmp_path / "none")
    assert [event.kind for event in bench.events()].count(EventKind.OPENED) == 3


@pytest.mark.parametrize("nodes", [(4,), (4, 2), (2, 4, 4)])
def test_what_is_in_the_way_is_named_and_runs_on(bench: Bench, nodes: tuple[int, ...]) -> None:
    before = bench.events()
    make_way(bench, *nodes)  # it stays
    assert bench.runtime._owner.cloud.inventory.node_cores == (4, 4)
    bench.runtime.close()
    with pytest.raises(NodesError, match=r"In the way: lease [ab]\.1 \(4 cores\) on node .* They are kept"):
        next_owner(bench, *nodes).open()
    bench.runtime.close()
    assert bench.events() == before, "nothing was written"
    next_owner(bench, 4, 4).open()
    states = {lease.id: lease.state for lease in bench.runtime._owner.state.answer_log.open_leases()}
    assert states == dict.fromkeys(("a.1", "b.1"), LeaseState.RUNNING)
