"""Case 7: 200 evictions in three minutes on one cloud, and all owners resubmit at once."""

from __future__ import annotations

import threading
from collections import Counter
from itertools import islice

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.api.services.overflow import RESUBMITTED_WITHIN_S, OverflowOffer, jitter_s
from broker.backoff import API_BACKOFF
from broker.contract import EventKind
from tests.contract.harness import KEY, Federation
from tests.support.wait import wait_until
from tests.unit.workers.owners import (
    Live,
    check_history_replays,
    check_journal,
    confirm,
    harmless_table,
    reserve,
    spec,
    start,
)

STORM, WITHIN_S = 200, 180.0


def offer(attempt: int, instance: str = "vm") -> OverflowOffer:
    return OverflowOffer(cloud="home", instance=instance, attempt=attempt, cores=1, lifetime_s=60.0)


@pytest.mark.parametrize("together", [1, 5])
def test_a_replay_of_the_history_keeps_the_storm_together(together: int) -> None:
    """Own users take ``together`` nodes at a time; the history that tables are made from says just when."""
    live = Live(spec((8,) * (STORM // 8)), harmless_table((8,) * (STORM // 8)))
    for n in range(STORM):
        live.tell(reserve(f"r{n}.1", lifetime_s=9000.0, sla=0.5), 1000.0)
        live.tell(confirm(f"r{n}.1"), 1000.0)
    nodes = STORM // 8
    for n in range(nodes):
        at_s = 2000.0 + WITHIN_S * (n // together) / (nodes // together)
        live.tell(start(f"own{n}", cores=8), at_s)
    evicted = [event.at_s for event in live.events if event.kind is EventKind.EVICTED]
    assert len(evicted) == STORM
    assert max(evicted) - min(evicted) <= WITHIN_S
    moments = Counter(round(at_s, 3) for at_s in evicted)
    assert set(moments.values()) == {8 * together}, "as many at once as it was"
    check_journal(live.events)
    live.crash()  # the next owner, from the journal, has the same history
    check_history_replays(live.owner, live.events)


def test_quotes_fall_within_one_refresh_and_the_api_answers_throughout(
    federation: Federation, api: httpx.Client
) -> None:
    east = federation.join("east", (8,) * (STORM // 8))
    wishes = [{"id": f"r{n}", "cores": 1, "lifetime_s": 1e6} for n in range(STORM)]
    made = api.post("/v1/requests", json=wishes)
    assert made.is_success, made.text
    wait_until(lambda: len(east.running()) == STORM)
    asked: list[int] = []
    over = threading.Event()

    def ask_on() -> None:
        with httpx.Client(base_url=federation.url, headers={"Authorization": f"Bearer {KEY}"}) as other:
            while not over.is_set():
                asked.append(other.post("/v1/quotes", json={"cores": 8, "lifetime_s": 60.0}).status_code)
                asked.append(other.get("/v1/clouds").status_code)

    thread = threading.Thread(target=ask_on)
    thread.start()
    try:
        storm = [start(f"own{n}", cores=8).model_copy(update={"reply_to": None}) for n in range(STORM // 8)]
        federation.journal("east").send("east", storm)
        wait_until(lambda: len(east.running()) == STORM // 8)
        # They all come back at once, and with them the questions of others.
        again = [{"id": f"again{n}", "cores": 1, "lifetime_s": 1e6} for n in range(STORM)]
        answer = api.post("/v1/requests", json=again)
    finally:
        over.set()
        thread.join(20)
    assert answer.status_code < 500
    assert asked
    assert set(asked) == {200}, Counter(asked)
    quote = api.post("/v1/quotes", json={"cores": 1, "lifetime_s": 60.0}).json()
    assert not quote["quotes"], "no room is promised that is gone"
    assert len(east.running()) == STORM // 8
    assert api.get("/v1/clouds/east").json()["advert"]["free_cores"] == 0


def test_what_was_evicted_is_offered_again_and_placed_elsewhere_once(
    federation: Federation, api: httpx.Client
) -> None:
    count = 24
    federation.join("home", (1,), overflow=True)
    east = federation.join("east", (8,) * (count // 8))
    home = federation.journal("home")
    blocking, *turned_away = (start(f"vm{n}", lifetime_s=1e5) for n in range(count + 1))
    home.send("home", [one.model_copy(update={"reply_to": None}) for one in (blocking, *turned_away)])
    wait_until(lambda: len(east.running()) == count)
    west = federation.join("west", (8,) * (count // 8))
    own = [start(f"own{n}", cores=8).model_copy(update={"reply_to": None}) for n in range(count // 8)]
    federation.journal("east").send("east", own)
    wait_until(lambda: len(west.running()) == count)
    placed = [
        event.overflow
        for _, event in home.read()
        if event.kind is EventKind.OVERFLOW and event.overflow and event.overflow.state == "placed"
    ]
    wait_until(
        lambda: (
            sum(
                event.overflow is not None
                and event.overflow.state == "placed"
                and event.overflow.attempt == 2
                for _, event in home.read()
            )
            == count
        )
    )
    assert {state.attempt for state in placed} <= {1, 2}
    assert len(set(west.running())) == count
    assert api.get("/readyz").status_code == 200


@given(st.sets(st.text("abcdef0123456789-", min_size=1, max_size=20).map("vm{}".format), min_size=1))
def test_resubmissions_wait_within_bounds_and_first_offers_do_not(instances: set[str]) -> None:
    for instance in instances:
        assert jitter_s(offer(1, instance)) == 0.0
        waits = [jitter_s(offer(attempt, instance)) for attempt in (2, 3, 2)]
        assert all(0.0 <= wait < RESUBMITTED_WITHIN_S for wait in waits)
        assert waits[0] == waits[2], "a run of the simulation repeats"


def test_a_storm_of_resubmissions_is_spread_over_the_whole_time() -> None:
    tenths = Counter(int(10 * jitter_s(offer(2, f"vm-{n}")) / RESUBMITTED_WITHIN_S) for n in range(STORM))
    assert set(tenths) == set(range(10))
    assert max(tenths.values()) < STORM // 5, "no tenth of the time has a fifth of them"
    again = [jitter_s(offer(3, f"vm-{n}")) for n in range(STORM)]
    assert len(set(again)) > STORM - 5, "nor do they meet again"


def test_clients_that_were_turned_away_together_do_not_come_back_together() -> None:
    rounds = [list(islice(API_BACKOFF.pauses(), 6)) for _ in range(50)]
    for step in zip(*rounds, strict=True):
        assert len({round(pause, 6) for pause in step}) > 40
        assert max(step) <= 2 * min(step) + 1e-9, "jitter stays within half of the pause"
