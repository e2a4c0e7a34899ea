"""Any commands, in any order, twice, late, with crashes between them."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.contract import Ask, EventKind, Finish, Reserve
from cloudsim.prediction.history_chunks import HistoryCutter
from tests.unit.workers.owners import (
    FOREVER_S,
    NOW,
    Live,
    acknowledge,
    ask,
    cancel,
    check_history_replays,
    check_journal,
    command_id,
    confirm,
    drain,
    extend,
    gone,
    harmless_table,
    load,
    release,
    reopen,
    reserve,
    show,
    spec,
    start,
    stop,
)

ATTEMPTS = st.sampled_from(["r.1", "r.2", "s.1", "t.1", "u.1", "A/own-1"])
INSTANCES = st.sampled_from(["od-1", "od-2", "od-3", "r.1", "A/own-0"])
CORES = st.integers(1, 5)
RENEWED_S = 4.0  # stands for none
LIFETIMES = st.sampled_from([0.0, 1.0, 2.0, RENEWED_S, 5.0, 1e6])
WISHES = st.tuples(CORES, LIFETIMES)

COMMANDS: st.SearchStrategy[Any] = st.one_of(
    st.builds(lambda attempt, wish: reserve(attempt, *wish), ATTEMPTS, WISHES),
    st.builds(lambda wish: ask(*wish), WISHES),
    st.builds(confirm, ATTEMPTS),
    st.builds(release, ATTEMPTS),
    st.builds(cancel, ATTEMPTS),
    st.builds(
        extend,
        ATTEMPTS,
        st.sampled_from([2.0, 6.0, 20.0, 1e6 + 9]),
        st.sampled_from(["x", "y"]),
        st.sampled_from([None, 0.5]),
    ),
    st.builds(start, INSTANCES, CORES, st.one_of(st.none(), st.sampled_from([1.0, 3.0]))),
    st.builds(stop, INSTANCES),
)
NODES = st.sampled_from([(), (0,), (1,), (0, 1)])
#: Sizes of the leases that run already when an own user comes.
CROWDS = st.lists(st.integers(1, 3), max_size=5)
#: Of clouds that give notice or are drained, and of their users.
CARE: st.SearchStrategy[Any] = st.one_of(
    st.builds(start, INSTANCES, st.integers(2, 4), st.one_of(st.none(), st.just(3.0))),
    st.builds(stop, INSTANCES),
    st.builds(acknowledge, st.sampled_from([f"crowd-{number}.1" for number in range(5)])),
    st.builds(acknowledge, ATTEMPTS),
    st.builds(lambda nodes, dry_run: drain(*nodes, dry_run=dry_run), NODES, st.booleans()),
    st.builds(lambda nodes: reopen(*nodes), NODES),
    st.builds(show, INSTANCES),
)
#: Of a real cloud, whose instances may go by themselves.
LOSSES = st.builds(gone, st.one_of(ATTEMPTS, INSTANCES), st.sampled_from(["evicted", "failed"]))


def steps_of(*commands: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    """Steps: seconds that pass, then a new command, one of the earlier ones again, time for expiry, or a
    crash."""
    more = (st.integers(0, 30), st.sampled_from(["crash", "expire"]))
    step = st.tuples(st.sampled_from([0.0, 0.0, 0.5, 1.0, 3.0]), st.one_of(*commands, *more))
    return st.lists(step, max_size=40)


OWN_LOADS = st.lists(
    st.tuples(st.integers(0, 20), st.integers(0, 6), st.integers(1, 7)).map(
        lambda row: (float(row[0]), float(row[0] + row[1]), row[2])
    ),
    min_size=1,
    max_size=12,
).map(lambda rows: load(*rows))


@settings(max_examples=150)
@given(
    steps=steps_of(COMMANDS, COMMANDS, LOSSES),
    own_load=st.one_of(st.none(), OWN_LOADS),
    trace_time=st.booleans(),
    promised=st.booleans(),
)
def test_whatever_comes_the_journal_is_the_owner(
    steps: list[Any], own_load: Any, trace_time: bool, promised: bool
) -> None:
    live = Live(spec((4, 3), own_load=own_load, trace_time=trace_time, renewal_s=2.0), harmless_table((4, 3)))
    play(live, steps, trace_time, promised)
    if promised:
        check_history_replays(live.owner, live.events)


@settings(max_examples=150)
@given(
    crowd=CROWDS,
    steps=steps_of(COMMANDS, CARE, CARE, LOSSES),
    own_load=st.one_of(st.none(), OWN_LOADS),
    trace_time=st.booleans(),
    promised=st.booleans(),
    grace_s=st.sampled_from([0.0, 0.5, 2.0, 5.0]),
)
def test_so_it_is_with_notices_and_drains(
    crowd: list[int], steps: list[Any], own_load: Any, trace_time: bool, promised: bool, grace_s: float
) -> None:
    told = spec((4, 3), grace_s, own_load=own_load, trace_time=trace_time, renewal_s=2.0)
    live = Live(told, harmless_table((4, 3)))
    for number, cores in enumerate(crowd):
        live.tell(reserve(f"crowd-{number}.1", cores, 30.0, 0.5 if promised else None))
        live.tell(confirm(f"crowd-{number}.1"))
    play(live, steps, trace_time, promised)
    log = copy.deepcopy(live.owner.cloud.history).cut(FOREVER_S)
    HistoryCutter().cut(log, 0.0, FOREVER_S)  # in order, and nothing stops that does not run
    assert not live.owner.state.booked, "everybody started"
    for event in live.events:
        lease = event.lease
        if lease is not None and lease.starts_by_s is not None and event.kind is EventKind.ADMITTED:
            assert lease.starts_at_s <= lease.starts_by_s
        if lease is not None and lease.evict_at_s is not None and lease.ended_at_s is not None:
            assert lease.ended_at_s <= lease.evict_at_s


def play(live: Live, steps: list[Any], trace_time: bool, promised: bool) -> None:
    """To the end."""
    told: list[Any] = []
    now_s = 0.0
    for passed_s, step in steps:
        now_s += passed_s
        match step:
            case "crash":
                live.crash()
            case "expire":
                live.take(live.owner.expire(now_s, NOW, now_s * 20))
            case int(earlier):
                if told:
                    live.tell(told[earlier % len(told)], now_s)
            case command:
                update: dict[str, Any] = {"at_s": now_s if trace_time else None}
                if promised and isinstance(command, Ask | Reserve):
                    update["sla"] = 0.5
                    if command.lifetime_s == RENEWED_S:
                        update["lifetime_s"] = None
                stamped = command.model_copy(update=update)
                told.append(stamped)
                live.tell(stamped, now_s)
        live.owner.validate()
    live.crash()
    live.advance(now_s + 20)  # what has no lifetime is renewed
    live.tell(Finish(**command_id()), now_s + 20)
    assert len(live.owner.cloud.inventory) == sum(1 for i in live.owner.cloud.inventory if i.end_s > 1e7)
    check_journal(live.events)
    live.crash()
